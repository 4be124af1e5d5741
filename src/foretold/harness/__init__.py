"""`foretold.harness`: a whole application in a world, played by scenarios.

declare.py    what an application declares: intents, queries, observers
factory.py    HarnessFactory: wires an application and its ports, and checks the wiring
world.py      SimulationWorld: clock, random, ids, kernel, ports, bus, log, admin
ports.py      ports, each call of which is a point where a fault may strike
bus.py        the event bus: published after commit, handled one after the other
runner.py     ScenarioRunner: plays the steps
program.py    a scenario as a program, which a search explores, shrinks and replays
replays.py    the choices of a failing run inside of a scenario file
machines.py   scenarios whose steps are calls of a machine's rules
golden.py     the log of the calm run, compared with a file
"""

from foretold.harness.bus import EventBus
from foretold.harness.declare import intent, observer, query
from foretold.harness.factory import Harness, HarnessConfig, HarnessFactory, Wiring
from foretold.harness.golden import check_golden
from foretold.harness.ports import PortFailed
from foretold.harness.runner import ScenarioRunner
from foretold.harness.world import NotAllowed, SimulationWorld
from foretold.harness.world import ScenarioActor as Actor
from foretold.scenario.model import Scenario, load_scenario

__all__ = [
    "Actor",
    "EventBus",
    "Harness",
    "HarnessConfig",
    "HarnessFactory",
    "NotAllowed",
    "PortFailed",
    "Scenario",
    "ScenarioRunner",
    "SimulationWorld",
    "Wiring",
    "check_golden",
    "intent",
    "load_scenario",
    "observer",
    "query",
]
