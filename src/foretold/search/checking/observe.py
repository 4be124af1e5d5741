"""What one run looked like from outside, small enough to be sent between processes.

A run that is observed was warmed up before (`warming.py`). For a closer look, the same tape is run
a third time, and the events of all three are written down.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from foretold.errors import ForetoldError, Hang, TimeUp
from foretold.kernel.watchdog import watchdog
from foretold.search.checking.layout import has_fixed_addresses, litter
from foretold.search.checking.leftovers import changes, module_state
from foretold.search.workers.warming import cold, in_silence, warm_up
from foretold.story.signature import Signature, signature_of, text_of
from foretold.tape import Tape
from foretold.world.run import Run, execute
from foretold.world.settings import Settings


@dataclass(frozen=True, slots=True)
class Observation:
    """Digest and verdict of a run."""

    digest: str
    kind: str = ""
    """The exception's qualified name, or empty if the run held."""
    place: str = ""
    message: str = ""
    first: Observation | None = None
    """The run of the same tape before it, the first in its process; None if there was none."""
    next: Observation | None = None
    """The run of the same tape after it, if somebody wanted a closer look."""
    changed: tuple[str, ...] = ()
    """In a closer look: what the run changed at module level."""

    @property
    def failed(self) -> bool:
        return bool(self.kind)

    @property
    def failing_first(self) -> Observation | None:
        """The run before it, if only that one failed, and not because it took so long."""
        first = self.first
        if first is None or self.failed or not first.failed or first.kind in _OF_REAL_TIME:
            return None
        return first

    @property
    def signature(self) -> Signature:
        return Signature(self.kind, self.place)

    @property
    def how(self) -> str:
        """In words: it held, or how it failed."""
        lines = self.message.splitlines()
        said = f": {lines[0]}" if lines else ""
        return f"failed with {self.kind}{said}" if self.failed else "held"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Observation:
        """Read strictly: what comes from another process is data, nothing else."""
        try:
            return cls._read(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ForetoldError(f"a child process sent no readable observation: {error}") from None

    @classmethod
    def _read(cls, data: Any) -> Observation:
        digest, kind, place, said = (str(data[n]) for n in ("digest", "kind", "place", "message"))
        first, after = (None if data[n] is None else cls._read(data[n]) for n in ("first", "next"))
        return cls(digest, kind, place, said, first, after, tuple(map(str, data["changed"])))


_OF_REAL_TIME = {f"{each.__module__}.{each.__qualname__}" for each in (Hang, TimeUp)}


def observe(main: Callable[[Any], Any], tape: Tape) -> Observation:
    """Run `main` on `tape`, once to warm up and once more, and say what was seen of the second."""
    settings = Settings.from_tape(tape.settings)
    first = warm_up(main, tape, settings)
    seen = observation_of(execute(main, tape, settings))
    if first is None:
        return seen
    kind, place = first.signature or ("", "")
    return replace(seen, first=Observation(first.digest, kind, place, first.message))


def observation_of(done: Run) -> Observation:
    """A run that was made, briefly."""
    if done.error is None:
        return Observation(done.digest)
    found = signature_of(done.error)
    return Observation(done.digest, found.kind, found.place, text_of(done.error))


def look_closely(main: Callable[[Any], Any], tape: Tape, entries: Path) -> Observation:
    """As `observe`, with a third run after it. Their events are written to files beside one another
    (`file_of`). Of a cold tape there is only the run that counts."""
    settings = Settings.from_tape(tape.settings)
    numbers = [_COUNTED] if settings.cold else range(RUNS_CLOSELY)
    seen: list[Observation] = []
    before = module_state()
    for number in numbers:
        with in_silence(), file_of(entries, number).open("w", **_AS_TEXT) as file:

            def note(entry: str, write: Callable[[str], object] = file.write) -> None:
                write(entry.replace("\n", "\\n") + "\n")

            observed = observation_of(execute(main, tape, settings, sink=note))
        after = module_state()
        seen.append(replace(observed, changed=tuple(changes(before, after))))
        before = after
    if settings.cold:
        return seen[0]
    first, counted, third = seen
    return replace(counted, first=first, next=third)


RUNS_CLOSELY = 3
_COUNTED = 1
_AS_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogatepass"}


def file_of(entries: Path, number: int) -> Path:
    """Where the events of each run are: of the first, the one that counts, and the next."""
    return entries.with_name(entries.name + (".first", "", ".next")[number])


def observed_by_child(
    main: Callable[[Any], Any],
    tape: Tape,
    entries: str | None,
    *,
    isolation: str | None = None,
    littered: bool = False,
) -> Observation:
    """What a process does that was started to run a tape for another one. With `isolation` each run
    of a search is the first of its process, and so is this one."""
    tape = tape if isolation is None else cold(tape)
    # Where addresses are compared: a thread that wakes up by the real clock would allocate some.
    watchdog.rests = entries is not None and has_fixed_addresses()
    kept = litter() if littered else []
    seen = observe(main, tape) if entries is None else look_closely(main, tape, Path(entries))
    kept.clear()  # not before: what comes next was to lie elsewhere
    return seen
