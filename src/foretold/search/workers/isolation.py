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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from foretold.arguments import check_word
from foretold.errors import TimeUp, WorkerDied
from foretold.kernel import real
from foretold.kernel.branches import Branches
from foretold.kernel.watchdog import GRACE_S, watchdog
from foretold.platforms import fork
from foretold.search.planning.allowance import reap
from foretold.search.workers.aside import Aside
from foretold.search.workers.brief import Brief, brief_of, died
from foretold.search.workers.portable import portable
from foretold.search.workers.warming import Warmth, warm_up
from foretold.story.signature import signature_of
from foretold.tape import Tape
from foretold.world.run import execute
from foretold.world.settings import Settings

T = TypeVar("T")


class Runner(Protocol):
    """Runs a tape and says briefly what came of it."""

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief: ...

    def apart(self, work: Callable[[], T]) -> T:
        """What `work` returns, which makes a run where this one makes them."""


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
    here = InProcess(main, feedback, branches, Warmth() if warmth is None else warmth)
    if isolation is None:
        return here
    check_word("isolation", isolation, ["fork"], none="for this process")
    return Forked(here)


@dataclass(slots=True)
class InProcess:
    """Runs share this process and its module state."""

    main: Callable[[Any], Any]
    feedback: bool
    branches: Branches | None
    warmth: Warmth

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief:
        first = None
        if not self.warmth.there:
            self.warmth.there = True
            first = warm_up(self.main, tape, settings)
        done = execute(
            self.main,
            tape,
            settings,
            recording=recording,
            learning=learning,
            feedback=self.feedback and not recording,
            branches=None if recording else self.branches,
        )
        brief = brief_of(done)
        if first is not None and (first.digest, first.signature) != (done.digest, brief.signature):
            brief.first = first
        return brief

    def apart(self, work: Callable[[], T]) -> T:
        return work()


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
            return self.apart(lambda: self._in_process(tape, settings, **how).ready_to_send())
        except WorkerDied as error:
            return died(str(error))
        except TimeUp as error:
            return Brief(signature_of(error), error=error)

    def apart(self, work: Callable[[], T]) -> T:
        return in_fork(work, watchdog.left_s and watchdog.left_s + GRACE_S)


_RETURNED, _RAISED, _LAST_WORDS = b"+", b"!", b"?"
"""How the answer of a child begins; the last is what the watchdog says if it had to be ended."""


def in_fork(work: Callable[[], T], s_max: float | None = None) -> T:
    """What `work` returns, computed in a forked child with its output thrown away. What it raises
    is raised here. After `s_max` real seconds the child is killed."""
    aside, (reading, writing) = Aside(), os.pipe()
    pid = fork()
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
