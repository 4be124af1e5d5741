"""The schedulers by themselves: a pool goes in, every member comes out once, and choosing is cheap.

What their choices look like from a program is in `test_loop.py`; that each of them can be written
down as holds is in `test_recorder.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.kernel.actors import Register, Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers import SCHEDULERS, Scheduler, scheduler_named
from foretold.kernel.schedulers.by_key import HELD_PICKS_MAX, KeyedScheduler
from foretold.kernel.schedulers.delays import LENGTHS
from foretold.kernel.schedulers.fair import FAIR_AFTER_HORIZONS
from foretold.kernel.schedulers.pct import CHANGES_MAX, HORIZONS
from foretold.tape import CALLBACKS, ENDED, Hold

SEEDED = settings(max_examples=100, derandomize=True, deadline=None, database=None)


class Counted(int):
    """A number that counts how often numbers were compared."""

    comparisons = 0

    def __lt__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int.__lt__(self, cast("int", other))

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int.__eq__(self, cast("int", other))

    __hash__ = int.__hash__


class Ready:
    """As much of a handle as a scheduler looks at."""

    def __init__(self, actor: Stepper, arrival: int, since_ns: int = 0) -> None:
        self.actor = actor
        self.arrival = arrival
        self.held_since_ns = since_ns


def ready(name: str, arrival: int) -> AnyHandle:
    """Someone who has just become ready."""
    return cast("AnyHandle", Ready(Stepper(name), arrival))


def keyed(holds: list[Hold] | None = None, **how: Any) -> tuple[KeyedScheduler, Register, Stepper]:
    """A scheduler for replay with these holds, on the host `main`."""
    register, callbacks = Register(), Stepper(CALLBACKS)
    by_key = {(hold.actor, hold.step): hold for hold in holds or ()}
    return KeyedScheduler(by_key, register, callbacks, **how), register, callbacks


def all_kinds(seed: int) -> Iterator[tuple[str, Scheduler]]:
    """One scheduler of each kind."""
    for name in SCHEDULERS:
        yield name, scheduler_named(name, random.Random(seed))
    yield "by key", keyed()[0]


# --- nobody is lost --------------------------------------------------------------------------


@SEEDED
@given(st.integers(0, 1000), st.lists(st.sampled_from(["add", "pick", "callback"]), max_size=80))
def test_every_member_comes_out_once(seed: int, moves: list[str]) -> None:
    """Whatever the order of arrivals and picks: who went in comes out, once, and nobody else."""
    for name, scheduler in all_kinds(seed):
        inside, out = set[int](), list[int]()
        arrivals = iter(range(1, 1000))
        for move in [*moves, *["pick"] * len(moves)]:
            if move == "add":
                arrival = next(arrivals)
                inside.add(arrival)
                scheduler.add(ready(f"a{arrival}", arrival))
            else:
                offered = ready("callback", next(arrivals)) if move == "callback" else None
                if not inside and offered is None:
                    continue  # the loop does not ask then
                chosen = scheduler.pick(offered)
                assert chosen is not None, name
                if chosen is not offered:
                    out.append(chosen.arrival)
                    inside.remove(chosen.arrival)
            assert scheduler.size == len(inside), name
        assert not inside, name
        assert len(out) == len(set(out)) == moves.count("add"), name


@SEEDED
@given(st.integers(0, 1000), st.integers(0, 30))
def test_a_drained_pool_is_empty(seed: int, count: int) -> None:
    """Another loop of the host begins to run: it gets all that was ready, in order of arrival."""
    for name, scheduler in all_kinds(seed):
        for arrival in range(count):
            scheduler.add(ready(f"a{arrival}", arrival))
        assert [handle.arrival for handle in scheduler.drain()] == list(range(count)), name
        assert scheduler.size == 0, name


def test_an_unknown_name_is_refused() -> None:
    """The error names those that there are."""
    with pytest.raises(UsageError, match=r"no scheduler 'fair'; known are fifo, random, pct, del"):
        scheduler_named("fair", random.Random(0))


def test_decisions_are_counted() -> None:
    """One candidate alone is no decision; a search that never decides explores nothing."""
    for name, scheduler in all_kinds(1):
        scheduler.add(ready("a", 1))
        scheduler.pick(None)
        assert scheduler.decisions == 0, name
        scheduler.add(ready("a", 2))
        scheduler.add(ready("b", 3))
        scheduler.pick(None)
        assert scheduler.decisions == 1, name


# --- each in its own way ---------------------------------------------------------------------


def order_of(scheduler: Scheduler, count: int) -> list[int]:
    """The order in which so many leave who were all ready from the start."""
    for arrival in range(count):
        scheduler.add(ready(f"a{arrival}", arrival))
    return [cast("AnyHandle", scheduler.pick(None)).arrival for _ in range(count)]


def test_fifo_is_calm() -> None:
    """First come, first served; so is replay without any hold."""
    assert order_of(scheduler_named("fifo", random.Random(1)), 9) == list(range(9))
    assert order_of(keyed()[0], 9) == list(range(9))


def test_random_reaches_every_order() -> None:
    """All 24 orders of four appear, and about equally often."""
    orders = [tuple(order_of(scheduler_named("random", random.Random(n)), 4)) for n in range(2400)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 24
    assert min(counts) > 50


def test_pct_keeps_its_priorities() -> None:
    """The same two actors, ready again and again: one wins nearly always, until it turns fair."""
    unfair = 0
    for seed in range(50):
        scheduler = scheduler_named("pct", random.Random(seed))
        a, b = Stepper("a"), Stepper("b")
        winners: list[str] = []
        scheduler.add(cast("AnyHandle", Ready(a, 1)))
        for arrival in range(2, 40):
            scheduler.add(cast("AnyHandle", Ready(b if len(winners) % 2 == 0 else a, arrival)))
            chosen = cast("AnyHandle", scheduler.pick(None))
            winners.append(chosen.actor.name)
        unfair += len(set(winners)) <= CHANGES_MAX + 1
    assert unfair == 50


def test_pct_turns_fair() -> None:
    """After its horizon nobody is passed over any more: first come, first served."""
    for seed in range(20):
        scheduler = scheduler_named("pct", random.Random(seed))
        actors = [Stepper(f"a{number}") for number in range(3)]
        for arrival, actor in enumerate(actors):
            scheduler.add(cast("AnyHandle", Ready(actor, arrival)))
        for arrival in range(3, FAIR_AFTER_HORIZONS * max(HORIZONS) + 300):
            chosen = cast("AnyHandle", scheduler.pick(None))
            scheduler.add(cast("AnyHandle", Ready(chosen.actor, arrival)))
        last = arrival
        order = []
        for _ in range(9):
            chosen = cast("AnyHandle", scheduler.pick(None))
            order.append(chosen.actor)
            last += 1
            scheduler.add(cast("AnyHandle", Ready(chosen.actor, last)))
        assert order[:3] == order[3:6] == order[6:]
        assert len(set(order)) == 3


def test_delays_hold_a_few() -> None:
    """Mostly first come, first served; now and then one falls behind, but not for ever."""
    displaced = 0
    for seed in range(100):
        order = order_of(scheduler_named("delays", random.Random(seed)), 300)
        late = [n for position, n in enumerate(order) if position - n > 1]
        assert len(late) <= 6
        assert all(order.index(n) - n <= max(LENGTHS) + 6 for n in late)
        displaced += bool(late)
    assert displaced > 60


# --- replay ----------------------------------------------------------------------------------


def test_a_hold_ends_with_the_step_it_waits_for() -> None:
    """`a` is held before its first step until `b` has made its second."""
    scheduler, register, _ = keyed([Hold("main", "a", 1, "b", 2)])
    a, b = register.enrol("a"), register.enrol("b")
    order = []
    scheduler.add(cast("AnyHandle", Ready(a, 1)))
    for arrival in (2, 3, 4):
        scheduler.add(cast("AnyHandle", Ready(b, arrival)))
        chosen = cast("AnyHandle", scheduler.pick(None))
        chosen.actor.steps += 1
        order.append(chosen.actor.name)
    assert order == ["b", "b", "a"]
    assert scheduler.broken_holds == 0


@pytest.mark.parametrize("ends", [True, False])
def test_a_hold_ends_with_the_actor(ends: bool) -> None:
    """Who ended will make no further step: whatever of it was waited for, the hold is over."""
    scheduler, register, _ = keyed([Hold("main", "a", 1, "b", ENDED if ends else 99)])
    a, b = register.enrol("a"), register.enrol("b")
    scheduler.add(cast("AnyHandle", Ready(a, 1)))
    scheduler.add(cast("AnyHandle", Ready(b, 2)))
    assert cast("AnyHandle", scheduler.pick(None)).actor is b
    assert scheduler.pick(None) is None
    scheduler.add(cast("AnyHandle", Ready(b, 3)))
    assert cast("AnyHandle", scheduler.pick(None)).actor is b
    b.ended = True
    assert cast("AnyHandle", scheduler.pick(None)).actor is a


def test_a_hold_that_cannot_end_is_broken() -> None:
    """It waits for somebody who never comes: it is given up when nothing else can run."""
    scheduler, register, _ = keyed([Hold("main", "a", 1, "nobody", 1)])
    scheduler.add(cast("AnyHandle", Ready(register.enrol("a"), 1, since_ns=7)))
    assert scheduler.pick(None) is None
    assert scheduler.held_since_ns() == 7
    assert scheduler.release_held()
    assert scheduler.broken_holds == 1
    assert cast("AnyHandle", scheduler.pick(None)).actor.name == "a"
    assert not scheduler.release_held()


def test_a_derived_hold_does_not_last_for_ever() -> None:
    """`b` polls until `a` has done something, and the tape says that `a` waits for the end of `b`:
    after many turns the hold is given up. In a recording such a thing cannot be."""
    for recorded in (False, True):
        scheduler, register, _ = keyed([Hold("main", "a", 1, "b", ENDED)], recorded=recorded)
        a, b = register.enrol("a"), register.enrol("b")
        scheduler.add(cast("AnyHandle", Ready(a, 1)))
        turns, arrival = 0, 2
        while turns < HELD_PICKS_MAX + 2_000:
            scheduler.add(cast("AnyHandle", Ready(b, arrival)))
            if cast("AnyHandle", scheduler.pick(None)).actor is a:
                break
            turns, arrival = turns + 1, arrival + 1
        assert (turns < HELD_PICKS_MAX + 2_000) is not recorded


# --- cost ------------------------------------------------------------------------------------


def comparisons_per_step(make: Callable[[], Scheduler], waiting: int, steps: int = 400) -> float:
    """Comparisons for each pick and add, while so many are ready."""
    scheduler = make()
    arrivals = iter(range(10**9))
    for number in range(waiting):
        scheduler.add(ready(f"a{number}", Counted(next(arrivals))))
    Counted.comparisons = 0
    for _ in range(steps):
        chosen = cast("AnyHandle", scheduler.pick(None))
        chosen.arrival = Counted(next(arrivals))
        scheduler.add(chosen)
    return Counted.comparisons / steps


@pytest.mark.parametrize("name", SCHEDULERS)
def test_choosing_does_not_slow_down_with_the_number_of_tasks(name: str) -> None:
    """From ten ready tasks to ten thousand, the work for a step grows with the logarithm at most.

    Counted in comparisons of arrival numbers, not in seconds.
    """
    few = comparisons_per_step(lambda: scheduler_named(name, random.Random(3)), 10)
    many = comparisons_per_step(lambda: scheduler_named(name, random.Random(3)), 10_000)
    assert few <= 40
    assert many <= 120


def test_replay_does_not_slow_down_with_the_number_of_holds() -> None:
    """Ten thousand tasks that are all held, each until another step of one actor: a step of that
    actor costs what it costs to release those whose time has come."""

    def run(waiting: int) -> float:
        holds = [Hold("main", f"a{n}", 1, "b", n + 1) for n in range(waiting)]
        scheduler, register, _ = keyed(holds)
        for number in range(waiting):
            handle = Ready(register.enrol(f"a{number}"), Counted(number))
            scheduler.add(cast("AnyHandle", handle))
        b, steps = register.enrol("b"), min(waiting, 300)
        Counted.comparisons = 0
        for step in range(steps):
            scheduler.add(cast("AnyHandle", Ready(b, Counted(waiting + step))))
            while cast("AnyHandle", scheduler.pick(None)).actor is not b:
                pass
            b.steps += 1
        return Counted.comparisons / steps

    assert run(10_000) <= 12 * max(run(10), 8)
