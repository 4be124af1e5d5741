"""Ports, each call of which is a point where a fault may strike.

Which faults: a call raises `PortFailed` (a `ConnectionError`), either before the port was reached
or after it has done its work, so that the caller does not know. Never: a wrong answer, a lost
effect that was confirmed, a call that does not return. Both of the former happen to every client
of a server across a network. They strike only where a scenario says so (`kind: faults`) and only in
coroutine functions: a plain function has no network behind it.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretold.harness.world import SimulatedRandom
    from foretold.world.world import World

BEFORE = "before it has done anything"
AFTER = "after it has done its work"


SPARED: contextvars.ContextVar[bool] = contextvars.ContextVar("foretold_spared", default=False)
"""Who looks at the application from outside of it (assertions, observers) meets no fault."""


class PortFailed(ConnectionError):
    """A call of a port that fails because the scenario wants it to."""


class FaultPoints:
    """How often which calls fail."""

    def __init__(self, random: SimulatedRandom, world: World) -> None:
        self._random, self._world = random, world
        self.rates: dict[str, float] = {}
        """By port, or by port and method."""
        self.lookers = 0
        """How many look at the application through its front, for whom nothing fails."""

    def strike(self, point: str) -> str:
        """Whether a call of this method fails, and when."""
        rate = self.rates.get(point, self.rates.get(point.partition(".")[0], 0.0))
        if not rate or self.lookers or SPARED.get():
            return ""
        if not self._random.should_fail(rate, point):
            return ""
        stream = self._world.tape.stream("fault", "port", point)
        when = stream.pick((BEFORE, AFTER), "when")
        self._world.note_fault(f"{point} fails {when}")
        return when


class Port:
    """A port as the application sees it: the same methods, each with a fault point."""

    def __init__(self, name: str, real: Any, points: FaultPoints) -> None:
        self._foretold = (name, real, points)

    def __getattr__(self, name: str) -> Any:
        own, real, points = self._foretold
        found = getattr(real, name)
        if not points.rates or name.startswith("_") or not inspect.iscoroutinefunction(found):
            return found
        point = f"{own}.{name}"

        @functools.wraps(found)
        async def call(*args: Any, **names: Any) -> Any:
            when = points.strike(point)
            if when == BEFORE:
                raise PortFailed(f"{point} has failed {when}")
            result = await found(*args, **names)
            if when == AFTER:
                raise PortFailed(f"{point} has failed {when}")
            return result

        return call

    def __repr__(self) -> str:
        return f"<port {self._foretold[0]}: {self._foretold[1]!r}>"


class Ports(Mapping[str, Any]):
    """The ports of an application, by name: `world.ports.mail`."""

    def __init__(self, real: Mapping[str, Any], points: FaultPoints) -> None:
        self.real = real
        self._ports = {name: Port(name, port, points) for name, port in real.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._ports[name]
        except KeyError:
            raise AttributeError(
                f"there is no port {name!r}; there are {', '.join(self._ports) or 'none'}"
            ) from None

    def __getitem__(self, name: str) -> Any:
        return self._ports[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)
