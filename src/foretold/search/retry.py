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
from foretold.search.failure import Failure
from foretold.search.observe import Observation
from foretold.search.replayers import Replayer
from foretold.search.signature import signature_of
from foretold.search.story import faults_of, tell_run
from foretold.tape import FailureNote, TapeFile, environment_differences
from foretold.tape.file import load
from foretold.world.run import Run

Word = Literal["FIXED", "STILL FAILS", "CANNOT REPLAY"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one saved failure."""

    path: Path
    word: Word
    why: str = ""
    file: TapeFile | None = None
    """None if it could not be read."""


def try_again(path: Path, replayer_for: Callable[[str], Replayer]) -> Verdict:
    """Run a saved tape on its target in a fresh process."""
    try:
        file = load(path)
    except TapeError as error:
        return Verdict(path, "CANNOT REPLAY", str(error))
    if not file.target:
        why = "it was saved from a function that cannot be imported by name"
        return Verdict(path, "CANNOT REPLAY", why, file)
    try:
        seen = replayer_for(file.target)(file.tape)
    except WorkerDied as error:
        word: Word = "STILL FAILS" if ends_its_process(file) else "CANNOT REPLAY"
        return Verdict(path, word, str(error), file)
    except (ForetoldError, OSError) as error:
        return Verdict(path, "CANNOT REPLAY", str(error), file)
    if seen.failed:
        return Verdict(path, "STILL FAILS", _how_else(file.failure, seen), file)
    if elsewhere := recorded_elsewhere(file):
        why = f"it holds here, which proves nothing: {'; '.join(elsewhere)}"
        return Verdict(path, "CANNOT REPLAY", why, file)
    return Verdict(path, "FIXED", "", file)


def ends_its_process(file: TapeFile) -> bool:
    """Whether the failure was that the run ended the process it was made in."""
    return file.failure is not None and file.failure.type_name == WorkerDied.__qualname__


def recorded_elsewhere(file: TapeFile) -> list[str]:
    """Why its holding here proves nothing: another Python may be the one that fails."""
    return [text for text in environment_differences(file) if "hash seed" not in text]


def failure_of(done: Run, file: TapeFile, path: Path) -> Failure | None:
    """What a saved tape gave when it was run again, in detail; None if it holds."""
    if done.error is None:
        return None
    found = Failure(done.error, file.tape, signature_of(done.error), 0, file.tape.seed)
    found.target = file.target
    found.digest = done.digest
    found.saved_as = path
    found.stock_known = True
    found.stock_asyncio = file.tape.settings.get("order") == "asyncio"
    # This is a fresh process already: nothing else needs to be asked.
    found.reproduced = True
    if file.digest is not None and file.digest != done.digest:
        found.doubt = "not by the same steps as when it was recorded" + _why_else(file)
    found.story, found.delays = tell_run(done)
    found.faults = faults_of(done)
    return found


def _why_else(file: TapeFile) -> str:
    differences = environment_differences(file)
    return f" ({'; '.join(differences)})" if differences else ": the code has changed since"


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
