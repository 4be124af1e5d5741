"""The machine for the command line, and larger worlds without faults.

foretold explore examples.luciferase.simulation:Luciferase
foretold explore examples.luciferase.simulation:Luciferase --plant
foretold explore examples.luciferase.simulation:five_bubbles --runs 3
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import foretold
from examples.luciferase.__main__ import settle
from examples.luciferase.bubble import Bubble, BubbleConfig
from examples.luciferase.entity import Region
from examples.luciferase.machine import FOLDER, PORT, Luciferase
from examples.luciferase.views import ViewService

__all__ = ["Luciferase", "Population", "five_bubbles", "populate"]

RADIUS, APART = 20.0, 30.0


@dataclass(frozen=True, slots=True)
class Population:
    """What a world of many entities looks like at its end."""

    owned: int
    in_flight: int
    migrated: int
    ghosts: int
    ticks: int


async def populate(
    world: foretold.World, bubbles: int, entities: int, seconds: float
) -> Population:
    """Entities wander through a row of bubbles and migrate by themselves."""
    living: list[Bubble] = []
    world.host("views").start(lambda: ViewService(f"{FOLDER}/views").run(("0.0.0.0", PORT)))
    address = {f"bubble{n}": (world.host(f"bubble{n}").ip, PORT) for n in range(bubbles)}
    for place, name in enumerate(address):
        config = BubbleConfig(
            name,
            address[name],
            Region((APART * place, 0.0, 0.0), RADIUS),
            f"{FOLDER}/{name}",
            (world.host("views").ip, PORT),
            (address["bubble0"],),
            migrates=True,
        )
        world.host(name).start(_main_of(config, living))
    await foretold.eventually(lambda: _are_stable(living, bubbles), within_s=10)
    for bubble in living:
        mine = entities // bubbles
        start = mine * living.index(bubble)
        await world.host(bubble.name).start(_settled(bubble, start, mine))
    await world.clock.advance(seconds)
    return _population(living)


def _main_of(config: BubbleConfig, living: list[Bubble]) -> Callable[[], Awaitable[None]]:
    async def main() -> None:
        living.append(Bubble(config))
        await living[-1].run()

    return main


def _are_stable(living: list[Bubble], bubbles: int) -> bool:
    return len(living) == bubbles and all(
        bubble.monitor.is_stable and len(bubble.monitor.view.members) == bubbles
        for bubble in living
    )


async def _settled(bubble: Bubble, start: int, count: int) -> None:
    settle([bubble], count, random.Random(start), start)


def _population(living: list[Bubble]) -> Population:
    ledgers = {bubble.name: bubble.journal.ledger for bubble in living}
    tickets = {name: ledger.tickets for name, ledger in ledgers.items()}
    flying = [
        leaving.entity.id
        for ledger in ledgers.values()
        for leaving in ledger.leaving.values()
        if leaving.ticket not in tickets[leaving.destination]
    ]
    owned = {name: ledger.owned for name, ledger in ledgers.items()}
    things = {entity for ledger in owned.values() for entity in ledger} | set(flying)
    foretold.unique(owned, in_flight=flying, things=sorted(things))
    return Population(
        owned=sum(map(len, owned.values())),
        in_flight=len(flying),
        migrated=sum(len(ledger.applied) for ledger in ledgers.values()),
        ghosts=sum(len(bubble.ghosts.ghosts) for bubble in living),
        ticks=sum(bubble.ticks for bubble in living),
    )


async def five_bubbles(world: foretold.World) -> Population:
    """5 bubbles, 200 entities, 60 seconds."""
    return await populate(world, 5, 200, 60.0)
