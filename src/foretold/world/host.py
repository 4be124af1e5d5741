"""A host: one simulated computer with a loop of its own.

To the patched standard library it is the `Computer`: whoever reads a clock, sleeps or asks for
randomness inside a run is answered here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

from foretold.errors import EscapedWorld
from foretold.kernel.kernel import Kernel
from foretold.kernel.loop import WorldLoop
from foretold.world.clock import WorldClock

if TYPE_CHECKING:
    from foretold.world.world import World

_PID_FIRST = 4242
_NODE = 0x02_00_5E_00_00_00  # locally administered: no real card has it


class Host:
    """One computer of the world."""

    def __init__(self, world: World, name: str, kernel: Kernel) -> None:
        self.world = world
        self.name = name
        self.kernel = kernel
        self.loop = WorldLoop(kernel)
        self.loops = [self.loop]
        self.clock = WorldClock(self)
        self._entropy = world.tape.stream("entropy", name)
        self.entropy_drawn = 0
        """How often the program asked for randomness. (The run's start asks once itself.)"""
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<host {self.name}>"

    def another_loop(self) -> WorldLoop:
        """A loop for whoever calls `asyncio.run` inside the run."""
        loop = WorldLoop(self.kernel)
        self.loops.append(loop)
        return loop

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        """Keep a strong reference until the task has ended, as asyncio asks its users to."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The Computer that the patched standard library asks

    def wall_ns(self) -> int:
        return self.kernel.clock.read_wall_ns()

    def monotonic_ns(self) -> int:
        return self.kernel.clock.read_monotonic_ns()

    def cpu_ns(self) -> int:
        clock = self.kernel.clock
        return clock.read_monotonic_ns() - clock.start_ns

    def sleep_ns(self, ns: int) -> None:
        self.kernel.stall(ns)

    def entropy(self, n: int) -> bytes:
        data = self._entropy.bytes(n, "entropy")
        self.entropy_drawn += 1
        self.kernel.trace.note(f"entropy {n}")
        return data

    def pid(self) -> int:
        return _PID_FIRST

    def node(self) -> int:
        return _NODE

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        error = EscapedWorld(f"{call} would leave the simulated world.\n{why}\nInstead: {instead}")
        self.world.fail(error)
        raise error
