"""The machine: bubbles on hosts of their own, entities that migrate, and everything that can happen
to the processes and to the network between them.

At every instant each entity is in exactly one place: in the store of one bubble, or in flight with
one journal that will bring it to one. `changed` checks that after each step of each bubble. What a
dead process had is what its journal has, since memory never knows more than the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from hypothesis import strategies as st

import foretold
from examples.luciferase.bubble import Bubble, BubbleConfig
from examples.luciferase.entity import Entity, Region
from examples.luciferase.journal import APPLIED
from examples.luciferase.migration import BURST, MIGRATIONS_PER_S
from examples.luciferase.results import Migrated, Result
from examples.luciferase.views import ViewService
from foretold.handles import HostTask

PORT = 7000
RADIUS, APART = 20.0, 35.0
FOLDER = "/var/lib/luciferase"
ENTITIES = ("e1", "e2", "e3")
NAMES = tuple(f"bubble{number}" for number in range(1, 6))
TICK_S = 0.02
"""Half as many ticks as usual: a run is mostly ticks."""
TICKS_MAX = 40
"""A migration ends within lock (50 ms), total (300), one phase more (100) and abort (100)."""
CONVERGED_S = 2.0
LATENCY_S = (0.004, 0.02)
"""So slow that a fault can strike between two messages of a migration."""


@dataclass(slots=True)
class Order:
    """A migration that was asked for."""

    token: str
    entity: str
    source: str
    destination: str
    is_applied: bool = False


class Luciferase(foretold.Machine):
    """Three to five bubbles in a row, and three entities."""

    actors = 3
    steps = 12
    quiet_s = 0.2
    faults = (
        foretold.faults.network.only(
            "partition", "one_way", "hold", "latency", "loss", "duplication", "reordering"
        )
        + foretold.faults.hosts
    )
    weights: ClassVar[dict[str, float]] = {
        "migrate": 4,
        "migrate_cut": 2,
        "retry": 2,
        "crowd": 0.4,
        "shake": 0.5,
        "set_clock": 0.3,
        "wait": 0.5,
    }
    orders = foretold.Bundle[Order]("orders")

    async def setup(self) -> None:
        self.names = NAMES[: foretold.knob("bubbles", (3, 4, 5))]
        self.stable_ticks = foretold.knob("ticks until a view is stable", (5, 15))
        self.work_s = foretold.knob("seconds that a tick computes", (0.0, 0.008))
        self.bubbles: dict[str, Bubble] = {}
        self.lives: dict[str, HostTask[None]] = {}
        """A task in each process that ends with it, and not before."""
        self.spawned = self.tokens = 0
        self.admitted_s: dict[str, list[float]] = {}
        """When each process let migrations begin, by its own clock."""
        self.world.network.latency(*LATENCY_S)
        views = self.world.host("views")
        views.start(lambda: ViewService(f"{FOLDER}/views").run(("0.0.0.0", PORT)))
        for place, name in enumerate(self.names):
            self.world.host(name).start(self._main_of(self._config(name, place)))
        await foretold.eventually(self._is_stable, "the first view is not stable", within_s=5)
        for entity, velocity in zip(ENTITIES, (12.0, -9.0, 5.0), strict=True):
            spawned = Entity(entity, (16.0, 0.0, 0.0), (velocity, velocity / 2, 0.0))
            await self._on(self.names[0], partial(_spawn, spawned))

    def _config(self, name: str, place: int) -> BubbleConfig:
        address = {each: (self.world.host(each).ip, PORT) for each in (*self.names, "views")}
        return BubbleConfig(
            name,
            address[name],
            Region((APART * place, 0.0, 0.0), RADIUS),
            f"{FOLDER}/{name}",
            address["views"],
            (address[self.names[0]], address[self.names[1]]),
            stable_ticks=self.stable_ticks,
            tick_s=TICK_S - self.work_s,
            work_s=self.work_s,
        )

    def _main_of(self, config: BubbleConfig) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            bubble = self.bubbles[config.name] = Bubble(config, changed=self.changed)
            self.admitted_s[config.name] = []
            self.lives[config.name] = self.world.host(config.name).start(_forever())
            self.each_entity_is_in_one_place()
            await bubble.run()

        return main

    # --- what is asked of the bubbles ------------------------------------------------------------

    @foretold.rule(target=orders, entity=st.sampled_from(ENTITIES), away=st.integers(0, 3))
    async def migrate(self, entity: str, away: int) -> Order:
        """Move an entity to another bubble."""
        order = self._order(entity, away)
        ended = await self._move(order)
        foretold.sometimes(ended.is_success, "a migration succeeds")
        assert not ended.is_idempotent, f"{order.token} is fresh, and was applied already"
        return order

    @foretold.rule(
        target=orders,
        entity=st.sampled_from(ENTITIES),
        away=st.integers(0, 3),
        way=st.sampled_from(("both ways", "there", "back")),
        after_ms=st.sampled_from((1, 10, 20, 30, 45)),
        lasts_ms=st.sampled_from((500, 120, 1500)),
    )
    async def migrate_cut(
        self, entity: str, away: int, way: str, after_ms: int, lasts_ms: int
    ) -> Order:
        """Move an entity while the link between the two bubbles is cut for a while."""
        order = self._order(entity, away)
        cut = self._cut(order.source, order.destination, way, after_ms / 1_000, lasts_ms / 1_000)
        await foretold.together(self._move(order), cut)
        return order

    @foretold.rule(entity=st.sampled_from(ENTITIES), away=st.integers(0, 3))
    async def migrate_twice(self, entity: str, away: int) -> None:
        """Two callers want one entity in two places at the same time."""
        one, other = self._order(entity, away), self._order(entity, away + 1)
        both = await foretold.together(self._move(one), self._move(other))
        assert not all(each.is_success for each in both), f"{entity} went to two bubbles"

    @foretold.rule(
        entity=st.sampled_from(ENTITIES),
        away=st.integers(0, 3),
        after_ms=st.sampled_from((1, 10, 20, 30)),
    )
    async def migrate_while_leaving(self, entity: str, away: int, after_ms: int) -> None:
        """Move an entity while a bubble leaves, so that the view changes."""
        order = self._order(entity, away)

        async def leave() -> None:
            await asyncio.sleep(after_ms / 1_000)
            await self._leave(away)

        await foretold.together(self._move(order), leave())

    @foretold.rule(order=orders)
    async def retry(self, order: Order) -> None:
        """Ask once more with the same token, as a caller does that has not heard the answer."""
        was_applied = order.is_applied
        ended = await self._move(order)
        if was_applied:
            foretold.reachable("a token is used again")
            assert ended.is_idempotent, f"{order.token} was applied, and ended {ended.result.name}"

    @foretold.rule(which=st.integers(0, 4))
    async def leave(self, which: int) -> None:
        """A bubble without entities leaves."""
        if not await self._leave(which):
            raise foretold.Refused("it stays")

    @foretold.precondition(lambda self: any(not it.is_running for it in self._living()))
    @foretold.rule(which=st.integers(0, 4))
    async def join(self, which: int) -> None:
        """A bubble that has left comes back."""
        away = [it for it in self._living() if not it.is_running]
        if not away:
            raise foretold.Refused("another actor was faster")
        away[which % len(away)].start()

    @foretold.rule(which=st.integers(0, 4))
    async def shake(self, which: int) -> None:
        """For a while datagrams between two neighbours are slow and overtake each other."""
        network, place = self.world.network, which % (len(self.names) - 1)
        pair = (self.names[place], self.names[place + 1])
        network.latency(0.08, 0.09, between=pair)
        network.reordering(0.5, between=pair)
        await asyncio.sleep(0.6)
        network.reordering(0.0, between=pair)
        network.latency(*LATENCY_S, between=pair)

    @foretold.rule(which=st.integers(0, 4))
    async def crowd(self, which: int) -> None:
        """Threads push entities about and count them."""
        counts = await self._on(self.names[which % len(self.names)], lambda it: it.crowd(3))
        for table, index in counts:
            assert table == index, f"{table} entities in the table, {index} in the index"

    @foretold.rule(which=st.integers(0, 4), by_s=st.sampled_from((-2.0, 60.0, -3600.0)))
    async def set_clock(self, which: int, by_s: float) -> None:
        """Somebody sets the wall clock of a bubble's machine."""
        self.world.host(self.names[which % len(self.names)]).clock.skew(by_s)

    @foretold.rule(ms=st.sampled_from((20, 100, 400)))
    async def wait(self, ms: int) -> None:
        """Time passes."""
        await self.world.clock.advance(ms / 1_000)

    # --- what must hold --------------------------------------------------------------------------

    def changed(self, entity: str) -> None:
        """Called by bubbles after each step of a migration."""
        self.spawned = max(self.spawned, ENTITIES.index(entity) + 1)
        self.each_entity_is_in_one_place()

    @foretold.invariant()
    def each_entity_is_in_one_place(self) -> int:
        """In one store, or in one journal that has to bring it somewhere."""
        owned = {name: it.journal.ledger.owned for name, it in self.bubbles.items()}
        return foretold.unique(owned, in_flight=self._in_flight(), things=ENTITIES[: self.spawned])

    @foretold.invariant(when="quiet")
    def nothing_is_left_of_migrations(self) -> int:
        """Tables hold what is under way and nothing else."""
        for bubble in self._living():
            left = list(bubble.departures.running)
            assert not left, f"{bubble.name} still has migrations under way: {left}"
            migrating = bubble.fsm.entities_in_migration()
            contexts = list(bubble.fsm.contexts)
            assert len(contexts) <= migrating, f"{bubble.name} has contexts of {contexts}"
        return len(self.bubbles)

    @foretold.invariant(within_s=CONVERGED_S)
    def it_converges(self) -> int:
        """Faults have stopped: each entity has an owner, each boundary its ghosts."""
        running = [bubble for bubble in self._living() if bubble.is_running]
        for entity in ENTITIES:
            assert self._owner(entity) is not None, f"{entity} has no owner"
        members = {bubble.name for bubble in running}
        for one in running:
            view = one.monitor.view
            assert set(view.members) == members, f"{one.name} sees {sorted(view.members)}"
            for other in running:
                if one is not other:
                    _check_boundary(one, other)
        return len(running)

    # --- how -------------------------------------------------------------------------------------

    def _in_flight(self) -> list[str]:
        """Entities that have left and not arrived, whether the source knows of it or not."""
        flying = []
        for bubble in self.bubbles.values():
            for leaving in bubble.journal.ledger.leaving.values():
                tickets = self.bubbles[leaving.destination].journal.ledger.tickets
                if tickets.get(leaving.ticket) != APPLIED:
                    flying.append(leaving.entity.id)
        return flying

    def _owner(self, entity: str) -> str | None:
        owners = (name for name, it in self.bubbles.items() if entity in it.journal.ledger.owned)
        return next(owners, None)

    def _order(self, entity: str, away: int) -> Order:
        """A fresh token for a migration from where the entity is."""
        source = self._owner(entity)
        if source is None:
            raise foretold.Refused("in flight")
        others = [name for name in self.names if name != source]
        self.tokens += 1
        return Order(f"t{self.tokens}", entity, source, others[away % len(others)])

    async def _cut(self, one: str, other: str, way: str, after_s: float, lasts_s: float) -> None:
        network = self.world.network
        if way == "back":
            one, other = other, one
        await asyncio.sleep(after_s)
        network.partition(one, other, one_way=way != "both ways")
        await asyncio.sleep(lasts_s)
        network.repair(one, other)

    async def _leave(self, which: int) -> bool:
        empty = [it.name for it in self._living() if it.is_running and not len(it.store)]
        return bool(empty) and await self._on(empty[which % len(empty)], Bubble.leave)

    def _living(self) -> list[Bubble]:
        return [it for name, it in self.bubbles.items() if not self.lives[name].done()]

    def _alive(self, name: str) -> Bubble:
        if self.lives[name].done():
            raise foretold.Refused(f"{name} is down")
        return self.bubbles[name]

    def _is_stable(self) -> bool:
        return len(self.bubbles) == len(self.names) and all(
            bubble.monitor.is_stable and len(bubble.monitor.view.members) == len(self.names)
            for bubble in self.bubbles.values()
        )

    async def _on(self, name: str, call: Callable[[Bubble], Awaitable[Any]]) -> Any:
        """Let a bubble do something, in its own process."""
        bubble = self._alive(name)
        try:
            return await self.world.host(name).start(_run(call, bubble))
        except foretold.HostDied:
            raise foretold.Refused(f"{name} has died meanwhile") from None

    async def _move(self, order: Order) -> Migrated:
        """One call of `migrate` at the source, with what must hold for each."""
        bubble = self._alive(order.source)
        ticks, began_ns = bubble.ticks, bubble.clock.nanos()
        ended: Migrated = await self._on(order.source, partial(self._migrated, order))
        order.is_applied |= ended.is_success or ended.is_idempotent
        took = bubble.ticks - ticks
        assert took <= TICKS_MAX, f"{order.token} took {took} ticks of {order.source}"
        if ended.result is Result.TIMEOUT:
            took_ms = (bubble.clock.nanos() - began_ns) / 1e6
            assert took_ms >= 100, f"{order.token} timed out after {took_ms:.1f} ms"
        return ended

    async def _migrated(self, order: Order, bubble: Bubble) -> Migrated:
        """In the source's process. Its limit is counted here as well, by a clock that is right."""
        now_s, admitted_s = bubble.clock.nanos() / 1e9, self.admitted_s[bubble.name]
        permits = _permits(admitted_s, now_s)
        admitted_s.append(now_s)
        ended = await bubble.migrate(order.entity, order.destination, order.token)
        is_limited = ended.reason == "rate limited"
        if is_limited or _is_known(ended):
            admitted_s.remove(now_s)
        else:
            assert permits > 0.9, f"{order.token} is let through, with {permits:.1f} permits left"
        assert not is_limited or permits < 1.1, f"{order.token} is refused: {permits:.1f} permits"
        return ended


def _permits(admitted_s: list[float], now_s: float) -> float:
    """How many migrations may begin now, if these have begun."""
    counted = enumerate(reversed(admitted_s), 1)
    spent = (BURST - number + MIGRATIONS_PER_S * (now_s - s) for number, s in counted)
    return min(spent, default=BURST)


def _is_known(ended: Migrated) -> bool:
    """Whether the call had nothing to do, and needed no permit."""
    return ended.is_idempotent or ended.reason in ("this token", "another token")


def _check_boundary(one: Bubble, other: Bubble) -> None:
    """Two bubbles that are near know each other, and the other has ghosts of what is near it."""
    gap = one.config.region.distance(other.config.region.center) - other.config.region.radius
    if gap > one.config.interest:
        return
    assert other.name in one.neighbours.known, f"{one.name} does not know {other.name}"
    for entity in one.store:
        if other.config.region.distance(entity.position) <= one.config.ghost_zone:
            ghost = other.ghosts.ghosts.get(entity.id)
            assert ghost is not None, f"{other.name} has no ghost of {entity.id}"
            assert ghost.owner == one.name, f"{other.name} has a ghost of {ghost.owner}"


async def _run(call: Callable[[Bubble], Awaitable[Any]], bubble: Bubble) -> Any:
    return await call(bubble)


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


async def _spawn(entity: Entity, bubble: Bubble) -> None:
    bubble.spawn(entity)
