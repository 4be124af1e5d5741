"""`HarnessFactory`: an application and its ports, wired, and the wiring checked.

Before anything is played: each port that the application names is there and no other; each has the
methods that the application's protocol for it names; none is a mock, which would have any method;
none belongs to another world already. That nothing real is left need not be guessed: inside a run
every touch of the real world raises `EscapedWorld`, and outside of a run nothing is wired.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from foretold.arguments import known_words, nearest
from foretold.errors import UsageError
from foretold.harness.declare import declared_by
from foretold.harness.ports import Ports
from foretold.harness.world import SimulationWorld
from foretold.scenario.vocabulary import Vocabulary
from foretold.world.current import world_or_none

PortMaker = Callable[[SimulationWorld], Any]


@dataclass(frozen=True)
class Wiring:
    """One way to give an application its ports."""

    ports: Mapping[str, PortMaker]
    slack_ms: float = 0
    """How late an event may be, and how long an assertion may wait: what real I/O takes. Ports in
    memory need none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of runs, besides those of all scenarios."""
    front: Callable[[SimulationWorld], Any] | None = None
    """What stands before the application and has the same methods: a client of its web server. Its
    `start` lets the application start where it runs (`world.start_application`)."""


@dataclass(frozen=True)
class HarnessConfig:
    """All that one world is made from."""

    application: type
    wiring: Wiring
    caps: Mapping[str, Iterable[str]] = field(default_factory=dict)
    strategies: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Harness:
    """An application as scenarios name it: `harness: shop.harness:shop`."""

    application: type
    wirings: Mapping[str, Wiring]
    actors: Mapping[str, Iterable[str]] | None = None
    """Who there may be, and what each may do; None: anybody."""
    strategies: Mapping[str, Any] = field(default_factory=dict)
    """What scenarios may draw by name."""

    def __post_init__(self) -> None:
        if not isinstance(self.application, type):
            raise UsageError(f"the application is a class, got {self.application!r}")
        if not declared_by(self.application, "intent"):
            raise UsageError(
                f"{self.application.__name__} declares no intents, so actors have nothing to do. "
                "Write @harness.intent above a method"
            )
        if not self.wirings:
            raise UsageError("a harness has one wiring at least")

    def config(self, wiring: str = "") -> HarnessConfig:
        """With this wiring; the first, if none is named."""
        chosen = wiring or next(iter(self.wirings))
        if chosen not in self.wirings:
            known = known_words(chosen, self.wirings)
            raise UsageError(f"there is no wiring {chosen!r}; there are {known}")
        return HarnessConfig(
            self.application, self.wirings[chosen], self.actors or {}, self.strategies
        )

    def vocabulary(self) -> Vocabulary:
        """What scenarios may talk about."""
        of = {sort: declared_by(self.application, sort) for sort in ("intent", "query")}
        return Vocabulary(
            self.application.__name__,
            {name: entry.parameters for name, entry in of["intent"].items()},
            {name: entry.parameters for name, entry in of["query"].items()},
            None if self.actors is None else list(self.actors),
            {name: _fault_points(each) for name, each in ports_of(self.application).items()},
            list(self.strategies),
        )


def _fault_points(protocol: type | None) -> list[str] | None:
    """The methods of a port that wait for something: on these a fault may strike."""
    if protocol is None:
        return None
    named = [each for each in dir(protocol) if not each.startswith("_")]
    return [each for each in named if inspect.iscoroutinefunction(getattr(protocol, each))]


def ports_of(application: type) -> dict[str, type | None]:
    """The ports that an application names, each with its protocol if it has one."""
    named: Any = getattr(application, "ports", ())
    if isinstance(named, Mapping):
        return dict(named)
    return dict.fromkeys(named)


_owners: dict[int, tuple[weakref.ref[Any], object]] = {}
"""Which world a port belongs to, for as long as the port is there."""
_TOKEN = "foretold harness"
"""Where the mark of a world lies in `world.shared`: an address may be another world's later."""


class HarnessFactory:
    @staticmethod
    def create(config: HarnessConfig) -> SimulationWorld:
        """An application with its ports, in the world of this run."""
        world = world_or_none()
        if world is None:
            raise UsageError(
                "HarnessFactory.create wires an application inside a run, where nothing real is "
                "left: call it in foretold.run, foretold.explore or a @foretold.simulate test"
            )
        made = SimulationWorld(world, config.application, dict(config.caps))
        made.strategies = dict(config.strategies)
        made.slack_ms = config.wiring.slack_ms
        real = {name: make(made) for name, make in config.wiring.ports.items()}
        _check(config.application, real, world.shared.setdefault(_TOKEN, object()))
        made.ports = Ports(real, made.fault_points)
        made.kernel = made.front = config.application(made)
        if config.wiring.front is not None:
            made.front = config.wiring.front(made)
        return made


def _check(application: type, ports: Mapping[str, Any], world: object) -> None:
    named, who = ports_of(application), application.__name__
    for name in named:
        if name not in ports:
            raise UsageError(f"{who} needs the port {name!r}, and this wiring has none")
    for name, port in ports.items():
        if name not in named:
            raise UsageError(
                f"this wiring has a port {name!r}, which {who} does not name.{nearest(name, named)}"
            )
        _check_port(who, name, port, named[name])
        _claim(name, port, world)


def _check_port(who: str, name: str, port: Any, protocol: type | None) -> None:
    if port is None:
        raise UsageError(f"the port {name!r} was made as None: return the port from its maker")
    if type(port).__module__ == "unittest.mock":
        raise UsageError(
            f"the port {name!r} is a mock, which accepts any call: it would hide what {who} does "
            "wrong. Write a fake that has the methods of the real port and checks what it is given"
        )
    wanted = [] if protocol is None else [n for n in vars(protocol) if not n.startswith("_")]
    missing = [each for each in wanted if not callable(getattr(port, each, None))]
    if missing:
        raise UsageError(f"the port {name!r} ({type(port).__name__}) has no {missing[0]!r}")


def _forget(port: int, _: object) -> None:
    _owners.pop(port, None)


def _claim(name: str, port: Any, world: object) -> None:
    """A port that two worlds share carries state from one run into the next."""
    try:
        seen = weakref.ref(port, partial(_forget, id(port)))
    except TypeError:
        return  # of a type that cannot be watched
    owner = _owners.get(id(port))
    if owner is not None and owner[0]() is port and owner[1] is not world:
        raise UsageError(
            f"the port {name!r} belongs to another world already: what happened there would be "
            "known here. Let its maker make a new one for each world"
        )
    _owners[id(port)] = (seen, world)
