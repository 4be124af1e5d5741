"""Which host is due next, without asking all of them.

A host that has made its turn and waits for an alarm or for the wire is *filed* under the instant of
its next alarm. Nothing can bring that instant forward but something that is done to the host from
outside: a datagram, a callback that another host puts into its loop, a restart. Each of these
*stirs* the host, and a host that was stirred is asked again. So each event costs one or two looks,
in a world of four hosts and in one of four hundred.

What puts the instant off (an alarm that is cancelled, a pause, a crash) stirs nothing: the host is
asked again when it comes to the top. A host with threads is asked every time, since its threads
wait for conditions that nobody announces.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretold.world.host import Host

_heappush, _heappop = heapq.heappush, heapq.heappop
NEVER = 1 << 62
STALE_PER_HOST_MAX = 4
"""So many entries per host may lie in the heap that say nothing any more."""


class Agenda:
    def __init__(self) -> None:
        self._number: dict[Host, int] = {}
        """Of hosts that are due at the same instant, the one that joined first comes first."""
        self._joined = 0
        self._stirred: dict[Host, None] = {}
        """Hosts that have to be asked."""
        self._filed: dict[Host, int] = {}
        """Under which instant the others are filed, those that are due some day."""
        self._heap: list[tuple[int, int, Host]] = []

    def add(self, host: Host) -> None:
        self._joined += 1
        self._number[host] = self._joined
        self.stir(host)

    def remove(self, host: Host) -> None:
        del self._number[host]
        self._stirred.pop(host, None)
        self._filed.pop(host, None)
        _listen(host, None)

    def stir(self, host: Host) -> None:
        """Something happens to this host, or it takes its turn: it may be due at another time."""
        if host in self._number:
            self._stirred[host] = None
            if self._filed.pop(host, None) is not None:
                _listen(host, None)

    def first(self, besides: Host | None = None) -> tuple[int, Host | None]:
        """When the first host is due, and which one; `besides` is not asked, and takes its turn."""
        best_ns, best_number, chosen = NEVER, 0, None
        for host in tuple(self._stirred):
            if host is besides:
                continue
            host_ns = host.next_ns()
            if _is_plain(host):
                del self._stirred[host]
                self._file(host, host_ns)
                continue
            number = self._number[host]
            if (host_ns, number) < (best_ns, best_number):
                best_ns, best_number, chosen = host_ns, number, host
        top = self._top()
        if top is not None and top[:2] < (best_ns, best_number):
            return top[0], top[2]
        return best_ns, chosen

    def _file(self, host: Host, host_ns: int) -> None:
        self._filed[host] = host_ns
        _listen(host, host)
        if host_ns < NEVER:
            _heappush(self._heap, (host_ns, self._number[host], host))
            if len(self._heap) > STALE_PER_HOST_MAX * (len(self._number) + 8):
                self._tidy()

    def _top(self) -> tuple[int, int, Host] | None:
        """The first entry, if it still says the truth."""
        heap, filed = self._heap, self._filed
        while heap:
            entry = heap[0]
            host_ns, _, host = entry
            if filed.get(host) == host_ns:
                now_ns = host.next_ns()
                if now_ns == host_ns:
                    return entry
                _heappop(heap)
                self._file(host, now_ns)
            else:
                _heappop(heap)
        return None

    def _tidy(self) -> None:
        """A host that is stirred often leaves an entry under each alarm that it had."""
        filed = self._filed.items()
        self._heap[:] = [(ns, self._number[host], host) for host, ns in filed if ns < NEVER]
        heapq.heapify(self._heap)


def _is_plain(host: Host) -> bool:
    """Whether it is one loop that waits, so that all that can wake it goes through that loop."""
    crew = host.kernel.crew
    return (crew is None or crew.is_plain) and len(host.loops) <= 1


def _listen(host: Host, told: Host | None) -> None:
    """From now on `told` hears when something is put into the host's loop from outside."""
    stir = None if told is None else told.stir
    for loop in host.loops:
        loop.on_stir = loop.selector.on_stir = stir
