"""A world: the core, its commands and events, its snapshots, and the loop that ticks.

world = World(WorldOptions(address="eu-1"))
adventure.setup(world)
await world.start()
world.send("ada", Attack(target, 10))
await world.tick(time.time())
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from examples.cardinal.bugs import planted
from examples.cardinal.codec import fields_of
from examples.cardinal.commands import Backlog, CommandManager, MemoryBacklog
from examples.cardinal.ecs import Core
from examples.cardinal.events import Event, EventManager
from examples.cardinal.keeper import Keeper
from examples.cardinal.schedulers import Scheduler, Sequential
from examples.cardinal.snapshot import Snapshot, apply, encode
from examples.cardinal.stores import MemoryStore, SnapshotStore
from examples.cardinal.system import Hook, Run

T = TypeVar("T", bound=type)
LOG = logging.getLogger("cardinal")
LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class WorldOptions:
    """What a shard is like."""

    address: str = "world"
    tick_s: float = 0.05
    snapshot_rate: int = 20
    """Ticks from one snapshot to the next."""
    event_capacity: int = 1024
    waiting_max: int = 100_000
    """Commands that may wait for the next tick."""
    snapshot_s_max: float = 2.0


class World:
    """One shard of a game. Everything is registered before `start`."""

    def __init__(
        self,
        options: WorldOptions | None = None,
        *,
        store: SnapshotStore | None = None,
        backlog: Backlog | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self.options = options or WorldOptions()
        held = MemoryBacklog() if backlog is None else backlog
        self.commands = CommandManager(self.options.address, held, self.options.waiting_max)
        self.core = Core(self.commands, scheduler or Sequential())
        self.events = EventManager(self.options.event_capacity)
        self.keeper = Keeper(MemoryStore() if store is None else store, held)
        self.event_types: dict[str, type] = {}
        self.height = 0
        self.now_s = 0.0
        self.followers: list[Callable[[World], None]] = []
        """Called after each tick: what changed is in `core.state.changes`."""
        self._resends = planted("events_twice_after_restore")

    # --- what a game registers -------------------------------------------------------------------

    def component(self, kind: T) -> T:
        """A dataclass whose fields all have defaults, and whose objects nobody changes."""
        kind()
        self.core.registry.register(kind.__name__, kind)
        return kind

    def command(self, kind: T) -> T:
        self.commands.register(kind)
        return kind

    def event(self, kind: T) -> T:
        fields_of(kind)
        self.event_types[kind.__name__] = kind
        return kind

    def system(
        self,
        run: Run,
        hook: Hook = Hook.UPDATE,
        *,
        reads: Iterable[type] | None = None,
        writes: Iterable[type] | None = None,
    ) -> Run:
        """With `reads` and `writes`, it may run at the same time as others."""
        self.core.add_system(run, hook, reads, writes)
        return run

    # --- from tick to tick -----------------------------------------------------------------------

    async def start(self) -> None:
        """Fill a new world, or go on from the last snapshot."""
        self.core.init(self._emit)
        self.events.clear()  # nobody plays yet
        found = await self.keeper.newest()
        if found is not None:
            self._go_on_from(found)
        else:
            self.commands.restore(0)

    def send(self, persona: str, payload: Any) -> int:
        """A command for the next tick. When this returns, it will be done."""
        return self.commands.enqueue(self.commands.command(persona, payload))

    async def tick(self, timestamp_s: float) -> None:
        """Take the commands, run the systems, send the events, keep a snapshot now and then."""
        self.now_s = timestamp_s
        self.commands.drain()
        self.core.tick(timestamp_s, self.height, self._emit)
        told = self.events.waiting() if self._resends else []
        for error in await self.events.dispatch():
            LOG.warning("an event was not delivered: %s", error)
        if self.height % self.options.snapshot_rate == 0:
            await self.snapshot(told)
        self.height += 1
        for follower in self.followers:
            follower(self)

    def _emit(self, event: Event) -> None:
        self.events.enqueue(replace(event, height=self.height))

    # --- snapshots -------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The state as a snapshot has it."""
        return encode(self.core.state, self.height, self.now_s, self.commands.applied, [])

    async def snapshot(self, told: list[Event] | tuple[Event, ...] = ()) -> None:
        """Best effort: a world goes on without, and can be restored from an older one."""
        applied = self.commands.applied
        events = [(each.kind, each.address, each.height) for each in told]
        data = encode(self.core.state, self.height, self.now_s, applied, events)
        try:
            async with asyncio.timeout(self.options.snapshot_s_max):
                await self.keeper.save(data, applied)
        except Exception as error:
            LOG.warning("no snapshot of tick %d: %r", self.height, error)

    async def restore(self) -> bool:
        """Go back to the newest snapshot that can be read; False if there is none. Commands that
        came after it wait for the next tick again."""
        found = await self.keeper.newest()
        if found is None:
            self._begin_anew()
            self.commands.restore(0)
            return False
        self._go_on_from(found)
        return True

    def _go_on_from(self, snapshot: Snapshot) -> None:
        apply(snapshot, self.core.state)
        self.core.scheduler.reset()
        self.events.clear()
        for kind, address, height in snapshot.events:
            self.events.enqueue(Event(kind, address, None, height))
        self.height = snapshot.height + 1
        self.now_s = snapshot.timestamp_s
        self.commands.restore(snapshot.applied)

    def _begin_anew(self) -> None:
        self.core.reset()
        self.height, self.now_s = 0, 0.0
        self.core.init(self._emit)
        self.events.clear()

    async def reset(self) -> None:
        """A new world: no snapshot, no command, height 0. What is registered stays."""
        await self.keeper.clear()
        self.commands.clear()
        self._begin_anew()

    def close(self) -> None:
        """End the scheduler's threads."""
        self.core.scheduler.close()


class RunLoop:
    """Ticks a world in real time, until it is cancelled. It can be paused and stepped."""

    def __init__(self, world: World, clock: Callable[[], float] = time.time) -> None:
        self.world = world
        self._clock = clock
        self._going = asyncio.Event()
        self._going.set()
        self._busy = asyncio.Lock()

    @property
    def paused(self) -> bool:
        return not self._going.is_set()

    async def run(self) -> None:
        """Start the world and tick it for ever. A cancel leaves a last snapshot behind. A tick that
        raises does not: it was not finished, and is made again after the next start."""
        world = self.world
        await world.start()
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        try:
            while True:
                await self._going.wait()
                await self._tick()
                next_s = max(next_s + world.options.tick_s, loop.time())
                await asyncio.sleep(next_s - loop.time())
        except asyncio.CancelledError:
            async with self._busy:
                if world.height:
                    await self._last_snapshot()
            raise
        finally:
            world.close()

    async def _tick(self) -> None:
        async with self._busy:
            # A tick is whole: who cancels the loop waits for its end.
            work = asyncio.ensure_future(self.world.tick(self._clock()))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await work
                raise

    async def _last_snapshot(self) -> None:
        self.world.height -= 1  # a snapshot belongs to the tick that was made last
        await self.world.snapshot()
        self.world.height += 1

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    async def step(self) -> None:
        """One tick of a paused world."""
        assert self.paused, "pause the loop first"
        await self._tick()

    async def reset(self) -> None:
        async with self._busy:
            await self.world.reset()
