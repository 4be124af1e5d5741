"""Saved failures, tried again: is each fixed, does it still fail, or can nobody tell?

Each tape is run in a fresh process, so that one that crashes its process, or whose program cannot
be imported, is a verdict like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foretold.errors import ForetoldError, TapeError, WorkerDied
from foretold.search.checking.observe import Observation
from foretold.search.checking.replayers import Replayer
from foretold.search.failures.failure import Failure
from foretold.story.decision import Decision
from foretold.story.signature import signature_of
from foretold.story.story import faults_of, has_only_threads, tell_run
from foretold.story.words import short_path
from foretold.tape import FailureNote, TapeFile, environment_differences
from foretold.tape.file import load
from foretold.world.run import Run

Word = Literal["FIXED", "STILL FAILS", "CANNOT REPLAY"]


@dataclass(frozen=True, slots=True)
class RetryVerdict:
    path: Path
    word: Word
    why: str = ""
    file: TapeFile | None = None
    """None if it could not be read."""
    seen: Observation | None = None
    """The run that failed, if it still fails and its process survived."""


def try_again(path: Path, replayer_for: Callable[[str], Replayer]) -> RetryVerdict:
    """Run a saved tape on its target in a fresh process."""
    try:
        file = load(path)
    except TapeError as error:
        return RetryVerdict(path, "CANNOT REPLAY", str(error))
    if not file.target:
        why = "it was saved from a function that cannot be imported by name"
        return RetryVerdict(path, "CANNOT REPLAY", why, file)
    try:
        seen = replayer_for(file.target)(file.tape)
    except WorkerDied as error:
        word: Word = "STILL FAILS" if ends_its_process(file) else "CANNOT REPLAY"
        return RetryVerdict(path, word, str(error), file)
    except (ForetoldError, OSError) as error:
        return RetryVerdict(path, "CANNOT REPLAY", str(error), file)
    seen = seen.failing_first or seen
    if seen.failed and seen.kind == f"{TapeError.__module__}.{TapeError.__qualname__}":
        return RetryVerdict(path, "CANNOT REPLAY", seen.message, file)
    if seen.failed:
        return RetryVerdict(path, "STILL FAILS", _how_else(file.failure, seen), file, seen)
    if elsewhere := recorded_elsewhere(file):
        why = f"it holds here, which proves nothing: {'; '.join(elsewhere)}"
        return RetryVerdict(path, "CANNOT REPLAY", why, file)
    return RetryVerdict(path, "FIXED", "", file)


def ends_its_process(file: TapeFile) -> bool:
    """Whether the failure was that the run ended the process it was made in."""
    return file.failure is not None and file.failure.type_name == WorkerDied.__qualname__


def recorded_elsewhere(file: TapeFile) -> list[str]:
    """Why its holding here proves nothing: another Python may be the one that fails."""
    return [text for text in environment_differences(file) if "hash seed" not in text]


def failure_of(
    done: Run, file: TapeFile, path: Path, decision: Decision | None = None
) -> Failure | None:
    """What a saved tape gave when it was run again, in detail; None if it holds."""
    if done.error is None:
        return None
    found = Failure(done.error, file.tape, signature_of(done.error), 0, file.tape.seed)
    found.target = file.target
    found.digest = done.digest
    found.first_only = done.first_only
    found.saved_as = path
    found.note_stock(file.stock)
    found.reproduced, found.replayed_in = True, "this process"  # and not that which recorded it
    if file.digest is not None and file.digest != done.digest:
        found.doubt = f"this is not the run that was recorded ({why_unlike(file, done)})"
    found.decision = decision
    found.story, found.delays = tell_run(done, decision)
    found.faults = faults_of(done)
    found.has_only_threads = has_only_threads(done)
    found.notes = done.notes
    return found


def failure_elsewhere(seen: Observation, file: TapeFile, path: Path) -> Failure:
    """A saved tape failed in a fresh process and held in this one, which has run things before. All
    that is known is what the other process has seen."""
    said = f": {seen.message}" if seen.message else ""
    error = ForetoldError(f"{seen.kind}{said}")
    found = Failure(error, file.tape, seen.signature, 0, file.tape.seed)
    found.target, found.digest, found.saved_as = file.target, seen.digest, path
    found.reproduced, found.elsewhere = True, True
    return found


def why_unlike(file: TapeFile, done: Run) -> str:
    """What is known about why a run is not the recorded one, and no more than that. A tape does not
    say which code it was recorded with."""
    known = environment_differences(file)
    if misfit := misfit_in_words(done):
        known.append(f"the tape does not fit it: {misfit}")
    return "; ".join(known) or "the code is another one now, or something besides the tape decides"


def misfit_in_words(done: Run) -> str:
    """In which way the tape does not fit the run, or empty. A shrunk tape ends early on purpose:
    what is past its end is calm, and no misfit."""
    misfit = done.tape.misfit
    return "" if misfit is None or misfit.endswith("is past its end") else misfit


def noted_in_words(failure: FailureNote) -> str:
    """`AssertionError: lost update at bank.py:27`."""
    file, _, line = failure.place.rpartition(":")
    where = f" at {short_path(file)}:{line}" if file else ""
    said = f": {failure.message}" if failure.message else ""
    return f"{failure.type_name}{said}{where}"


def _how_else(noted: FailureNote | None, seen: Observation) -> str:
    """In which way it fails, if that is another one than was noted."""
    if noted is None or is_same(noted, seen):
        return ""
    said = f": {seen.message.splitlines()[0]}" if seen.message else ""
    return f"differently: {seen.kind.rpartition('.')[2]}{said}"


def is_same(noted: FailureNote, seen: Observation) -> bool:
    """The same kind of exception, with the same message or at the same line of a file."""
    if seen.kind.rpartition(".")[2] != noted.type_name.rpartition(".")[2]:
        return False
    line = seen.place.rpartition("/")[2]
    same_line = bool(line) and noted.place.rpartition("/")[2] == line
    return same_line or FailureNote(noted.type_name, seen.message).message == noted.message
