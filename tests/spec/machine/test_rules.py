"""Rules, bundles, preconditions and initialize mean what they mean in Hypothesis."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import foretold


def machine(**members: Any) -> type[foretold.Machine]:
    """A class of its own, so that nothing is left from another test."""
    return type("Made", (foretold.Machine,), members)


def seen_in_runs(cls: type[foretold.Machine], log: list[Any], runs: int = 20) -> list[list[Any]]:
    """What each of some runs has put into the log."""
    found = []
    for seed in range(runs):
        log.clear()
        foretold.run(cls, seed=seed)
        found.append(list(log))
    return found


def test_steps_are_an_upper_bound_and_the_calm_tape_does_nothing() -> None:
    """Runs differ in length, none is longer than said; on the all-zero tape nobody acts."""
    log: list[int] = []

    class Counts(foretold.Machine):
        steps = 12

        @foretold.rule()
        def step(self) -> None:
            log.append(1)

    lengths = [len(each) for each in seen_in_runs(Counts, log, 40)]
    assert max(lengths) == 12
    assert len(set(lengths)) > 3
    log.clear()
    foretold.run(Counts, tape=foretold.Tape.calm())
    assert log == []


def test_a_new_object_for_each_run() -> None:
    """What one run leaves on self is not there in the next; the world is, before __init__ ends."""
    worlds = []

    class Fresh(foretold.Machine):
        def __init__(self) -> None:
            self.seen = 0
            worlds.append(self.world)

        @foretold.rule()
        def step(self) -> None:
            self.seen += 1
            assert self.seen <= self.steps
            assert self.world is foretold.current_world()

    for seed in range(5):
        foretold.run(Fresh, seed=seed)
    assert len(set(map(id, worlds))) >= 1
    assert len(worlds) == 5


def test_arguments_come_from_strategies() -> None:
    """Each argument is a value of its strategy, and runs differ."""
    log: list[Any] = []

    @foretold.rule(n=st.integers(3, 9), text=st.sampled_from("ab"))
    def step(self: Any, n: int, text: str) -> None:
        log.append((n, text))

    runs = seen_in_runs(machine(step=step), log)
    values = {value for each in runs for value in each}
    assert {n for n, _ in values} == set(range(3, 10))
    assert {text for _, text in values} == {"a", "b"}


@st.composite
def pairs(draw: Any) -> tuple[int, int]:
    """Two numbers, the second one larger."""
    first = draw(st.integers(0, 9))
    return first, draw(st.integers(first + 1, first + 5))


ANY_STRATEGIES: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "composite": (pairs(), lambda v: v[0] < v[1]),
    "flatmap": (
        st.integers(1, 3).flatmap(lambda n: st.lists(st.none(), min_size=n, max_size=n)),
        lambda v: 1 <= len(v) <= 3,
    ),
    "filter": (st.integers(0, 100).filter(lambda n: n % 2), lambda v: v % 2 == 1),
    "builds": (st.builds(complex, st.integers(0, 2)), lambda v: isinstance(v, complex)),
    "recursive": (
        st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2)),
        lambda v: v is None or isinstance(v, list),
    ),
    "text": (st.text(max_size=5), lambda v: isinstance(v, str)),
    "uuids": (st.uuids(), lambda v: isinstance(v, uuid.UUID)),
    "deferred": (st.deferred(lambda: st.booleans()), lambda v: v in (True, False)),
}


@pytest.mark.parametrize("name", ANY_STRATEGIES)
def test_every_strategy_is_an_argument(name: str) -> None:
    """What Hypothesis can describe a rule can get; the same seed gives the same values."""
    strategy, is_right = ANY_STRATEGIES[name]
    log: list[Any] = []

    @foretold.rule(value=strategy)
    def step(self: Any, value: Any) -> None:
        log.append(value)

    runs = seen_in_runs(machine(step=step), log, 5)
    assert all(is_right(value) for each in runs for value in each)
    assert seen_in_runs(machine(step=step), log, 5) == runs


def test_data_draws_in_the_middle_of_an_async_rule() -> None:
    """`st.data()` draws from the call's own stream, also after an await."""
    log: list[int] = []

    class Draws(foretold.Machine):
        actors = 2

        @foretold.rule(data=st.data())
        async def step(self, data: Any) -> None:
            log.append(data.draw(st.integers(0, 9)))
            await foretold.current_world().clock.advance(0.01)
            log.append(data.draw(st.integers(10, 19), label="second"))

    runs = seen_in_runs(Draws, log, 5)
    assert {n < 10 for each in runs for n in each} == {True, False}
    assert seen_in_runs(Draws, log, 5) == runs


def test_shared_is_shared_by_the_run() -> None:
    """`st.shared` gives one value in all of a run, and another one in another run."""
    log: list[int] = []
    one = st.shared(st.integers(0, 10_000), key="one")

    @foretold.rule(a=one, b=one)
    def step(self: Any, a: int, b: int) -> None:
        log.extend((a, b))

    runs = [each for each in seen_in_runs(machine(step=step), log) if each]
    assert all(len(set(each)) == 1 for each in runs)
    assert len({each[0] for each in runs}) > 5


def test_runner_is_the_machine() -> None:
    """`st.runner()` gives the object of this run."""

    class Itself(foretold.Machine):
        @foretold.rule(me=st.runner())
        def step(self, me: Any) -> None:
            assert me is self

    foretold.run(Itself)


@pytest.mark.usefixtures("one_session")
def test_bundles_hold_what_rules_return() -> None:
    """Only that, and nothing before it was made: a rule without a value to draw is not applied."""

    class Kept(foretold.Machine):
        made = foretold.Bundle[int]("made")

        def __init__(self) -> None:
            self.all: list[int] = []

        @foretold.rule(target=made)
        def make(self) -> int:
            self.all.append(len(self.all))
            return self.all[-1]

        @foretold.rule(one=made)
        def use(self, one: int) -> None:
            assert one in self.all

    for seed in range(20):
        foretold.run(Kept, seed=seed)


@pytest.mark.usefixtures("one_session")
def test_a_value_of_any_age_is_drawn() -> None:
    """Not only the newest: over some runs each of three values comes up."""
    seen: Counter[int] = Counter()

    class Ages(foretold.Machine):
        made = foretold.Bundle[int]("made")

        @foretold.initialize(target=made)
        def make(self) -> Any:
            return foretold.multiple(0, 1, 2)

        @foretold.rule(one=made)
        def use(self, one: int) -> None:
            seen[one] += 1

    for seed in range(20):
        foretold.run(Ages, seed=seed)
    assert min(seen[n] for n in range(3)) > 50


@pytest.mark.usefixtures("one_session")
def test_consumed_values_are_gone() -> None:
    """Each value is consumed once at most, also out of a list."""

    class Used(foretold.Machine):
        made = foretold.Bundle[object]("made")

        def __init__(self) -> None:
            self.used: list[object] = []

        @foretold.rule(target=made)
        def make(self) -> object:
            return object()

        @foretold.rule(one=foretold.consumes(made))
        def use(self, one: object) -> None:
            assert one not in self.used
            self.used.append(one)

        @foretold.rule(some=st.lists(foretold.consumes(made), max_size=3))
        def use_some(self, some: list[object]) -> None:
            for one in some:
                self.use(one)

    reached = 0
    for seed in range(30):
        reached += foretold.run(Used, seed=seed).choices
    assert reached


def test_what_was_consumed_comes_back_if_there_is_no_call() -> None:
    """A strategy that gives no value after a bundle was drawn from: the value is not lost."""

    class Undone(foretold.Machine):
        made = foretold.Bundle[int]("made")

        @foretold.initialize(target=made)
        def make(self) -> int:
            return 7

        @foretold.rule(one=foretold.consumes(made), never=st.integers().filter(lambda n: False))
        def cannot(self, one: int, never: int) -> None:
            raise AssertionError("there is no such number")

        @foretold.rule(one=made)
        def can(self, one: int) -> None:
            foretold.reachable("the value is still there")

    done = foretold.run(Undone)
    assert done.reached["the value is still there"] > 3


def test_bundles_stand_inside_of_strategies() -> None:
    """In lists, flatmap, map, filter and one_of, and in `data.draw`."""
    log: list[Any] = []

    class Inside(foretold.Machine):
        made = foretold.Bundle[int]("made")

        @foretold.initialize(target=made)
        def make(self) -> Any:
            return foretold.multiple(1, 2, 3)

        @foretold.rule(
            many=st.lists(made, max_size=4),
            mapped=made.map(lambda n: n * 10),
            odd=made.filter(lambda n: n % 2),
            flat=made.flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
            maybe=st.none() | made,
            data=st.data(),
        )
        def use(self, many: Any, mapped: Any, odd: Any, flat: Any, maybe: Any, data: Any) -> None:
            assert set(many) <= {1, 2, 3}
            assert mapped in (10, 20, 30)
            assert odd in (1, 3)
            assert 0 <= flat[1] <= flat[0] <= 3
            log.append((maybe, len(many), data.draw(self.made)))

    runs = seen_in_runs(Inside, log)
    assert {maybe for each in runs for maybe, _, _ in each} == {None, 1, 2, 3}
    assert {n for each in runs for _, n, _ in each} >= {0, 1, 2}


def test_several_targets_and_several_values() -> None:
    """`targets` get the same value each; `multiple` gives several, or none."""

    class Several(foretold.Machine):
        a = foretold.Bundle[int]("a")
        b = foretold.Bundle[int]("b")

        @foretold.initialize(targets=(a, b))
        def both(self) -> int:
            return 5

        @foretold.initialize(target=a)
        def none_at_all(self) -> Any:
            return foretold.multiple()

        @foretold.rule(x=a, y=b)
        def use(self, x: int, y: int) -> None:
            assert x == y == 5

    foretold.run(Several)


def test_initialize_comes_first_and_once_in_any_order() -> None:
    """Each of several is applied once before the first rule; both orders occur."""
    log: list[str] = []

    class Begins(foretold.Machine):
        @foretold.initialize()
        def first(self) -> None:
            log.append("first")

        @foretold.initialize(n=st.integers())
        async def second(self, n: int) -> None:
            log.append("second")

        @foretold.rule()
        def step(self) -> None:
            log.append("step")

    runs = seen_in_runs(Begins, log)
    assert {tuple(each[:2]) for each in runs} == {("first", "second"), ("second", "first")}
    assert all(set(each[2:]) <= {"step"} for each in runs)


@pytest.mark.usefixtures("one_session")
def test_preconditions_hold() -> None:
    """A rule is applied only while its preconditions hold; one may ask for the actor."""

    class Door(foretold.Machine):
        actors = ("guest", "porter")

        def __init__(self) -> None:
            self.is_open = False

        @foretold.rule()
        @foretold.precondition(lambda self: not self.is_open)
        def open(self) -> None:
            assert not self.is_open
            self.is_open = True

        @foretold.precondition(lambda self, actor: actor.role == "porter")
        @foretold.rule()
        @foretold.precondition(lambda self: self.is_open)
        def shut(self, actor: foretold.Actor) -> None:
            assert self.is_open
            assert actor.role == "porter"
            foretold.reachable("shut")
            self.is_open = False

    assert sum(foretold.run(Door, seed=seed).reached.get("shut", 0) for seed in range(10)) > 10


def test_rules_are_inherited_and_overridden() -> None:
    """A subclass adds rules, replaces them, and takes one away by a plain method."""
    log: list[str] = []

    class Base(foretold.Machine):
        @foretold.rule()
        def one(self) -> None:
            log.append("base one")

        @foretold.rule()
        def two(self) -> None:
            log.append("two")

    class Derived(Base):
        @foretold.rule()
        def one(self) -> None:
            log.append("one")

        def two(self) -> None:
            """No rule any more."""

        @foretold.rule()
        def three(self) -> None:
            log.append("three")

    assert {text for each in seen_in_runs(Derived, log) for text in each} == {"one", "three"}
    assert {text for each in seen_in_runs(Base, log) for text in each} == {"base one", "two"}


def test_assume_in_a_rule_discards_the_step() -> None:
    """It counts as a precondition that was false, and the run goes on."""

    class Assumes(foretold.Machine):
        @foretold.rule(n=st.integers(0, 9))
        def step(self, n: int) -> None:
            hypothesis.assume(n > 4)
            foretold.reachable("past it")

    past = [foretold.run(Assumes, seed=seed).reached.get("past it", 0) for seed in range(5)]
    assert sum(past) > 10


def test_assume_is_at_home_in_every_kind_of_rule() -> None:
    """Plain or async, with arguments or without, before an await and after it, in a task that the
    rule waits for: Hypothesis warns of none of them (here a warning is an error), and outside of
    the run it is as it was."""

    class Assumes(foretold.Machine):
        actors = 2

        @foretold.rule()
        def plain(self) -> None:
            hypothesis.assume(False)

        @foretold.rule(n=st.integers(0, 9))
        async def after_a_wait(self, n: int) -> None:
            hypothesis.assume(n < 8)
            await asyncio.sleep(0.01)
            hypothesis.note("not told")
            hypothesis.assume(False)

        @foretold.rule()
        async def in_a_task(self) -> None:
            await asyncio.create_task(self._assume())

        async def _assume(self) -> None:
            await asyncio.sleep(0.01)
            hypothesis.assume(False)

    outcome = foretold.explore(Assumes, runs=10, confirm=False)
    assert outcome.failure is None, outcome.failure
    for name in ("plain", "after_a_wait", "in_a_task"):
        count = outcome.tally.rules[name]
        assert count.tried == count.precondition_false > 10
    assert not hypothesis.currently_in_test_context()


def test_weights_say_how_often() -> None:
    """A rule of weight 0 is never applied, a heavy one nearly always; swarm changes some runs."""
    log: list[str] = []

    def applied(name: str, self: Any) -> None:
        log.append(name)

    rules: dict[str, Any] = {}
    for name in ("often", "seldom", "never"):
        function: Any = functools.partial(applied, name)
        exec(f"def {name}(self): function(self)", {"function": function}, rules)
        foretold.rule()(rules[name])
    cls = machine(**rules, weights={"often": 20, "never": 0})
    runs = seen_in_runs(cls, log, 60)
    counted = Counter(text for each in runs for text in each)
    assert counted["never"] == 0
    assert counted["often"] > 2 * counted["seldom"] > 0
    assert any(each and set(each) == {"seldom"} for each in runs), "swarm leaves rules out"


def test_a_filtered_bundle_looks_at_all_its_values() -> None:
    """One of thirty fits: it is found each time, where three tries would mostly miss it; where none
    fits there is no call."""
    log: list[int] = []

    class Rare(foretold.Machine):
        steps = 10
        made: Any = foretold.Bundle("made")

        @foretold.initialize(target=made)
        def numbers(self) -> Any:
            return foretold.multiple(*range(30))

        @foretold.rule(one=made.filter(lambda n: n > 5).filter(lambda n: n < 7))
        def take(self, one: int) -> None:
            log.append(one)

        @foretold.rule(none=made.filter(lambda n: n > 99))
        def never(self, none: int) -> None:
            raise AssertionError("nothing fits")

    found = [one for each in seen_in_runs(Rare, log) for one in each]
    assert len(found) > 40
    assert set(found) == {6}


def test_strategies_may_ask_who_acts() -> None:
    """`st.runner()` is the machine, and its `drawing_for` whoever the arguments are for."""
    log: list[Any] = []

    class Own(foretold.Machine):
        actors = 3

        @foretold.rule(whose=st.runner().map(lambda machine: machine.drawing_for.name))
        async def act(self, actor: foretold.Actor, whose: str) -> None:
            log.append((actor.name, whose))

    seen = [pair for each in seen_in_runs(Own, log) for pair in each]
    assert len({who for who, _ in seen}) == 3
    assert all(who == whose for who, whose in seen)
