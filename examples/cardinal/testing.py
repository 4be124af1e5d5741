"""The generative kit: tests any game on Cardinal. A game is what `setup(world)` registers.

    from examples.cardinal.testing import run_dst

    def test_my_game():
        run_dst(my_game.setup)

`run_dst` finds the game's commands by reflection, makes random ones, and mixes them with ticks and
with all that can happen to a server: restarts, power cuts at the worst moments, torn and stale
snapshots, full queues. After each tick it checks the structure of the world (`check_world`) and
compares it with a model of lists and dicts (`ledger.py`). It checks the engine with your game as
its input; what your game means, only you can check, with invariants of your own on the machine
(`machine_of`). `run_e2e` does the same to a real server in real time.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from hypothesis import strategies as st

import foretold
from examples.cardinal.commands import Command, InboxFull
from examples.cardinal.e2e import run_e2e
from examples.cardinal.fakes import (
    CUTS,
    AssertingBacklog,
    AssertingHandlers,
    AssertingStore,
    PowerCut,
    Supply,
)
from examples.cardinal.invariants import check_world
from examples.cardinal.ledger import Ledger, Remembered, portrait
from examples.cardinal.payloads import any_components, any_entity, any_payload, payloads_of
from examples.cardinal.schedulers import Concurrent, Permuted, Scheduler, Sequential
from examples.cardinal.shadow import Shadow
from examples.cardinal.state import NoSuchEntity
from examples.cardinal.world import World, WorldOptions

__all__ = ["OPERATIONS", "Cardinal", "check_world", "machine_of", "run_dst", "run_e2e"]

Setup = Callable[[World], None]
OPERATIONS = ("tick", "restart", "restore", "crash", "tear", "stale", "flood", "look")
"""What the kit does besides sending commands. A test fails if one of them is missing."""
PERSONAS = ("ada", "bob", "cleo")
UNREGISTERED = "Unregistered"
RUNS_JUDGED = 20
"""In so many runs every operation has to succeed once."""
MORE = foretold.precondition(lambda self: self.ticks < self.ticks_max)


class Cardinal(foretold.Machine):
    """A server that runs a game, as the tape says. `machine_of` makes the class for a game."""

    actors = 1
    ticks_max: ClassVar[int] = 1000
    game: ClassVar[Setup]
    moves: ClassVar[set[Any]] = set()
    """All moves between archetypes, of all runs of this process."""
    snapshot_rates: ClassVar[tuple[int, ...]] = (1, 2, 3, 5, 10, 25)
    schedulers: ClassVar[tuple[str, ...]] = ("sequential", "concurrent", "permuted")

    async def setup(self) -> None:
        knob = foretold.knob
        self.options = WorldOptions(
            snapshot_rate=knob("snapshot rate", self.snapshot_rates),
            event_capacity=knob("event capacity", (1024, 1, 2, 16)),
            waiting_max=knob("commands that may wait", (1000, 4, 32)),
        )
        self.kind = knob("scheduler", self.schedulers)
        self.failing = knob("event handlers", ("sound", "failing")) == "failing"
        self.ticks = self.entities = 0
        self.checked = -1
        """The tick after which the structure was looked at last."""
        self.supply = Supply()
        self.ledger = Ledger(moves=self.moves)
        self.store = AssertingStore(self.supply, self._stored, self._deleted)
        self.backlog = AssertingBacklog(self.supply)
        self.shadow: Shadow | None = None
        self.shard: World | None = None
        await self._boot()

    async def teardown(self) -> None:
        self.server.close()

    @property
    def server(self) -> World:
        assert self.shard is not None, "setup has made it"
        return self.shard

    def living(self) -> list[int]:
        return sorted(self.ledger.living)

    def groups(self) -> list[list[int]]:
        """The living by their components: for commands that name entities."""
        return self.ledger.groups()

    # --- what is done to the server --------------------------------------------------------------

    @MORE
    @foretold.rule(times=st.sampled_from((1, 2, 8)))
    async def tick(self, times: int) -> None:
        """Time goes on."""
        for _ in range(times):
            await self._tick()

    @MORE
    @foretold.rule()
    async def restart(self) -> None:
        """A new world on the same server."""
        self.checked = -1
        await self.server.reset()
        self.ledger.forget(self.server)
        self._meet_shadow()

    @MORE
    @foretold.rule()
    async def restore(self) -> None:
        """Back to the last snapshot, in the same process."""
        await self.server.restore()
        self._check_restored(self._newest())

    @MORE
    @foretold.rule(at=st.sampled_from(CUTS))
    async def crash(self, at: str) -> None:
        """Power is cut in the middle of a tick; the server starts again on what was stored."""
        self.supply.cut_at = at
        try:
            for _ in range(self.options.snapshot_rate):
                await self._tick()
        except PowerCut:
            pass
        self.supply.cut_at = None
        await self._boot()

    @MORE
    @foretold.precondition(lambda self: len(self.ledger.snapshots) > 1)
    @foretold.rule(how=st.sampled_from(("flip", "cut")), at_percent=st.integers(0, 100))
    async def tear(self, how: str, at_percent: int) -> None:
        """The newest snapshot is damaged; the server starts again from the one before."""
        del self.ledger.snapshots[max(self.ledger.snapshots)]
        self.store.tear(how, at_percent)
        await self._boot()

    @MORE
    @foretold.precondition(lambda self: len(self.ledger.snapshots) > 1)
    @foretold.rule()
    async def stale(self) -> None:
        """The store shows a list from before the newest snapshot; the server starts again."""
        self.store.hides_newest = True
        await self._boot(skipped=1)

    @MORE
    @foretold.rule(order=any_payload(), count=st.integers(1, 64))
    def flood(self, order: Any, count: int) -> None:
        """One command again and again, until the queue is full."""
        for _ in range(count):
            if not self._send(PERSONAS[0], order):
                return

    @MORE
    @foretold.rule(entity=any_entity(), wanted=any_components())
    def look(self, entity: Any, wanted: set[str]) -> None:
        """Ask what the world has; the model knows."""
        self._check_has(entity)
        self._check_queries(wanted)

    # --- what must hold --------------------------------------------------------------------------

    @foretold.invariant()
    def the_structure_holds(self) -> int:
        """Whatever was done, the world is sound. After a tick that was checked already."""
        if self.checked != self.ticks:
            self.checked = self.ticks
            self.entities = check_world(self.server)
        return self.entities

    @foretold.invariant(when="end")
    async def the_world_goes_on(self) -> int:
        """What is left is done, and survives one more start."""
        await self._tick()
        self.server.encode()
        await self._boot()
        await self._tick()
        return check_world(self.server)

    # --- how -------------------------------------------------------------------------------------

    def kinds(self) -> list[type]:
        return list(self.server.commands.kinds.values())

    def components(self) -> list[str]:
        return [*self.server.core.registry.names(), UNREGISTERED]

    async def _boot(self, skipped: int = 0) -> None:
        """A new process on what the old one has left."""
        if self.shard is not None:
            self.shard.close()
        self.shard = world = World(
            self.options, store=self.store, backlog=self.backlog, scheduler=self._scheduler()
        )
        type(self).game(world)
        self.handlers = AssertingHandlers(world, self.supply, failing=self.failing)
        expected = self._newest(skipped)
        await world.start()
        self._check_restored(expected)

    def _scheduler(self) -> Scheduler:
        if self.kind == "concurrent":
            return Concurrent()
        if self.kind == "permuted":
            return Permuted(lambda count: foretold.between(0, count - 1, "system"))
        return Sequential()

    def _meet_shadow(self) -> None:
        """A second world beside the first, which runs the systems in order."""
        if self.kind != "sequential":
            self.shadow = Shadow(self.server, type(self).game, self.ledger.waiting)

    def _send(self, persona: str, payload: Any) -> bool:
        """False if the queue is full, rightly."""
        command: Command[Any] = self.server.commands.command(persona, payload)
        try:
            self.server.commands.enqueue(command)
        except InboxFull:
            assert len(self.ledger.waiting) >= self.options.waiting_max, "the queue was not full"
            return False
        self.ledger.accepted.append(command)
        if self.shadow is not None:
            self.shadow.send(command)
        return True

    async def _tick(self) -> None:
        self.ticks += 1
        world, ledger = self.server, self.ledger
        self.handlers.begin()
        await world.tick(float(self.ticks))
        self.handlers.check()
        ledger.take(world)
        ledger.follow(world.core.state.changes)
        ledger.compare(world)
        self.entities, self.checked = check_world(world), self.ticks
        if self.shadow is not None:
            await self.shadow.tick(float(self.ticks), self.handlers.told)

    def _stored(self, number: int) -> None:
        """A snapshot is taken after the tick has drained all commands."""
        then = portrait(self.server)
        self.ledger.snapshots[number] = Remembered(then, len(self.ledger.accepted))

    def _deleted(self, number: int) -> None:
        self.ledger.snapshots.pop(number, None)

    def _newest(self, skipped: int = 0) -> Remembered | None:
        known = sorted(self.ledger.snapshots)[: -skipped or None]
        return self.ledger.snapshots[known[-1]] if known else None

    def _check_restored(self, expected: Remembered | None) -> None:
        self.checked = -1
        self.ledger.restored(self.server, expected)
        self._meet_shadow()

    def _check_has(self, entity: Any) -> None:
        state, known = self.server.core.state, self.ledger.living.get(entity)
        for component, name in enumerate(self.components()):
            try:
                found: bool | None = state.has(entity, name)
            except NoSuchEntity:
                found = None
            right = None if known is None else bool(known >> component & 1)
            assert found == right, f"has({entity}, {name}) is {found}, and should be {right}"

    def _check_queries(self, wanted: Iterable[str]) -> None:
        state, names = self.server.core.state, self.components()
        numbers = [names.index(name) for name in wanted if name != UNREGISTERED]
        bits = sum(1 << number for number in numbers)
        living = self.ledger.living.items()
        for archetypes, right in (
            (state.containing(numbers), {e for e, own in living if own & bits == bits}),
            (state.exactly(numbers), {e for e, own in living if own == bits}),
        ):
            found = {row[0] for row in state.rows(archetypes, numbers)}
            assert found == right, f"entities with {wanted}: {found}, and should be {right}"


ENGINE_WEIGHTS = {
    "tick": 4.0,
    "restart": 0.2,
    "restore": 0.3,
    "crash": 0.4,
    "tear": 0.2,
    "stale": 0.2,
    "flood": 0.3,
    "look": 0.7,
}
"""Small beside those of commands, so that the state can grow between two restarts."""
COMMANDS_WEIGHT = 14.0


def machine_of(setup: Setup, *, ticks: int = 1000) -> type[Cardinal]:
    """The machine of a game: an operation for each command, in the order of registration."""
    probe = World()
    setup(probe)
    kinds = probe.commands.kinds
    members: dict[str, Any] = {f"command_{name}": _command(kind) for name, kind in kinds.items()}
    each = COMMANDS_WEIGHT / max(1, len(kinds))
    members |= {
        "__doc__": f"The game of {setup.__module__} on a server to which everything happens.",
        "__module__": setup.__module__,
        "game": staticmethod(setup),
        "moves": set(),
        "ticks_max": ticks,
        "steps": max(20, 3 * ticks // 2),
        "weights": ENGINE_WEIGHTS | {f"command_{name}": each for name in kinds},
    }
    name = setup.__module__.rpartition(".")[2].title().replace("_", "")
    return type(name, (Cardinal,), members)


def _command(kind: type) -> Any:
    def send(self: Cardinal, payload: Any, persona: str) -> None:
        if not self._send(persona, payload):
            raise foretold.Refused("the queue is full")

    send.__name__ = f"command_{kind.__name__}"
    send.__doc__ = kind.__doc__
    made = foretold.rule(payload=payloads_of(kind), persona=st.sampled_from(PERSONAS))(send)
    return MORE(made)


def run_dst(
    setup: Setup, *, ticks: int = 1000, runs: int = 100, seed: int = 0, **settings: Any
) -> foretold.Outcome:
    """Search for a run of up to `ticks` ticks that breaks the engine with this game. Raises what
    was found, shrunk, with its story; also if some operation never succeeded. `settings` go to
    `foretold.explore`."""
    outcome = foretold.explore(machine_of(setup, ticks=ticks), runs=runs, seed=seed, **settings)
    outcome.raise_failure()
    if outcome.runs >= RUNS_JUDGED:
        idle = idle_operations(setup, outcome)
        if idle:
            raise foretold.Vacuous(f"never done in {outcome.runs} runs: {', '.join(idle)}")
    return outcome


def idle_operations(setup: Setup, outcome: foretold.Outcome) -> list[str]:
    """Operations that never succeeded, or that the machine does not have."""
    probe = World()
    setup(probe)
    wanted = [*OPERATIONS, *(f"command_{name}" for name in probe.commands.kinds)]
    rules = outcome.tally.rules
    return [name for name in wanted if name not in rules or not rules[name].succeeded]
