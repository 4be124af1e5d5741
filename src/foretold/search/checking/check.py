"""Is the program deterministic? Run tapes several times, compare, and find out why they differ.

Each tape is run in two fresh processes with different hash seeds, three times in each. Where the
two differ, a third process with the first hash seed tells whether the hash seed was to blame, and
two more without the random placement of memory whether addresses were. Where the second and the
third run of one process differ, that is state which a run leaves behind, or an address. If runs of
the program begin in forks (`isolation="fork"`), each process makes one run.

That the *first* run of a process differs from the second is no harm as long as the second and the
third agree: a cache was filled, and searches and replays begin with a run that does not count
(`warming.py`). It is reported all the same.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from foretold.errors import UsageError
from foretold.search.checking.causes import (
    ADDRESSES,
    MODULE_STATE,
    OUTSIDE,
    SET_ORDER,
    Cause,
    by_look,
)
from foretold.search.checking.layout import fixed_addresses
from foretold.search.checking.observe import Observation, file_of
from foretold.search.checking.replayers import Replayer
from foretold.search.checking.verify import first_difference
from foretold.search.planning.portfolio import plans_for, run_seed, settings_of
from foretold.tape import Tape
from foretold.world.settings import Settings

ALIKE = 8
"""So many processes with equal addresses must agree, and one of them may not. What a coin decides
would pass for addresses once in 25 times."""
HASH_SEEDS_MAX = 4_294_967_295
_ORDINALS = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs of one tape part, and why."""

    seed: int
    sides: tuple[str, str]
    """Where each of the two took place."""
    number: int
    """Of the first event that differs, counted from 1."""
    before: str | None
    """The last event that both have."""
    left: str | None
    right: str | None
    cause: Cause | None
    """None if that was not looked for."""
    changer: str = ""
    """If state is the cause: which run has changed something at module level, and what."""
    changed: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    target: str
    seed: int
    events: list[int] = field(default_factory=list)
    """How many events each tape gave."""
    failed: Observation | None = None
    """A run that failed, if there was one: it may have ended before anything interesting."""
    divergence: Divergence | None = None
    first: Divergence | None = None
    """If all is well but for the first run of a process: where it differs from the second."""


class ReplayerWith(Protocol):
    """Makes a replayer for processes with this hash seed, in which objects lie elsewhere than they
    would if they are `littered`."""

    def __call__(self, hash_seed: str, *, littered: bool = False) -> Replayer: ...


def check(
    target: str,
    replayer_with: ReplayerWith,
    *,
    runs: int = 3,
    seed: int = 0,
    on_tape: Callable[[int], object] | None = None,
) -> Report:
    """Check `runs` tapes, up to the first that differs."""
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    report = Report(target, seed)
    for number in range(runs):
        if on_tape is not None:
            on_tape(number + 1)
        with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
            checker = _Checker(replayer_with, Path(folder))
            report.divergence = checker.check(_tape(seed, number), 2 * number + 1)
            report.events.append(checker.events)
            report.failed = report.failed or checker.failed
            report.first = report.first or checker.first
        if report.divergence is not None:
            break
    return report


def _tape(seed: int, number: int) -> Tape:
    """The tape of run `number` of a search with this seed, with its default settings."""
    plans = plans_for(None, "portfolio")
    seed = run_seed(seed, number, len(plans))
    settings = Settings().with_changes(**dict(settings_of(seed, plans)))
    return Tape.seeded(seed, settings.on_tape())


@dataclass(frozen=True, slots=True)
class _Process:
    """The three runs of a tape in one process, with the files that list their events."""

    where: str
    seen: Observation
    entries: Path

    def run(self, number: int) -> Observation:
        """The first, second or third of them, counted from 0. The second one is the one that was
        asked for; the others are where the replayer looks closely."""
        return (
            (self.seen.first, self.seen.next)[number // 2] if number != 1 else None
        ) or self.seen

    def agrees(self, other: _Process) -> bool:
        """On the first and on the second run."""
        return self.digests == other.digests

    @property
    def digests(self) -> tuple[str, str]:
        return self.run(0).digest, self.run(1).digest


class _Checker:
    def __init__(self, replayer_with: ReplayerWith, folder: Path) -> None:
        self._replayer_with = replayer_with
        self._folder = folder
        self._files = 0
        self.events = 0
        self.failed: Observation | None = None
        self.first: Divergence | None = None

    def check(self, tape: Tape, hash_seed: int) -> Divergence | None:
        left = self._fresh(tape, hash_seed)
        right = self._fresh(tape, hash_seed + 1)
        self.failed = left.seen if left.seen.failed else None
        with left.entries.open("rb") as lines:
            self.events = sum(1 for _ in lines)
        if not left.agrees(right):
            again = self._fresh(tape, hash_seed)
            if again.agrees(left):
                return self._parted(tape, left, right, SET_ORDER)
            return self._parted(tape, left, again, self._addresses_decide(tape, hash_seed))
        if left.run(1).digest != left.run(2).digest:
            # Addresses differ from one run to the next as well. Then they also differ in a process
            # whose heap was littered before; what a run leaves behind in a module does not.
            other = self._fresh(tape, hash_seed, littered=True)
            return self._unlike(tape, left, 1, MODULE_STATE if other.agrees(left) else ADDRESSES)
        if left.run(0).digest != left.run(1).digest:
            self.first = self._unlike(tape, left, 0, None)
        return None

    def _fresh(self, tape: Tape, hash_seed: int, *, littered: bool = False) -> _Process:
        self._files += 1
        entries = self._folder / f"entries-{self._files:03}"  # a longer name would lie elsewhere
        hash_seed %= HASH_SEEDS_MAX
        seen = self._replayer_with(str(hash_seed), littered=littered)(tape, entries=entries)
        return _Process(f"a fresh process, PYTHONHASHSEED={hash_seed}", seen, entries)

    def _addresses_decide(self, tape: Tape, hash_seed: int) -> bool | None:
        """Whether the difference vanishes with equal addresses; None if that cannot be tried."""
        with fixed_addresses() as fixed:
            if not fixed:
                return None
            # A thread of a library may allocate at a chance moment: one of them may differ.
            seen = Counter[object]()
            while max(seen.values(), default=0) < ALIKE:
                seen[self._fresh(tape, hash_seed).digests] += 1
                if seen.total() - max(seen.values()) > 1:
                    return False
        return True

    def _unlike(
        self, tape: Tape, process: _Process, number: int, cause: Cause | None
    ) -> Divergence | None:
        """Where a run and the next one of the same process part."""
        one, next_one = _ORDINALS[number : number + 2]
        files = [file_of(process.entries, number), file_of(process.entries, number + 1)]
        sides = f"the {one} run in a process", f"the {next_one} run in the same process"
        found = _divergence(tape, sides, files, cause)
        if found is None or cause is ADDRESSES:
            return found
        return replace(found, changer=one, changed=process.run(number).changed)

    def _parted(
        self, tape: Tape, left: _Process, right: _Process, known: Cause | bool | None
    ) -> Divergence | None:
        """`known`: the cause; or whether addresses are it, None if that could not be tried."""
        several = left.seen.first is not None  # of a cold tape there is one run
        number = 0 if several and left.run(0).digest != right.run(0).digest else 1
        files = [file_of(left.entries, number), file_of(right.entries, number)]
        found = _divergence(tape, (left.where, right.where), files, None)
        if found is None:
            return None
        if isinstance(known, Cause):
            return replace(found, cause=known)
        if known:
            return replace(found, cause=ADDRESSES)
        otherwise = ADDRESSES if known is None else OUTSIDE
        seen = (left.run(number), right.run(number))
        return replace(found, cause=by_look(seen, found.left or "", found.right or "", otherwise))


def _divergence(
    tape: Tape, sides: tuple[str, str], files: list[Path], cause: Cause | None
) -> Divergence | None:
    difference = first_difference(*files)
    if difference is None:
        return None
    number, here, there = difference
    return Divergence(tape.seed, sides, number, _line(files[0], number - 1), here, there, cause)


def _line(file: Path, number: int) -> str | None:
    if number < 1:
        return None
    with file.open(encoding="utf-8", errors="surrogatepass") as lines:
        return next(islice(lines, number - 1, None), "").rstrip("\n")
