"""`SimulationWorld`: the application, its ports, and the laws of physics around them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from foretold.arguments import check_number
from foretold.errors import Refused, UsageError
from foretold.harness.bus import EventBus
from foretold.harness.declare import declared_by
from foretold.harness.ports import SPARED, FaultPoints, Ports
from foretold.world.log import EventLog

if TYPE_CHECKING:
    from foretold.world.clock import CancelToken
    from foretold.world.world import World

NEXT_BITS = 53


class NotAllowed(Refused):
    """An actor lacks the capability that an intent needs."""


class SimulatedClock:
    """The world's clock in milliseconds. It begins at 0."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> float:
        """Virtual milliseconds since the run began."""
        return self._world.home.kernel.clock.elapsed_ns / 1e6

    async def advance(self, ms: float) -> None:
        """Let time pass. What is due meanwhile happens in the order of its times, and what is due
        at the end is done when this returns."""
        check_number("advance's ms", ms, at_least=0)
        await self._world.clock.advance(ms / 1_000)

    async def settle(self) -> None:
        """Do what is due now. Time does not jump: what cooks goes on cooking."""
        await self._world.clock.settle()

    async def run_until_idle(self) -> None:
        """Let time pass until nothing is scheduled any more."""
        await self._world.clock.run_until_idle()

    def schedule(self, callback: Callable[[], Any], delay_ms: float) -> CancelToken:
        """Call something later. An exception of it fails the run; an async function is awaited."""
        check_number("schedule's delay_ms", delay_ms)
        return self._world.clock.schedule(callback, delay_ms / 1_000)


class SimulatedRandom:
    """Chance, from the tape: each value shrinks towards 0, and each failure towards none."""

    def __init__(self, world: World) -> None:
        self._world = world

    def next(self) -> float:
        """A number from 0 on and below 1."""
        stream = self._world.tape.stream("workload", "random")
        return stream.choose(1 << NEXT_BITS, "next") / (1 << NEXT_BITS)

    def should_fail(self, probability: float, point: str = "") -> bool:
        """Whether bad luck strikes here. `point` names the place, for story and shrinker."""
        check_number("should_fail's probability", probability, at_least=0, at_most=1)
        return self._world.tape.stream("fault", "port", point).chance(probability, "fails")


class Ids:
    """Ids that can be foretold: `ticket-1`, `ticket-2`. They belong to this world alone."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, prefix: str) -> str:
        """The next id with this prefix."""
        self._last[prefix] = number = self._last.get(prefix, 0) + 1
        return f"{prefix}-{number}"


class ScenarioActor:
    """One who acts."""

    def __init__(self, name: str, role: str, world: SimulationWorld) -> None:
        self.name, self.role, self._world = name, role, world

    def __repr__(self) -> str:
        return f"<actor {self.name}>"

    async def dispatch(self, intent: str, payload: dict[str, Any]) -> Any:
        """Do it. What it raises comes out as it is."""
        entry = self._world.intents[intent]
        if entry.cap is not None and entry.cap not in self._world.admin.caps_of(self):
            raise NotAllowed(f"{self.name} may not {intent}: it lacks the capability {entry.cap!r}")
        given = {**payload, "actor": self.name} if entry.wants_actor else payload
        return await awaited(getattr(self._world.front, intent)(**given))


class Admin:
    """What no actor can do."""

    def __init__(self, world: SimulationWorld, caps: dict[str, set[str]]) -> None:
        self._world, self._caps = world, caps

    def grant_cap(self, actor: str, cap: str) -> None:
        """From now on the actor, or each actor of that role, has the capability."""
        self._caps.setdefault(actor, set()).add(cap)

    def revoke_cap(self, actor: str, cap: str) -> None:
        """From now on it has not."""
        self._caps.get(actor, set()).discard(cap)

    def caps_of(self, actor: ScenarioActor) -> set[str]:
        """What an actor may do, by its name and by its role."""
        return self._caps.get(actor.name, set()) | self._caps.get(actor.role, set())

    async def inspect_state(self, entity: str) -> Any:
        """The state of an entity, as the application's own `inspect_state` gives it."""
        found = getattr(self._world.kernel, "inspect_state", None)
        if found is None:
            raise UsageError(
                f"{type(self._world.kernel).__name__} has no inspect_state(entity): write one, "
                "which returns the state of the entity with that id"
            )
        return await awaited(found(entity))


class SimulationWorld:
    """An application in a world. `HarnessFactory.create` makes it."""

    def __init__(self, world: World, application: type, caps: dict[str, Iterable[str]]) -> None:
        self.world = world
        self.clock = SimulatedClock(world)
        self.random = SimulatedRandom(world)
        self.ids = Ids()
        self.bus = EventBus()
        self.intents = declared_by(application, "intent")
        self.queries = declared_by(application, "query")
        self.observers = declared_by(application, "observer")
        self.admin = Admin(self, {name: set(given) for name, given in caps.items()})
        self.fault_points = FaultPoints(self.random, world)
        self.strategies: dict[str, Any] = {}
        self.slack_ms = 0.0
        self.kernel: Any = None
        """The application."""
        self.front: Any = None
        """What actors, queries and observers reach: the application, or what stands before it."""
        self.ports = Ports({}, self.fault_points)
        self._started = False

    @property
    def log(self) -> EventLog:
        """What the application says has happened."""
        return self.world.log

    def actor(self, name: str, role: str | None = None) -> ScenarioActor:
        """One who acts. The role is its name, unless it is one of several copies."""
        return ScenarioActor(name, role or name, self)

    async def start(self) -> None:
        """Start everything, once, without faults: the ports' servers (`prepare`), then the
        application, where it runs: here, or where what stands before it starts it."""
        if self._started:
            return
        self._started = True
        async with self.world.calm():
            await _all(self.ports.real.values(), "prepare")
            if self.front is self.kernel:
                await self.start_application()
            else:
                await self.front.start()

    async def start_application(self) -> None:
        """Start the ports' clients and then the application; each may have a `start`."""
        await _all((*self.ports.real.values(), self.kernel), "start")

    async def stop_application(self) -> None:
        """Stop the application and then the ports, the last first."""
        await _all((self.kernel, *reversed(list(self.ports.real.values()))), "stop")

    async def stop(self) -> None:
        """The opposite of `start`."""
        if not self._started:
            return
        self._started = False
        async with self.world.calm():
            if self.front is self.kernel:
                await self.stop_application()
            else:
                await _all((self.front,), "stop")

    async def ask(self, query: str, args: dict[str, Any]) -> Any:
        """The answer to a query. No fault strikes who asks."""
        with self._spared():
            return await awaited(getattr(self.front, query)(**args))

    async def observe(self) -> None:
        """Call all observers. No fault strikes them."""
        with self._spared():
            for name in self.observers:
                await awaited(getattr(self.front, name)())

    @contextlib.contextmanager
    def _spared(self) -> Iterator[None]:
        """Behind a front, such as a web server, the ports do not know who asks. So as long as
        somebody looks, none of them fails."""
        everybody = self.front is not self.kernel
        token = SPARED.set(True)
        self.fault_points.lookers += everybody
        try:
            yield
        finally:
            SPARED.reset(token)
            self.fault_points.lookers -= everybody


async def _all(parts: Iterable[Any], method: str) -> None:
    """Call a method of all that have it."""
    for part in parts:
        if hasattr(part, method):
            await awaited(getattr(part, method)())


async def awaited(result: Any) -> Any:
    """Plain and async functions alike."""
    return await result if inspect.isawaitable(result) else result
