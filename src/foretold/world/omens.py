"""What was foretold for one call, on its way to the place where it comes true.

A prophecy is drawn before its call begins. It is bound to the call by a context variable, which
tasks and worker threads inherit; a request of `world.web` takes it to the application's host, and
what the application sends from there to a database is known by it. The services ask here whether
something was foretold for what they are about to do, and tell here what went wrong besides.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from foretold.world.faults.postgres import FAILURES as OF_DATABASE
from foretold.world.faults.web import FAILURES, LATE

WEB, POSTGRES = "web", "postgres"
NEEDS_A_DOOR: Final = "request_inside"
"""It has to be known before the server starts, so that nobody can foretell it."""
NOT_OF_A_CALL: Final = (
    "restart", "read_only", "slow_connect", "too_many_connections", "lost_notification",
)  # fmt: skip
"""What strikes the server, a connection or a listener is not one call's fate."""
HAS_A_CODE: Final = ("db_cancelled", "db_serialization", "db_deadlock", "db_slow_query")
"""The program hears of these by an error of the server."""
KINDS: Final = {
    **{kind: WEB for kind in (*FAILURES, LATE) if kind != NEEDS_A_DOOR},
    **{f"db_{kind}": POSTGRES for kind in OF_DATABASE if kind not in NOT_OF_A_CALL},
}
"""What can be foretold, and who makes it come true."""
SLOW: Final = "db_slow_query"
"""Whoever waits for the answer may lose patience meanwhile."""
CANCELLED: Final = "57014"
"""What the database says of a statement that nobody waits for any more."""
ABORTED_CLASS: Final = "40"
"""The class of SQLSTATE of a transaction that gave way to others: a deadlock, say."""
SYSTEM_CLASSES: Final = ("08", "40", "53", "57")
"""Classes of SQLSTATE that say that the system failed, not that the program was wrong."""


@dataclass(eq=False, slots=True)
class Omen:
    """One thing that was foretold for one call."""

    prophecy: str
    outcome: str
    kind: str
    aim: str = ""
    """Only what contains this text is meant: `POST /users`, or a part of the SQL."""
    is_taken: bool = False
    """It strikes something at the moment."""
    came_true: bool = False
    code_due: bool = False
    """The error that it has caused was not answered yet."""
    on_true: Callable[[], object] | None = None

    @property
    def sort(self) -> str:
        return KINDS[self.kind]

    def fulfil(self) -> None:
        if not self.came_true:
            self.came_true = True
            self.code_due = self.kind in HAS_A_CODE
            if self.on_true is not None:
                self.on_true()

    def __str__(self) -> str:
        return f"{self.prophecy} = {self.outcome!r} ({self.kind})"


@dataclass(eq=False, slots=True)
class Bound:
    """All that was foretold for one call, and the system errors of it that were not."""

    sorts: frozenset[str]
    """Whose errors have to be foretold: `web`, `postgres`."""
    party: str = ""
    """Which of several calls that are run against each other this is (`foretold.serially`)."""
    salt: str = ""
    """Not empty: it draws other randomness than it would."""
    omens: list[Omen] = field(default_factory=list)
    unforeseen: list[str] = field(default_factory=list)
    is_aborted: bool = False
    """The database has aborted its last transaction because of others; nothing came of it."""
    outer: Bound | None = None
    """What was foretold for all of a longer work that this is a part of."""

    @classmethod
    def within(cls, outer: Bound | None, sorts: frozenset[str]) -> Bound:
        """For a part of what something is foretold for already."""
        if outer is None:
            return cls(sorts)
        return cls(sorts | outer.sorts, outer.party, outer.salt, outer=outer)

    @property
    def all_omens(self) -> list[Omen]:
        """Its own, and those of the longer work."""
        return self.omens if self.outer is None else [*self.omens, *self.outer.all_omens]

    def due(self, sort: str) -> list[Omen]:
        """What is still to come true there, in the order in which it was drawn."""
        return [o for o in self.all_omens if o.sort == sort and not o.came_true and not o.is_taken]

    @property
    def is_slow(self) -> bool:
        """Whether a statement takes long, as it was foretold."""
        return any(each.kind == SLOW and each.came_true for each in self.all_omens)

    @property
    def pending(self) -> list[Omen]:
        return [each for each in self.omens if not each.came_true]

    def failed(self, sort: str, what: str) -> None:
        """A system error that nothing here has caused."""
        if sort in self.sorts:
            self.unforeseen.append(what)

    def database_said(self, code: str, message: str) -> None:
        """The database has answered with an error."""
        if code.startswith(ABORTED_CLASS):
            self.has_ended(is_aborted=True)
        if not code.startswith(SYSTEM_CLASSES):
            return
        if code == CANCELLED and any(o.sort == WEB and o.is_taken for o in self.all_omens):
            return  # the client has gone, as foretold, and the application with it
        caused = next((each for each in self.all_omens if each.code_due), None)
        if caused is not None:
            caused.code_due = False
        else:
            self.failed(POSTGRES, f"the database said {code} {message}")

    def has_ended(self, *, is_aborted: bool) -> None:
        """A transaction of this call, and of the longer work, has been aborted or committed."""
        self.is_aborted = is_aborted
        if self.outer is not None:
            self.outer.has_ended(is_aborted=is_aborted)


BOUND: contextvars.ContextVar[Bound | None] = contextvars.ContextVar("foretold_bound", default=None)
"""What is foretold for the call that the acting task is part of."""
