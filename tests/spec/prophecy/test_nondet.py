"""One model as specification, as fake and as foretold, and the errors that each of them gives."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.kernel.session import session


class Queue:
    """It may lose the newest message, and says nothing about it."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def put(self, item: int) -> None:
        self.items = foretold.either([*self.items, item], self.items)

    def get(self) -> int | None:
        return self.items.pop(0) if self.items else None

    def full(self) -> bool:
        if len(self.items) > 2:
            raise foretold.Refused("full")
        return False


class Permissive:
    """A model that allows everything."""

    def put(self, item: int) -> None: ...

    def get(self) -> int | None:
        return foretold.either(None, 1, 2, 3)


def test_observations_prune_the_states() -> None:
    """Each result rules out what cannot explain it: after two puts and one get the set is what a
    person would write down."""
    spec = foretold.Spec(Queue)
    spec.observe(None, "put", 1)
    spec.observe(None, "put", item=2)
    assert sorted(state.items for state in spec.states) == [[], [1], [1, 2], [2]]
    assert sorted(map(repr, spec.allowed("get"))) == ["1", "2", "None"]
    spec.observe(2, "get")
    assert [state.items for state in spec.states] == [[]]
    assert spec.verdict == "ok"


def test_a_contradiction_says_what_was_allowed() -> None:
    """The message as a user reads it: the observation, what the model allows, what was seen."""
    spec = foretold.Spec(Queue)
    spec.observe(None, "put", 1)
    spec.observe(1, "get")
    with pytest.raises(foretold.Contradiction) as caught:
        spec.observe(7, "get")
    assert str(caught.value) == (
        "get() gave 7\n"
        "the model allows None\n"
        "one state of the model explained all that was seen before:\n"
        "  put(item=1) gave None\n"
        "  get() gave 1"
    )
    assert spec.verdict == "violated"


def test_a_whole_trace_has_to_be_explained() -> None:
    """Each read alone is possible, both together are not: a set of results would not see it."""
    spec = foretold.Spec(Queue)
    spec.observe(None, "put", 1)
    spec.observe(None, "get")
    assert [state.items for state in spec.states] == [[]]
    with pytest.raises(foretold.Contradiction):
        spec.observe(1, "get")


def test_a_refusal_is_an_observation() -> None:
    """A model that refuses is seen to refuse."""
    spec = foretold.Spec(Queue)
    for item in range(3):
        spec.observe(None, "put", item)
    spec.observe(foretold.Refused("full"), "full")
    assert [state.items for state in spec.states] == [[0, 1, 2]]


def test_beyond_its_budget_a_specification_claims_nothing() -> None:
    """The verdict is unknown, never ok, and what contradicts later is not judged any more."""
    spec = foretold.Spec(Queue, budget=20)
    for item in range(10):
        spec.observe(None, "put", item)
    assert spec.verdict == "unknown"
    spec.observe("nonsense", "get")
    assert spec.verdict == "unknown"


def test_the_tape_decides_in_a_fake() -> None:
    """The calm tape takes the first option, and over some seeds both happen, as often as not."""

    def main() -> Any:
        queue = foretold.Fake(Queue)
        queue.put(1)
        return queue.get()

    assert foretold.run(main, tape=foretold.Tape.calm()).value == 1
    with session():
        got = Counter(foretold.run(main, seed=seed).value for seed in range(40))
    assert set(got) == {1, None}
    assert min(got.values()) > 8


def test_a_fake_shrinks_to_what_matters() -> None:
    """The failing branch is one choice on the tape: all others are the calm ones."""

    def main() -> None:
        queue = foretold.Fake(Queue)
        for item in range(6):
            queue.put(item)
        assert [queue.get() for _ in range(6)][4] in (4, 5)

    failure = foretold.explore(main, runs=50, seed=1, confirm=False).failure
    assert failure is not None
    drawn = [c.value for name, cs in failure.tape.choices.items() if "fake" in name for c in cs]
    assert sum(drawn) == 2


def test_what_is_foretold_decides_and_must_be_needed() -> None:
    """In the foretold use the numbers decide; too few, too many and out of range are errors."""
    queue = foretold.Fake(Queue, foretold=[0, 1])
    queue.put(1)
    queue.put(2)
    assert queue.items == [1]
    queue.fulfilled()
    with pytest.raises(foretold.Unforeseen, match="nothing more is foretold: 2 choices were"):
        queue.put(3)
    with pytest.raises(foretold.UsageError, match="whole number from 0 to 1"):
        foretold.Fake(Queue, foretold=[2]).put(1)
    with pytest.raises(foretold.Unfulfilled, match=r"\[1\] was foretold for Queue"):
        foretold.Fake(Queue, foretold=[1]).fulfilled()


def test_either_without_anybody_who_decides() -> None:
    """Called directly a model cannot know which use it is in: the error shows what to write."""
    with pytest.raises(foretold.UsageError, match=r"foretold\.Spec\(model\)"):
        Queue().put(1)
    with pytest.raises(foretold.UsageError, match="there is no run here"):
        foretold.Fake(Queue).put(1)
    with pytest.raises(foretold.UsageError, match="has no method 'gett'"):
        foretold.Spec(Queue).observe(1, "gett")


# ---------------------------------------------------------------- one thing with machines


class LossyMachine(foretold.Machine):
    """A queue that loses each third message; the model says that it may."""

    actors = 2
    model = Queue
    steps = 12
    invents = False

    def __init__(self) -> None:
        self.items: list[int] = []
        self.puts = 0

    @foretold.rule(item=st.integers(1, 3))
    async def put(self, item: int) -> None:
        self.puts += 1
        if self.puts % 3:
            self.items.append(item)

    @foretold.rule()
    async def get(self) -> int | None:
        if not self.items:
            return 9 if self.invents else None
        return self.items.pop(0)


class Invents(LossyMachine):
    """It gives what nobody has put there."""

    invents = True


def test_a_model_with_either_beside_a_machine() -> None:
    """The same model judges a machine, calls that overlap included: losing is allowed, inventing is
    found."""
    assert foretold.explore(LossyMachine, runs=60, seed=1).failure is None
    failure = foretold.explore(Invents, runs=60, seed=1, confirm=False).failure
    assert failure is not None
    assert "get() gave 9" in str(failure.exception)


def test_a_history_is_explained_by_a_model_with_either() -> None:
    """The linearizability checker takes the same model: each branch is one more next state."""
    lost = [
        foretold.Operation("a", "put", {"item": 1}, 0, 1, None),
        foretold.Operation("b", "get", {}, 2, 3, None),
    ]
    assert foretold.linearizable(lost, Queue).word == "ok"
    invented = [*lost[:1], foretold.Operation("b", "get", {}, 2, 3, 5)]
    verdict = foretold.linearizable(invented, Queue)
    assert verdict.word == "violated"
    assert set(verdict.allowed) == {1, None}


# ---------------------------------------------------------------- models that look around


class Looks:
    """A model whose step asks for what is no argument of it."""

    how: Any = staticmethod(time.time)

    def step(self) -> None:
        self.how()


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (time.time, "the time"),
        (time.monotonic, "the time"),
        (random.random, "randomness"),
        (lambda: random.SystemRandom().random(), "randomness"),
        (lambda: foretold.choose([1, 2]), "the world"),
        (foretold.current_world, "the world"),
        (lambda: asyncio.get_running_loop().time(), "the time"),
        (lambda: time.sleep(1), r"time to pass \(it sleeps\)"),
    ],
)
def test_a_model_that_looks_around_is_refused(how: Any, what: str) -> None:
    """A model is a function of its state and arguments: whatever else it asks for is an error of
    the test, and says so."""

    class Machine(foretold.Machine):
        model = type("Model", (Looks,), {"how": staticmethod(how)})
        steps = 3

        @foretold.rule()
        def step(self) -> None: ...

    with pytest.raises(foretold.ModelLooksAround, match=f"the model asks for {what}"):
        foretold.explore(Machine, runs=3, seed=1)


# ---------------------------------------------------------------- conformance


class RealQueue:
    """A queue that holds two."""

    def __init__(self) -> None:
        self.items: list[int] = []

    async def put(self, item: int) -> None:
        if len(self.items) < 2:
            self.items.append(item)

    def get(self) -> int | None:
        return self.items.pop(0) if self.items else None


PROGRAMS: dict[str, Any] = {
    "two writers": {"a": [("put", 1), ("put", 3)], "b": [("put", 2), ("get",)]}
}


def test_a_queue_conforms_in_every_order() -> None:
    """All orders are run: two actors with two calls each have six. What the model allows and no
    order shows is listed."""
    found = foretold.conform(RealQueue, Queue, PROGRAMS)
    assert found, str(found)
    assert found.schedules == 6
    assert "two writers: b get() → None" in found.never_seen
    assert not found.is_tight
    assert str(found).startswith("6 schedules of 1 programs: all conform\nmodelled and never seen")


def test_a_permissive_model_is_not_tight() -> None:
    """A model that allows everything conforms; the list of what was never seen gives it away."""
    found = foretold.conform(RealQueue, Permissive, PROGRAMS)
    assert found
    assert len(found.never_seen) == 2
    assert foretold.conform(RealQueue, ExactQueue, PROGRAMS).is_tight


class ExactQueue(Queue):
    """What `RealQueue` does, exactly."""

    def put(self, item: int) -> None:
        if len(self.items) < 2:
            self.items.append(item)


def test_a_wrong_model_is_refuted_with_its_schedule() -> None:
    """The report has the order of the calls and the observation that no state allows."""

    class NeverLoses(Queue):
        def put(self, item: int) -> None:
            self.items.append(item)

        def state(self) -> list[int]:
            return self.items

    class Shown(RealQueue):
        def state(self) -> list[int]:
            return self.items

    found = foretold.conform(lambda world: Shown(), NeverLoses, [PROGRAMS["two writers"]])
    assert not found
    assert found.word == "violated"
    text = str(found)
    assert "the model does not conform, after 1 schedules of 1 programs: program 1" in text
    assert "  a: put(3) gave None\n" in text
    assert "state() gave [3]\nthe model allows [3, 2]" in text


def test_too_many_orders_are_unknown() -> None:
    """A bound on schedules is honest: the verdict is unknown."""
    found = foretold.conform(RealQueue, Queue, PROGRAMS, schedules=5)
    assert not found
    assert found.word == "unknown"
    assert "unknown (two writers has more than 5 schedules)" in str(found)


def test_a_budget_that_is_used_up_is_unknown() -> None:
    """The verdict is unknown, never that all conform."""
    found = foretold.conform(RealQueue, Queue, PROGRAMS, budget=8)
    assert not found
    assert found.word == "unknown"
    assert "unknown (the model's budget was used up in two writers)" in str(found)


def test_the_first_contradiction_is_the_report() -> None:
    """A program that conforms after one that does not changes nothing about the verdict."""
    wrong: dict[str, Any] = {
        "wrong": {"a": [("put", 1), ("put", 2), ("put", 3), ("get",), ("get",), ("get",)]},
        "right": {"a": [("get",)]},
    }

    class NeverLoses(Queue):
        def put(self, item: int) -> None:
            self.items.append(item)

    found = foretold.conform(RealQueue, NeverLoses, wrong)
    assert (found.word, found.program, found.programs) == ("violated", "wrong", 1)


@pytest.mark.parametrize("wrong", [{"a": ["put"]}, {"a": [("push", 1)]}, {}, [[]]])
def test_programs_are_checked_before_anything_runs(wrong: Any) -> None:
    """A program that cannot be run is refused with a sentence."""
    with pytest.raises(foretold.UsageError, match="conform: "):
        foretold.conform(RealQueue, Queue, {"p": wrong} if isinstance(wrong, dict) else wrong)
