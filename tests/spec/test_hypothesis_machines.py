"""A state machine that was written for Hypothesis runs in a world as it is.

The verdicts must be Hypothesis' own, and what is shown of a failure must be the program that
Hypothesis would print. What Hypothesis itself says is asked here, not written down from memory.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, note, reject, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FailedHealthCheck, InvalidDefinition
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

import foretold
from foretold.errors import RunDiscarded
from foretold.spec import hypothesis_machines
from tests.helpers import soak
from tests.spec.classic_machines import Comparison, CorrectComparison, Jugs, Trees

Kind = type[RuleBasedStateMachine]


def program_of(story: str) -> list[str]:
    """The lines of the program at the head of a story."""
    head = story.partition("\n\n")[0]
    return [line.strip() for line in head.splitlines()[1:]]


def rule_calls(kind: Kind, program: list[str]) -> list[str]:
    """The names of the rules that a printed program calls."""
    invariants = {each.function.__name__ for each in kind.setup_state().invariants}
    called = re.findall(r"state\.(\w+)\(", "\n".join(program))
    return [name for name in called if name not in invariants | {"teardown"}]


def own_settings(examples: int) -> settings:
    """For Hypothesis itself: nothing kept, and nothing that depends on how busy the machine is or
    on whether it is one for continuous integration, where Hypothesis says more."""
    return settings(
        settings.get_profile("default"),
        database=None,
        max_examples=examples,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


def program_by_hypothesis(kind: Kind, examples: int = 400) -> list[str]:
    """The program to which Hypothesis itself shrinks a failure of this machine."""
    try:
        run_state_machine_as_test(seed(1)(kind), settings=own_settings(examples))
    except Exception as error:
        lines = "\n".join(error.__notes__).splitlines()
        return lines[lines.index(f"state = {kind.__name__}()") :]
    raise AssertionError(f"Hypothesis found nothing wrong with {kind.__name__}")


def found_in(kind: Any, runs: int = 300, seed: int = 0) -> foretold.Failure:
    """The failure that a search finds."""
    outcome = foretold.explore(kind, runs=runs, seed=seed, confirm=False)
    assert outcome.failure is not None, f"nothing found in {outcome.runs} runs"
    return outcome.failure


def fewest_moves() -> int:
    """How many moves four litres take at least: all programs, the shortest first."""
    moves = [each.function for each in Jugs.setup_state().rules]
    for length in range(1, 9):
        for program in product(moves, repeat=length):
            jugs = Jugs.__new__(Jugs)
            jugs.small = jugs.large = 0
            for move in program:
                move(jugs)
            if jugs.large == 4:
                return length
    raise AssertionError("never")


@pytest.mark.parametrize("seed", [0, soak(1_000), soak(2_000)])
def test_the_jugs_are_solved_in_the_fewest_moves(seed: int) -> None:
    """No machine can show a shorter program than there is, and breadth-first search knows it.

    There is one other way, over the small jug, of which nothing can be left out: eight moves. Where
    a search comes upon that one first, it has to look for another.
    """
    moves = rule_calls(Jugs, program_of(found_in(Jugs, seed=seed).story))
    assert len(moves) == fewest_moves() == 6


@pytest.mark.parametrize("seeds", [(0,), soak((1_000, 2_000))])
@pytest.mark.parametrize("kind", [Trees, soak(Comparison)])
def test_programs_are_no_longer_than_those_of_hypothesis(
    kind: Kind, seeds: tuple[int, ...]
) -> None:
    """Both shrink the same machine; ours may not end with more steps, from any of some seeds."""
    theirs = len(rule_calls(kind, program_by_hypothesis(kind)))
    for first in seeds:
        ours = rule_calls(kind, program_of(found_in(kind, seed=first).story))
        assert len(ours) <= theirs, ours


def test_what_holds_for_hypothesis_holds_here() -> None:
    """The corrected store: a driver that mixed up keys or values would find a difference."""
    run_state_machine_as_test(CorrectComparison, settings=own_settings(20))
    outcome = foretold.explore(CorrectComparison, runs=100)
    assert outcome.failure is None
    assert not outcome.vacuous


class Everything(RuleBasedStateMachine):
    """Uses all of the vocabulary, and notes each use in `seen`."""

    first, second = Bundle[int]("first"), Bundle[int]("second")
    seen: set[str]

    def __init__(self) -> None:
        super().__init__()
        self.started = self.total = 0

    @initialize(target=first, start=st.integers(1, 9))
    def begin(self, start: int) -> int:
        self.started += 1
        return start

    @initialize(targets=(first, second))
    def begin_both(self) -> Any:
        self.started += 1
        return multiple(10, 20)

    @rule(target=second, taken=consumes(first))
    def move(self, taken: int) -> int:
        self.seen.add("consumes")
        return taken

    @rule(value=second.filter(lambda v: v > 15), mapped=second.map(lambda v: -v))
    def filtered(self, value: int, mapped: int) -> None:
        assert value > 15
        assert mapped < 0
        self.seen.add("filter and map")

    @rule(several=st.lists(second, max_size=3), data=st.data())
    def lists(self, several: list[int], data: st.DataObject) -> None:
        assert all(isinstance(each, int) for each in several)
        self.total += data.draw(st.integers(0, 3), label="more")
        self.seen.add("data")

    @precondition(lambda self: self.total > 5)
    @precondition(lambda self: self.total % 2 == 0)
    @rule(target=first)
    def returns_nothing(self) -> Any:
        assert self.total > 5
        assert self.total % 2 == 0
        self.seen.add("precondition")
        return multiple()

    @rule(number=st.integers(0, 30).filter(lambda n: n % 15 == 14))
    def seldom(self, number: int) -> None:
        assert number in (14, 29)
        self.seen.add("filtered argument")

    @invariant()
    def all_is_initialized(self) -> None:
        assert self.started == 2
        self.seen.add("invariant")

    @invariant(check_during_init=True)
    def begins_early(self) -> None:
        self.seen.add(f"checked at {self.started}")

    @precondition(lambda self: self.total > 10)
    @invariant()
    def seldom_checked(self) -> None:
        assert self.total > 10
        self.seen.add("invariant with precondition")

    def teardown(self) -> None:
        self.seen.add("teardown")


Everything.TestCase.settings = settings(Everything.TestCase.settings, stateful_step_count=40)


def test_the_whole_vocabulary_works() -> None:
    """Each word of `hypothesis.stateful` is used by some run, and none of them fails."""
    Everything.seen = set()
    outcome = foretold.explore(Everything, runs=60)
    assert outcome.failure is None
    assert Everything.seen == {
        "consumes",
        "filter and map",
        "data",
        "precondition",
        "filtered argument",
        "invariant",
        "invariant with precondition",
        "teardown",
        "checked at 0",
        "checked at 1",
        "checked at 2",
    }


def test_equal_seeds_give_equal_programs() -> None:
    """A run is a function of its tape: the digest is the same again, in any order."""
    Everything.seen = set()
    first = [foretold.run(Everything, seed=n) for n in range(5)]
    again = [foretold.run(Everything, seed=n) for n in reversed(range(5))][::-1]
    assert [run.digest for run in first] == [run.digest for run in again]
    assert len({run.digest for run in first}) == 5


class Printed(RuleBasedStateMachine):
    """Fails in a program in which all that can be printed is printed."""

    names = Bundle[Any]("names")

    @initialize(target=names)
    def begin(self) -> Any:
        return multiple("a", "b")

    @rule(target=names, point=st.builds(complex, st.just(1.0), imag=st.just(2.0)))
    def point(self, point: complex) -> list[complex]:
        return [point]

    @rule(one=names.filter(lambda v: isinstance(v, list)), data=st.data())
    def fails(self, one: Any, data: st.DataObject) -> None:
        data.draw(st.just(7), label="luck")
        note("so it ends")
        raise ZeroDivisionError("as it should")

    @invariant()
    def nothing(self) -> None: ...


def test_a_program_is_printed_as_hypothesis_prints_it() -> None:
    """Line for line: names of values, calls that made them, draws, notes, invariants, teardown."""
    assert program_of(found_in(Printed).story) == program_by_hypothesis(Printed)


def test_a_run_that_fails_has_the_program_in_a_note() -> None:
    """`foretold.run` tells no story; the exception itself says what was done."""
    tape = found_in(Printed).tape
    with pytest.raises(ZeroDivisionError) as caught:
        foretold.run(Printed, tape=tape)
    assert caught.value.__notes__[0].startswith("state = Printed()\nnames_0, names_1 = ")


def machine_with(body: Callable[[Any], None], name: str = "Made") -> Kind:
    """A machine of one rule."""
    made: Kind = type(name, (RuleBasedStateMachine,), {"go": rule()(body)})
    return made


def test_a_failed_assumption_ends_the_program_and_is_no_failure() -> None:
    """As in Hypothesis: `assume` and `reject` speak about the input, not about the program."""
    for refuses in (lambda self: assume(False), lambda self: reject()):
        with pytest.raises(RunDiscarded, match="first step"):
            foretold.run(machine_with(refuses))
    done: list[int] = []

    def once(self: Any) -> None:
        assume(not done)
        done.append(1)

    assert foretold.run(machine_with(once)).error is None


def test_wrong_machines_are_refused_in_the_words_of_hypothesis() -> None:
    """No rule that can run, a result that nobody takes: the same errors as elsewhere."""
    stuck = machine_with(lambda self: None)
    stuck.go = precondition(lambda self: False)(stuck.go)  # type: ignore[attr-defined]  # made above
    with pytest.raises(InvalidDefinition, match="No progress can be made"):
        foretold.run(stuck)
    talkative = machine_with(lambda self: 3)  # type: ignore[arg-type]  # the mistake
    talkative.TestCase.settings = settings(suppress_health_check=[])
    with pytest.raises(FailedHealthCheck, match="Rules should return None"):
        foretold.run(talkative)


class Bank(RuleBasedStateMachine):
    """Two deposits at the same time, in tasks or in threads, on an account that yields between."""

    def __init__(self) -> None:
        super().__init__()
        self.balance = self.expected = 0

    async def deposit(self, amount: int) -> None:
        seen = self.balance
        await asyncio.sleep(0)
        self.balance = seen + amount

    @rule(amount=st.integers(1, 50))
    def one_after_the_other(self, amount: int) -> None:
        asyncio.run(self.deposit(amount))
        self.expected += amount

    @rule(amount=st.integers(1, 50))
    def at_the_same_time(self, amount: int) -> None:
        async def both() -> None:
            await asyncio.gather(self.deposit(amount), self.deposit(0))

        asyncio.run(both())
        self.expected += amount

    @invariant()
    def no_deposit_is_lost(self) -> None:
        assert self.balance == self.expected


class ThreadedBank(Bank):
    """The same in threads, which sleep in virtual time."""

    def slow_deposit(self, amount: int) -> None:
        seen = self.balance
        time.sleep(0.001)
        self.balance = seen + amount

    @rule(amount=st.integers(1, 50))
    def at_the_same_time(self, amount: int) -> None:
        threads = [threading.Thread(target=self.slow_deposit, args=(n,)) for n in (amount, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.expected += amount


@pytest.mark.parametrize("kind", [Bank, ThreadedBank])
def test_rules_may_run_loops_and_threads(kind: Kind) -> None:
    """Inputs and schedule shrink together: one step, the smallest amount, one overlap."""
    found = found_in(kind)
    calls = [line for line in program_of(found.story) if "amount" in line]
    assert calls == ["state.at_the_same_time(amount=1)"]


def test_simulate_makes_a_test_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`simulate(Machine)` is run as often as its settings say, and fails like the machine."""
    monkeypatch.chdir(tmp_path)  # where the failing tape is kept
    assert foretold.simulate(CorrectComparison, runs=5)() is None
    with pytest.raises(AssertionError) as caught:
        foretold.simulate(Comparison, seed=1)()
    assert "The program:\n  state = Comparison()" in caught.value.__notes__[0]
    decided = machine_with(lambda self: None)
    decided.TestCase.settings = settings(max_examples=7)
    tests: list[Any] = [foretold.simulate(decided), foretold.simulate(decided.TestCase, runs=3)]
    assert [test.foretold_simulation.runs for test in tests] == [7, 3]


def test_a_failure_is_confirmed_in_a_fresh_process() -> None:
    """A class has a name by which another interpreter finds it, so the failure is believed."""
    found = foretold.explore(Trees, runs=50).failure
    assert found is not None
    assert found.reproduced
    assert not found.doubt


def test_a_machine_is_a_target_of_the_command(tmp_path: Any) -> None:
    """`foretold explore FILE:Machine` and `foretold replay` know classes by name."""
    from tests.cli.command import foretold as command

    source = Path(__file__).with_name("classic_machines.py")
    tmp_path.joinpath("classic_machines.py").write_text(source.read_text("utf-8"), "utf-8")
    done = command(tmp_path, "explore", "classic_machines.py:Trees", "--seed", "3")
    assert done.code == 1, done.err
    assert "state = Trees()" in done.out
    (tape,) = tmp_path.glob(".foretold/**/*.tape")
    assert "state = Trees()" in command(tmp_path, "replay", str(tape)).out


def test_a_move_of_private_api_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: without `_repr_step` the adapter says what is missing."""
    assert hypothesis_machines.missing_private_api() == []
    monkeypatch.delattr(RuleBasedStateMachine, "_repr_step")
    assert hypothesis_machines.missing_private_api() == ["RuleBasedStateMachine._repr_step"]
