"""The core: components, entities and systems, one tick after another. It knows no network."""

from collections.abc import Callable, Iterable
from functools import partial

from examples.cardinal.commands import CommandManager
from examples.cardinal.component import ComponentRegistry
from examples.cardinal.events import Event
from examples.cardinal.schedulers import Job, Scheduler
from examples.cardinal.state import State
from examples.cardinal.system import (
    EACH_TICK,
    Hook,
    Run,
    System,
    SystemContext,
    SystemEvents,
    waits_of,
)


class Core:
    """What is registered stays when the state is cleared."""

    def __init__(self, commands: CommandManager, scheduler: Scheduler) -> None:
        self.registry = ComponentRegistry()
        self.state = State(self.registry)
        self.commands = commands
        self.scheduler = scheduler
        self.initialised = False
        self._signals = SystemEvents()
        self._systems: dict[Hook, list[System]] = {hook: [] for hook in Hook}
        self._contexts: dict[Hook, list[SystemContext]] = {hook: [] for hook in Hook}
        self._plans: dict[Hook, tuple[list[Job], list[list[int]]]] = {}

    def add_system(
        self,
        run: Run,
        hook: Hook = Hook.UPDATE,
        reads: Iterable[type] | None = None,
        writes: Iterable[type] | None = None,
    ) -> None:
        assert not self.initialised, f"register {run.__name__} before the world starts"
        system = System(run, hook, reads, writes)
        self._systems[hook].append(system)
        context = SystemContext(system, self.state, self.commands, self._signals)
        self._contexts[hook].append(context)

    def systems(self) -> list[System]:
        return [system for each in self._systems.values() for system in each]

    def init(self, emit: Callable[[Event], None]) -> None:
        """Run the systems that fill a new world: once."""
        assert not self.initialised, "the world was initialised already"
        self._plans = {hook: self._plan(hook) for hook in EACH_TICK}
        self.initialised = True
        for system, context in zip(
            self._systems[Hook.INIT], self._contexts[Hook.INIT], strict=True
        ):
            system.run(context)
        self._collect(Hook.INIT, emit)
        self._end()

    def _plan(self, hook: Hook) -> tuple[list[Job], list[list[int]]]:
        pairs = zip(self._systems[hook], self._contexts[hook], strict=True)
        return [partial(system.run, context) for system, context in pairs], waits_of(
            self._systems[hook]
        )

    def tick(self, now_s: float, height: int, emit: Callable[[Event], None]) -> None:
        """Run the systems of each hook; hand over what they emit, in the order of registration."""
        assert self.initialised, "start the world first: await world.start()"
        self.state.begin_tick()
        for hook in EACH_TICK:
            for context in self._contexts[hook]:
                context.now_s, context.height = now_s, height
            jobs, waits = self._plans[hook]
            self.scheduler.run(hook.value, jobs, waits)
            self._collect(hook, emit)
        self._end()

    def _collect(self, hook: Hook, emit: Callable[[Event], None]) -> None:
        for context in self._contexts[hook]:
            emitted, context.emitted = context.emitted, []
            for event in emitted:
                emit(event)

    def _end(self) -> None:
        self._signals.clear()
        self.state.end_tick()

    def reset(self) -> None:
        """An empty world that is to be initialised again."""
        self.state.clear()
        self._signals.clear()
        for contexts in self._contexts.values():
            for context in contexts:
                context.emitted = []
        self.scheduler.reset()
        self.initialised = False
