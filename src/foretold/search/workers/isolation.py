"""Where the runs of a search take place: in this process, or each in a fork of it.

In-process runs share module state: a cache filled by one run is full in the next, so the first of
them is made twice and counts once (`warming.py`). With `isolation="fork"` every run starts from the
same parent, which itself never runs anything, at the price of a fork (some milliseconds).
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from foretold.arguments import check_word
from foretold.errors import Hang, TimeUp, UsageError, WorkerDied
from foretold.kernel import real
from foretold.kernel.audit import Audit
from foretold.kernel.branches import Branches
from foretold.kernel.conflicts import Conflicts, conflicts_of
from foretold.kernel.reach import Feature
from foretold.kernel.schedulers.profile import Profile
from foretold.kernel.watchdog import GRACE_S, watchdog
from foretold.search.planning.allowance import reap
from foretold.search.workers.aside import Aside
from foretold.search.workers.portable import portable
from foretold.search.workers.warming import First, Warmth, warm_up
from foretold.story.signature import Signature, signature_of, text_of
from foretold.tape import Tape, TapeFile, dumps, loads
from foretold.trace.record import Trace
from foretold.world.run import Run, execute
from foretold.world.settings import Settings
from foretold.world.tally import Tally

T = TypeVar("T")


@dataclass(slots=True)
class Brief:
    """What a search needs to know of a run."""

    signature: Signature | None
    """None if the run held."""
    digest: str
    choices: int
    virtual_s: float
    reached: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    path: str = ""
    """A digest without times (`Run.path`)."""
    discarded: str = ""
    broken_holds: int = 0
    recorded: Tape | None = None
    profile: Profile | None = None
    """What the search learns from, if it asked."""
    error: BaseException | None = None
    """The exception itself, if the run took place in this process."""
    features: Collection[Feature] = ()
    """What it reached, if that was asked for."""
    conflicts: Conflicts | None = None
    """What its statements show about their order, if that was asked for."""
    message: str = ""
    """What the exception said: its first line; all of it, if the call is the mistake or the run
    stood still."""
    configuration: dict[str, str] = field(default_factory=dict)
    """What the run drew once for all of it, in words."""
    tally: Tally | None = None
    """What it counted; None if that is nothing."""
    first: First | None = None
    """The uncounted run of the same tape before it, if there was one that gave something else."""
    audit: Audit | None = None
    """When its steps were made, and what else there was, if that was asked for."""


class Runner(Protocol):
    """Runs a tape and says briefly what came of it."""

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief: ...


def runner_for(
    main: Callable[[Any], Any],
    isolation: str | None,
    *,
    feedback: bool = False,
    branches: Branches | None = None,
    warmth: Warmth | None = None,
) -> Runner:
    """The runner for an `isolation` setting. With `feedback` it says what a run reached. Runners
    that share their `warmth` warm up once together."""
    here = InProcess(main, feedback=feedback, branches=branches, warmth=warmth)
    if isolation is None:
        return here
    check_word("isolation", isolation, ["fork"], none="for this process")
    return Forked(here)


class InProcess:
    """Runs share this process and its module state."""

    def __init__(
        self,
        main: Callable[[Any], Any],
        *,
        feedback: bool = False,
        branches: Branches | None = None,
        warmth: Warmth | None = None,
    ) -> None:
        self._main = main
        self._feedback = feedback
        self._branches = branches
        self.warmth = Warmth() if warmth is None else warmth

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief:
        first = None
        if not self.warmth.there:
            self.warmth.there = True
            first = warm_up(self._main, tape, settings)
        done = execute(
            self._main,
            tape,
            settings,
            recording=recording,
            learning=learning,
            feedback=self._feedback and not recording,
            branches=None if recording else self._branches,
        )
        brief = brief_of(done)
        if first is not None and (first.digest, first.signature) != (done.digest, brief.signature):
            brief.first = first
        return brief


def brief_of(done: Run) -> Brief:
    """A run, briefly."""
    return Brief(
        None if done.error is None else signature_of(done.error),
        done.digest,
        done.choices,
        done.virtual_s,
        done.reached,
        done.missed,
        done.notes,
        done.path,
        done.discarded,
        done.broken_holds,
        done.tape.recorded() if done.tape.recording else None,
        done.profile,
        done.error,
        done.features,
        _conflicts(done.trace),
        "" if done.error is None else _message(done.error),
        done.tape.configuration,
        done.tally or None,
        audit=done.tape.audit,
    )


def _conflicts(trace: Trace) -> Conflicts | None:
    """What the run shows, if it was looked at and touched a database."""
    return conflicts_of(trace.accesses, apart=not trace.in_turn) if trace.accesses else None


def _message(error: BaseException) -> str:
    """All of a mistake in a call, and of a run that stood still or was broken off: nobody makes it
    again to see."""
    return text_of(error) if isinstance(error, UsageError | Hang | TimeUp) else first_line(error)


def first_line(error: BaseException) -> str:
    """What an exception says, as far as it fits on a line."""
    return next(filter(None, map(str.strip, text_of(error).splitlines())), "")


class Forked:
    """Each run takes place in a child of this process and leaves no trace here."""

    def __init__(self, in_process: InProcess) -> None:
        self._in_process = in_process
        in_process.warmth = Warmth(there=True)  # all of them begin alike as it is

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief:
        how = {"recording": recording, "learning": learning}
        try:
            until_s = watchdog.left_s and watchdog.left_s + GRACE_S
            sent = in_fork(lambda: _sent(self._in_process(tape, settings, **how)), until_s)
        except WorkerDied as error:
            return died(str(error))
        except TimeUp as error:
            return Brief(signature_of(error), "", 1, 0.0, error=error)
        return _received(sent)


def died(how: str) -> Brief:
    """What is known of a run that ends its process: that, and no more."""
    found = WorkerDied(f"the run ends the process it is made in: {how}")
    signature = Signature(f"{WorkerDied.__module__}.{WorkerDied.__qualname__}", "")
    return Brief(signature, "", 1, 0.0, error=found, message=str(found))


_RETURNED, _RAISED, _LAST_WORDS = b"+", b"!", b"?"
"""How the answer of a child begins; the last is what the watchdog says if it had to be ended."""


def in_fork(work: Callable[[], T], s_max: float | None = None) -> T:
    """What `work` returns, computed in a forked child with its output thrown away. What it raises
    is raised here. After `s_max` real seconds the child is killed."""
    aside, (reading, writing) = Aside(), os.pipe()
    with warnings.catch_warnings():
        # The watchdog may be there. It holds nothing that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        # _exit whatever happens: the child must not run the parent's clean-up.
        try:
            os.close(reading)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            aside.speak()
            watchdog.last_words = lambda said: _write(
                writing, _LAST_WORDS + said.encode("utf-8", "surrogatepass")
            )
            try:
                answer = _RETURNED + pickle.dumps(work())
            except BaseException as error:
                answer = _RAISED + pickle.dumps(portable(error))
            _write(writing, answer)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        answer = _read(reading, s_max)
        last = aside.after(death_of(reap(pid)))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        reap(pid)
        raise TimeUp("the time of the search was up before a child had answered") from None
    finally:
        os.close(reading)
        aside.close()
    result: T = _understood(answer, last)
    return result


def _understood(answer: bytes, last: str) -> Any:
    """What a child has returned; `last` is said of one that has not."""
    how, said = answer[:1], answer[1:]
    if how == _RAISED:
        raise pickle.loads(said)
    if how != _RETURNED:
        raise WorkerDied(said.decode("utf-8", "surrogatepass") or last)
    return pickle.loads(said)


def _write(descriptor: int, answer: bytes) -> None:
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(answer)


def _read(descriptor: int, s_max: float | None) -> bytes:
    """All that comes until the other end is closed; TimeoutError if that takes too long."""
    data, until_s = b"", math.inf if s_max is None else real.monotonic() + s_max
    poll = real.poll()
    poll.register(descriptor)
    while True:
        left_s = max(0.0, until_s - real.monotonic())
        if not poll.poll(None if left_s == math.inf else left_s * 1e3):
            raise TimeoutError
        block = os.read(descriptor, 1 << 20)
        if not block:
            return data
        data += block


def death_of(status: int) -> str:
    """What a child died of, by its status as `os.waitpid` gives it."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"it ended with exit code {os.WEXITSTATUS(status)}"


class _Sent(NamedTuple):
    """What comes back from a child: no exception, and a recorded tape as text."""

    brief: Brief
    recorded: str
    cast: dict[str, Collection[str]]


def _sent(brief: Brief) -> _Sent:
    tape, brief.recorded, brief.error = brief.recorded, None, None
    brief.features = sorted(brief.features)
    if tape is None:
        return _Sent(brief, "", {})
    cast: dict[str, Collection[str]] = {host: list(names) for host, names in tape.cast.items()}
    return _Sent(brief, dumps(TapeFile(tape)), cast)


def _received(sent: _Sent) -> Brief:
    if sent.recorded:
        sent.brief.recorded = tape = loads(sent.recorded).tape
        tape.cast = sent.cast
    return sent.brief
