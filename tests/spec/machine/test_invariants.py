"""Invariants: after every step, at quiet moments, at the end, and once faults have stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foretold
from foretold.world.world import World


@pytest.mark.usefixtures("one_session")
def test_after_every_step() -> None:
    """Once when all is set up, and once after each call that has returned."""

    class Looks(foretold.Machine):
        actors = 2

        def __init__(self) -> None:
            self.returned = self.looked = 0

        @foretold.initialize()
        def begin(self) -> None:
            """Not looked at in between: the machine is not ready yet."""

        @foretold.rule()
        async def step(self) -> None:
            await asyncio.sleep(0.01)
            self.returned += 1

        @foretold.invariant()
        def look(self) -> None:
            self.looked += 1
            assert self.looked == self.returned + 1

    for seed in range(10):
        foretold.run(Looks, seed=seed)


def test_the_first_bad_step_is_named() -> None:
    """The note says which invariant and after which call; the traceback ends in the user's line."""

    class Bad(foretold.Machine):
        def __init__(self) -> None:
            self.n = 0

        @foretold.rule()
        def step(self) -> None:
            self.n += 1

        @foretold.invariant()
        def small(self) -> None:
            assert self.n < 3

    with pytest.raises(AssertionError) as raised:
        foretold.run(Bad)
    assert raised.value.__notes__ == ["foretold: the invariant small failed after step()"]
    assert raised.traceback[-1].name == "small"


def test_false_is_a_violation_and_a_number_is_counted() -> None:
    """`return a == b` is a common way to write it; a number says over how many things it ranged."""

    class Returns(foretold.Machine):
        things = 0

        @foretold.rule()
        def step(self) -> None:
            """Nothing."""

        @foretold.invariant()
        def over(self) -> int:
            return 5

        @foretold.invariant()
        def nothing_wrong(self) -> bool:
            """All is as it should be."""
            return self.things == 0

    tally = foretold.explore(Returns, runs=5, confirm=False).tally.invariants
    assert tally["over"].ranged == 5 * tally["over"].checks > 50
    Returns.things = 1
    with pytest.raises(foretold.PropertyViolated, match="All is as it should be"):
        foretold.run(Returns)


def test_two_that_are_false_are_two_failures() -> None:
    """They have no line of the user's in the traceback: the invariant's own line tells them
    apart."""

    class Two(foretold.Machine):
        which = 0

        @foretold.rule()
        def one(self) -> None:
            self.which = self.which or 1

        @foretold.rule()
        def two(self) -> None:
            self.which = self.which or 2

        @foretold.invariant()
        def not_one(self) -> bool:
            return self.which != 1

        @foretold.invariant()
        def not_two(self) -> bool:
            return self.which != 2

    outcome = foretold.explore(Two, runs=30, keep_going=True, shrink=False, confirm=False)
    assert len(outcome.failures) == 2


def test_preconditions_of_invariants() -> None:
    """It is not looked at while its precondition is false."""

    class Sometimes(foretold.Machine):
        ready = False

        @foretold.rule()
        def step(self) -> None:
            self.ready = True

        @foretold.invariant()
        @foretold.precondition(lambda self: self.ready)
        def holds(self) -> None:
            assert self.ready

    foretold.run(Sometimes)


@pytest.mark.usefixtures("one_session")
def test_quiet_means_that_nobody_is_at_work() -> None:
    """No call is under way, background work has had its time, and no fault strikes; at the end of
    each run, and before it in some."""
    looks: list[int] = []

    class Quiet(foretold.Machine):
        world: World
        actors = 3
        faults = foretold.faults.network

        def __init__(self) -> None:
            self.busy = self.behind = self.looked = 0
            self.tasks: list[Any] = []

        @foretold.rule()
        async def step(self) -> None:
            self.busy += 1
            self.behind += 1
            self.tasks.append(asyncio.ensure_future(self.later()))
            await asyncio.sleep(0.01)
            self.busy -= 1

        async def later(self) -> None:
            await asyncio.sleep(0.5)
            self.behind -= 1

        @foretold.invariant(when="quiet")
        async def all_done(self) -> None:
            self.looked += 1
            assert self.world.is_calm
            await asyncio.sleep(0.01)
            assert (self.busy, self.behind) == (0, 0)

        async def teardown(self) -> None:
            looks.append(self.looked)

    for seed in range(20):
        foretold.run(Quiet, seed=seed)
    assert min(looks) >= 1
    assert max(looks) > 2


def test_the_end_is_looked_at_once() -> None:
    """After the last call, sync or async; and what is wrong then fails the run."""
    looked: list[str] = []

    class Ends(foretold.Machine):
        n = 0

        @foretold.rule()
        def step(self) -> None:
            self.n += 1

        @foretold.invariant(when="end")
        def plainly(self) -> None:
            looked.append("plainly")

        @foretold.invariant(when="end")
        async def later(self) -> None:
            looked.append("later")
            assert self.n == 0, "somebody has acted"

    with pytest.raises(AssertionError, match="somebody has acted") as raised:
        foretold.run(Ends)
    assert looked == ["plainly", "later"]
    assert raised.value.__notes__ == ["foretold: the invariant later failed"]


class Heals(foretold.Machine):
    """Becomes well some time after faults have stopped, or never."""

    world: World
    faults = foretold.faults.network
    needs_s = 20.0
    truthy = True

    def __init__(self) -> None:
        self.healed_at_s: float | None = None

    @foretold.rule()
    async def step(self) -> None:
        await asyncio.sleep(1)

    def well(self) -> bool:
        assert self.world.healed
        now_s = asyncio.get_running_loop().time()
        self.healed_at_s = now_s if self.healed_at_s is None else self.healed_at_s
        return now_s - self.healed_at_s >= self.needs_s

    @foretold.invariant(within_s=30)
    async def recovers(self) -> bool | None:
        """The service comes back."""
        if self.truthy:
            return self.well()
        assert self.well(), "still down"
        return None


@pytest.mark.parametrize("truthy", [True, False])
def test_liveness(truthy: bool) -> None:
    """It need not hold at once but within its time: by what it returns, or by not raising."""
    early = type("Early", (Heals,), {"truthy": truthy})
    foretold.run(early)
    late = type("Late", (Heals,), {"truthy": truthy, "needs_s": 31.0})
    with pytest.raises(AssertionError, match="The service comes back" if truthy else "still") as it:
        foretold.run(late)
    note = "did not become true within 30 s of virtual time after faults had stopped"
    assert note in str(it.value.__notes__)


@pytest.mark.parametrize("kind", [{"when": "quiet"}, {"when": "end"}, {"within_s": 5}, {}])
def test_a_number_is_never_a_verdict(kind: dict[str, Any]) -> None:
    """In every kind of invariant it says over how many things it ranged: over none, it holds, and
    the count of what it ranged over tells. `False` does not hold in any of them."""

    class Counts(foretold.Machine):
        result: Any = 0

        @foretold.rule()
        def step(self) -> None:
            """Nothing."""

        @foretold.invariant(**kind)
        def counts(self) -> Any:
            return self.result

    tally = foretold.explore(Counts, runs=3, confirm=False).tally.invariants["counts"]
    assert tally.checks > 0
    assert tally.ranged == 0
    Counts.result = False
    with pytest.raises(foretold.PropertyViolated):
        foretold.run(Counts)


def test_companions_go_along() -> None:
    """Whoever is registered sees each call begin and return, and quiet moments; what it raises
    fails the run. A model beside the system is one."""
    from foretold.spec.machine import course

    log: list[str] = []

    class Friend:
        def began(self, call: Any) -> None:
            log.append(f"{call.name} begins")

        def returned(self, call: Any) -> None:
            log.append(f"{call.name} returns {call.result}")
            assert call.result != 3, "not three"

        async def quiet(self) -> None:
            log.append("quiet")

        async def end(self) -> None:
            log.append("end")

    class Counts(foretold.Machine):
        n = 0

        @foretold.rule()
        def step(self) -> int:
            self.n += 1
            return self.n

    course.COMPANIONS.append(lambda course: Friend())
    try:
        foretold.run(Counts, steps=1)
        assert log == ["step begins", "step returns 1", "quiet", "end"]
        with pytest.raises(AssertionError, match="not three"):
            foretold.run(Counts, steps=30)
    finally:
        course.COMPANIONS.pop()
