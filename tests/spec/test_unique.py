"""Exactly one owner: now, at every instant of a block, and as an invariant of a machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foretold
from foretold.world.world import World


@pytest.mark.parametrize(
    ("owners", "more", "said"),
    [
        ({"a": [1], "b": [1]}, {}, "1 has 2 owners: a, b"),
        ({"a": [1, 1]}, {}, "1 has 2 owners: a, a"),
        ({"a": [], "b": []}, {"things": [1]}, "1 has no owner, and is not in flight"),
        ({"a": [1]}, {"in_flight": [1]}, "1 is owned by a, and is in flight as well"),
        ({"a": []}, {"in_flight": [1, 1]}, "1 is in flight 2 times"),
        ({"a": [1], "b": [1]}, {"in_flight": [1]}, "1 has 2 owners: a, b, and is in flight"),
        ({"a": [1, 2]}, {"things": [1]}, "2 is not one of the things"),
    ],
)
def test_what_is_wrong_is_told(owners: Any, more: Any, said: str) -> None:
    """Every way in which a thing can have the wrong number of owners."""
    with pytest.raises(foretold.PropertyViolated, match="not so for 1 of") as raised:
        foretold.unique(owners, **more)
    assert said in str(raised.value).splitlines()[1]


def test_what_is_right_is_counted() -> None:
    """Owned once or in flight once; the number says over how many things it ranged."""
    assert foretold.unique({"a": {1, 2}, "b": [3]}, in_flight=iter([4]), things=[1, 2, 3, 4]) == 4
    assert foretold.unique({}) == 0


def test_many_are_told_briefly() -> None:
    """Five lines, and how many more there are; the message is the user's."""
    with pytest.raises(foretold.PropertyViolated) as raised:
        foretold.unique({}, things=range(8), message="every entity lives somewhere")
    lines = str(raised.value).splitlines()
    assert lines[0] == "every entity lives somewhere: not so for 8 of 8"
    assert lines[-1] == "  and 3 more"
    assert len(lines) == 7


def test_a_mistake_is_told() -> None:
    """The things alone do not say whose they are."""
    with pytest.raises(foretold.UsageError, match="mapping from each host"):
        foretold.unique([1, 2])  # type: ignore[arg-type]  # the mistake


PORT = 80


class Herd:
    """Two hosts, and a sheep that walks from one to the other: out of the one before it is in the
    other. While it is on its way it stands in a journal, if there is one."""

    def __init__(self, journal: bool, hasty: bool = False) -> None:
        self.owned: dict[str, set[str]] = {"a": {"sheep"}, "b": set()}
        self.journal: list[str] = []
        self.keeps_journal, self.hasty = journal, hasty

    def check(self) -> int:
        return foretold.unique(self.owned, in_flight=self.journal, things=["sheep"])

    async def arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        self.owned["b"].add(name)
        self.journal[:] = []
        writer.close()

    async def serve(self) -> None:
        await asyncio.start_server(self.arrive, "0.0.0.0", PORT)
        await asyncio.Event().wait()

    async def walk(self) -> None:
        _, writer = await asyncio.open_connection("b", PORT)
        if not self.hasty:
            self.owned["a"].discard("sheep")
        if self.keeps_journal:
            self.journal.append("sheep")
        writer.write(b"sheep\n")
        await writer.drain()
        writer.close()

    async def go(self, world: World) -> None:
        world.host("b").start(self.serve)
        await world.host("b").listening(PORT)
        with foretold.throughout(self.check):
            await world.host("a").start(self.walk)
            await world.clock.advance(1)
        assert self.owned["b"] == {"sheep"}


def test_throughout_sees_what_lasts_for_a_moment() -> None:
    """Before and after the walk all is well: the moment at which the sheep is nowhere, or at two
    places, is between them. The journal makes it right."""
    for seed in range(5):
        foretold.run(Herd(journal=True).go, seed=seed)
        with pytest.raises(foretold.PropertyViolated, match="has no owner") as raised:
            foretold.run(Herd(journal=False).go, seed=seed)
        assert "seen at" in str(raised.value.__notes__)
        assert "on a" in str(raised.value.__notes__)
        with pytest.raises(foretold.PropertyViolated, match="has 2 owners: a, b"):
            foretold.run(Herd(journal=False, hasty=True).go, seed=seed)


def test_throughout_fails_the_run_even_if_swallowed() -> None:
    """As `always` does; and a check that is false or raises anything fails as well."""

    async def swallowed(world: World) -> None:
        stock = [1]
        try:
            with foretold.throughout(lambda: stock[0] >= 0):
                stock[0] = -1
                await asyncio.sleep(0)
                stock[0] = 1
        except AssertionError:
            pass

    with pytest.raises(foretold.PropertyViolated, match=r"the condition at test_unique.py:\d+"):
        foretold.run(swallowed)

    async def broken() -> None:
        with foretold.throughout(lambda: 1 / 0):
            pass

    with pytest.raises(ZeroDivisionError):
        foretold.run(broken)

    async def wrong() -> None:
        async def check() -> None: ...

        with foretold.throughout(check):
            pass

    with pytest.raises(foretold.UsageError, match="throughout takes a plain function"):
        foretold.run(wrong)


class Pasture(foretold.Machine):
    """The herd as a machine: the invariant is looked at at every instant, not after calls."""

    steps = 3
    journal = True

    async def setup(self) -> None:
        self.herd = Herd(journal=self.journal)
        self.world.host("b").start(self.herd.serve)
        await self.world.host("b").listening(PORT)

    @foretold.rule()
    async def walk(self) -> None:
        self.herd.owned = {"a": {"sheep"}, "b": set()}
        await self.world.host("a").start(self.herd.walk)
        await self.world.clock.advance(1)

    @foretold.invariant(when="instant")
    def one_owner(self) -> int:
        """The sheep is at one place."""
        return self.herd.check()


def test_an_invariant_of_every_instant() -> None:
    """It finds what no invariant after calls can see, counts what it ranged over, and is silent
    where all is right."""
    run = foretold.run(Pasture)
    assert run.tally.invariants["one_owner"].checks > 20
    assert run.tally.invariants["one_owner"].ranged == run.tally.invariants["one_owner"].checks
    lost = type("Lost", (Pasture,), {"journal": False})
    with pytest.raises(foretold.PropertyViolated, match="has no owner") as raised:
        foretold.run(lost)
    assert "the invariant one_owner failed" in str(raised.value.__notes__)
    failure = foretold.explore(lost, runs=5, confirm=False).failure
    assert failure is not None
    assert len(failure.story.calls) == 1


def test_an_invariant_of_every_instant_does_not_wait() -> None:
    """An async one is refused, with what to write instead."""
    with pytest.raises(foretold.UsageError, match="checked after every instant"):

        class Waits(foretold.Machine):
            @foretold.rule()
            def step(self) -> None: ...

            @foretold.invariant(when="instant")
            async def look(self) -> None: ...
