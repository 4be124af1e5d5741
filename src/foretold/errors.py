"""Every exception that foretold raises, as one tree.

    Exception
    ├── ForetoldError               something foretold itself has to say
    │   ├── UsageError              a call that cannot work as written: change the call
    │   │   ├── TapeError           a tape file is damaged, foreign or too new
    │   │   └── TargetError         the thing to test was not found or cannot be run
    │   ├── Deadlock                nothing can run and nothing is scheduled: a bug in the program
    │   ├── LimitExceeded           a run took too many steps, too much virtual or real time
    │   ├── EscapedWorld            the program tried to touch the real world from inside a run
    │   ├── HostDied                the test waits for the main of a host that was killed
    │   ├── BackgroundFailure       something failed where nobody was looking
    │   ├── ServiceError            a real service is missing, does not start, or has died
    │   │   └── PostgresError       the server refused one of our own statements
    │   ├── Vacuous                 a search held, and what it tests never came to pass
    │   ├── Nondeterminism          one tape gave two different runs
    │   └── WorkerDied              a run ended the process that it was made in
    ├── Refused                     raised by a machine's rule: the application said no, properly
    └── AssertionError
        └── PropertyViolated        `foretold.always(...)` was false, or an invariant was

    BaseException
    └── RunDiscarded                a strategy gave no value: the run counts for nothing

What the program under test raises is never wrapped: the user's own exception comes out, with our
explanation added to it as a note.
"""

from __future__ import annotations


class ForetoldError(Exception):
    """Base class of all that foretold raises in its own name."""


class UsageError(ForetoldError):
    """A call that cannot work as written. The message shows the line to write instead.

    Raised inside a run it ends the whole search, with exit code 2: it is the test that is wrong.
    """

    in_run: BaseException | None = None
    """Of one that ends a search: what the run has raised, with its traceback."""


class TapeError(UsageError):
    """A tape file is damaged, not a tape at all, or written by a newer foretold.

    Remedy: the message names the line of the file; record the failure again if it cannot be mended.
    """


class TargetError(UsageError):
    """The target of a command was not found, or is not something that can be run.

    Remedy: name a pytest node id (`tests/test_x.py::test_y`) or `module:function`.
    """


class Deadlock(ForetoldError):
    """Nothing can run and nothing is scheduled, yet the run has not ended.

    Found at once, by looking, not by a timeout. The message lists each waiting task, the line
    where it waits and what it waits for.

    Other hosts may still tick, as servers do. If for an hour of virtual time nothing has happened
    but their timers, and the test itself has none, that is a deadlock as well. Remedy, if the test
    waits for something later: `async with asyncio.timeout(…)`.
    """


class LimitExceeded(ForetoldError):
    """A run passed one of its limits: steps, virtual time or real time.

    Remedy: a loop in the program that never ends, or raise the limit named in the message.
    """


class EscapedWorld(ForetoldError):
    """The program tried to touch the real world from inside a run, which would break replay.

    The message names the call, why it cannot be replayed, and what to write instead. The run
    fails even if the program swallows this exception.
    """


class HostDied(ForetoldError):
    """The test awaits what a host was doing, and that host was killed or has crashed meanwhile: it
    will never be done.

    Not a `CancelledError`: a `TaskGroup` would take that for its own and go on as if all were well.
    Remedy: catch it where a host may die; `await started.ended()` waits without raising.
    """


class BackgroundFailure(ForetoldError):
    """Something failed where nobody was looking: a task was destroyed while it was pending,
    a coroutine was never awaited.

    Remedy: keep a reference to the task and await it; or pass `background_errors="ignore"`.
    """


class ServiceError(ForetoldError):
    """A real service that the run needs (PostgreSQL) is missing, does not start, or has died.

    The message says what was tried and what to install or change, and shows the end of the log.
    """


class PostgresError(ServiceError):
    """PostgreSQL refused a statement of foretold's own, such as the schema that a test gave.

    What the program under test sends is answered to the program, as always.
    """

    def __init__(self, message: str, sqlstate: str = "", detail: str = "") -> None:
        super().__init__(f"{message} ({sqlstate})" + (f"\n{detail}" if detail else ""))
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail


class Vacuous(ForetoldError):
    """A search held, but a rule never succeeded, an invariant ranged over nothing, or a fault that
    was asked for never happened: it says less than it seems to.

    Remedy: the message has one for each. `vacuity="warn"` makes a warning of it.
    """


class Nondeterminism(ForetoldError):
    """One tape gave two different runs. The message names the first event that differs."""


class WorkerDied(ForetoldError):
    """A worker of a campaign ended, or was killed, in the middle of a run.

    Cause: a crash in C code, not enough memory, or somebody else's `kill`. Its runs are made again;
    one that ends its process twice counts as a failure.
    """


class RunDiscarded(BaseException):
    """A Hypothesis strategy gave no value (its filter refused too many): the run says nothing.

    Not an `Exception`, so that a program's `except Exception` does not go on with half an input.
    Remedy: build valid values instead of filtering invalid ones away.
    """


class Refused(Exception):
    """The application refused what a rule asked for, as it should: `raise foretold.Refused("sold
    out")`. The run goes on, and the refusal is counted.
    """


class PropertyViolated(AssertionError):
    """A property given to `foretold.always` was false, or an invariant of a machine was.

    It is raised where the property was stated, and recorded on the world besides, so that the
    run fails even if the program swallows it.
    """

    place: tuple[str, int, str] | None = None
    """File, line and function where it was stated, if the traceback does not lead there."""
