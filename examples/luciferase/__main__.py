"""Bubbles that run by themselves, on the real network of this machine: loopback, ports that the
kernel chooses, a folder that is removed at the end.

    python -m examples.luciferase --bubbles 5 --entities 50 --seconds 3
"""

import argparse
import asyncio
import random
import tempfile

from examples.luciferase.bubble import Bubble, BubbleConfig
from examples.luciferase.entity import Entity, Region
from examples.luciferase.views import ViewService
from examples.luciferase.wire import Address

LOOPBACK = "127.0.0.1"
RADIUS, APART = 20.0, 30.0


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.luciferase", description=__doc__)
    parser.add_argument("--bubbles", type=int, default=5)
    parser.add_argument("--entities", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1, help="of positions and velocities")
    return parser.parse_args(given)


async def play(chosen: argparse.Namespace, folder: str) -> list[Bubble]:
    """All bubbles in this process, each with its own socket and its own journal."""
    service = ViewService(f"{folder}/views")
    views = await service.endpoint.open((LOOPBACK, 0))
    bubbles: list[Bubble] = []
    addresses: list[Address] = []
    for place in range(chosen.bubbles):
        region = Region((APART * place, 0.0, 0.0), RADIUS)
        name = f"bubble{place + 1}"
        config = BubbleConfig(
            name, (LOOPBACK, 0), region, f"{folder}/{name}", views, tuple(addresses), migrates=True
        )
        bubbles.append(Bubble(config))
        addresses.append(await bubbles[-1].open())
    settle(bubbles, chosen.entities, random.Random(chosen.seed))
    running = [asyncio.ensure_future(service.watch())]
    running += [asyncio.ensure_future(bubble.run()) for bubble in bubbles]
    try:
        done, _ = await asyncio.wait(
            running, timeout=chosen.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for each in done:
            each.result()
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return bubbles


def settle(bubbles: list[Bubble], entities: int, dice: random.Random, start: int = 0) -> None:
    """Entities everywhere, in all directions."""
    for number in range(start, start + entities):
        bubble = bubbles[number % len(bubbles)]
        x, y, z = bubble.config.region.center
        position = (x + dice.uniform(-15, 15), y + dice.uniform(-8, 8), z + dice.uniform(-8, 8))
        velocity = (dice.uniform(-20, 20), dice.uniform(-4, 4), dice.uniform(-4, 4))
        bubble.spawn(Entity(f"e{number + 1}", position, velocity))


def main(given: list[str] | None = None) -> None:
    chosen = arguments(given)
    with tempfile.TemporaryDirectory(prefix="luciferase-") as folder:
        bubbles = asyncio.run(play(chosen, folder))
    for bubble in bubbles:
        ledger = bubble.journal.ledger
        print(
            f"{bubble.name}: {bubble.ticks} ticks, {len(ledger.owned)} entities, "
            f"{len(ledger.applied)} sent, {len(ledger.tickets)} tickets, "
            f"{len(bubble.ghosts.ghosts)} ghosts, {len(ledger.leaving)} in flight",
            flush=True,
        )
    owned = [entity for bubble in bubbles for entity in bubble.journal.ledger.owned]
    print(f"{len(owned)} owned, {len(set(owned))} different", flush=True)


if __name__ == "__main__":
    main()
