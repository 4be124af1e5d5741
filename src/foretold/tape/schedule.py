"""The sparse schedule: exceptions to the calm order, each keyed by who and which step.

A schedule is not a list of indices. It is a short set of sentences such as "hold `transfer-2`
before its 3rd step until `transfer` has ended" and "the 5th step of `poll` takes 3 ms". They are
looked up by key while a run goes on, so an entry that is deleted or no longer fits shifts nothing
else; an empty schedule is the calm run. Every scheduler, whatever its algorithm, can be written
down in this form (`kernel/recorder.py` says why that is exact).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Key = tuple[str, str, int]
"""(host, actor, the actor's step number, counted from 1)."""

ENDED = 0
"""As `until_step`: the hold lasts until the other actor has ended."""

SLOW_NS_MAX = 8_000_000
"""A search makes nothing later than this: no healthy time limit shall expire by it."""

CALLBACKS = "(callbacks)"
"""The actor that stands for a host's plain callbacks, which belong to no task."""
_NUMBERED = re.compile(r"(.+?)-\d+")


def kind_of(actor: str) -> str:
    """Tasks of one coroutine function are of one kind: `worker`, `worker-2`, `worker-3`."""
    numbered = _NUMBERED.fullmatch(actor) if actor[-1:].isdigit() else None
    return actor if numbered is None else numbered[1]


@dataclass(frozen=True, slots=True)
class Hold:
    """Actor `actor` waits before its step `step` until `until_actor` has made `until_step`."""

    host: str
    actor: str
    step: int
    until_actor: str
    until_step: int

    @property
    def key(self) -> Key:
        return (self.host, self.actor, self.step)


@dataclass(frozen=True, slots=True)
class Slow:
    """The step `step` of `actor` takes `ns` longer than usual: the whole host stands still. With
    `asleep` the loop sleeps after that step, and wakes up so much later than it should."""

    host: str
    actor: str
    step: int
    ns: int
    asleep: bool = False

    @property
    def key(self) -> Key:
        return (self.host, self.actor, self.step)


Exception_ = Hold | Slow


@dataclass(slots=True)
class Schedule:
    """All exceptions to the calm order of one run."""

    holds: dict[Key, Hold] = field(default_factory=dict)
    slows: dict[Key, Slow] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Exception_]) -> Schedule:
        schedule = cls()
        for entry in entries:
            schedule.add(entry)
        return schedule

    def add(self, entry: Exception_) -> None:
        if isinstance(entry, Hold):
            self.holds[entry.key] = entry
        else:
            self.slows[entry.key] = entry

    def __iter__(self) -> Iterator[Exception_]:
        yield from self.holds.values()
        yield from self.slows.values()

    def __len__(self) -> int:
        return len(self.holds) + len(self.slows)
