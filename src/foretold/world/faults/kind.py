"""A kind of fault: what it does when it strikes, and how it is undone.

`strike` is a generator. It does its harm, yields how many seconds that lasts (once, or several
times with something happening in between), and repairs in a `finally`: so a fault that is called
off, by `world.heal()` or because a calm passage begins, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from foretold.tape import Stream

if TYPE_CHECKING:
    from foretold.world.faults.nemesis import Ground
    from foretold.world.net.path import Path

LASTS_S = (0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0)
"""How long a fault lasts. Longer than a client's patience, shorter than a test's."""

Undo = Callable[[], object]


class Kind:
    """One kind of fault. It has no state: what is going on lives in the generator of a strike."""

    name: str
    strikes: str = "network"
    """What must be in use before there is anything to strike: `network`, `host` or `disk`."""
    aims = False
    """It strikes a host, or the way between two, so that it can be aimed at some of them."""
    on_occasion = False
    """It strikes no instant: whoever has an occasion for it asks whether it does."""
    effect: Literal["unknown", "at once", "told"] = "unknown"
    """Whether it is known that a program got to feel it: with the strike itself, or by somebody who
    tells the tally when it does."""

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        """Strike now, if there is something to strike."""
        raise NotImplementedError

    def last(
        self,
        ground: Ground,
        touches: str,
        taken: Any,
        begin: Callable[[float], Undo],
        stream: Stream,
    ) -> Iterator[float]:
        """Do harm to what was taken for a while, undo it, and give back what was taken."""
        try:
            lasts_s = stream.pick(LASTS_S, "lasts")
            undo = begin(lasts_s)
            try:
                yield lasts_s
            finally:
                undo()
        finally:
            ground.give_back(touches, taken)


class BetweenHosts(Kind):
    """A fault on the way between two hosts that have spoken to each other."""

    aims = True
    touches: str
    """Which property of a path it changes: two faults never change the same one at once."""

    def is_untouched(self, path: Path) -> bool:
        """Whether the path is as it should be; a test's own faults are not undone by ours."""
        return not getattr(path, self.touches)

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        """Do it; the answer undoes it."""
        raise NotImplementedError

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        pair = ground.take_pair(self.touches, self.is_untouched, choices)
        if pair is not None:
            begin = partial(self.begin, ground, *pair, choices=choices)
            yield from self.last(ground, self.touches, pair, begin, choices)


class SomePackets(BetweenHosts):
    """Something happens to a share of what is sent between two hosts; `touches` says what."""

    shares: tuple[float, ...]

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        world, paths = ground.world, ground.paths(a, b)
        share = choices.pick(self.shares, "share")
        for path in paths:
            path.inject(**{self.touches: share})
        world.note_fault(f"{self.name} {a} <-> {b} of {share:.0%}")

        def undo() -> None:
            for path in paths:
                path.recover(self.touches)
            world.note_fault(f"{self.name} {a} <-> {b} over", is_over=True)

        return undo


class SomeDatagrams(SomePackets):
    """The same between hosts that send datagrams: TCP hides it, so elsewhere it would be idle."""

    def is_untouched(self, path: Path) -> bool:
        return path.carries_datagrams and super().is_untouched(path)


class OnHost(Kind):
    """A fault of one host, other than the test's own."""

    aims = True
    strikes = "host"
    effect = "at once"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        """Do it; the answer undoes it."""
        raise NotImplementedError

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_host(choices)
        if host is not None:
            begin = partial(self.begin, ground, host, choices)
            yield from self.last(ground, "host", host.name, lambda _: begin(), choices)


class TroubleOnDisk(Kind):
    """One property of a host's disk is wrong for a while (`world/disk/trouble.py`). The test's own
    host has a disk as well, if it uses files."""

    aims = True
    strikes = "disk"
    effect = "told"
    touches: str
    """Which property of the disk it changes: two faults never change the same one at once."""
    sets: str
    begins: str
    """What is noted when it begins; `{}` is the host."""
    over: str = ""
    """And when it ends."""

    def trouble(self, choices: Stream) -> tuple[Any, str]:
        """The value of the property, and what is noted."""
        return True, self.begins

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_disk(self.touches, choices)
        if host is not None:
            begin = partial(self._begin, ground, host, choices)
            yield from self.last(ground, self.touches, host.name, lambda _: begin(), choices)

    def _begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        value, noted = self.trouble(choices)
        setattr(host.disk.trouble, self.sets, value)
        ground.world.note_fault(noted.format(host.name), host.name)
        return partial(self._end, ground, host, type(value)())

    def _end(self, ground: Ground, host: Any, nothing: Any) -> None:
        setattr(host.disk.trouble, self.sets, nothing)
        if self.over:
            ground.world.note_fault(self.over.format(host.name), host.name, is_over=True)


class OnOccasion(Kind):
    """A fault that strikes at no instant: the service asks at each call whether it does."""

    on_occasion = True
    effect = "told"

    def __init__(self, name: str, strikes: str) -> None:
        self.name = name
        self.strikes = strikes

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        return iter(())
