"""examples/cardinal as an engine: systems, schedulers, snapshots, stores, the loop that ticks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import foretold
from examples.cardinal.archetype import EntityId
from examples.cardinal.commands import FileBacklog, MemoryBacklog
from examples.cardinal.games import adventure
from examples.cardinal.ledger import portrait
from examples.cardinal.object_store import ObjectStore
from examples.cardinal.schedulers import Concurrent, Permuted, Scheduler, Sequential
from examples.cardinal.snapshot import BadSnapshot, apply, decode
from examples.cardinal.state import NoSuchComponent, NoSuchEntity
from examples.cardinal.stores import FileStore, HttpStore, MemoryStore, SnapshotStore
from examples.cardinal.system import Hook, SystemContext, UndeclaredAccess
from examples.cardinal.testing import check_world
from examples.cardinal.world import RunLoop, World, WorldOptions

FOLDER = "/var/lib/cardinal"


@dataclass(frozen=True)
class Number:
    """A component."""

    value: int = 0


@dataclass(frozen=True)
class Other:
    """Another."""

    text: str = ""


@dataclass(frozen=True)
class Said:
    """Between systems."""

    text: str


def world_of(*systems: Any, **more: Any) -> World:
    """A world with both components and these systems: (function, hook, declarations)."""
    world = World(**more)
    world.component(Number)
    world.component(Other)
    for run, hook, declared in systems:
        world.system(run, hook, **declared)
    return world


def test_systems_run_by_hook_and_in_order() -> None:
    """Init once; then before, while and after, each in the order of registration. What systems tell
    each other lives for one tick."""
    seen: list[str] = []

    def named(name: str) -> Any:
        def run(ctx: SystemContext) -> None:
            seen.append(f"{name}{len(ctx.signals(Said))}")
            ctx.signal(Said(name))

        return run

    order = [("c", Hook.POST_UPDATE), ("a", Hook.PRE_UPDATE), ("b", Hook.UPDATE), ("i", Hook.INIT)]

    async def main() -> None:
        world = world_of(*((named(name), hook, {}) for name, hook in order))
        await world.start()
        await world.tick(1.0)
        await world.tick(2.0)

    foretold.run(main)
    assert seen == ["i0", "a0", "b1", "c2", "a0", "b1", "c2"]


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda ctx: ctx.create(Number(1)), "creates an entity"),
        (lambda ctx: ctx.destroy(0), "destroys an entity"),
        (lambda ctx: ctx.remove(0, Number), "removes a component"),
        (lambda ctx: ctx.set(0, Number(2)), "adds a component"),
        (lambda ctx: ctx.set(0, Other("x")), "writes Other and does not declare it"),
        (lambda ctx: ctx.find(Other), "reads Other and does not declare it"),
        (lambda ctx: ctx.get(0, Other), "reads Other and does not declare it"),
        (lambda ctx: ctx.signal(Said("x")), "writes Said and does not declare it"),
    ],
)
def test_a_system_keeps_to_its_declaration(deed: Any, said: str) -> None:
    """What the scheduler cannot know of is refused in a sentence."""

    def fill(ctx: SystemContext) -> None:
        ctx.create()

    def touch(ctx: SystemContext) -> None:
        deed(ctx)

    async def main() -> None:
        world = world_of((fill, Hook.INIT, {}), (touch, Hook.UPDATE, {"writes": (Number,)}))
        await world.start()
        await world.tick(1.0)

    with pytest.raises(UndeclaredAccess, match=said):
        foretold.run(main)


def test_entities_and_components_that_are_not_there() -> None:
    """`get` says which is missing; removing an absent component changes nothing."""
    state = world_of().core.state
    entity = state.create()
    with pytest.raises(NoSuchComponent, match="entity 0 has no Number"):
        state.get(entity, 0)
    state.remove(entity, 0)
    state.set(entity, 0, Number(3))
    assert state.get(entity, 0) == Number(3)
    state.destroy(entity)
    with pytest.raises(NoSuchEntity, match="there is no entity 0"):
        state.get(entity, 0)


async def played(scheduler: Scheduler, ticks: int = 6) -> Any:
    """What the first game comes to with this scheduler."""
    world = World(scheduler=scheduler)
    adventure.setup(world)
    await world.start()
    for number in range(ticks):
        world.send("ada", adventure.AttackPlayer(EntityId(number), 60 * number))
        world.send("ada", adventure.RaiseShield(EntityId(number + 1), number))
        await world.tick(float(number))
    check_world(world)
    world.close()
    return portrait(world)


def test_schedulers_agree() -> None:
    """Whatever the order of threads, and in every order that the declarations allow."""
    calm = asyncio.run(played(Sequential()))

    async def concurrent() -> None:
        assert await played(Concurrent()) == calm
        reverse = Permuted(lambda count: count - 1)
        assert await played(reverse) == calm

    foretold.explore(concurrent, runs=8, seed=0, confirm=False).raise_failure()


def test_an_error_in_a_thread_is_an_error_of_the_tick() -> None:
    """The first by registration is raised, after all that had begun have ended."""

    def fine(ctx: SystemContext) -> None:
        pass

    def broken(ctx: SystemContext) -> None:
        raise RuntimeError("broken")

    async def main() -> None:
        declared = {"reads": ()}
        systems = [(run, Hook.UPDATE, declared) for run in (fine, broken, fine)]
        world = world_of(*systems, scheduler=Concurrent())
        await world.start()
        try:
            await world.tick(1.0)
        finally:
            world.close()

    for seed in range(4):
        with pytest.raises(RuntimeError, match="broken"):
            foretold.run(main, seed=seed)


# ---------------------------------------------------------------- snapshots


def test_equal_worlds_give_equal_bytes() -> None:
    """A snapshot that is restored and taken again is the same; a damaged one is refused."""

    async def main() -> bytes:
        world = World()
        adventure.setup(world)
        await world.start()
        await world.tick(1.0)
        data = world.encode()
        apply(decode(data), world.core.state)
        assert world.encode() == data
        return data

    data = foretold.run(main).value
    for place in range(0, len(data), 7):
        with pytest.raises(BadSnapshot):
            decode(data[:place])
        damaged = bytearray(data)
        damaged[place] ^= 4
        with pytest.raises(BadSnapshot):
            decode(damaged) if place >= 4 else decode(b"XXXX" + data[4:])


async def use(store: SnapshotStore) -> None:
    """What each store does."""
    assert await store.numbers() == []
    await store.save(10, b"ten")
    await store.save(9, b"nine")
    await store.save(10, b"TEN")
    assert await store.numbers() == [9, 10]
    assert bytes(await store.load(10)) == b"TEN"
    await store.delete(9)
    await store.delete(9)
    assert await store.numbers() == [10]


def test_stores_agree() -> None:
    """One suite for memory, files and HTTP."""

    async def main(world: foretold.World) -> None:
        await use(MemoryStore())
        await use(FileStore(FOLDER))
        web = await world.web(ObjectStore().app)
        await use(HttpStore("/bucket", web.client("shard")))

    foretold.run(main)


def test_a_store_that_is_slow_costs_a_snapshot_and_no_tick() -> None:
    """Best effort: after two seconds the world goes on without."""

    class Slow(MemoryStore):
        async def save(self, number: int, data: bytes) -> None:
            await asyncio.sleep(60)

    async def main() -> float:
        world = World(store=Slow())
        adventure.setup(world)
        await world.start()
        began_s = asyncio.get_running_loop().time()
        await world.tick(1.0)
        assert world.height == 1
        return asyncio.get_running_loop().time() - began_s

    assert 2.0 <= foretold.run(main).value < 2.1


def shard_on_disk() -> World:
    """A world on the files of its host."""
    store = FileStore(FOLDER)
    probe = World()
    adventure.setup(probe)
    backlog = FileBacklog(f"{FOLDER}/commands", probe.commands.kinds)
    world = World(WorldOptions(snapshot_rate=2), store=store, backlog=backlog)
    adventure.setup(world)
    return world


async def survive(world: foretold.World) -> None:
    """The power of the host is cut at any moment. What was accepted is done, and done once: the
    shard knows the number of each command, and numbers of a restored world have no gap."""
    host = world.host("shard")
    accepted: list[int] = []

    async def main() -> None:
        shard = shard_on_disk()
        await shard.start()
        waiting = len(shard.commands.waiting())
        known = shard.commands.applied + waiting
        last = accepted[-1] if accepted else 0
        foretold.always(known >= last, "an accepted command is known", known=known, last=last)
        check_world(shard)
        for number in range(100):
            accepted.append(shard.send("ada", adventure.CreatePlayer(f"p{number}")))
            await asyncio.sleep(0.001)
            await shard.tick(float(number))

    host.start(main)
    for _ in range(foretold.between(1, 3, "crashes")):
        await asyncio.sleep(foretold.between(1, 30, "until the crash") / 1000)
        host.crash()
        host.restart()
    await asyncio.sleep(0.001)
    host.kill()
    foretold.sometimes(len(accepted) > 5, "some commands were accepted")


def test_a_shard_on_disk_survives_power_cuts() -> None:
    """Files, fsync and rename on a disk that forgets what was not synced."""
    foretold.explore(survive, runs=25, seed=0, confirm=False).raise_failure()


def test_a_shard_on_disk_that_trims_too_early_is_found() -> None:
    """The test above can fail."""
    bug = "commands_lost_by_crash"
    found = foretold.explore(survive, runs=60, seed=0, confirm=False, shrink=False, mutant=bug)
    assert found.failure is not None
    assert "an accepted command is known" in str(found.failure.exception)


# ---------------------------------------------------------------- the loop


def test_the_loop_ticks_pauses_and_steps() -> None:
    """In virtual time: 20 ticks a second; none while paused, except by steps; a last snapshot when
    it is cancelled, from which the next process goes on."""

    async def main() -> None:
        store = MemoryStore()
        world = World(WorldOptions(snapshot_rate=1000), store=store)
        adventure.setup(world)
        loop = RunLoop(world)
        running = asyncio.ensure_future(loop.run())
        await asyncio.sleep(1.02)
        assert world.height == 21
        loop.pause()
        await asyncio.sleep(1)
        assert world.height == 21
        await loop.step()
        assert world.height == 22
        loop.resume()
        await asyncio.sleep(0.2)
        assert world.height > 22
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        next_one = World(store=store)
        adventure.setup(next_one)
        await next_one.start()
        assert next_one.height == world.height

    foretold.run(main, exact_time=True)


def test_a_tick_that_raises_is_not_stored() -> None:
    """The loop ends with the error, and the next process makes the whole tick again: the command
    that was taken by it waits once more."""

    def half(ctx: SystemContext) -> None:
        if ctx.height == 3:
            ctx.create(adventure.Player("half"))
            raise RuntimeError("in the middle")

    async def main() -> None:
        store, backlog = MemoryStore(), MemoryBacklog()
        world = World(WorldOptions(snapshot_rate=2), store=store, backlog=backlog)
        adventure.setup(world)
        world.system(half)
        running = asyncio.ensure_future(RunLoop(world).run())
        await asyncio.sleep(0.12)
        world.send("ada", adventure.CreatePlayer("late"))
        with pytest.raises(RuntimeError, match="in the middle"):
            await running
        after = World(store=store, backlog=backlog)
        adventure.setup(after)
        await after.start()
        assert after.height == 3
        assert [each.payload for each in after.commands.waiting()] == [
            adventure.CreatePlayer("late")
        ]
        assert check_world(after) == adventure.SPAWNED

    foretold.run(main, exact_time=True)
