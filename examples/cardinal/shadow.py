"""A second world beside the one under test, which runs the systems one after the other.

Whatever the scheduler of the first does, both must be equal after each tick.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from examples.cardinal.commands import Command
from examples.cardinal.events import DEFAULT, INTER_SHARD, Event
from examples.cardinal.ledger import difference, portrait
from examples.cardinal.schedulers import Sequential
from examples.cardinal.snapshot import apply, decode
from examples.cardinal.world import World


class Shadow:
    """Begins where the other world is."""

    def __init__(
        self, world: World, game: Callable[[World], None], waiting: Iterable[Command[Any]]
    ) -> None:
        self._other = world
        self._told: list[Event] = []
        options = replace(world.options, snapshot_rate=2**62, waiting_max=2**62)
        self._world = World(options, scheduler=Sequential())
        game(self._world)
        for kind in (DEFAULT, INTER_SHARD):
            self._world.events.handlers[kind].append(self._told.append)
        self._world.core.init(lambda event: None)
        apply(decode(world.encode()), self._world.core.state)
        self._world.height, self._world.now_s = world.height, world.now_s
        for command in waiting:
            self.send(command)

    def send(self, command: Command[Any]) -> None:
        self._world.commands.enqueue(command)

    async def tick(self, timestamp_s: float, told: list[Event]) -> None:
        """The same tick, and the same result."""
        self._told.clear()
        await self._world.tick(timestamp_s)
        assert self._told == told, f"events {told}, and in the order of registration {self._told}"
        wrong = difference(self._world, portrait(self._other), portrait(self._world))
        assert wrong is None, (
            f"the systems gave another result than in the order of registration: {wrong}"
        )
