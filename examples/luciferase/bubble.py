"""A bubble: a region of space in a process of its own, with its entities, ghosts and neighbours.

It ticks every 10 ms. Each bucket of 100 ms it tells its neighbours where it is, with the ghosts
that concern them. `run` is a process: it recovers from the journal, joins, and goes on until it is
cancelled.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import foretold
from examples.luciferase.arrivals import Arrivals
from examples.luciferase.bugs import planted
from examples.luciferase.clock import NANOS_PER_MILLI, Clock, SystemClock
from examples.luciferase.entity import Entity, Region, Vector, along
from examples.luciferase.fsm import EntityMigrationStateMachine, State
from examples.luciferase.ghosts import BUCKET_MS, GhostStateManager
from examples.luciferase.journal import Journal
from examples.luciferase.migration import Departures, Parts
from examples.luciferase.neighbours import Neighbour, Neighbours, region_of, where
from examples.luciferase.results import DEFAULT, Migrated, Profile
from examples.luciferase.store import CELL, EntityStore
from examples.luciferase.views import BEAT_S, STABLE_TICKS, View, ViewMonitor
from examples.luciferase.wire import Address, Endpoint, Message

TICK_S = 0.01
SWEEP_S = 0.5
JOIN_S = (0.05, 0.8)
"""JOIN is repeated after the first pause, then after twice as long, up to the second."""
REJOIN_S = 0.25
GHOSTS_PER_DATAGRAM = 50


@dataclass(frozen=True, slots=True)
class BubbleConfig:
    """What a bubble is started with."""

    name: str
    address: Address
    region: Region
    folder: str
    views: Address
    acceptors: tuple[Address, ...] = ()
    profile: Profile = DEFAULT
    stable_ticks: int = STABLE_TICKS
    tick_s: float = TICK_S
    work_s: float = 0.0
    """How long a tick computes before it goes on: with many entities, a good part of `tick_s`."""
    interest: float = 60.0
    """Bubbles whose surface is nearer than this are neighbours."""
    ghost_zone: float = 15.0
    """Entities nearer than this to a neighbour are its ghosts."""
    migrates: bool = False
    """Entities that enter a neighbour's region migrate by themselves."""


def nothing(entity: str) -> None:
    """Nothing watches where entities are."""


class Bubble:
    """One process of the simulation."""

    def __init__(
        self,
        config: BubbleConfig,
        clock: Clock | None = None,
        changed: Callable[[str], None] = nothing,
    ) -> None:
        self.config = config
        self.name = config.name
        self.clock: Clock = clock or SystemClock()
        self.endpoint = Endpoint(config.name)
        self.journal = Journal(config.folder)
        self.store = EntityStore()
        self.fsm = EntityMigrationStateMachine(self.clock)
        self.ghosts = GhostStateManager(self.clock)
        self.monitor = ViewMonitor(config.name, config.stable_ticks)
        self.neighbours = Neighbours(config.name, config.region, config.interest)
        parts = Parts(
            config.name, self.clock, config.profile, self.endpoint, self.journal, self.store,
            self.fsm, self.monitor, self.ghosts, changed,
        )  # fmt: skip
        self.departures = Departures(parts)
        self.arrivals = Arrivals(parts, lambda: self.is_running)
        self.changed = changed
        self.address = config.address
        self.ticks = 0
        self.is_running = False
        self.is_stopped = False
        self._ticking = asyncio.Lock()
        self._bucket = 0
        self._moved_ns = self.clock.nanos()
        self._tasks: set[asyncio.Task[Migrated]] = set()
        self._tried: dict[str, int] = {}
        """In which bucket an entity at the edge was last sent off."""
        self._recover()
        self.endpoint.handlers |= {
            "view": self._view,
            "join": self._joined,
            "move": self._moved,
            "leave": self._left,
        }

    def _recover(self) -> None:
        for entity in self.journal.ledger.owned.values():
            self.store.add(entity)
            self.fsm.initialize(entity.id)

    # --- the process -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled."""
        if not self.endpoint.is_open:
            await self.open()
        self.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tick_forever(), name="tick")
                tasks.create_task(self._beat_forever(), name="beat")
                tasks.create_task(self._join_forever(), name="join")
                tasks.create_task(self._sweep_forever(), name="sweep")
        finally:
            self.endpoint.close()
            self.journal.close()

    async def open(self) -> Address:
        """Bind the socket. A configured port 0 becomes a real one here."""
        self.address = await self.endpoint.open(self.config.address)
        return self.address

    def start(self) -> None:
        self.is_running, self.is_stopped = True, False
        self._moved_ns = self.clock.nanos()

    async def stop(self) -> bool:
        """No tick runs when this returns. False if the bubble was started again meanwhile."""
        self.is_running = False
        if not planted("stop_leaves_tick"):
            async with self._ticking:
                pass
        self.is_stopped = not self.is_running
        return self.is_stopped

    async def leave(self) -> bool:
        """Say goodbye. A bubble that still has something to look after stays."""
        ledger = self.journal.ledger
        if not self.is_running or ledger.owned or ledger.leaving or self.arrivals.reserved:
            return False
        if not await self.stop():
            return False
        for each in self.neighbours.known.values():
            self.endpoint.tell(each.address, "leave")
        await self.endpoint.ask(self.config.views, "leave", within_s=0.5, every_s=0.05)
        return True

    def spawn(self, entity: Entity) -> None:
        """A new entity begins here."""
        self.journal.write(op="own", entity=entity.to_list())
        self.store.add(self.journal.ledger.owned[entity.id])
        self.fsm.initialize(entity.id)
        self.changed(entity.id)

    async def migrate(self, entity: str, destination: str, token: str = "") -> Migrated:
        return await self.departures.migrate(entity, destination, token or uuid.uuid4().hex)

    async def crowd(self, times: int) -> list[tuple[int, int]]:
        """Two worker threads push entities about while two others count them."""
        read, push = self.store.census, self.store.push
        entities = [entity.id for entity in self.store]

        def pusher() -> None:
            for turn in range(times):
                for entity in entities:
                    push(entity, CELL if turn % 2 == 0 else -CELL)

        def reader() -> list[tuple[int, int]]:
            return [read() for _ in range(times)]

        workers = [asyncio.to_thread(each) for each in (pusher, reader, pusher, reader)]
        _, first, _, second = await asyncio.gather(*workers)
        return [*(first or ()), *(second or ())]

    # --- what goes on by itself ------------------------------------------------------------------

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(self.config.tick_s)
            if self.is_running:
                async with self._ticking:
                    await self._tick()

    async def _tick(self) -> None:
        self.ticks += 1
        self.monitor.tick()
        self._move()
        await asyncio.sleep(self.config.work_s)  # messages are not kept waiting by a large tick
        self.arrivals.tick()
        self.ghosts_expired(self.ghosts.cull())
        bucket = self.clock.nanos() // (BUCKET_MS * NANOS_PER_MILLI)
        if bucket != self._bucket:
            self._bucket = bucket
            await self._synchronize()
        self._settle()
        foretold.always(not self.is_stopped, "a tick runs after stop has returned", of=self.name)

    def _move(self) -> None:
        """Everything moves on; what leaves the region turns round, or migrates."""
        now_ns = self.clock.nanos()
        seconds, self._moved_ns = (now_ns - self._moved_ns) / 1e9, now_ns
        region = self.config.region

        def step(entity: Entity) -> Vector:
            position = along(entity.position, entity.velocity, seconds)
            return position if region.distance(position) <= 0 else self._at_edge(entity, position)

        self.store.advance(step)

    def _at_edge(self, entity: Entity, position: Vector) -> Vector:
        region = self.config.region
        if self.config.migrates and self._has_entered_another(entity, position):
            return position
        if region.distance(position) > region.distance(entity.position):
            vx, vy, vz = entity.velocity
            entity.velocity = (-vx, -vy, -vz)
        return region.clamp(position)

    def _has_entered_another(self, entity: Entity, position: Vector) -> bool:
        """Then it migrates; if that fails, it is tried again in a later bucket."""
        if self._tried.get(entity.id) == self._bucket:
            return False
        for each in self.neighbours.known.values():
            if each.region.distance(position) <= 0:
                self._tried[entity.id] = self._bucket
                task = asyncio.create_task(self.migrate(entity.id, each.name))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return True
        return False

    def _settle(self) -> None:
        """Rolled back entities are owned again, departed ones are ghosts or forgotten."""
        counts = self.fsm.counts()
        if counts.get(State.ROLLBACK_OWNED):
            for entity in self.fsm.in_state(State.ROLLBACK_OWNED):
                self.fsm.transition(entity, State.OWNED)
        if counts[State.DEPARTED]:
            for entity in self.fsm.in_state(State.DEPARTED):
                self.fsm.transition(entity, State.GHOST)
        if counts[State.GHOST]:
            for entity in self.fsm.in_state(State.GHOST):
                if not self.ghosts.is_ghost(entity):
                    self.fsm.forget(entity)
                    self._tried.pop(entity, None)

    def ghosts_expired(self, expired: list[str]) -> None:
        if expired:
            foretold.reachable("a ghost expires")

    async def _beat_forever(self) -> None:
        while True:
            if self.is_running:
                self.endpoint.tell(self.config.views, "beat", address=self.address)
            await asyncio.sleep(BEAT_S)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.departures.sweep()
            self.arrivals.forget_old()

    # --- neighbours ------------------------------------------------------------------------------

    async def _join_forever(self) -> None:
        """Ask one bubble after the other which bubbles are near, again and again."""
        pause_s, turn = JOIN_S[0], 0
        while True:
            acceptors = self._acceptors()
            if self.is_running and acceptors:
                acceptor, turn = acceptors[turn % len(acceptors)], turn + 1
                answer = await self.endpoint.ask(
                    acceptor, "join", within_s=JOIN_S[0], every_s=JOIN_S[0], **self._whereabouts()
                )
                for each in [] if answer is None else answer["neighbours"]:
                    self._meet(each["name"], each)
                pause_s = JOIN_S[0] if answer is not None else min(2 * pause_s, JOIN_S[1])
            await asyncio.sleep(REJOIN_S if pause_s == JOIN_S[0] else pause_s)

    def _acceptors(self) -> list[Address]:
        """Those of the configuration, and all members: the former may be gone, or far away."""
        found = dict.fromkeys([*self.config.acceptors, *self.monitor.view.members.values()])
        found.pop(self.address, None)
        return list(found)

    def _joined(self, message: Message) -> Message | None:
        if not self.is_running:
            return None
        nearest = self.neighbours.nearest(region_of(message), without=message["from"])
        self._meet(message["from"], message)
        near = [each.to_message() for each in nearest]
        return {"neighbours": [*near, {"name": self.name, **self._whereabouts()}]}

    def _moved(self, message: Message) -> None:
        if self.is_running:
            self._meet(message["from"], message)
            region = region_of(message)
            for word in message["ghosts"]:
                if word[0] not in self.store:
                    self.ghosts.hear(word, message["from"], region)

    def _left(self, message: Message) -> None:
        self.neighbours.left(message["from"])

    def _meet(self, name: str, message: Message) -> None:
        """A newcomer is told at once where this bubble is."""
        if self.neighbours.heard(name, message, self.clock.nanos()):
            self._tell_moved(self.neighbours.known[name], [])

    def _whereabouts(self) -> Message:
        return where(self.config.region, self.address)

    def _tell_moved(self, to: Neighbour, ghosts: list[Entity]) -> None:
        words = [ghost.to_list() for ghost in ghosts]
        self.endpoint.tell(to.address, "move", ghosts=words, **self._whereabouts())

    async def _synchronize(self) -> None:
        """Once per bucket: where this bubble is, and what each neighbour should see of it."""
        self.neighbours.cull(self.clock.nanos())
        zone, told = self.config.ghost_zone, set()
        for each in list(self.neighbours.known.values()):
            near = [e for e in self.store if each.region.distance(e.position) <= zone]
            for entity in near:
                if entity.id not in told:
                    told.add(entity.id)
                    entity.next_word()
            for start in range(0, max(1, len(near)), GHOSTS_PER_DATAGRAM):
                self._tell_moved(each, near[start : start + GHOSTS_PER_DATAGRAM])
            await asyncio.sleep(0)

    # --- views -----------------------------------------------------------------------------------

    def _view(self, message: Message) -> None:
        if self.monitor.adopt(View.from_message(message)):
            self.arrivals.view_changed()
