"""A path: one direction between two hosts, and all that can be wrong with it.

Which faults live here: delay with a rare slow tail, loss, duplication and reordering of datagrams,
limited bandwidth, a cut (nothing passes, nobody is told), a hold (what is sent waits), a clog
(nothing passes for a while).
Never here: bytes that change on the way or arrive out of order within one TCP connection; TCP's
checksum and sequence numbers rule both out in production as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foretold.tape import Stream

LATENCY_STEPS = 1_024
TAIL_STEPS = 12
"""So many of the steps are the slow tail: about one message in a hundred."""
TAIL_FACTOR = 8
WITHIN_HOST_NS = (8_000, 40_000)
"""What a fault makes slow where nothing takes time otherwise: the way through a busy kernel."""
SPIKE_NS_MAX = 4_000_000_000
"""Longer than this nothing takes on the way because of faults by chance, however they add up: what
is on its way when they are over still has to come in good time."""


@dataclass(slots=True)
class Path:
    low_ns: int
    high_ns: int
    """0: the way is within one host, and what is sent is there at once, as on Linux's loopback."""
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    bytes_per_s: float | None = None
    cut: bool = False
    held: bool = False
    clogged_until_ns: int = 0
    """Not 0: what is sent waits until then, or until somebody ends it."""
    factor: float = 1.0
    spikes: int = 0
    """How many faults drawn by chance make it slow now."""
    waiting: list[Callable[[int], object]] = field(default_factory=list)
    """What waits for a hold to end or a cut to be repaired; called with the instant."""
    usual: dict[str, Any] = field(default_factory=dict)
    """What a fault has changed, as it was before."""
    carries_datagrams: bool = False
    on_late: Callable[[int], object] | None = None
    """Told how long a message takes that takes longer than the shortest one; for stories."""
    _busy_until_ns: int = 0
    _last_datagram_ns: int = 0

    @property
    def open(self) -> bool:
        return not (self.cut or self.held)

    @property
    def keeps(self) -> bool:
        """Whether what is sent now waits."""
        return self.held or self.clogged_until_ns != 0

    def pass_on(self, leaves: Callable[[int], object], now_ns: int) -> None:
        """Let something leave now, or when the path does not keep it back any more."""
        if self.keeps:
            self.waiting.append(leaves)
        else:
            leaves(now_ns)

    def set(self, **qualities: Any) -> None:
        """The test's own word: it holds at once, and the end of a fault does not undo it."""
        for name, value in qualities.items():
            self.usual.pop(name, None)
            setattr(self, name, value)

    def inject(self, **qualities: Any) -> None:
        """A fault begins."""
        for name, value in qualities.items():
            self.usual[name] = getattr(self, name)
            setattr(self, name, value)

    def recover(self, *names: str) -> None:
        """It is over: all is as before, but for what the test has set meanwhile."""
        for name in names:
            if name in self.usual:
                setattr(self, name, self.usual.pop(name))

    def delay_ns(self, stream: Stream) -> int:
        """How long a message takes, without its length. The calm choice is the shortest."""
        low_ns, high_ns = self.low_ns, self.high_ns
        if not high_ns:
            if self.factor == 1.0:
                return 0
            low_ns, high_ns = WITHIN_HOST_NS
        drawn = stream.choose(LATENCY_STEPS, "latency")
        body = LATENCY_STEPS - TAIL_STEPS
        if drawn < body:
            delay = low_ns + (high_ns - low_ns) * drawn // body
            if self.factor == 1.0 and (self.on_late is None or not drawn):
                return delay
        else:
            delay = high_ns + (high_ns - low_ns) * TAIL_FACTOR * (drawn - body + 1) // TAIL_STEPS
        delay = int(delay * self.factor)
        delay = min(delay, max(high_ns, SPIKE_NS_MAX)) if self.spikes else delay
        if self.on_late is not None and drawn:
            self.on_late(delay)
        return delay

    def detour_ns(self) -> int:
        """How much longer a message takes that others overtake."""
        return int((2 * self.high_ns + (self.high_ns - self.low_ns) * TAIL_FACTOR) * self.factor)

    def in_order_ns(self, when_ns: int) -> int:
        """When a datagram arrives on a path where none overtakes another, whoever sends them."""
        self._last_datagram_ns = max(self._last_datagram_ns, when_ns)
        return self._last_datagram_ns

    def arrival_ns(self, now_ns: int, size: int, stream: Stream) -> int:
        """When something of `size` bytes, sent now, has arrived."""
        return self.departure_ns(now_ns, size) + self.delay_ns(stream)

    def departure_ns(self, now_ns: int, size: int) -> int:
        """When all of it is on its way."""
        if self.bytes_per_s is None:
            return now_ns
        start = max(now_ns, self._busy_until_ns) + int(size * 1e9 / self.bytes_per_s)
        self._busy_until_ns = start
        return start
