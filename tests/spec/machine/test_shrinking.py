"""Shrunk programs are short: no longer than those that Hypothesis finds for the same machine."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

import foretold
from foretold.search.failures import shorter
from foretold.tape import Choice, Tape
from foretold.tape.shrink.calls import drop_two_calls, first_actors_first, move_faults, slots_of
from tests.helpers import soak
from tests.spec.machine import programs

CLASSICS: dict[str, tuple[type[foretold.Machine], Any, int]] = {
    "jugs": (programs.DieHard, programs.HypothesisDieHard, 6),
    "store": (programs.StoreComparison, programs.HypothesisStoreComparison, 6),
    "trees": (programs.BalancedTrees, programs.HypothesisBalancedTrees, 5),
}
"""The machine, the same for Hypothesis, and how many calls its shortest program has."""


def calls_of(failure: foretold.Failure | None) -> int:
    """How many calls the program of a failure has."""
    assert failure is not None
    found = re.match(r"The program, (\d+) call", failure.story)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("seed", [5_000, soak(6_000), soak(7_000)])
@pytest.mark.parametrize("name", CLASSICS)
def test_the_shortest_program_is_found(name: str, seed: int) -> None:
    """From several seeds, the shortest program that there is."""
    cls, _, shortest = CLASSICS[name]
    failure = foretold.explore(cls, runs=2_000, seed=seed, confirm=False).failure
    assert calls_of(failure) == shortest


@pytest.mark.parametrize("name", [soak(name) for name in CLASSICS])
def test_hypothesis_finds_no_shorter_one(name: str) -> None:
    """Hypothesis comes to the same verdict, and its program has no fewer calls."""
    _, theirs, shortest = CLASSICS[name]
    settings = hypothesis.settings(
        max_examples=20_000,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    with pytest.raises(AssertionError) as raised:
        stateful.run_state_machine_as_test(theirs, settings=settings)
    told = "\n".join(getattr(raised.value, "__notes__", []))
    theirs_printed = len(re.findall(r"state\.(?!teardown)\w+\(", told))
    assert theirs_printed >= shortest


# ---------------------------------------------------------------- single passes


def slot(*values: int, label: str = "rule") -> list[Choice]:
    """The stream of a slot in which there is a call."""
    return [Choice(1, 2, "call"), *(Choice(value, 10, label) for value in values)]


def test_two_calls_go_together() -> None:
    """Neither can go alone: a door that is opened must be shut. Both can."""
    tape = Tape.calm().derived(choices={f"machine/{n}": slot(n) for n in (2, 5, 7)})

    def still_fails(candidate: Tape) -> bool:
        return 7 in slots_of(candidate) and len(slots_of(candidate)) % 2 == 1

    assert slots_of(drop_two_calls(tape, still_fails)) == [7]


def test_a_fault_moves_to_the_call_that_matters() -> None:
    """The call that it came with goes, the next one has it, at another moment."""
    fault = [Choice(1, 2, "strikes"), Choice(3, 5, "kind"), Choice(0, 10, "after the call")]
    tape = Tape.calm().derived(
        choices={"machine/1": slot(1), "machine/4": slot(2), "fault/call/1": fault}
    )

    def still_fails(candidate: Tape) -> bool:
        moved = candidate.choices.get("fault/call/4", ())
        at_first = "fault/call/1" in candidate.choices and 1 in slots_of(candidate)
        return at_first or (len(moved) == 3 and moved[2].value == 2)

    smaller = move_faults(tape, still_fails)
    assert slots_of(smaller) == [4]
    assert [choice.value for choice in smaller.choices["fault/call/4"]] == [1, 3, 2]


def test_the_first_to_act_is_the_first_actor() -> None:
    """Which of three equal actors it was does not matter, that there are two does."""
    third, first = ([Choice(1, 2, "call"), Choice(number, 3, "actor")] for number in (2, 0))
    tape = Tape.calm().derived(choices={"machine/3": third, "machine/5": first})

    def actors(candidate: Tape) -> list[int]:
        slots = [candidate.choices.get(name, ()) for name in ("machine/3", "machine/5")]
        return [entries[1].value if len(entries) > 1 else 0 for entries in slots]

    def still_fails(candidate: Tape) -> bool:
        return len(set(actors(candidate))) == 2

    assert actors(tape) == [2, 0]
    assert actors(first_actors_first(tape, still_fails)) == [0, 1]


@pytest.mark.parametrize("seed", [0, soak(1_000), soak(2_000)])
def test_references_survive_when_calls_go(seed: int) -> None:
    """Which value of a bundle is meant does not depend on the calls that are left out: whatever
    was made in between goes, whoever made what is used stays."""

    class Chain(foretold.Machine):
        steps = 40
        made = foretold.Bundle[int]("made")

        def __init__(self) -> None:
            self.next = 0

        @foretold.rule(target=made)
        def make(self) -> int:
            self.next += 1
            return self.next

        @foretold.rule(target=made, one=made, other=made)
        def join(self, one: int, other: int) -> int:
            assert abs(one - other) < 100 or one + other < 300
            return one + other + 60

    failure = foretold.explore(Chain, runs=1_000, seed=seed, confirm=False).failure
    assert calls_of(failure) <= 6


def test_what_two_calls_have_in_common_is_lowered_together() -> None:
    """Two calls about one item end with the first item there is."""

    class Takes(foretold.Machine):
        def __init__(self) -> None:
            self.seen: list[int] = []

        @foretold.rule(item=st.integers(1, 9))
        def take(self, item: int) -> None:
            assert item not in self.seen, "taken twice"
            self.seen.append(item)

    failure = foretold.explore(Takes, runs=100, confirm=False).failure
    assert failure is not None
    assert failure.story[failure.story.index("The program, ") :].splitlines()[1:3] == [
        "  take(item=1)",
        "  take(item=1)  # fails: AssertionError: taken twice",
    ]


class Busy(foretold.Machine):
    """Which calls meet hangs on how long all the others have taken."""

    actors = 4
    steps = 40

    def __init__(self) -> None:
        self.total = self.added = 0

    @foretold.rule()
    async def think(self) -> None:
        for _ in range(3):
            await asyncio.sleep(random.random() / 50)

    @foretold.rule()
    async def add(self) -> None:
        await asyncio.sleep(random.random() / 50)
        seen = self.total
        await asyncio.sleep(0.0003)
        self.total = seen + 1
        self.added += 1

    @foretold.invariant()
    def none_is_lost(self) -> None:
        assert self.total == self.added or self.added < 6


def test_the_last_calls_are_tried_in_other_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race among forty calls is told by the few that it takes, with few runs."""

    def told(seed: int) -> int:
        found = foretold.explore(Busy, runs=500, seed=seed, confirm=False, shrink_runs=60).failure
        assert found is not None
        assert found.shrink_runs <= 60
        return calls_of(found)

    with_them = [told(seed) for seed in (0, 3, 4)]
    monkeypatch.setattr(shorter, "LAST_CALLS", ())
    assert max(with_them) < min(told(seed) for seed in (0, 3, 4))
