"""The wire: what will happen at which instant, outside of every program.

Segments arrive, acknowledgements return, kernels give up. These things happen in the order of
virtual time whatever the hosts' programs are busy with.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

_heappush, _heappop = heapq.heappush, heapq.heappop


class Timer:
    """Something that will happen on the wire and can be called off."""

    __slots__ = ("called_off", "vain")

    def __init__(self) -> None:
        self.called_off = False
        self.vain: Callable[[], bool] | None = None
        """Tells whether it would change nothing but set itself anew, as a keep-alive probe does
        that is answered. Such timers alone keep no world alive."""


Entry = tuple[int, int, Callable[..., object], tuple[Any, ...], Timer | None]
"""When, its number, what happens then, and whether it was called off."""


class Wire:
    """A queue of instants. Equal instants are taken in the order of their entry."""

    def __init__(self) -> None:
        self.queue: list[Entry] = []
        self.now_ns = 0
        """The instant that is happening, for those called from `happen`."""
        self._number = 0
        self._in_vain = 0
        self.at_first: Callable[[], object] | None = None
        """Called when the first thing is put on the wire: until then nobody has to look at it."""

    def at(self, when_ns: int, callback: Callable[..., object], *args: Any) -> None:
        """Call `callback(*args)` at that instant."""
        self._number = number = self._number + 1
        _heappush(self.queue, (when_ns, number, callback, args, None))
        if number == 1 and self.at_first is not None:
            self.at_first()

    def timer(self, when_ns: int, callback: Callable[..., object], *args: Any) -> Timer:
        """As `at`, for what is usually called off."""
        self._number = number = self._number + 1
        timer = Timer()
        _heappush(self.queue, (when_ns, number, callback, args, timer))
        if number == 1 and self.at_first is not None:
            self.at_first()
        return timer

    def vain_timer(
        self, when_ns: int, vain: Callable[[], bool], callback: Callable[..., object], *args: Any
    ) -> Timer:
        """As `timer`, for what comes to nothing as long as `vain` says so."""
        timer = self.timer(when_ns, callback, *args)
        timer.vain = vain
        self._in_vain += 1
        return timer

    @property
    def events(self) -> int:
        """How much was ever put on the wire, without what was in vain."""
        return self._number - self._in_vain

    def next_ns(self) -> int | None:
        """When the next thing happens, or None if nothing will."""
        queue = self.queue
        while queue and queue[0][4] is not None and queue[0][4].called_off:
            _heappop(queue)
        return queue[0][0] if queue else None

    def is_vain(self) -> bool:
        """Whether nothing that is to come can make a difference."""
        for _, _, _, _, timer in self.queue:
            if timer is None or not (timer.called_off or (timer.vain is not None and timer.vain())):
                return False
        return True

    def happen(self, until_ns: int) -> None:
        """Let happen what is due by `until_ns`."""
        queue = self.queue
        while queue and queue[0][0] <= until_ns:
            when_ns, _, callback, args, timer = _heappop(queue)
            if timer is not None and timer.called_off:
                continue
            self.now_ns = when_ns
            callback(*args)


def goal_of(entry: Entry) -> object:
    """The stack of the host at which a message arrives. None for all else that is on the wire: a
    host does not notice it."""
    _, _, callback, args, _ = entry
    find = getattr(getattr(callback, "__self__", None), "goal_of", None)
    return None if find is None else find(callback.__name__, args)
