"""Accesses of different actors to the same rows, and how a run could have had them the other way.

A database notes what each statement touches while a search looks at a run (`trace.accesses`). When
the run is over, `conflicts_of` looks for two neighbouring accesses of one actor, A, to the same
rows and an access of another actor, B, that would have conflicted with both if it had come between
them: B writes, or A writes twice and B reads. The lost update is the best known of these: A reads,
B writes, A writes. If B's access came before or after instead, that is an *order seen one way*. It
becomes a `Conflict`: which choices of the tape let B's transaction happen in between. An instant is
chosen for every statement, so these are the choices that make A's next statements late and B's
quick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Edit = tuple[str, int, int]
"""A choice of a tape: the stream, its place there, and the value that it shall have."""
Rows = Mapping[str, frozenset[str]]
"""Of some columns the values that the rows have, as far as a statement tells."""

ACCESSES_MAX = 5_000
"""A run that makes more is looked at so far."""
CONFLICTS_MAX = 12
"""So many of one run are told, the most promising first."""
SEEN_MAX = 200
COMPARED_MAX = 20_000
SPAN_MAX = 40
"""Of a longer transaction only so much is looked at before and after an access."""


class Touch(NamedTuple):
    """What a statement does to one table."""

    table: str
    writes: bool
    locks: bool
    """Rows that it writes, or asks for with a lock, are its own until the transaction ends."""
    inserts: bool
    rows: Rows | None
    """None: all of them."""


class RowAccess(NamedTuple):
    """One message to a database, with all of its statements, at the instant of its execution."""

    actor: str
    at_ns: int
    about: str
    """Its text, without values."""
    touches: tuple[Touch, ...]
    ends: bool
    """No transaction is open after it."""
    stream: str
    draws: tuple[int, ...]
    """Which choices of the stream said how long it took to come to that instant."""
    late: int
    """The value of these choices by which it takes longest."""
    late_ns: int
    """How much longer that would have been."""
    gain_ns: int
    """How much sooner it could have been."""


class Conflict(NamedTuple):
    """Something that was seen in one order only."""

    key: str
    rank: tuple[int, ...]
    """The lowest is tried first."""
    edits: tuple[Edit, ...]


@dataclass(slots=True)
class Conflicts:
    """What a run tells about the order of its accesses."""

    missed: list[Conflict] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    """The keys of those that did come between."""


def conflicts_of(accesses: Sequence[RowAccess], *, apart: bool = True) -> Conflicts:
    """All orders that were seen one way only in this run, the most promising first. Not `apart`:
    transactions that do not overlap wait for each other, and cannot be brought to it."""
    found: dict[str, Conflict] = {}
    met: dict[str, None] = {}
    for each in _triples(_Course(accesses)):
        key = each.key
        if each.is_met:
            met[key] = None
            continue
        rank, edits = each.rank, each.edits()
        if not apart and rank[1]:
            continue
        if edits and (key not in found or rank < found[key].rank):
            found[key] = Conflict(key, rank, tuple(edits))
    missed = [each for key, each in found.items() if key not in met]
    missed.sort(key=lambda each: (each.rank, each.key))
    return Conflicts(missed[:CONFLICTS_MAX], list(met)[:SEEN_MAX])


class _Course:
    """The accesses of a run, by actor and by table."""

    def __init__(self, accesses: Sequence[RowAccess]) -> None:
        self.by_actor: dict[str, list[RowAccess]] = {}
        self.by_table: dict[str, list[tuple[str, int, Touch]]] = {}
        """Of a table, in the order of the run: who touched it, with which of its accesses."""
        for access in accesses:
            own = self.by_actor.setdefault(access.actor, [])
            for touch in access.touches:
                touches = self.by_table.setdefault(touch.table, [])
                touches.append((access.actor, len(own), touch))
            own.append(access)


def _triples(course: _Course) -> Iterator[_Triple]:
    """Two neighbouring accesses of one actor to the same rows, and one of another."""
    left = COMPARED_MAX
    for touches in course.by_table.values():
        if all(not touch.writes for _, _, touch in touches):
            continue
        last: dict[str, tuple[int, Touch]] = {}
        for actor, number, touch in touches:
            before = last.get(actor)
            last[actor] = number, touch
            if before is None or not before[0] < number <= before[0] + SPAN_MAX:
                continue
            if _relation(before[1], touch) < 0:
                continue
            for other, place, between in touches:
                left -= 1
                if left < 0:
                    return
                if other != actor:
                    triple = _triple(course, actor, before, (number, touch), other, place, between)
                    if triple is not None:
                        yield triple


def _triple(
    course: _Course,
    actor: str,
    first: tuple[int, Touch],
    second: tuple[int, Touch],
    other: str,
    place: int,
    between: Touch,
) -> _Triple | None:
    if not between.writes and not (first[1].writes and second[1].writes):
        return None
    relations = _relation(first[1], between), _relation(between, second[1])
    if min(relations) < 0 or max(relations) < 1:
        return None
    own, others = course.by_actor[actor], course.by_actor[other]
    triple = _Triple(own, first[0], second[0], others, place, second[1].writes)
    if first[1].writes and triple.is_one_transaction:
        return None  # B waits for its end, or does not see what it has done
    return None if triple.is_locked_out else triple


def _relation(one: Touch, two: Touch) -> int:
    """1 if both name the same rows, -1 if they name different ones, 0 if that is not known."""
    if one.inserts and two.inserts:
        return 0
    if one.writes and two.writes and (one.inserts or two.inserts):
        return -1  # what changes a row comes after what has made it
    if one.rows is None or two.rows is None:
        return 1
    common = [column for column in one.rows if column in two.rows]
    if any(one.rows[column].isdisjoint(two.rows[column]) for column in common):
        return -1
    return bool(common)


class _Triple(NamedTuple):
    """A's accesses `first` and `second`, and B's access `place` that could come between."""

    own: list[RowAccess]
    first: int
    second: int
    others: list[RowAccess]
    place: int
    is_lost: bool
    """A's second access is a write: what B has done meanwhile may be lost."""

    @property
    def key(self) -> str:
        accesses = self.own[self.first], self.others[self.place], self.own[self.second]
        text = "\n".join(each.about for each in accesses)
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()

    @property
    def is_met(self) -> bool:
        at_ns = self.others[self.place].at_ns
        return self.own[self.first].at_ns < at_ns < self.own[self.second].at_ns

    @property
    def is_one_transaction(self) -> bool:
        """Whether A makes both of its accesses in one."""
        return not any(each.ends for each in self.own[self.first : self.second])

    @property
    def is_locked_out(self) -> bool:
        """By its first access A has locked something until after its second, which B locks as well
        by the time of its own: it cannot come between."""
        if not self.is_one_transaction:
            return False
        begin = _begin_of(self.own, self.first)
        held = [t for each in self.own[begin : self.first + 1] for t in each.touches if t.locks]
        wanted = [
            t for each in self.others[self._begin : self.place + 1] for t in each.touches if t.locks
        ]
        return any(
            one.table == two.table and not (one.inserts or two.inserts) and _relation(one, two) > 0
            for one in held
            for two in wanted
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """The lost update first, then transactions that overlap, then the nearest."""
        begin_ns, end_ns = self.others[self._begin].at_ns, self.others[self._end].at_ns
        own_ns = self.own[_begin_of(self.own, self.first)].at_ns
        overlap = begin_ns < self.own[self.second].at_ns and own_ns < end_ns
        gap_ns = self.others[self.place].at_ns - self.own[self.second].at_ns
        return not self.is_lost, not overlap, abs(gap_ns) // 1_000_000

    @property
    def _begin(self) -> int:
        """Where B's transaction begins."""
        return _begin_of(self.others, self.place)

    @property
    def _end(self) -> int:
        last = min(len(self.others) - 1, self.place + SPAN_MAX)
        return next((n for n in range(self.place, last) if self.others[n].ends), last)

    def edits(self) -> list[Edit]:
        """What lets B's access come between; nothing if that is too far away."""
        is_after = self.others[self.place].at_ns > self.own[self.first].at_ns
        return self._with_late_own() if is_after else self._with_late_other()

    @property
    def _until(self) -> int:
        """The access of A after its first that B should have ended before: from the next one that
        locks something, B may have to wait for A."""
        for number in range(self.first + 1, self.second):
            if any(touch.locks for touch in self.own[number].touches):
                return number
        return self.second

    def _with_late_own(self) -> list[Edit]:
        """B came after: it is quick, and A is late, if need be from the beginning on."""
        until, since_ns = self._until, self.own[self.first].at_ns
        quick = [each for each in self.others[self._begin : self._end + 1] if each.at_ns > since_ns]
        gain_ns = sum(each.gain_ns for each in quick)
        late = self.own[self.first + 1 : until + 1]
        need_ns = self.others[self._end].at_ns - gain_ns - self.own[until].at_ns
        need_ns -= sum(each.late_ns for each in late)
        before = self.own[_begin_of(self.own, self.first) : self.first + 1]
        early, need_ns = _late_enough(before, need_ns)
        return (
            [] if need_ns >= 0 else _timed([*late, *early], late=True) + _timed(quick, late=False)
        )

    def _with_late_other(self) -> list[Edit]:
        """B came before: it is late for its access, A is quick until its first, late from then."""
        begin = self._begin
        quick = [
            each for each in self.own[: self.first + 1] if each.at_ns > self.others[begin].at_ns
        ]
        need_ns = self.own[self.first].at_ns - self.others[self.place].at_ns
        need_ns -= sum(each.gain_ns for each in quick)
        late, need_ns = _late_enough(self.others[begin + 1 : self.place + 1], need_ns)
        if need_ns >= 0:
            return []
        late += self.own[self.first + 1 : self._until + 1]
        quick += self.others[self.place + 1 : self._end + 1]
        return _timed(late, late=True) + _timed(quick, late=False)


def _late_enough(accesses: list[RowAccess], need_ns: int) -> tuple[list[RowAccess], int]:
    """So many of these, the last first, as make up for so much time; and what is missing then."""
    late: list[RowAccess] = []
    for each in reversed(accesses):
        if need_ns < 0:
            break
        late.append(each)
        need_ns -= each.late_ns
    return late, need_ns


def _begin_of(accesses: list[RowAccess], place: int) -> int:
    """Where the transaction begins to which an access belongs."""
    first = max(0, place - SPAN_MAX)
    while place > first and not accesses[place - 1].ends:
        place -= 1
    return place


def _timed(accesses: Iterable[RowAccess], *, late: bool) -> list[Edit]:
    """All of these as late as can be, or as quick."""
    return [(a.stream, draw, a.late if late else 0) for a in accesses for draw in a.draws]
