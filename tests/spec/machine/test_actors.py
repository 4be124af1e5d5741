"""Several actors act at the same time, and really overlap; one alone acts step by step."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

import foretold
from tests.helpers import again, run_of
from tests.spec.machine.programs import GuardedTill, Till


class Meeting(foretold.Machine):
    """Notes how many are inside at the same time."""

    actors = 4
    most = 0

    def __init__(self) -> None:
        self.inside: list[str] = []

    @foretold.rule()
    async def visit(self, actor: foretold.Actor) -> None:
        assert actor.name not in self.inside, "an actor does one thing at a time"
        self.inside.append(actor.name)
        Meeting.most = max(Meeting.most, len(self.inside))
        await asyncio.sleep(0.01)
        self.inside.remove(actor.name)


@pytest.mark.usefixtures("one_session")
def test_calls_overlap() -> None:
    """Up to four at once, never two of one actor, and not in every run."""
    seen = set()
    for seed in range(30):
        Meeting.most = 0
        foretold.run(Meeting, seed=seed)
        seen.add(Meeting.most)
    assert max(seen) == 4
    assert min(seen) <= 2


@pytest.mark.usefixtures("one_session")
def test_one_actor_acts_step_by_step() -> None:
    """`actors=1`: each call returns before the next begins; said by the class or by a setting."""
    for seed in range(10):
        Meeting.most = 0
        foretold.run(Meeting, seed=seed, actors=1)
        assert Meeting.most <= 1


@pytest.mark.parametrize(
    ("actors", "names", "roles"),
    [
        (2, ["actor1", "actor2"], ["actor", "actor"]),
        (["buyer", "buyer", "admin"], ["buyer1", "buyer2", "admin"], ["buyer", "buyer", "admin"]),
        (["solo"], ["solo"], ["solo"]),
    ],
)
def test_names_and_roles(actors: Any, names: list[str], roles: list[str]) -> None:
    """A number gives numbered actors; roles are numbered where they come twice."""
    seen: list[Any] = []

    class Cast(foretold.Machine):
        def setup(self) -> None:  # type: ignore[override]  # a plain method does as well
            seen.extend((actor.name, actor.role, actor.index) for actor in self.cast)

        @foretold.rule()
        def step(self) -> None:
            """Nothing to do."""

    foretold.run(Cast, actors=actors)
    assert seen == list(zip(names, roles, range(len(names)), strict=True))


def test_an_actor_keeps_what_it_is_given() -> None:
    """Attributes, items and context variables stay with the actor for the run, and only there."""
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="nobody")

    class Keeps(foretold.Machine):
        actors = 3

        @foretold.rule()
        async def step(self, actor: foretold.Actor) -> None:
            assert actor.get("visits", 0) == actor["visits"] if "visits" in actor else True
            assert mine.get() in ("nobody", actor.name)
            mine.set(actor.name)
            await asyncio.sleep(0.001)
            actor.visits = actor.get("visits", 0) + 1
            assert mine.get() == actor.name

    for seed in range(5):
        foretold.run(Keeps, seed=seed)


def test_a_missing_attribute_says_where_to_set_it() -> None:
    """`actor.web` before anybody has set it: the message shows the line to write."""

    class Forgot(foretold.Machine):
        @foretold.rule()
        def step(self, actor: foretold.Actor) -> None:
            actor.web.get("/")

    with pytest.raises(AttributeError, match=r"for actor in self\.cast: actor\.web"):
        foretold.run(Forgot)


@pytest.mark.usefixtures("one_session")
def test_values_are_seen_when_the_rule_has_returned() -> None:
    """Not while it is under way; and by all actors."""

    class Late(foretold.Machine):
        actors = 4
        made = foretold.Bundle[int]("made")

        def __init__(self) -> None:
            self.returned: set[int] = set()
            self.begun = 0

        @foretold.rule(target=made)
        async def make(self) -> int:
            self.begun += 1
            number = self.begun
            await asyncio.sleep(0.01 * (number % 3))
            self.returned.add(number)
            return number

        @foretold.rule(one=made)
        async def use(self, actor: foretold.Actor, one: int) -> None:
            assert one in self.returned
            foretold.sometimes(len(self.returned) < self.begun, "another one is under way")

    reached = [foretold.run(Late, seed=seed).reached for seed in range(20)]
    assert any(each.get("another one is under way") for each in reached)


def test_a_race_is_found_and_its_correction_holds() -> None:
    """The till goes below zero only if two take at the same time; a lock prevents it."""
    found = foretold.explore(Till, runs=100, seed=0, shrink=False, confirm=False).failure
    assert found is not None
    assert "below_zero" in str(found.exception.__notes__)
    assert foretold.explore(Till, runs=100, actors=1, confirm=False).failure is None
    assert foretold.explore(GuardedTill, runs=100, confirm=False).failure is None


@pytest.mark.usefixtures("one_session")
def test_one_tape_one_run() -> None:
    """The same seed gives the same digest, and so does the recording; other seeds give others."""
    digests = set()
    for seed in range(8):
        first = run_of(Till, seed, recording=True)
        digests.add(first.digest)
        assert run_of(Till, seed).digest == first.digest
        replayed = again(Till, first.tape.recorded())
        assert (type(replayed.error), replayed.virtual_s) == (type(first.error), first.virtual_s)
    assert len(digests) == 8


def test_a_deadlock_names_the_calls() -> None:
    """Two who wait for each other for ever: it is found at once, and told by rule and actor."""

    class Stuck(foretold.Machine):
        actors = 2

        def __init__(self) -> None:
            self.locks = asyncio.Lock(), asyncio.Lock()

        @foretold.rule()
        async def forth(self) -> None:
            async with self.locks[0]:
                await asyncio.sleep(0.01)
                async with self.locks[1]:
                    """Both."""

        @foretold.rule()
        async def back(self) -> None:
            async with self.locks[1]:
                await asyncio.sleep(0.01)
                async with self.locks[0]:
                    """Both."""

    failure = foretold.explore(Stuck, runs=50, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Deadlock)
    assert ".forth-" in str(failure.exception)
    assert ".back-" in str(failure.exception)
    program = failure.story[failure.story.index("The program, ") :]
    program = program.split("No task")[0].split("All take")[0]
    assert program.count("still under way") == 2
    assert "together:" in program
