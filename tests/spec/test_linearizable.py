"""The checker of histories: right on what is small by brute force, fast on what is large, and each
verdict with words that name what is wrong."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import foretold
from foretold.errors import Refused
from foretold.spec.checkers.history import UNKNOWN, Operation, Refusal
from foretold.spec.checkers.linearizable import final_states, linearizable
from foretold.spec.checkers.steps import StepModel, frozen


def step(state: int, name: str, arguments: Mapping[str, Any], result: Any) -> int | None:
    """A register that counts: `read`, `write(value)`, `add` which gives the new value."""
    if name == "read":
        return state if result in (state, UNKNOWN) else None
    if name == "write":
        written: int = arguments["value"]
        return written
    return state + 1 if result in (state + 1, UNKNOWN) else None


REGISTER = StepModel(0, step)


class Register:
    """The same as a class."""

    def __init__(self) -> None:
        self.value = 0

    def read(self) -> int:
        return self.value

    def write(self, value: int) -> None:
        self.value = value

    def add(self) -> int:
        self.value += 1
        return self.value


MODELS = pytest.mark.parametrize(
    "model", [REGISTER, (0, step), Register], ids=["model", "pair", "class"]
)


def op(
    actor: str, name: str, invoked: int, returned: int | None, result: Any = None, **arguments: Any
) -> Operation:
    """An operation from event to event."""
    return Operation(actor, name, arguments, invoked, returned, result)


@MODELS
def test_a_stale_read_is_violated(model: Any) -> None:
    """Whoever reads after a write was over must see it; while it goes on, either value is right."""
    write = op("a", "write", 1, 4, value=7)
    assert linearizable([write, op("b", "read", 2, 3, 0)], model).ok
    assert linearizable([write, op("b", "read", 2, 3, 7)], model).ok
    stale = op("b", "read", 5, 6, 0)
    found = linearizable([write, stale], model)
    assert (found.word, found.operation) == ("violated", stale)


@MODELS
def test_no_read_goes_back(model: Any) -> None:
    """Two reads inside a write may not see the new value first and the old one then."""
    write = op("a", "write", 1, 9, value=7)
    reads = [op("b", "read", 2, 3, 7), op("b", "read", 4, 5, 0)]
    assert linearizable([write, *reads], model).word == "violated"
    assert linearizable([write, *reversed([reads[1], op("b", "read", 6, 7, 7)])], model).ok


@MODELS
def test_a_lost_update_is_violated(model: Any) -> None:
    """Two that add at the same time do not both get 1."""
    both = [op("a", "add", 1, 3, 1), op("b", "add", 2, 4, 1)]
    assert linearizable(both, model).word == "violated"
    assert linearizable([both[0], op("b", "add", 2, 4, 2)], model).ok


@MODELS
def test_unknown_operations_may_have_happened(model: Any) -> None:
    """What failed under a fault was done, or was not, or is done later than it failed."""
    lost = op("a", "add", 1, 2, UNKNOWN)
    assert linearizable([lost, op("b", "read", 3, 4, 0)], model).ok
    assert linearizable([lost, op("b", "read", 3, 4, 1)], model).ok
    late = [lost, op("b", "read", 3, 4, 0), op("b", "read", 5, 6, 1)]
    assert linearizable(late, model).ok
    assert linearizable([*late, op("b", "read", 7, 8, 0)], model).word == "violated"
    assert linearizable([lost, op("b", "read", 3, 4, 2)], model).word == "violated", (
        "once, not twice"
    )
    never = op("a", "add", 1, None)
    assert linearizable([never, op("b", "read", 3, 4, 1)], model).ok


@MODELS
def test_an_unknown_operation_does_not_happen_before_its_call(model: Any) -> None:
    """A read that is over cannot have seen a write that had not begun."""
    history = [op("b", "read", 1, 2, 7), op("a", "write", 3, 4, UNKNOWN, value=7)]
    assert linearizable(history, model).word == "violated"


def test_the_explanation_is_short() -> None:
    """Out of a long history: the operation, what went on at the same time, which result would have
    been right; and nothing that came later."""
    before = [op("a", "add", 10 * n, 10 * n + 1, n + 1) for n in range(20)]
    bad = op("b", "add", 1_001, 1_003, 99)
    open_still = op("c", "write", 1_000, 1_010, None, value=40)
    after = [op("a", "read", 2_000 + 10 * n, 2_001 + 10 * n, 5) for n in range(20)]
    found = linearizable([*before, bad, open_still, *after], Register)
    assert found.operation is bad
    assert [each.name for each in found.overlapping] == ["write"]
    assert len(found.prefix) == 22
    assert sorted(found.allowed) == [21, 41]
    lines = str(found).splitlines()
    assert lines[:4] == [
        "b: add() gave 99",
        "the model gives 41 or 21, in whichever order",
        "at the same time:",
        "  c: write(value=40) -> unknown",
    ]
    assert lines[4] == "before (the last 12 of 20):"
    assert len(lines) == 17


class Shop:
    """A model that refuses, and that cannot know the ids which the system gives."""

    def __init__(self) -> None:
        self.stock = 1
        self.orders: set[str] = set()

    def buy(self, *, result: Any) -> None:
        if not self.stock:
            raise Refused("sold out")
        self.stock -= 1
        if result is not UNKNOWN:
            assert result not in self.orders, "an id is given once"
            assert isinstance(result, str)
            self.orders.add(result)

    def returned(self, order: str) -> bool:
        self.orders.remove(order)
        self.stock += 1
        return True


def test_models_that_refuse_and_judge() -> None:
    """Two cannot have the last one; a refusal is right only when nothing is left. A model that
    raises in a state that never was says no more than: not this way."""
    one, other = op("a", "buy", 1, 3, "x"), op("b", "buy", 2, 4, "y")
    refused = op("b", "buy", 2, 4, Refusal("sorry"))
    assert linearizable([one, refused], Shop).ok
    assert linearizable([one, other], Shop).word == "violated"
    assert linearizable([op("b", "buy", 0, 1, Refusal())], Shop).word == "violated"
    assert linearizable([one, op("a", "returned", 5, 6, True, order="x"), other], Shop).ok is False
    again = op("b", "buy", 7, 8, "y")
    assert linearizable([one, op("a", "returned", 5, 6, True, order="x"), again], Shop).ok


def test_an_unknown_buyer_may_have_the_last_one() -> None:
    """A buyer whose answer was lost explains a refusal, and need not."""
    lost = op("a", "buy", 1, 2, UNKNOWN)
    assert linearizable([lost, op("b", "buy", 3, 4, Refusal())], Shop).ok
    assert linearizable([lost, op("b", "buy", 3, 4, "y")], Shop).ok
    both = [lost, op("b", "buy", 3, 4, "y"), op("c", "buy", 5, 6, "z")]
    assert linearizable(both, Shop).word == "violated"


# Against brute force


def _explained(history: list[Operation]) -> bool:
    """By trying every order of every choice of unknown operations."""
    known = [each for each in history if each.is_known]
    unknown = [each for each in history if not each.is_known]
    for size in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, size):
            for order in itertools.permutations([*known, *some]):
                if _keeps_time(order) and _runs(order):
                    return True
    return False


def _keeps_time(order: tuple[Operation, ...]) -> bool:
    return not any(
        later.is_known and later.returned is not None and later.returned < earlier.invoked
        for n, earlier in enumerate(order)
        for later in order[n + 1 :]
    )


def _runs(order: tuple[Operation, ...]) -> bool:
    state: int | None = 0
    for each in order:
        state = step(state or 0, each.name, each.arguments, each.result)
        if state is None:
            return False
    return True


def _histories(count: int, seed: int, size: int) -> Iterator[list[Operation]]:
    """Of a register that is now and then wrong."""
    luck = random.Random(seed)
    for _ in range(count):
        times = luck.sample(range(3 * size), 2 * size)
        history = []
        for n in range(size):
            began, ended = sorted(times[2 * n : 2 * n + 2])
            name = luck.choice(["read", "write", "add"])
            result = {"read": luck.randrange(3), "write": None, "add": luck.randrange(1, 4)}[name]
            arguments = {"value": luck.randrange(3)} if name == "write" else {}
            lost = luck.random() < 0.25
            history.append(
                op(f"a{n}", name, began, ended, UNKNOWN if lost else result, **arguments)
            )
        yield history


@MODELS
def test_as_brute_force_has_it(model: Any) -> None:
    """On small random histories the verdict is that of a checker that tries everything; and the
    prefix is the shortest one: while its last operation was going on it could be explained."""
    words = []
    for history in _histories(250, seed=8, size=5):
        found = linearizable(history, model)
        words.append(found.word)
        assert found.ok == _explained(history), [*map(str, history)]
        if found.operation is not None:
            assert not _explained(list(found.prefix))
            last = found.operation
            still_open = Operation(last.actor, last.name, last.arguments, last.invoked)
            assert _explained([still_open if each is last else each for each in found.prefix])
        else:
            assert _keeps_time(found.order)
            assert _runs(found.order)
    assert 50 < words.count("ok") < 200, "both verdicts were needed often"


# Large ones


def _simulated(
    seed: int, operations: int, actors: int, lost: float, keys: int = 1
) -> list[Operation]:
    """A history of registers that are right: each operation takes effect somewhere inside."""
    luck = random.Random(seed)
    events: list[tuple[float, int]] = []
    spans = []
    free_at = [0.0] * actors
    for n in range(operations):
        actor = n % actors
        began = free_at[actor] + luck.random()
        ended = began + luck.random() * 4
        free_at[actor] = ended
        events.append((luck.uniform(began, ended), n))
        spans.append((actor, began, ended))
    values = dict.fromkeys(range(keys), 0)
    history: list[Operation | None] = [None] * operations
    for _, n in sorted(events):
        actor, began, ended = spans[n]
        key, name = luck.randrange(keys), luck.choice(["read", "write", "add"])
        arguments: dict[str, Any] = {"key": key} if keys > 1 else {}
        if name == "write":
            arguments["value"] = luck.randrange(5)
            values[key], result = arguments["value"], None
        else:
            values[key] += name == "add"
            result = values[key]
        gone = luck.random() < lost
        history[n] = Operation(
            f"actor {actor}", name, arguments, began, ended, UNKNOWN if gone else result
        )
    return [each for each in history if each is not None]


@pytest.mark.parametrize("lost", [0.0, 0.1])
@pytest.mark.parametrize("actors", [2, 4, 8])
def test_hundreds_of_operations(actors: int, lost: float) -> None:
    """400 operations of up to 8 actors at once, some of them with an unknown end: within the
    budget, and what was spoilt in one place is found."""
    for seed in range(1 if lost else 2):
        history = _simulated(seed, 400, actors, lost)
        assert linearizable(history, REGISTER).ok
        spoilt = max(n for n, each in enumerate(history) if each.is_known and each.name == "read")
        bad = history[spoilt]
        history[spoilt] = Operation(
            bad.actor, bad.name, bad.arguments, bad.invoked, bad.returned, 10_000
        )
        found = linearizable(history, REGISTER)
        if not lost:
            assert found.operation is history[spoilt]
        assert found.word in ("violated", "unknown")


def test_keys_are_checked_by_themselves() -> None:
    """With a key the work is that of each key: what is violated under one is found under it."""

    def keyed(state: int, name: str, arguments: Mapping[str, Any], result: Any) -> int | None:
        return step(state, name, arguments, result)

    model = StepModel(0, keyed, key=lambda name, arguments: arguments["key"])
    history = _simulated(1, 600, 12, 0.05, keys=8)
    found = linearizable(history, model)
    assert found.ok
    assert found.steps < 50_000
    bad = Operation("b", "read", {"key": 3}, 1e6, 1e6 + 1, -1)
    violated = linearizable([*history, bad], model)
    assert violated.operation is bad
    assert {each.arguments["key"] for each in violated.prefix} == {3}


def test_an_operation_without_key_concerns_all() -> None:
    """Then the history is not split."""

    class Counters:
        def __init__(self) -> None:
            self.values: dict[str, int] = {}

        @staticmethod
        def key(name: str, arguments: Mapping[str, Any]) -> Any:
            return arguments.get("key")

        def add(self, key: str) -> int:
            self.values[key] = self.values.get(key, 0) + 1
            return self.values[key]

        def total(self) -> int:
            return sum(self.values.values())

    adds = [op("a", "add", 1, 2, 1, key="x"), op("a", "add", 3, 4, 1, key="y")]
    assert linearizable([*adds, op("a", "total", 5, 6, 2)], Counters).ok
    assert linearizable([*adds, op("a", "total", 5, 6, 1)], Counters).word == "violated"


def test_out_of_budget_is_unknown() -> None:
    """Neither ok nor violated is said without a proof; the same budget gives the same verdict."""
    history = [op(f"a{n}", "write", n, 100, value=n) for n in range(20)]
    history.append(op("b", "read", 101, 102, 99))
    found = linearizable(history, REGISTER, budget=500)
    assert found.word == "unknown"
    assert found == linearizable(history, REGISTER, budget=500)
    assert "500 steps" in str(found) or "501 steps" in str(found)


def test_what_is_left_when_all_is_over() -> None:
    """One model for each state that some order leads to."""
    writes = [op("a", "write", 1, 3, value=5), op("b", "write", 2, 4, value=6)]
    assert sorted(each.value for each in final_states(writes, Register)) == [5, 6]
    read = op("a", "read", 5, 6, 5)
    assert [each.value for each in final_states([*writes, read], Register)] == [5]
    assert final_states([*writes, op("a", "read", 5, 6, 7)], Register) == []
    many = [op(f"a{n}", "write", n, 100, value=n) for n in range(20)]
    assert final_states(many, Register, budget=100) == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: linearizable([op("a", "read", 2, 1, 0)], Register), "ends before it begins"),
        (lambda: linearizable([], step), "a pair (initial state, step)"),
        (lambda: linearizable([], Operation), "makes a model without arguments"),
        (lambda: linearizable([], Register, budget=0), "budget"),
    ],
)
def test_bad_input(make: Callable[[], object], says: str) -> None:
    """A mistake is named."""
    with pytest.raises(foretold.UsageError) as raised:
        make()
    assert says in str(raised.value)


def test_frozen_states() -> None:
    """Equal states are one, others are not; a dict counts without its order, as Python has it."""
    assert frozen({"a": [1, {2}], "b": 1}) == frozen({"b": 1, "a": [1, {2}]})
    assert frozen([1]) != frozen((1,))
    one, other = Register(), Register()
    assert frozen(one) == frozen(other)
    other.value = 1
    assert frozen(one) != frozen(other)
    ring: list[Any] = []
    ring.append(ring)
    assert frozen(ring) != frozen(ring), "not known to be equal: that costs time and no truth"
