"""Conflicts that were seen in one order are tried in the other: lost updates that seeds miss."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import foretold
from foretold.kernel.conflicts import Conflicts, RowAccess, Touch, conflicts_of
from foretold.search.planning import reversals
from foretold.search.planning.corpus import Lineage
from foretold.search.planning.reversals import Reversals
from tests.postgres import conflicting

MS = 1_000_000
RUNS = 30
search = partial(foretold.explore, conflicting.lost_vote, runs=RUNS, seed=5, confirm=False)


@pytest.fixture
def picked(monkeypatch: pytest.MonkeyPatch) -> list[Lineage]:
    """The runs of a search that try something the other way round."""
    found: list[Lineage] = []
    pick = Reversals.pick

    def noted(self: Reversals, number: int) -> Lineage:
        found.append(pick(self, number))
        return found[-1]

    monkeypatch.setattr(Reversals, "pick", noted)
    return found


def test_a_race_that_seeds_miss_is_found(picked: list[Lineage]) -> None:
    """The second vote comes when the first is over: an earlier run shows the conflict, the next
    that is due has it the other way round. The failure is told and replayed like any other."""
    outcome = foretold.explore(conflicting.lost_vote, runs=RUNS, seed=5)
    failure = outcome.failure
    assert failure is not None
    assert failure.run == reversals.EVERY
    assert len(picked) == 1
    assert failure.reproduced is True
    assert "votes" in failure.story


def test_without_it_the_race_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search makes the same number of runs and finds nothing."""
    monkeypatch.setattr(Reversals, "is_due", lambda self, number: False)
    assert search().failure is None


@pytest.mark.parametrize("how", [{"workers": 2}, {"isolation": "fork"}], ids=str)
def test_the_same_runs_whoever_makes_them(how: dict[str, Any]) -> None:
    """Workers and forks are told what to try, and tell what they saw."""
    alone, others = search(shrink=False), search(shrink=False, **how)
    assert alone.failure is not None
    assert others.failure is not None
    assert others.failure.run == alone.failure.run
    assert others.failure.changes == alone.failure.changes
    assert others.coverage.reached == alone.coverage.reached


@pytest.mark.parametrize("main", [conflicting.votes_with_lock, conflicting.votes_for_others])
def test_nothing_is_tried_where_nothing_conflicts(
    main: Callable[..., Any], picked: list[Lineage]
) -> None:
    """A lock keeps the two apart, or they touch different rows: no run is spent."""
    assert foretold.explore(main, runs=RUNS, seed=5).failure is None
    assert picked == []


def test_nothing_is_tried_without_feedback(picked: list[Lineage]) -> None:
    """`feedback=False` means: learn nothing from runs."""
    assert search(feedback=False).failure is None
    assert picked == []


def access(
    actor: str, at_ms: int, about: str = "", *, row: str = "1", ends: bool = False
) -> RowAccess:
    """One statement: `r`, `w` or `l` for a read that locks, and any text."""
    touches: tuple[Touch, ...] = ()
    if about:
        rows = {"id": frozenset({row})}
        touches = (Touch("post", about[0] == "w", about[0] in "wl", False, rows),)
    late_ns, stream = 20 * MS, f"session {actor}"
    return RowAccess(actor, at_ms * MS, about, touches, ends, stream, (at_ms,), 5, late_ns, 0)


def course(second: int, *, first: str = "r", row: str = "1") -> list[RowAccess]:
    """A reads and writes and commits; B does so too, so many milliseconds later."""
    own = [access("A", 0, first), access("A", 10, "w"), access("A", 12, ends=True)]
    at = (second, second + 4, second + 5)
    others = [access("B", at[0], first, row=row), access("B", at[1], "w", row=row)]
    return sorted([*own, *others, access("B", at[2], ends=True)], key=lambda each: each.at_ns)


def test_what_is_late_and_what_is_quick() -> None:
    """A is late for its write, B is as quick as it can be: so B's transaction comes between."""
    (found,) = conflicts_of(course(14)).missed
    assert ("session A", 10, 5) in found.edits
    assert {edit for edit in found.edits if edit[0] == "session B"} == {
        ("session B", 14, 0), ("session B", 18, 0), ("session B", 19, 0),
    }  # fmt: skip


def test_what_cannot_be_is_not_tried() -> None:
    """Other rows, a lock that keeps them apart, too far away, only reads."""
    assert conflicts_of(course(14, row="2")).missed == []
    assert conflicts_of(course(14, first="l")).missed == []
    assert conflicts_of(course(500)).missed == []
    reads = [access("A", 0, "r"), access("A", 1, "r again"), access("B", 2, "r")]
    assert conflicts_of(reads).missed == []


def test_calls_of_a_machine_have_to_overlap() -> None:
    """Otherwise the second waits for the first, however late that is."""
    assert conflicts_of(course(14), apart=False).missed == []
    begun = sorted([access("B", 8), *course(14)], key=lambda each: each.at_ns)
    assert conflicts_of(begun, apart=False).missed


def test_what_came_between_by_itself_is_known() -> None:
    """B wrote between A's read and A's write: that order has been seen."""
    conflicts = conflicts_of(course(2))
    assert len(conflicts.met) == 1
    assert conflicts.missed == []


def test_each_conflict_is_tried_a_few_times() -> None:
    """Whether it comes to it or not: then other runs are worth more."""
    known, conflicts, tried = Reversals(), conflicts_of(course(14)), []
    for number in range(1, 200):
        if known.is_due(number):
            lineage = known.pick(number)
            assert lineage.changes[-1] == conflicts.missed[0].edits
            known.note(lineage, conflicts)  # it was in vain: the next comes later
            tried.append(number)
        known.note(Lineage(1, ()), conflicts)
    assert len(tried) == reversals.TRIES_MAX
    gaps = [later - earlier for earlier, later in itertools.pairwise([0, *tried])]
    assert gaps == [reversals.EVERY, reversals.EVERY * reversals.DOUBT, reversals.EVERY_MAX]


def test_a_try_that_comes_to_something_is_followed_by_the_next() -> None:
    """Then the program has actors that do not wait for each other."""
    known, shown, number = Reversals(), conflicts_of(course(14)), reversals.EVERY
    known.note(Lineage(1, ()), shown)
    lineage = known.pick(number)
    known.note(Lineage(2, ()), shown)
    assert not known.is_due(number + reversals.EVERY)
    known.note(lineage, Conflicts(met=[shown.missed[0].key]))
    assert known.is_due(number + reversals.EVERY)
