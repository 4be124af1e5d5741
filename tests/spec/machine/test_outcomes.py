"""What becomes of a rule that raises: refused, failed and tolerated, or the end of the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foretold
from foretold.world.world import World


class Outcomes(foretold.Machine):
    """A rule for each way in which a call can end."""

    tolerates = (ConnectionError,)

    @foretold.rule()
    async def works(self) -> int:
        return 1

    @foretold.rule()
    async def refuses(self) -> None:
        raise foretold.Refused("sold out")

    @foretold.rule()
    def loses(self) -> None:
        raise ConnectionResetError("gone")

    @foretold.rule()
    async def loses_some(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lose())
            group.create_task(self._lose())

    async def _lose(self) -> None:
        raise ConnectionAbortedError

    @foretold.rule()
    @foretold.precondition(lambda self: False)
    def never(self) -> None:
        """Nobody gets here."""


def test_each_outcome_is_counted() -> None:
    """Tried, precondition false, refused, failed, succeeded: by rule, and they add up."""
    tally = foretold.explore(Outcomes, runs=20, confirm=False).tally.rules
    assert tally["works"].succeeded == tally["works"].tried > 20
    assert tally["refuses"].refused == tally["refuses"].tried > 20
    assert tally["loses"].failed == tally["loses"].tried > 20
    assert tally["loses_some"].failed == tally["loses_some"].tried > 20
    assert tally["never"].tried == 0 < tally["never"].precondition_false


def test_rules_with_the_same_conditions_are_asked_together() -> None:
    """Many rules of a machine often depend on one thing. That is found out once for each slot, and
    all of the rules are counted. A rule with one more condition is asked by itself."""
    asked: list[int] = []

    def is_open(self: Any) -> bool:
        asked.append(self.used)
        return bool(self.used < 5)

    if_open = foretold.precondition(is_open)

    class Doors(foretold.Machine):
        """Three doors are open for a while; one of them is locked. A window is always open."""

        used = 0

        @if_open
        @foretold.rule()
        def front(self) -> None:
            self.used += 1

        @if_open
        @foretold.rule()
        def back(self) -> None:
            self.used += 1

        @if_open
        @foretold.precondition(lambda self: False)
        @foretold.rule()
        def locked(self) -> None:
            """Nobody gets here."""

        @foretold.rule()
        def window(self) -> None:
            """Counted as well."""

    tally = foretold.run(Doors, seed=1).tally.rules
    slots = sum(each.tried for each in tally.values())
    closed = [used for used in asked if used >= 5]
    assert tally["front"].tried + tally["back"].tried == 5
    assert tally["front"].precondition_false == tally["back"].precondition_false > 0
    assert tally["locked"].precondition_false == slots
    assert tally["window"].tried == slots - 5
    assert tally["window"].precondition_false == 0
    assert len(closed) == tally["front"].precondition_false  # not once for each of them


@pytest.mark.parametrize("is_async", [True, False])
def test_all_else_fails_the_run_and_names_the_rule(is_async: bool) -> None:
    """The user's own exception comes out, with a note that says which rule, with which values."""

    def broken(self: Any) -> None:
        raise LookupError("no such item")

    async def broken_later(self: Any) -> None:
        await asyncio.sleep(0.1)
        raise LookupError("no such item")

    function: Any = broken_later if is_async else broken
    cls = type("Broken", (foretold.Machine,), {function.__name__: foretold.rule()(function)})
    with pytest.raises(LookupError, match="no such item") as raised:
        foretold.run(cls)
    assert raised.value.__notes__ == [f"foretold: raised by {function.__name__}()"]


@pytest.mark.usefixtures("one_session")
def test_a_failure_ends_the_others_and_teardown_runs() -> None:
    """Who is in the middle of something is cancelled; what teardown raises then does not count."""
    log: list[str] = []

    class Ends(foretold.Machine):
        actors = 4
        steps = 60

        async def setup(self) -> None:
            log.append("setup")

        async def teardown(self) -> None:
            log.append("teardown")
            raise RuntimeError("follows from the failure")

        @foretold.rule()
        async def waits(self) -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        @foretold.rule()
        async def fails(self) -> None:
            await asyncio.sleep(1)
            raise LookupError

    failures = 0
    for seed in range(20):
        log.clear()
        try:
            foretold.run(Ends, seed=seed)
        except LookupError:
            failures += "cancelled" in log
        except RuntimeError:
            pass
        assert (log[0], log[-1]) == ("setup", "teardown")
    assert failures > 3


def test_what_teardown_raises_counts_if_nothing_else_did() -> None:
    """A clean-up that fails is a failure."""

    class Dirty(foretold.Machine):
        @foretold.rule()
        def step(self) -> None:
            """Nothing."""

        async def teardown(self) -> None:
            raise RuntimeError("left open")

    with pytest.raises(RuntimeError, match="left open"):
        foretold.run(Dirty)


def test_setup_and_initialize_are_calm() -> None:
    """No fault strikes before the first rule, nor in teardown."""
    calm: list[bool] = []

    class Calm(foretold.Machine):
        world: World
        faults = foretold.faults.network

        async def setup(self) -> None:
            calm.append(self.world.is_calm)

        @foretold.initialize()
        async def begin(self) -> None:
            calm.append(self.world.is_calm)

        @foretold.rule()
        async def step(self) -> None:
            assert not self.world.is_calm
            assert "partition" in self.world.settings.faults

        async def teardown(self) -> None:
            calm.append(self.world.is_calm)

    foretold.run(Calm)
    assert calm == [True, True, True]


def test_a_run_without_values_is_discarded() -> None:
    """`foretold.draw` in a rule that gives no value: the run says nothing, as everywhere."""
    from hypothesis import strategies as st

    class NoValue(foretold.Machine):
        @foretold.rule()
        def step(self) -> None:
            foretold.draw(st.integers().filter(lambda n: False))

    outcome = foretold.explore(NoValue, runs=3, confirm=False)
    assert outcome.discarded == 3
    assert outcome.vacuous
