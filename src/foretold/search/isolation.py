"""Where the runs of a search take place: in this process, or each in a fork of it.

In-process runs share module state: a cache filled by one run is full in the next. With
`isolation="fork"` every run starts from the same warmed parent, which itself never runs anything,
at the price of a fork (some milliseconds).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from foretold.arguments import check_word
from foretold.errors import ForetoldError
from foretold.kernel.reach import Feature
from foretold.kernel.schedulers.profile import Profile
from foretold.search.signature import Signature, signature_of, text_of
from foretold.tape import Tape
from foretold.tape.file import TapeFile, dumps, loads
from foretold.world.run import Run, execute
from foretold.world.settings import Settings
from foretold.world.tally import Tally


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
    alone: bool = False
    discarded: str = ""
    broken_holds: int = 0
    recorded: Tape | None = None
    profile: Profile | None = None
    """What the search learns from, if it asked."""
    error: BaseException | None = None
    """The exception itself, if the run took place in this process."""
    features: Collection[Feature] = ()
    """What it reached, if that was asked for."""
    message: str = ""
    """The first line of what the exception said."""
    configuration: dict[str, str] = field(default_factory=dict)
    """What the run drew once for all of it, in words."""
    tally: Tally | None = None
    """What it counted; None if that is nothing."""


class Runner(Protocol):
    """Runs a tape and says briefly what came of it."""

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief: ...


def runner_for(
    main: Callable[[Any], Any], isolation: str | None, *, feedback: bool = False
) -> Runner:
    """The runner for an `isolation` setting. With `feedback` it says what a run reached."""
    if isolation is None:
        return InProcess(main, feedback=feedback)
    check_word("isolation", isolation, ["fork"], none="for this process")
    return Forked(main, feedback=feedback)


class InProcess:
    """Runs share this process and its module state."""

    def __init__(self, main: Callable[[Any], Any], *, feedback: bool = False) -> None:
        self._main = main
        self._feedback = feedback

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief:
        asked = self._feedback and not recording
        done = execute(
            self._main, tape, settings, recording=recording, learning=learning, feedback=asked
        )
        return brief_of(done)


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
        done.alone,
        done.discarded,
        done.broken_holds,
        done.tape.recorded() if done.tape.recording else None,
        done.profile,
        done.error,
        done.features,
        "" if done.error is None else first_line(done.error),
        done.tape.configuration,
        done.tally or None,
    )


def first_line(error: BaseException) -> str:
    """What an exception says, as far as it fits on a line."""
    return next(filter(None, map(str.strip, text_of(error).splitlines())), "")


class Forked:
    """Each run takes place in a child of this process and leaves no trace here."""

    def __init__(self, main: Callable[[Any], Any], *, feedback: bool = False) -> None:
        self._in_process = InProcess(main, feedback=feedback)

    def __call__(
        self, tape: Tape, settings: Settings, *, recording: bool = False, learning: bool = False
    ) -> Brief:
        how = {"recording": recording, "learning": learning}
        return _from_json(in_fork(lambda: _to_json(self._in_process(tape, settings, **how))))


def in_fork(work: Callable[[], str]) -> str:
    """The text that `work` returns, computed in a forked child with its output thrown away."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        # _exit whatever happens: the child must not run the parent's clean-up.
        try:
            os.close(reading)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            text = work().encode("utf-8", "surrogatepass")
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(text)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not answer:
        raise ForetoldError(
            f"a forked run died without an answer (status {status}): the program ended the "
            "process, or crashed it"
        )
    return answer.decode("utf-8", "surrogatepass")


def _to_json(brief: Brief) -> str:
    recorded = None if brief.recorded is None else dumps(TapeFile(brief.recorded))
    return json.dumps(
        {
            "signature": brief.signature,
            "digest": brief.digest,
            "choices": brief.choices,
            "virtual_s": brief.virtual_s,
            "reached": brief.reached,
            "missed": brief.missed,
            "notes": brief.notes,
            "alone": brief.alone,
            "discarded": brief.discarded,
            "broken_holds": brief.broken_holds,
            "recorded": recorded,
            "features": sorted(brief.features),
            "message": brief.message,
            "configuration": brief.configuration,
            "tally": None if brief.tally is None else brief.tally.as_data(),
            "profile": None if brief.profile is None else brief.profile.text,
            "cast": {} if brief.recorded is None else _names(brief.recorded),
        }
    )


def _names(tape: Tape) -> dict[str, list[str]]:
    return {host: list(names) for host, names in tape.cast.items()}


def _from_json(text: str) -> Brief:
    data = json.loads(text)
    signature = data["signature"]
    recorded = None if data["recorded"] is None else loads(data["recorded"]).tape
    if recorded is not None:
        recorded.cast = data["cast"]
    return Brief(
        None if signature is None else Signature(*signature),
        data["digest"],
        data["choices"],
        data["virtual_s"],
        data["reached"],
        data["missed"],
        data["notes"],
        data["alone"],
        data["discarded"],
        data["broken_holds"],
        recorded,
        None if data["profile"] is None else Profile.parse(data["profile"]),
        features=[tuple(map(str, feature)) for feature in data["features"]],
        message=data["message"],
        configuration=data["configuration"],
        tally=None if data["tally"] is None else Tally.from_data(data["tally"]),
    )
