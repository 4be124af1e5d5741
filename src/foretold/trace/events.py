"""What happened in a run, as data: one class for each kind of event, with the facts as fields.

Events are kept in runs with `detail=True` alone. They are no part of the digest: a new kind, or one
more field, changes no tape. Words are made of them by whoever tells them, and nowhere below.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretold.trace.content import TaskOutcome
from foretold.trace.places import Place

Who = tuple[str, str]
"""Host and actor."""
NOBODY = ""
"""The actor of an event in which no task of the program has a part."""
WORLD = "(world)"
"""The actor of an event that the world itself brings about."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: when, where, to whom."""

    time_ns: int
    host: str
    actor: str
    step: int = 0
    """The number of the actor's step in which it happened."""
    place: Place | None = None
    callers: tuple[Place, ...] = ()
    """The lines of the user's own from which that place was reached, the nearest first."""

    @property
    def who(self) -> Who:
        return (self.host, self.actor)

    @property
    def key(self) -> tuple[str, str, int]:
        """Which step it is, as schedules name it."""
        return (self.host, self.actor, self.step)


# Tasks and threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """A task or a thread makes a step."""

    is_thread: bool = False
    in_package: bool = False
    """The task waits inside of a package that the user's line has called: steps between two such
    waits say something about the package alone."""
    inner: Place | None = None
    """The innermost line of all, if that is another one: a package's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledBack(Event):
    """The event loop runs a plain callback."""

    name: str
    is_timeout: bool = False
    """A timeout has expired."""
    whose: str = ""
    """The task whose timeout it is, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """A task or a thread has ended."""

    outcome: TaskOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Event):
    """A task was made by another one."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStep(Event):
    """The event loop is late: this step took so long, by the tape; or it slept for so much longer
    than until something was due. `threads` slept, and perhaps no loop."""

    ns: int
    asleep: bool = False
    threads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled(Event):
    """Code blocks its whole host (`time.sleep` in a coroutine)."""

    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chose(Event):
    """The program has drawn a value from the tape."""

    label: str
    value: str

    def __str__(self) -> str:
        return f"{self.label} = {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Event):
    """The program has said what happened (`foretold.event`)."""

    name: str
    data: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.data)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """The run has failed here."""

    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncaught(Event):
    """The event loop was told of an exception that nobody caught: in a callback, or in a task whose
    result nobody asked for."""

    error: TaskOutcome
    is_of_task: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(Event):
    """A task that foretold has started makes this call of the test."""

    call: str
    """What reports name it."""


# What surrounds them


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    """A fault strikes, or something that the test has asked of the world."""

    text: str
    hosts: tuple[str, ...] = ()
    """Whom it strikes, if that is told."""
    is_setting: bool = False
    """Nothing has struck: the test has said how its network is, or that no fault comes any more."""
    is_over: bool = False
    """What has struck is over: a host is restarted, a network repaired."""
    what: str = ""
    """The kind of a database's failure, such as `lost_after_commit`,"""
    whom: str = ""
    """and the session that it strikes, as `postgres session 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Late(Event):
    """A message takes longer than it would in the calm run."""

    source: str
    target: str
    took_ns: int
    usual_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Event):
    """Something that a service of the world says about itself."""

    service: str
    what: str
    about: str

    def __str__(self) -> str:
        return f"{self.service}, {self.what}: {self.about}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Event):
    """A client sends a request, or has its answer."""

    number: int
    """That of the request among all of the run; its answer has the same."""
    client: str
    asks: str
    """Method and path."""
    answer: str = ""
    """The status code, or the exception; empty if it is sent only now."""

    def __str__(self) -> str:
        said = f"{self.client}: {self.asks}"
        return f"{said} → {self.answer}" if self.answer else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited(Event):
    """A task of a server works for this request from now on."""

    client: str
    """Empty if it is not known."""
    asks: str
    is_after: bool = False
    """The request itself is over: the task was begun by it, and goes on."""


# A database


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Rows of one answer: the values, and of which table's column each is."""

    columns: tuple[tuple[int, int], ...]
    """The numbers of the table and of the column in the catalogue; zeros for what is computed."""
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Event):
    """A session of a database has executed a statement. The actor is the session."""

    sql: str
    tags: tuple[str, ...] = ()
    """What the server says was done, by all statements that were sent together."""
    error: str = ""
    """The code and the message, if it has failed."""
    values: tuple[str, ...] = ()
    """What was given for `$1`, `$2`, …"""
    asked_by: Who | None = None
    """The request that it is for; else the task that has sent it."""
    sent_by: Who | None = None
    """The task that has sent it."""
    cells: Cells | None = None
    """What it has found, if that was not too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait(Event):
    """A session of a database waits for a lock that others hold."""

    sql: str
    blockers: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    asked_by: Who | None = None
    sent_by: Who | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Event):
    """The test itself has looked at the database (`pg.sql`)."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke(Event):
    """After what this session has just committed, an invariant does not hold."""

    sql: str
    """The query of the invariant."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalogue of the server has it."""

    schema: str
    name: str
    columns: dict[int, str]
    keys: tuple[tuple[str, ...], ...]
    """The columns of its primary key and of its unique constraints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Event):
    """The tables of a database when the run was over, by their numbers."""

    tables: dict[int, Table]
