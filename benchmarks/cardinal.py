"""What the generative kit costs beyond the game server that it tests.

    PYTHONPATH=. python benchmarks/cardinal.py [--runs 12] [--turns 5] [--output build/x.json]

A search of both games, and then the operations of its runs again, on the sequential engine alone.
Both in processor time, for 1,000 ticks. They take turns, and the best turn of each counts: whatever
else the machine does only makes a turn longer.

The engine alone does what the kit has made it do, and nothing else. Each run begins with an empty
store. Commands, ticks, resets, restores, starts and queries are those of the kit's run. Power is
cut at the same moments, snapshots are torn and hidden as they were, and each event goes to as many
handlers, which fail if they did. The engine alone has no simulation, no choice of operations and
arguments, no model, no checks, and no fakes that assert. Before anything is measured, the world at
the end of each run is compared with the kit's, byte for byte: both have done the same.

With another scheduler the kit runs a second world beside the first, so that only the sequential one
compares like with like.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import foretold
from examples.cardinal.commands import InboxFull, MemoryBacklog
from examples.cardinal.events import Event
from examples.cardinal.fakes import AssertingBacklog, AssertingStore, PowerCut, Supply
from examples.cardinal.games import adventure, market
from examples.cardinal.state import NoSuchEntity
from examples.cardinal.stores import MemoryStore
from examples.cardinal.testing import UNREGISTERED, Cardinal, machine_of
from examples.cardinal.world import World, WorldOptions

BAR = 2.0
SECONDS_BAR = 2.0
SEED = 100
SCHEDULERS = ("sequential", "permuted", "concurrent")
TURNS_LONG = 1
"""Of the concurrent scheduler, which takes as long as ten others."""
Operations = list[tuple[str, tuple[Any, ...]]]


def machine(setup: Any, scheduler: str) -> type[Cardinal]:
    """The game on one scheduler."""
    made = machine_of(setup)
    made.schedulers = (scheduler,)
    return made


def noted(setup: Any, scheduler: str, done: Operations) -> type[Cardinal]:
    """The same, which writes down what it does to the server."""

    def note(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            done.append((name, given))
            return real(*given)

        return call

    class Noted(machine(setup, scheduler)):  # type: ignore[misc]  # made for the game
        async def setup(self) -> None:
            done.append(("begin", ()))
            await super().setup()
            vars(self.store)["tear"] = note("tear", self.store.tear)

        async def teardown(self) -> None:
            done.append(("end", (self.server.encode(),)))
            await super().teardown()

        async def _boot(self, skipped: int = 0) -> None:
            done.append(("boot", (self.options, self.failing, self.store.hides_newest)))
            await super()._boot(skipped)
            for name in ("reset", "restore"):
                vars(self.server)[name] = note(name, getattr(self.server, name))

        async def _tick(self) -> None:
            done.append(("tick", (float(self.ticks + 1), self.supply.cut_at)))
            await super()._tick()

        def _send(self, *given: Any) -> Any:
            return note("send", super()._send)(*given)

        def _check_has(self, *given: Any) -> None:
            note("has", super()._check_has)(*given)

        def _check_queries(self, *given: Any) -> None:
            note("query", super()._check_queries)(*given)

    return Noted


class PlainStore(AssertingStore):
    """The kit's store without its checks: it is cut, torn and stale at the same moments."""

    def __init__(self, supply: Supply) -> None:
        super().__init__(supply, _ignore, _ignore)

    async def save(self, number: int, data: bytes) -> None:
        self._supply.reaches("store")
        await MemoryStore.save(self, number, data)
        self._supply.reaches("stored")


class PlainBacklog(AssertingBacklog):
    """The kit's backlog without its checks."""

    append = MemoryBacklog.append


def _ignore(number: int) -> None:
    """Nobody keeps a list of the snapshots."""


def _fail(event: Event) -> None:
    raise ConnectionError("nobody listens")


class Alone:
    """The engine without the kit: a method for each operation that was noted."""

    def __init__(self, setup: Any, *, compares: bool) -> None:
        self._setup = setup
        self._compares = compares
        self._told: list[Event] = []

    async def play(self, operations: Operations) -> None:
        """All of them, run after run."""
        for name, given in operations:
            work = getattr(self, name)(*given)
            if work is not None:
                await work

    def begin(self) -> None:
        self._supply = Supply()
        self._store, self._backlog = PlainStore(self._supply), PlainBacklog(self._supply)

    async def boot(self, options: WorldOptions, failing: bool, stale: bool) -> None:
        self._supply.cut_at, self._store.hides_newest = None, stale
        self._world = world = World(options, store=self._store, backlog=self._backlog)
        self._setup(world)
        for handlers in world.events.handlers.values():
            if failing:
                handlers.append(_fail)
            handlers.append(self._tell)
        await world.start()

    def _tell(self, event: Event) -> None:
        self._supply.reaches("dispatch")
        self._told.append(event)

    async def tick(self, timestamp_s: float, cut_at: str | None) -> None:
        self._told.clear()
        self._supply.cut_at = cut_at
        with suppress(PowerCut):
            await self._world.tick(timestamp_s)

    def send(self, persona: str, payload: Any) -> None:
        with suppress(InboxFull):
            self._world.send(persona, payload)

    async def reset(self) -> None:
        await self._world.reset()

    async def restore(self) -> None:
        await self._world.restore()

    def tear(self, how: str, at_percent: int) -> None:
        self._store.tear(how, at_percent)

    def has(self, entity: Any) -> None:
        core = self._world.core
        for name in (*core.registry.names(), UNREGISTERED):
            with suppress(NoSuchEntity):
                core.state.has(entity, name)

    def query(self, wanted: set[str]) -> None:
        state, names = self._world.core.state, self._world.core.registry.names()
        numbers = [names.index(name) for name in wanted if name != UNREGISTERED]
        for archetypes in (state.containing(numbers), state.exactly(numbers)):
            list(state.rows(archetypes, numbers))

    def end(self, expected: bytes) -> None:
        if self._compares and self._world.encode() != expected:
            raise AssertionError("the engine alone has not done what the kit has done to it")


def measure(setup: Any, scheduler: str, runs: int, turns: int) -> tuple[float, float]:
    """Seconds for 1,000 ticks: with the kit, and alone."""
    operations: Operations = []
    settings: dict[str, Any] = {"runs": runs, "seed": SEED, "confirm": False}
    kit = machine(setup, scheduler)
    foretold.explore(noted(setup, scheduler, operations), **settings).raise_failure()
    asyncio.run(Alone(setup, compares=True).play(operations))
    with_kit_s, alone_s = [], []
    for _ in range(turns):
        started = time.process_time()
        foretold.explore(kit, **settings).raise_failure()
        with_kit_s.append(time.process_time() - started)
        gc.collect()
        gc.disable()  # as it is in a run
        started = time.process_time()
        asyncio.run(Alone(setup, compares=False).play(operations))
        alone_s.append(time.process_time() - started)
        gc.enable()
    thousands = sum(name == "tick" for name, _ in operations) / 1_000
    return min(with_kit_s) / thousands, min(alone_s) / thousands


def main() -> int:
    """Measure, print, and say whether the bars were met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for game in (adventure, market):
        name = game.__name__.rpartition(".")[2]
        for scheduler in SCHEDULERS:
            turns = TURNS_LONG if scheduler == "concurrent" else given.turns
            kit_s, engine_s = measure(game.setup, scheduler, given.runs, turns)
            met = kit_s <= SECONDS_BAR and (scheduler != "sequential" or kit_s <= BAR * engine_s)
            figures[f"{name}, {scheduler}"] = {
                "kit_s": round(kit_s, 3), "engine_s": round(engine_s, 3),
                "ratio": round(kit_s / engine_s, 2), "met": met,
            }  # fmt: skip
            print(
                f"  {name:10} {scheduler:11} {kit_s:6.2f} s for 1,000 ticks, the engine alone "
                f"{engine_s:5.2f} s: {kit_s / engine_s:6.2f} times",
                flush=True,
            )
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0 if all(each["met"] for each in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
