"""Any schedule can be written as holds, and the holds give it back.

The recorder's docstring proves it; here the proof is tried: random arrivals and picks, a replay by
the plain rule "the first arrival that is not held", and nothing else in common.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.kernel.actors import Stepper
from foretold.kernel.recorder import HoldRecorder
from foretold.tape import Hold, Schedule

SEEDED = settings(max_examples=300, derandomize=True, deadline=None, database=None)


class Step(NamedTuple):
    """A step that became ready: whose it is, and its place in the order of arrival."""

    arrival: int
    actor: Stepper


def random_run(seed: int, actors: int) -> tuple[list[Step], Schedule]:
    """Steps picked at random, each followed by the arrival of others; and what was written."""
    generator = random.Random(seed)
    schedule = Schedule()
    recorder = HoldRecorder("main", schedule)
    everyone = [Stepper(f"a{number}") for number in range(actors)]
    asleep, pool, picked, arrival = list(everyone), list[Step](), list[Step](), 0
    for _ in range(60):
        for actor in generator.sample(asleep, generator.randint(0, min(2, len(asleep)))):
            asleep.remove(actor)
            arrival += 1
            pool.append(Step(arrival, actor))
        if not pool:
            continue
        step = pool.pop(generator.randrange(len(pool)))
        step.actor.steps += 1
        recorder.picked(step.arrival, step.actor, can_be_held=True)
        picked.append(step)
        asleep.append(step.actor)
    return picked, schedule


def replayed(picked: list[Step], schedule: Schedule) -> list[int]:
    """The order that the holds give, if steps become ready as they did, told by arrival."""
    made: dict[str, int] = {}
    order: list[int] = []

    def held(step: Step) -> bool:
        key = ("main", step.actor.name, made.get(step.actor.name, 0) + 1)
        hold = schedule.holds.get(key)
        return hold is not None and made.get(hold.until_actor, 0) < hold.until_step

    # A step is ready at its pick, at the latest; and since arrivals come in order, so are all
    # that arrived before it.
    known, waiting = 0, list[Step]()
    by_arrival = sorted(picked)
    for step in picked:
        while known < len(by_arrival) and by_arrival[known].arrival <= step.arrival:
            waiting.append(by_arrival[known])
            known += 1
        free = next(one for one in waiting if not held(one))
        waiting.remove(free)
        made[free.actor.name] = made.get(free.actor.name, 0) + 1
        order.append(free.arrival)
    return order


@SEEDED
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_holds_give_the_schedule_back(seed: int, actors: int) -> None:
    """For random arrivals and picks, replay by holds alone repeats every pick."""
    picked, schedule = random_run(seed, actors)
    assert replayed(picked, schedule) == [step.arrival for step in picked]


def picks(*arrivals: int) -> list[Hold]:
    """What is written if actors a1, a2 … arrive in this order of numbers and are picked so."""
    schedule = Schedule()
    recorder = HoldRecorder("main", schedule)
    for arrival in arrivals:
        actor = Stepper(f"a{arrival}")
        actor.steps = 1
        recorder.picked(arrival, actor, can_be_held=True)
    return list(schedule.holds.values())


def test_the_calm_order_needs_no_words() -> None:
    """First come, first served writes nothing: the calm run is the empty schedule."""
    assert picks(1, 2, 3, 4, 5) == []


def test_only_who_was_overtaken_is_held() -> None:
    """One sentence for each, and it names the last who overtook, not all of them."""
    assert picks(2, 3, 1, 4) == [Hold("main", "a1", 1, "a3", 1)]
    assert picks(3, 1, 2) == [Hold("main", "a1", 1, "a3", 1), Hold("main", "a2", 1, "a3", 1)]
    assert picks(3, 1, 4, 2) == [Hold("main", "a1", 1, "a3", 1), Hold("main", "a2", 1, "a4", 1)]


def test_callbacks_overtake_but_are_not_held() -> None:
    """Tasks are held until a callback has run; a callback itself waits for nobody."""
    schedule = Schedule()
    recorder = HoldRecorder("main", schedule)
    task, callbacks = Stepper("task"), Stepper("(callbacks)")
    callbacks.steps = 7
    recorder.picked(2, callbacks, can_be_held=False)
    recorder.picked(1, callbacks, can_be_held=False)
    task.steps = 1
    recorder.picked(0, task, can_be_held=True)
    assert list(schedule.holds.values()) == [Hold("main", "task", 1, "(callbacks)", 7)]


def test_what_is_remembered_does_not_grow() -> None:
    """In calm order each pick outdoes all before it; only one has to be remembered."""
    recorder = HoldRecorder("main", Schedule())
    actor = Stepper("a")
    for arrival in range(1, 5_000):
        recorder.picked(arrival, actor, can_be_held=True)
    assert len(recorder._picks) == len(recorder._arrivals_negated) == 1
