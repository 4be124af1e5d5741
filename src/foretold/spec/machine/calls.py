"""A call: one application of a rule, from when it is drawn to what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from foretold.spec.machine.actors import Actor
from foretold.spec.machine.rules import Rule

if TYPE_CHECKING:
    from foretold.spec.machine.bundles import Kept

AFTER_ALL, AT_ONCE = 0, 1
Outcome = Literal["running", "succeeded", "refused", "failed", "discarded"]
RUNNING: Outcome = "running"


@dataclass(slots=True, eq=False)
class Call:
    number: int
    """Of its slot; those of `initialize` are below 0."""
    rule: Rule
    actor: Actor
    arguments: dict[str, Any]
    fates: dict[str, str] = field(default_factory=dict)
    """What is foretold for it, by parameter."""
    stuttered: bool = False
    """A system error that was not foretold, and that the machine permits: it says nothing."""
    references: Sequence[Kept] = ()
    """What of the arguments came from bundles."""
    user: Actor | None = None
    """The actor that it is made as, if it is another one: somebody has two windows open."""
    when: int = AFTER_ALL
    """Whether it began after all others, at once, or after one of the pauses."""
    outcome: Outcome = RUNNING
    result: Any = None
    error: BaseException | None = None
    produced: Sequence[list[str]] = ()
    """For each target, the names of what went there."""
    handed_over: Sequence[Kept] = ()
    """All of that."""
    shown: str = ""
    """The arguments as they were, for the story."""
    began: int = 0
    """Moments of a course are numbered: where two calls have overlapped, one began before the other
    ended."""
    ended: int = 0
    began_ns: int = 0
    ended_ns: int = 0
    task: asyncio.Task[None] | None = None
    """None if it is made by the conductor, all at once, and when it is over."""

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def who(self) -> str:
        """By its name."""
        return (self.user or self.actor).name
