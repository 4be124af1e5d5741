"""A small application with all that an application can declare, for tests of the harness."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Protocol

from hypothesis import strategies as st

import foretold
from foretold.harness import Harness, SimulationWorld, Wiring, intent, observer, query


class Bank(Protocol):
    """What the shop needs of a bank."""

    async def charge(self, amount: int) -> None:
        """Take money."""


class MemoryBank:
    """A bank that only counts."""

    def __init__(self) -> None:
        self.taken = 0

    async def charge(self, amount: int) -> None:
        """Take money."""
        await asyncio.sleep(0)
        self.taken += amount


class Shop:
    """Sells things, and counts them."""

    ports: ClassVar[dict[str, type]] = {"bank": Bank}

    def __init__(self, world: SimulationWorld) -> None:
        self.world = world
        self.sold = 0
        self.here = 0

    @intent
    async def buy(self, actor: str, pieces: int = 1) -> dict[str, object]:
        """Sell some."""
        if pieces > 10:
            raise foretold.Refused("too many")
        await self.world.ports.bank.charge(pieces)
        self.sold += pieces
        foretold.event("Sold", pieces=pieces, to=actor)
        return {"id": self.world.ids.next("order"), "pieces": pieces}

    @intent(cap="admin")
    def refund(self, order: str) -> str:
        """For admins alone."""
        foretold.event("Refunded", order=order)
        return order

    @intent
    def later(self, ms: int) -> None:
        """Sell one by the clock."""
        self.world.clock.schedule(lambda: foretold.event("Due"), ms)

    @intent
    async def meet(self) -> int:
        """How many are here at the same time."""
        self.here += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.here

    @query
    def count(self) -> int:
        """How many were sold."""
        return self.sold

    @observer
    def never_more_than_hundred(self) -> None:
        """What must hold."""
        assert self.sold <= 100, f"sold {self.sold}"

    def inspect_state(self, entity: str) -> object:
        """Of anything."""
        return {"id": entity, "sold": self.sold}


shop = Harness(
    Shop,
    {"memory": Wiring({"bank": lambda world: MemoryBank()})},
    strategies={"few": st.integers(1, 3)},
)
