"""Is the program deterministic? Run tapes twice, compare, and find out why they differ.

Each tape is run in two fresh processes with different hash seeds. Where those differ, a third run
with the first hash seed tells whether the hash seed was to blame, and two more without the random
placement of memory whether addresses were. And each tape is run twice in one process: what differs
only there is state that the first run left behind, or an address.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from foretold.errors import UsageError
from foretold.search.causes import ADDRESSES, MODULE_STATE, OUTSIDE, SET_ORDER, Cause, by_look
from foretold.search.isolation import in_fork
from foretold.search.layout import fixed_addresses, litter
from foretold.search.leftovers import changes, module_state
from foretold.search.observe import Observation, observe
from foretold.search.portfolio import plan_of, plans_for
from foretold.search.replayers import Replayer
from foretold.search.verify import first_difference
from foretold.tape import Tape
from foretold.world.settings import Settings

HASH_SEEDS_MAX = 4_294_967_295


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
    cause: Cause
    changed: tuple[str, ...] = ()
    """If state is the cause: what the first run changed at module level."""


@dataclass(slots=True)
class Report:
    """What a check gave."""

    target: str
    seed: int
    events: list[int] = field(default_factory=list)
    """How many events each tape gave."""
    failed: Observation | None = None
    """A run that failed, if there was one: it may have ended before anything interesting."""
    divergence: Divergence | None = None


class ReplayerWith(Protocol):
    """Makes a replayer for processes with this hash seed."""

    def __call__(self, hash_seed: str) -> Replayer: ...


def check(
    target: str,
    replayer_with: ReplayerWith,
    main: Callable[[Any], Any] | None = None,
    *,
    runs: int = 3,
    seed: int = 0,
    on_tape: Callable[[int], object] | None = None,
) -> Report:
    """Check `runs` tapes, up to the first that differs.

    `main` is the same target in this process; without it, no tape is run twice in one process.
    """
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    report = Report(target, seed)
    for number in range(runs):
        if on_tape is not None:
            on_tape(number + 1)
        with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
            checker = _Checker(replayer_with, main, Path(folder))
            report.divergence = checker.check(_tape(seed + number), 2 * number + 1)
            report.events.append(checker.events)
            report.failed = report.failed or checker.failed
        if report.divergence is not None:
            break
    return report


def _tape(seed: int) -> Tape:
    """The tape that a search with its default settings would use for this seed."""
    plan = plan_of(seed, plans_for(None, "portfolio"))
    settings = Settings().with_changes(order=plan.order, strategy=plan.strategy)
    return Tape.seeded(seed, settings.on_tape())


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run, with the file that lists its events."""

    where: str
    observation: Observation
    entries: Path


class _Checker:
    """Checks one tape."""

    def __init__(
        self, replayer_with: ReplayerWith, main: Callable[[Any], Any] | None, folder: Path
    ) -> None:
        self._replayer_with = replayer_with
        self._main = main
        self._folder = folder
        self._files = 0
        self.events = 0
        self.failed: Observation | None = None

    def check(self, tape: Tape, hash_seed: int) -> Divergence | None:
        left = self._fresh(tape, hash_seed)
        right = self._fresh(tape, hash_seed + 1)
        self.failed = left.observation if left.observation.failed else None
        with left.entries.open("rb") as lines:
            self.events = sum(1 for _ in lines)
        if left.observation.digest != right.observation.digest:
            again = self._fresh(tape, hash_seed)
            if again.observation.digest == left.observation.digest:
                return self._parted(tape, left, right, SET_ORDER)
            return self._parted(tape, left, again, self._addresses_decide(tape, hash_seed))
        return self._twice_in_one_process(tape) if self._main is not None else None

    def _new_file(self) -> Path:
        self._files += 1
        return self._folder / f"entries-{self._files}"

    def _fresh(self, tape: Tape, hash_seed: int) -> _Seen:
        entries = self._new_file()
        hash_seed %= HASH_SEEDS_MAX
        seen = self._replayer_with(str(hash_seed))(tape, entries=entries)
        return _Seen(f"a fresh process, PYTHONHASHSEED={hash_seed}", seen, entries)

    def _addresses_decide(self, tape: Tape, hash_seed: int) -> bool | None:
        """Whether the difference vanishes with equal addresses; None if that cannot be tried."""
        with fixed_addresses() as fixed:
            if not fixed:
                return None
            digests = {self._fresh(tape, hash_seed).observation.digest for _ in range(2)}
        return len(digests) == 1

    def _twice_in_one_process(self, tape: Tape) -> Divergence | None:
        first, second = self._forked(tape, times=2)
        if first.observation.digest == second.observation.digest:
            return None
        # Addresses differ from one run to the next as well. Then they also differ in a first run
        # for which the heap was littered; what a run leaves behind in a module does not.
        [other] = self._forked(tape, times=1, littered=True)
        addresses = other.observation.digest != first.observation.digest
        if addresses:
            return self._parted(tape, first, second, ADDRESSES)
        found = self._parted(tape, first, second, MODULE_STATE)
        return found and replace(found, changed=self._left_behind(tape))

    def _left_behind(self, tape: Tape) -> tuple[str, ...]:
        main, entries = self._main, self._new_file()
        assert main is not None, "asked for with a main only"

        def work() -> str:
            before = module_state()
            _observed(main, tape, entries)
            return json.dumps(changes(before, module_state()))

        return tuple(json.loads(in_fork(work)))

    def _forked(self, tape: Tape, *, times: int, littered: bool = False) -> list[_Seen]:
        main = self._main
        assert main is not None, "asked for with a main only"
        files = [self._new_file() for _ in range(times)]

        def work() -> str:
            kept = litter() if littered else []
            seen = [asdict(_observed(main, tape, file)) for file in files]
            return json.dumps({"seen": seen, "litter": len(kept)})

        seen = [Observation(**each) for each in json.loads(in_fork(work))["seen"]]
        words = ("the first run in a process", "the second run in the same process")
        return [_Seen(*each) for each in zip(words, seen, files, strict=False)]

    def _parted(
        self, tape: Tape, left: _Seen, right: _Seen, known: Cause | bool | None
    ) -> Divergence | None:
        """`known`: the cause; or whether addresses are it, None if that could not be tried."""
        difference = first_difference(left.entries, right.entries)
        if difference is None:
            return None
        number, here, there = difference
        if isinstance(known, Cause):
            cause = known
        elif known:
            cause = ADDRESSES
        else:
            otherwise = ADDRESSES if known is None else OUTSIDE
            seen = (left.observation, right.observation)
            cause = by_look(seen, here or "", there or "", otherwise)
        before = _line(left.entries, number - 1)
        return Divergence(tape.seed, (left.where, right.where), number, before, here, there, cause)


def _observed(main: Callable[[Any], Any], tape: Tape, entries: Path) -> Observation:
    with entries.open("w", encoding="utf-8", errors="surrogatepass") as file:
        return observe(main, tape, sink=lambda entry: file.write(entry.replace("\n", "\\n") + "\n"))


def _line(file: Path, number: int) -> str | None:
    if number < 1:
        return None
    with file.open(encoding="utf-8", errors="surrogatepass") as lines:
        return next(islice(lines, number - 1, None), "").rstrip("\n")


__all__ = ["Divergence", "Report", "check"]
