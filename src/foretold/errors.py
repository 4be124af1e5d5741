"""Every exception that foretold raises, as one tree.

    Exception
    ├── ForetoldError               the base of foretold's own errors
    │   ├── UsageError              a call that cannot work as written: change the call
    │   │   ├── TapeError           a tape file is damaged, foreign or too new
    │   │   ├── TargetError         the thing to test was not found or cannot be run
    │   │   ├── ScenarioError       a scenario file cannot be played as it is written
    │   │   └── ModelLooksAround    a model asked for the time, for randomness or for the world
    │   ├── Deadlock                nothing can run and nothing is scheduled: a bug in the program
    │   ├── LimitExceeded           a run took too many steps, too much virtual or real time
    │   │   ├── Hang                a run stands still in real time: it had to be ended by force
    │   │   └── TimeUp              the time of the search was up in the middle of a run
    │   ├── EscapedWorld            the program tried to touch the real world from inside a run
    │   ├── HostDied                the test awaits the main of a host that was killed
    │   ├── BackgroundFailure       a task or coroutine failed in the background
    │   ├── ServiceError            a real service is missing, does not start, or has died
    │   │   └── PostgresError       the server refused one of our own statements
    │   ├── Vacuous                 a search held, but what it tests never happened
    │   ├── Nondeterminism          one tape gave two different runs
    │   ├── Interference            a run is another one without its model: the model changes it
    │   ├── DidNotReproduce         a replay did not give the failure that its tape recorded
    │   └── WorkerDied              a run ended the process that it was made in
    ├── Refused                     raised by a machine's rule: the application refused, correctly
    └── AssertionError
        └── PropertyViolated        `foretold.always(...)` was false, or an invariant was
            ├── Contradiction       no state of a model explains all that was seen
            ├── NotRefined          the mapped state of the system is not the model's
            ├── NotSerial           concurrent calls ended as no serial order of them ends
            ├── Unforeseen          a system error happened that no prophecy had foretold
            └── Unfulfilled         a prophecy was drawn and did not come true

    UserWarning
    └── ForetoldWarning             something that fails nothing but deserves attention
        └── UnseenFailure           a search found a failure, and the caller ignored it

    BaseException
    └── RunDiscarded                a strategy gave no value: the run does not count

An exception of the program under test is never wrapped: it comes out unchanged, with foretold's
explanation added as a note.
"""

from __future__ import annotations

from typing import NamedTuple


class ForetoldError(Exception):
    """Base class of foretold's own errors."""


class UsageError(ForetoldError):
    """A call that cannot work as written. The message shows the line to write instead.

    Raised inside a run it ends the whole search, with exit code 2, because the test is wrong.
    """

    in_run: BaseException | None = None
    """Of one that ends a search: what the run has raised, with its traceback."""


class TapeError(UsageError):
    """A tape file is damaged, not a tape at all, or written by a newer foretold.

    Remedy: the message names the line of the file. Record the failure again if the file cannot be
    repaired.
    """


class TargetError(UsageError):
    """The target of a command was not found, or is not something that can be run.

    Remedy: name a pytest node id (`tests/test_x.py::test_y`) or `module:function`.
    """


class ModelLooksAround(UsageError):
    """A model asked for the time, for randomness, for the tape or for the world.

    A model is a function of its state and of the arguments of the call. What it needs to know of
    the world is an argument: a prophecy, or a value that the rule draws.
    """


class Waiting(NamedTuple):
    """A task or a thread that waits for ever."""

    name: str
    """What the program calls it."""
    who: tuple[str, str]
    """Its host, and its name among all tasks and threads there."""
    place: tuple[str, int, str] | None
    """File, line and function of the user's line at which it waits, if that is known."""
    what: str
    """What it waits for."""


class ScenarioError(UsageError):
    """A scenario file cannot be played as it is written.

    Remedy: the message begins with file, line and column, and names the nearest word that exists.
    """


class Deadlock(ForetoldError):
    """Nothing can run and nothing is scheduled, yet the run has not ended.

    foretold finds it at once, without a timeout. The message lists each waiting task, the line
    where it waits and what it waits for.

    Other hosts may still run timers, as servers do. If only their timers fire for an hour of
    virtual time, and the test itself has no timer, that is a deadlock as well. If the test waits
    for something later, write `async with asyncio.timeout(…)`.
    """

    waiting: tuple[Waiting, ...] = ()
    """The same as data."""
    why = ""
    """The first line of the message, without the list."""


class LimitExceeded(ForetoldError):
    """A run passed one of its limits: steps, virtual time or real time.

    Cause: usually a loop that never ends. If not, raise the limit that the message names.
    """

    in_real_time = False
    """Whether it was the limit on real time: each run that shows it takes as long again."""
    escape: BaseException | None = None
    """What a C library had tried to do in this run before: then that is why it failed."""


class Hang(LimitExceeded):
    """A run made no step for a third of `wall_s_max`, or for a minute if that is longer, and was
    ended by force.

    Cause: a loop without an `await` that never ends, C code that waits in real time, a service that
    does not answer. The message says where every thread and task stands.
    """

    in_real_time = True


class TimeUp(LimitExceeded):
    """A run was aborted because the time of its search was over. It says nothing about the program
    and does not count.
    """


class EscapedWorld(ForetoldError):
    """The program tried to touch the real world from inside a run, which would break replay.

    The message names the call, why it cannot be replayed, and what to write instead. The run
    fails even if the program swallows this exception.
    """


class HostDied(ForetoldError):
    """The test awaits the main of a host that was killed or has crashed, so the main never ends.

    It is not a `CancelledError`, because a `TaskGroup` would take that for its own cancellation and
    continue. Remedy: catch it where a host may die; `await started.ended()` waits without raising.
    """


class BackgroundFailure(ForetoldError):
    """Something failed in the background: a task was destroyed while it was pending, or a
    coroutine was never awaited.

    Remedy: keep a reference to the task and await it; or pass `background_errors="ignore"`.
    """


class ServiceError(ForetoldError):
    """A real service that the run needs (PostgreSQL) is missing, does not start, or has died.

    The message says what was tried and what to install or change, and shows the end of the log.
    """


class PostgresError(ServiceError):
    """PostgreSQL refused a statement of foretold's own, such as the schema that a test gave.

    Errors of the program's own statements go to the program.
    """

    def __init__(self, message: str, sqlstate: str = "", detail: str = "") -> None:
        super().__init__(f"{message} ({sqlstate})" + (f"\n{detail}" if detail else ""))
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail


class Vacuous(ForetoldError):
    """A search held, but a rule never succeeded, an invariant ranged over nothing, or a fault that
    was requested never happened: the result says little. Or no run counts: none ended in time, or
    all were discarded.

    Remedy: the message has one for each. `vacuity="warn"` turns all but the last into a warning.
    """


class Nondeterminism(ForetoldError):
    """One tape gave two different runs. The message names the first event that differs."""


class Interference(ForetoldError):
    """The same tape gives another run when the model beside the machine is left out.

    A model, a refinement mapping and history variables watch. They must not change what the program
    does. The message names the first event that differs.
    """


class DidNotReproduce(ForetoldError):
    """A tape recorded a failure and its run holds here. This proves nothing, because the process
    has another hash seed than the recording.

    Remedy: the message says how to start the process. If the hash seed is right and the run holds,
    `foretold.replay` returns it with a warning.
    """


class ForetoldWarning(UserWarning):
    """Something that fails nothing but deserves attention: a replay that holds, or fixtures that
    all runs of a test share.
    """


class WorkerDied(ForetoldError):
    """A worker of a campaign ended, or was killed, in the middle of a run.

    Cause: a crash in C code, not enough memory, or a `kill` from outside. Its runs are made again.
    A run that ends its process twice counts as a failure.
    """


class UnseenFailure(ForetoldWarning):
    """`foretold.explore` found a failure, and the caller did not look at the outcome, so the test
    ignores it.

    Remedy: `foretold.explore(main).raise_failure()`, or look at `outcome.failure`.
    """


class RunDiscarded(BaseException):
    """A Hypothesis strategy gave no value (its filter refused too many): the run says nothing.

    Not an `Exception`, so that a program's `except Exception` does not continue with half an input.
    Remedy: build valid values instead of filtering out invalid ones.
    """


class Refused(Exception):
    """The application refused the call of a rule, as it should: `raise foretold.Refused("sold
    out")`. The run continues, and the refusal is counted.
    """


class PropertyViolated(AssertionError):
    """A property given to `foretold.always` was false, or an invariant of a machine was.

    It is raised where the property was stated, and also recorded on the world, so that the run
    fails even if the program swallows it.
    """

    place: tuple[str, int, str] | None = None
    """File, line and function where it was stated, if the traceback does not lead there."""


class Contradiction(PropertyViolated):
    """No state of a model explains all that was seen so far.

    The message names the observation that left no state, and what the model allows instead.
    """


class NotRefined(PropertyViolated):
    """After an action the state of the system, mapped to the model's, is not the model's state.

    The message shows both states and what differs.
    """


class NotSerial(PropertyViolated):
    """Calls that ran at the same time ended in a way in which no serial order of them ends.

    The message shows how each serial order ends, and how these calls ended.
    """

    is_of_tries: bool = False
    """Whether one run has tried many orders, as `foretold.serially` does."""


class Unforeseen(PropertyViolated):
    """A call failed by a system error (a lost request, a cancelled query) that was not foretold.

    Remedy: give the prophecy an outcome for it; or declare how many such errors a run may have
    (`stutters = 1` in the machine).
    """


class Unfulfilled(PropertyViolated):
    """A prophecy was drawn, and the call ended before it could come true.

    A test that foretells a lost answer and then asks nothing would hold and say nothing. Remedy:
    draw the prophecy only where the call asks (a precondition), or aim it with `.on(…)`.
    """
