"""Tapes that reached something new, and how others are made from them.

An entry is kept by its *lineage*: the seed of a run, and the numbers of the changes that were made
to its tape since. That is all a worker needs to make the tape again, and it is small.

A change keeps most of a tape. It draws other values from some place of a stream on, changes one
value, takes a hold or a slow step away, moves it, or adds one; sometimes several of these. What a
changed run draws beyond the end of its streams comes from the change as well: the calm values that
a replay would take there lead nowhere new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from foretold.errors import TapeError
from foretold.kernel.conflicts import Edit
from foretold.tape import Choice, Hold, Schedule, Slow, Tape, TapeFile, dumps, load, save
from foretold.tape.schedule import Exception_
from foretold.tape.streams import TapeRandom, generator_for

LINEAGE_MAX = 6
"""A worker runs all ancestors of a tape that it has not made before."""
ENTRIES_MAX = 200
STORED_MAX = 50
"""So many are kept for the next search: the newest, which lie furthest."""
CHANGES_MAX = 4
EXTRA_DRAWS = 32
P_RECENT = 0.5
"""So often one of the newest entries is taken: it lies at the edge of what is known."""
RECENT = 8
_SLOW_NS = (20_000, 200_000, 2_000_000, 8_000_000)


Change = int | tuple[Edit, ...]
"""The seed of changes that are drawn, or choices that get these values (`reversals.py`)."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """How a tape is made: from a seed, with settings such as its order and strategy, by changes."""

    seed: int
    settings: tuple[tuple[str, str], ...]
    """What is different from the settings of the search as a whole."""
    changes: tuple[Change, ...] = ()
    stored: str = ""
    """The name of a tape of an earlier search, instead of a seed."""

    @property
    def parent(self) -> Lineage:
        return replace(self, changes=self.changes[:-1])

    def child(self, change: Change) -> Lineage:
        return replace(self, changes=(*self.changes, change))


@dataclass(slots=True)
class Corpus:
    """The lineages that are worth a second look."""

    entries: list[Lineage] = field(default_factory=list)

    def add(self, lineage: Lineage) -> None:
        if lineage not in self.entries:
            self.entries.append(lineage)
            del self.entries[:-ENTRIES_MAX]

    def pick(self, seed: int, number: int) -> Lineage:
        """A new lineage for run `number` of the search with this seed."""
        generator = generator_for(seed, f"corpus/{number}")
        entries = self.entries
        recent = entries[-RECENT:] if generator.random() < P_RECENT else entries
        chosen = recent[int(generator.random() * len(recent))]
        if len(chosen.changes) >= LINEAGE_MAX:
            chosen = chosen.parent
        return chosen.child(int(generator.random() * (1 << 32)))


def load_corpus(folder: Path) -> dict[str, Tape]:
    """The tapes that an earlier search has kept, by name. What cannot be read is left out."""
    found = {}
    for path in sorted(folder.glob("*.tape"))[:STORED_MAX]:
        with suppress(TapeError):
            found[path.stem] = load(path).tape
    return found


def store_corpus(folder: Path, tapes: Iterable[Tape], target: str) -> None:
    """Keep these for the next search, instead of those that were kept before."""
    kept = set()
    for tape in tapes:
        file = TapeFile(tape, target=target)
        with suppress(TapeError, OSError):  # too large for a file, or a disk that is full
            text = dumps(file)
            name = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
            save(folder / f"{name}.tape", file)
            kept.add(name)
    for path in folder.glob("*.tape"):
        if path.stem not in kept:
            path.unlink(missing_ok=True)


def changed(tape: Tape, change: Change) -> Tape:
    """A tape like this recorded one, but not quite."""
    if not isinstance(change, int):
        return _edited(tape, change)
    generator = TapeRandom(change)
    choices = {name: list(entries) for name, entries in tape.choices.items()}
    schedule = list(tape.schedule)
    alone = not schedule and all(len(names) < 2 for names in tape.cast.values())
    for _ in range(1 + int(generator.random() ** 2 * CHANGES_MAX)):
        if choices and (generator.random() < 0.6 or alone):  # nobody else whom one could hold
            _change_choices(choices, generator)
        else:
            _change_schedule(schedule, tape, generator)
    for name, entries in choices.items():
        entries += _drawn_like(tape.choices[name], EXTRA_DRAWS, generator)
    return tape.derived(choices=choices, schedule=Schedule.of(schedule))


def _edited(tape: Tape, edits: Iterable[Edit]) -> Tape:
    """The same with other values for these choices."""
    choices = {name: list(entries) for name, entries in tape.choices.items()}
    for name, place, value in edits:
        entries = choices.get(name, [])
        if place < len(entries):
            entries[place] = entries[place]._replace(value=value)
    return tape.derived(choices=choices)


def _index(generator: TapeRandom, size: int) -> int:
    return int(generator.random() * size)


def _drawn_like(entries: Sequence[Choice], count: int, generator: TapeRandom) -> list[Choice]:
    """Values for draws of which only those before them are known."""
    if not entries:
        return []
    draw, size, drawn = generator.random, len(entries), []
    for _ in range(count):
        _, bound, label = entries[int(draw() * size)]
        drawn.append(Choice(int(draw() * bound), bound, label))
    return drawn


def _change_choices(choices: dict[str, list[Choice]], generator: TapeRandom) -> None:
    names = sorted(choices)
    name = "workload" if "workload" in names and generator.random() < 0.5 else ""
    entries = choices[name or names[_index(generator, len(names))]]
    if not entries:
        return
    at = _index(generator, len(entries))
    how = generator.random()
    if how < 0.4:
        entries[at] = _redrawn(entries[at], generator)
    elif how < 0.9:  # what lies before stays: it is the way to where something was new
        entries[at:] = [_redrawn(entry, generator) for entry in entries[at:]]
    else:
        del entries[at]


def _redrawn(entry: Choice, generator: TapeRandom) -> Choice:
    return entry._replace(value=int(generator.random() * entry.bound))


def _change_schedule(schedule: list[Exception_], tape: Tape, generator: TapeRandom) -> None:
    how = generator.random()
    if schedule and how < 0.3:
        del schedule[_index(generator, len(schedule))]
    elif schedule and how < 0.5:
        at = _index(generator, len(schedule))
        schedule[at] = _moved(schedule[at], generator)
    else:
        added = _new_exception(schedule, tape, generator)
        if added is not None:
            schedule.append(added)


def _moved(entry: Exception_, generator: TapeRandom) -> Exception_:
    step = max(1, entry.step + (1 if generator.random() < 0.5 else -1))
    if isinstance(entry, Slow):
        return replace(entry, step=step)
    return Hold(entry.host, entry.actor, step, entry.until_actor, entry.until_step)


def _new_exception(
    schedule: list[Exception_], tape: Tape, generator: TapeRandom
) -> Exception_ | None:
    """Hold somebody, or make a step slow: near where something was held already, or anywhere."""
    hosts = sorted(host for host, names in tape.cast.items() if len(names) > 1)
    if not hosts:
        return None
    host = hosts[_index(generator, len(hosts))]
    names = sorted(tape.cast[host])
    actor = names[_index(generator, len(names))]
    steps = [entry.step for entry in schedule if entry.actor == actor] or [4]
    step = 1 + _index(generator, 2 * max(steps))
    if generator.random() < 0.2 or tape.settings.get("order") == "asyncio":
        return Slow(host, actor, step, _SLOW_NS[_index(generator, len(_SLOW_NS))])
    until = names[_index(generator, len(names))]
    if until == actor:
        return None
    # Never until somebody has ended: whoever waits for the one who is held would spin for ever.
    return Hold(host, actor, step, until, 1 + _index(generator, 2 * max(steps)))
