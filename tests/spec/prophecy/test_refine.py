"""Refinement: mappings in machines and alone, history variables, and models that only watch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.spec.model import check_interference
from tests.spec.prophecy.accounts import Accounts


class Counter:
    """The model: a number."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int) -> None:
        self.count += n


class Log(foretold.Machine):
    """The system keeps all numbers; what it stands for is their sum."""

    model = Counter
    actors = 2
    steps = 10
    loses = False

    def __init__(self) -> None:
        self.log: list[int] = []

    @foretold.rule(n=st.integers(1, 3))
    async def add(self, n: int) -> None:
        import asyncio

        await asyncio.sleep(0.001)
        if not (self.loses and n == 3):
            self.log.append(n)

    @foretold.refines
    def as_counter(self, history: list[Any]) -> dict[str, int]:
        assert sum(done.arguments["n"] for done in history) >= sum(self.log)
        return {"count": sum(self.log)}


class Loses(Log):
    """It loses the number 3."""

    loses = True


def test_states_are_compared_through_the_mapping() -> None:
    """Also where calls overlap: some order explains the state. The history has each call."""
    assert foretold.explore(Log, runs=40, seed=1).failure is None
    failure = foretold.explore(Loses, runs=40, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotRefined)
    assert "'count': system 0, model 3" in str(failure.exception)


def test_it_is_looked_at_after_every_action() -> None:
    """A difference that the next call repairs is found: the end alone would not show it."""

    class Repairs(Log):
        actors = 1

        @foretold.rule(n=st.integers(1, 3))
        async def add(self, n: int) -> None:
            late = getattr(self, "late", 0)
            self.log.append(late)
            self.late = n

        @foretold.rule()
        def flush(self) -> None:
            self.log.append(getattr(self, "late", 0))
            self.late = 0

    failure = foretold.explore(Repairs, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert "after add(n=1) the system is not in the model's state" in str(failure.exception)


class Account:
    """A system that is compared without a machine; it forgets cents."""

    def __init__(self) -> None:
        self.euros = 0

    async def add(self, n: int) -> int:
        self.euros += n // 100
        return self.euros


@foretold.refines(Counter)
def as_counter(account: Account) -> dict[str, int]:
    """Cents."""
    return {"count": account.euros * 100}


def test_a_mapping_without_a_machine() -> None:
    """One action on local state: rm(impl(s)) = model(rm(s)), wherever the system was before."""

    async def main() -> None:
        account = Account()
        account.euros = 7
        assert await as_counter.check(account, "add", 200) == 9
        with pytest.raises(foretold.NotRefined) as caught:
            await as_counter.check(account, "add", 250)
        assert str(caught.value) == (
            "after add(n=250) the system is not in the model's state\n"
            "'count': system 1100, model 1150\n"
            "system: {'count': 1100}\n"
            "model:  {'count': 1150}"
        )

    foretold.run(main)


def test_a_mapped_state_is_a_copy() -> None:
    """A mapping that gives a list of the system itself: what the system does to it later does not
    change what was compared before."""

    class Lists:
        def __init__(self) -> None:
            self.items: list[int] = []

        def add(self, n: int) -> None:
            self.items.append(n)

    @foretold.refines(Lists)
    def as_itself(system: Lists) -> dict[str, Any]:
        return {"items": system.items}

    class Twice(Lists):
        def add(self, n: int) -> None:
            self.items += [n, n]

    async def main() -> None:
        system = Lists()
        before = as_itself.state(system)
        await as_itself.check(system, "add", 1)
        assert before == {"items": []}
        with pytest.raises(foretold.NotRefined):
            await as_itself.check(Twice(), "add", 1)

    foretold.run(main)


def test_a_mapping_watches() -> None:
    """A mapping that is async, two of them, and one without a model are refused."""
    with pytest.raises(foretold.UsageError, match="plain function"):

        @foretold.refines
        async def looks(self: Any) -> None: ...

    class Two(Log):
        @foretold.refines
        def other(self) -> dict[str, int]:
            return {}

    class NoModel(Log):
        model = None  # type: ignore[assignment]  # the mistake that is told

    for machine, said in ((Two, "2 mappings"), (NoModel, "no model")):
        with pytest.raises(foretold.UsageError, match=said):
            foretold.run(machine)


def test_a_model_that_changes_the_run_interferes() -> None:
    """The run with the model and the run without it have one digest; a mapping that does more than
    look is found by that, and the first event that differs is told."""
    check_interference(Accounts, seeds=[1, 2])

    class Meddles(Log):
        @foretold.refines
        def as_counter(self) -> dict[str, int]:
            import asyncio

            asyncio.get_running_loop().call_later(0.0005, lambda: None)
            return {"count": sum(self.log)}

    with pytest.raises(foretold.Interference) as caught:
        check_interference(Meddles, seeds=[1])
    text = str(caught.value)
    assert text.startswith("Meddles with seed 1: its model does not only watch. Event ")
    assert "\n  with the model:    " in text
    assert "\n  without the model: " in text
