"""A model beside a machine: what differs is found, by one actor and by several, and no more."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

import foretold
from foretold.search.explore import explore
from foretold.search.failures.failure import Outcome
from foretold.spec.checkers.history import UNKNOWN
from foretold.spec.checkers.steps import frozen, same


class Lost(Exception):
    """An answer that was lost."""


class ShopModel:
    """Sells what it has."""

    def __init__(self) -> None:
        self.stock = 3

    def buy(self, n: int) -> int:
        if self.stock < n:
            raise foretold.Refused("sold out")
        self.stock -= n
        return self.stock

    def look(self) -> int:
        return self.stock

    def state(self) -> dict[str, int]:
        return {"stock": self.stock}


class Shop(foretold.Machine):
    """A shop that is right, with a lock around what takes time; bugs are planted in those below."""

    actors = 3
    steps = 12
    tolerates = (Lost,)
    model: ClassVar[Any] = ShopModel

    async def setup(self) -> None:
        self.stock = 3
        self.lock = asyncio.Lock()

    @foretold.rule(n=st.integers(1, 2))
    async def buy(self, n: int) -> int:
        async with self.lock:
            return await self.sell(n)

    async def sell(self, n: int) -> int:
        """The work itself."""
        if self.stock < n:
            raise foretold.Refused("sold out")
        left = self.stock - n
        await asyncio.sleep(0.001)
        self.stock = left
        return left

    @foretold.rule()
    async def look(self) -> int:
        async with self.lock:
            return self.stock

    @foretold.rule()
    async def not_in_the_model(self) -> object:
        return object()

    def state(self) -> dict[str, int]:
        return {"stock": self.stock}


class LosesUpdates(Shop):
    """Two may sell the same thing."""

    @foretold.rule(n=st.integers(1, 2))
    async def buy(self, n: int) -> int:
        return await self.sell(n)


class MiscountsTwo(Shop):
    """Who buys two gets a wrong answer; nobody else need be there."""

    actors = 1

    @foretold.rule(n=st.integers(1, 2))
    async def buy(self, n: int) -> int:
        left = await self.sell(n)
        return left + (n == 2)


class LosesStock(Shop):
    """The answers are right, and the state is not."""

    actors = 1

    async def sell(self, n: int) -> int:
        left = await super().sell(n)
        if left == 0:
            self.stock = -1
        return left

    @foretold.rule()
    async def look(self) -> int:
        return max(0, self.stock)


class RefusesTooSoon(Shop):
    """The last one cannot be had."""

    async def sell(self, n: int) -> int:
        if self.stock == n:
            raise foretold.Refused("reserved")
        return await super().sell(n)


class LosesAnswers(Shop):
    """What was done is done, only nobody hears of it: that is no bug."""

    async def sell(self, n: int) -> int:
        left = await super().sell(n)
        if foretold.choose([False, True]):
            raise Lost
        return left


class LosesWork(LosesAnswers):
    """And here a sale whose answer was lost is done twice."""

    async def sell(self, n: int) -> int:
        try:
            return await super().sell(n)
        except Lost:
            self.stock -= n
            raise


def _found(machine: type[Shop], runs: int = 300) -> Outcome:
    return explore(machine, runs=runs, seed=4, confirm=False)


@pytest.mark.parametrize("actors", [1, 3])
def test_a_right_shop_holds(actors: int) -> None:
    """With overlapping calls as without: and the model has compared something, in each run."""
    outcome = explore(Shop, runs=300, seed=4, actors=actors)
    assert outcome.failure is None, outcome.failure
    count = outcome.tally.invariants["the model"]
    assert count.ranged > 5 * outcome.runs
    assert not outcome.notes


def test_lost_answers_are_no_bug() -> None:
    """A call that failed may have been done or not: either is explained."""
    outcome = _found(LosesAnswers)
    assert outcome.failure is None, outcome.failure
    assert outcome.tally.rules["buy"].failed > 100


def _message(machine: type[Shop]) -> str:
    failure = _found(machine).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.PropertyViolated)
    return str(failure.exception)


def test_a_wrong_result_by_one_actor() -> None:
    """Found with the call that gave it, and both results are shown."""
    assert _message(MiscountsTwo) == (
        "buy(n=2) gave 2\n  the model gives 1\n  the model before it: {'stock': 3}"
    )


def test_a_wrong_state() -> None:
    """Results agree all the time, and the states do not: the difference is shown."""
    assert _message(LosesStock) == ("the state is not the model's\n  'stock': machine -1, model 0")


def test_a_refusal_that_the_model_does_not_know() -> None:
    """Refusals are compared as results are, with whatever words."""
    said = _message(RefusesTooSoon)
    assert "gave refused (reserved)" in said
    assert "the model gives 0" in said


def test_results_that_no_order_explains() -> None:
    """A lost update: both calls are shown, and what the model would have given."""
    failure = _found(LosesUpdates).failure
    assert failure is not None
    said = str(failure.exception)
    assert said.startswith("no order of the calls is explained by the model\n")
    assert said.count("buy(n=1)") == 2
    assert "at the same time:" in said
    assert "2 calls" in failure.story


def test_work_that_is_done_twice() -> None:
    """A call with an unknown end is done once at most."""
    assert "no order of the calls" in _message(LosesWork)


class Ids:
    """Does not know which ids the system gives: it looks at them."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def make(self, actor: str, *, result: Any) -> None:
        assert actor
        if result is not UNKNOWN:
            assert result not in self.given, f"{result} is given twice"
            self.given.append(result)


class Maker(foretold.Machine):
    """Gives out ids."""

    model: ClassVar[Any] = Ids
    ids: ClassVar[Any] = foretold.Bundle("ids")

    async def setup(self) -> None:
        self.made = 0

    @foretold.rule(target=ids)
    def make(self, actor: foretold.Actor) -> str:
        self.made += 1
        return f"id {min(self.made, 3)}"


def test_a_model_that_looks_at_the_result() -> None:
    """It judges by itself, and its own assertion is told."""
    failure = explore(Maker, runs=20, confirm=False).failure
    assert failure is not None
    assert str(failure.exception).startswith(
        "make(actor='actor1') gave 'id 3'\n  the model says no: AssertionError: id 3 is given twice"
    )
    assert isinstance(failure.exception.__cause__, AssertionError)


class Unrelated:
    """Has no method of a rule."""

    def other(self) -> None: ...


class OtherArguments(ShopModel):
    """Takes something that the rule does not give."""

    def buy(self, amount: int) -> int:
        return amount


class Waits(ShopModel):
    """Does not do all at once."""

    async def look(self) -> int:  # type: ignore[override]  # the mistake
        return self.stock


class NeedsMore(ShopModel):
    """Cannot be made without knowing something."""

    def __init__(self, stock: int) -> None:
        self.stock = stock


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Unrelated, "nothing would be compared. Add buy(…)"),
        (OtherArguments, "write def buy(self, n)"),
        (NeedsMore, "makes a model without arguments"),
        (Waits, "Waits.look is async, but the methods of a model must be plain"),
        (ShopModel(), "wrong: model = ShopModel()\n  right: model = ShopModel"),
        ("ShopModel", "wrong: model = 'ShopModel'"),
        ((0, lambda *_: 0), "model must be the class of the model"),
    ],
)
def test_models_that_do_not_fit(model: Any, says: str) -> None:
    """A mistake is named before anything is compared."""
    machine = type("Mistaken", (Shop,), {"model": model})
    with pytest.raises(foretold.UsageError) as raised:
        foretold.run(machine)
    assert says in str(raised.value)


class Registry(foretold.Machine):
    """The classical one: names get numbers, and keep them (10 000 operations in all)."""

    steps = 200
    model: ClassVar[Any] = None

    async def setup(self) -> None:
        self.numbers: dict[str, int] = {}

    @foretold.rule(name=st.sampled_from("abcdefgh"))
    def register(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    @foretold.rule(name=st.sampled_from("abcdefghij"))
    def find(self, name: str) -> int | None:
        return self.numbers.get(name)

    def state(self) -> dict[str, int]:
        return dict(self.numbers)


class RegistryModel:
    """A list is enough."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def register(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def find(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def state(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.names)}


class ForgetsOne(Registry):
    """A registry that gives a number twice, once it has five names."""

    model = RegistryModel

    @foretold.rule(name=st.sampled_from("abcdefgh"))
    def register(self, name: str) -> int:
        return self.numbers.setdefault(name, min(4, len(self.numbers)))


def test_registry_against_a_list() -> None:
    """Each result and the state at the end, over 10 000 operations; the planted bug shrinks to six
    calls of `register`, with six names."""
    right = type("Right", (Registry,), {"model": RegistryModel})
    outcome = explore(right, runs=100, seed=1)
    assert outcome.failure is None
    assert outcome.tally.invariants["the model"].ranged > 10_000
    failure = explore(ForgetsOne, runs=100, seed=1, confirm=False).failure
    assert failure is not None
    assert "The program, 6 calls of ForgetsOne's rules:" in failure.story


class Echo:
    """Gives back what it gets, and has seen it."""

    def __init__(self) -> None:
        self.last: Any = None

    def say(self, value: Any) -> Any:
        self.last = value
        return [float("nan") if value != value else value]

    def state(self) -> Any:
        return {"last": (self.last,)}


class Says(foretold.Machine):
    """Numbers, and what is none."""

    actors = 3
    model: ClassVar[Any] = Echo
    last: Any = None
    wrong = False

    @foretold.rule(value=st.sampled_from([float("nan"), 1.0]))
    async def say(self, value: float) -> Any:
        await asyncio.sleep(0.001)
        self.last = value
        return [value * 1 if not self.wrong else 2.0 if value == 1 else value]

    def state(self) -> Any:
        return {"last": (float("nan") if self.last is not None and self.last != 1 else self.last,)}


def test_not_a_number_is_equal_to_itself() -> None:
    """Python's own NaN is not; a model that gives one where the system does is right, by one actor
    and by several, in results and states. What is a number is compared as ever."""
    outcome = explore(Says, runs=100, seed=4, confirm=False)
    assert outcome.failure is None, outcome.failure
    wrong = type("Wrong", (Says,), {"wrong": True})
    failure = explore(wrong, runs=100, seed=4, confirm=False).failure
    assert failure is not None
    assert "the model gives [1.0]" in str(failure.exception)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (float("nan"), float("nan"), True),
        ({"a": [(float("nan"), 1)]}, {"a": [(float("nan"), 1)]}, True),
        ({"a": [(float("nan"), 1)]}, {"a": [(float("nan"), 2)]}, False),
        (Decimal("NaN"), Decimal("NaN"), True),
        (Decimal("NaN"), float("nan"), False),
        ([float("nan")], (float("nan"),), False),
        ([float("nan")], [float("nan"), 1], False),
        (complex(float("nan"), 1), complex(float("nan"), 2), False),
        (float("nan"), 1.0, False),
        (1, 1.0, True),
        ({1}, {2}, False),
    ],
)
def test_what_is_the_same(one: Any, other: Any, is_same: bool) -> None:
    """As Python has it, but for what is not a number; and equal states are one state."""
    assert same(one, other) is same(other, one) is is_same
    if is_same and type(one) is type(other):
        assert frozen(one) == frozen(other)
