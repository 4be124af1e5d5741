"""What the generative kit costs beyond the game server that it tests.

    PYTHONPATH=. python benchmarks/cardinal.py [--runs 4] [--output build/cardinal.json]

A search of both games, and then the operations of its runs again, on the sequential engine alone:
no simulation, no checks, no model, fakes in memory. Both in processor time, for 1,000 ticks. With
another scheduler the kit runs a second world beside the first, so that only the sequential one
compares like with like.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import foretold
from examples.cardinal.commands import InboxFull, MemoryBacklog
from examples.cardinal.games import adventure, market
from examples.cardinal.stores import MemoryStore
from examples.cardinal.testing import Cardinal, machine_of
from examples.cardinal.world import World

BAR = 2.0
SECONDS_BAR = 2.0
SEED = 100
SCHEDULERS = ("sequential", "permuted", "concurrent")
Operations = list[tuple[str, tuple[Any, ...]]]


def machine(setup: Any, scheduler: str) -> type[Cardinal]:
    """The game on one scheduler."""
    made = machine_of(setup)
    made.schedulers = (scheduler,)
    return made


def noted(setup: Any, scheduler: str, done: Operations) -> type[Cardinal]:
    """The same, which writes down what it does to the server."""

    class Noted(machine(setup, scheduler)):  # type: ignore[misc]  # made for the game
        async def _tick(self) -> None:
            done.append(("tick", (float(self.ticks + 1),)))
            await super()._tick()

        def _send(self, persona: str, payload: Any) -> bool:
            done.append(("send", (persona, payload)))
            sent: bool = super()._send(persona, payload)
            return sent

        async def _boot(self, skipped: int = 0) -> None:
            done.append(("boot", (self.options,)))
            await super()._boot(skipped)
            shard, reset, restore = self.server, self.server.reset, self.server.restore

            async def reset_noted() -> None:
                done.append(("reset", ()))
                await reset()

            async def restore_noted() -> bool:
                done.append(("restore", ()))
                return await restore()

            vars(shard).update(reset=reset_noted, restore=restore_noted)

    return Noted


async def alone(setup: Any, operations: Operations) -> None:
    """The operations on the engine. A crash is a start on what is stored."""
    store, backlog = MemoryStore(), MemoryBacklog()
    world = World()
    for name, given in operations:
        if name == "boot":
            world = World(given[0], store=store, backlog=backlog)
            setup(world)
            await world.start()
        elif name == "send":
            with suppress(InboxFull):
                world.send(*given)
        else:
            await getattr(world, name)(*given)


def measure(setup: Any, scheduler: str, runs: int) -> tuple[float, float]:
    """Seconds for 1,000 ticks: with the kit, and alone."""
    operations: Operations = []
    settings: dict[str, Any] = {"runs": runs, "seed": SEED, "confirm": False}
    kit = machine(setup, scheduler)
    foretold.explore(kit, runs=1, seed=1, confirm=False)  # imports, caches
    started = time.process_time()
    foretold.explore(kit, **settings).raise_failure()
    with_kit_s = time.process_time() - started
    foretold.explore(noted(setup, scheduler, operations), **settings).raise_failure()
    gc.collect()
    gc.disable()  # as it is in a run
    started = time.process_time()
    asyncio.run(alone(setup, operations))
    alone_s = time.process_time() - started
    gc.enable()
    thousands = sum(name == "tick" for name, _ in operations) / 1_000
    return with_kit_s / thousands, alone_s / thousands


def main() -> int:
    """Measure, print, and say whether the bars were met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for game in (adventure, market):
        name = game.__name__.rpartition(".")[2]
        for scheduler in SCHEDULERS:
            kit_s, engine_s = measure(game.setup, scheduler, given.runs)
            met = kit_s <= SECONDS_BAR and (scheduler != "sequential" or kit_s <= BAR * engine_s)
            figures[f"{name}, {scheduler}"] = {
                "kit_s": round(kit_s, 3), "engine_s": round(engine_s, 3),
                "ratio": round(kit_s / engine_s, 2), "met": met,
            }  # fmt: skip
            print(
                f"  {name:10} {scheduler:11} {kit_s:6.2f} s for 1,000 ticks, the engine alone "
                f"{engine_s:5.2f} s: {kit_s / engine_s:5.1f} times",
                flush=True,
            )
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0 if all(each["met"] for each in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
