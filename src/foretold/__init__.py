"""foretold: deterministic simulation testing for Python.

Runs your real asyncio program in a world where time, order, randomness and every fault come from
one tape of choices. The same tape gives the same run; a failing one is shrunk and told.

Layers (imports point only downward; `tests/style/test_layers.py` enforces it):

    L6  cli/, and below it pytest_support/ (simulate, and what src/_foretold_pytest.py needs)
    L5  report/    what a person reads: text on a terminal, notes on exceptions
    L4  search/    how tapes are found, by one process or many workers; shrunk, confirmed, kept
    L3  spec/      what must hold, and what a workload chooses
        services/  real services under control: postgres/
    L2  world/     what surrounds the program: the world of a run and its hosts
    L1  kernel/    the simulated computer: loop, clock, entropy, patches, fence, schedulers
    L0  tape/      choices: streams, origins, file format, shrink passes
        trace.py   what happened: events and a running digest
        errors.py  the exception tree, arguments.py (checks) and _version.py, below all layers

Everything public is re-exported here; the modules behind it may move.
"""

import importlib
from typing import TYPE_CHECKING, Any

import foretold.services  # worlds have services from here on
import foretold.spec.adopted  # machines of Hypothesis can be run from here on
import foretold.spec.model  # noqa: F401  # and machines may have models
from foretold._version import VERSION
from foretold.errors import (
    BackgroundFailure,
    Deadlock,
    EscapedWorld,
    ForetoldError,
    HostDied,
    LimitExceeded,
    Nondeterminism,
    PropertyViolated,
    Refused,
    TapeError,
    TargetError,
    UsageError,
    Vacuous,
    WorkerDied,
)
from foretold.kernel.clock import Clock, ManualClock, SystemClock
from foretold.pytest_support import ForetoldWarning, simulate
from foretold.search.explore import Progress, explore, replay
from foretold.search.failure import Delay, Failure, Outcome
from foretold.spec.buggify import buggify
from foretold.spec.checkers.history import UNKNOWN, Operation
from foretold.spec.checkers.linearizable import Verdict, linearizable
from foretold.spec.checkers.steps import StepModel
from foretold.spec.knobs import knob
from foretold.spec.later import drift, from_model, openapi
from foretold.spec.machine.actors import Actor
from foretold.spec.machine.invariants import invariant
from foretold.spec.machine.machine import Machine
from foretold.spec.machine.rules import initialize, multiple, precondition, rule
from foretold.spec.mutants import mutant
from foretold.spec.properties import always, reachable, sometimes, state
from foretold.spec.workload import between, choose, draw, together
from foretold.tape import Tape, enumerate_tapes
from foretold.world import faults
from foretold.world.run import Run, run
from foretold.world.world import World, current_world

if TYPE_CHECKING:
    from foretold.spec.machine.bundles import Bundle, consumes

__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Bundles are strategies of Hypothesis, which takes half a second to import: not before
    somebody wants one."""
    if name in ("Bundle", "consumes"):
        bundles = importlib.import_module("foretold.spec.machine.bundles")
        globals().update(Bundle=bundles.Bundle, consumes=bundles.consumes)
        return getattr(bundles, name)
    raise AttributeError(f"module 'foretold' has no attribute {name!r}")


__all__ = [
    "UNKNOWN",
    "Actor",
    "BackgroundFailure",
    "Bundle",
    "Clock",
    "Deadlock",
    "Delay",
    "EscapedWorld",
    "Failure",
    "ForetoldError",
    "ForetoldWarning",
    "HostDied",
    "LimitExceeded",
    "Machine",
    "ManualClock",
    "Nondeterminism",
    "Operation",
    "Outcome",
    "Progress",
    "PropertyViolated",
    "Refused",
    "Run",
    "StepModel",
    "SystemClock",
    "Tape",
    "TapeError",
    "TargetError",
    "UsageError",
    "Vacuous",
    "Verdict",
    "WorkerDied",
    "World",
    "__version__",
    "always",
    "between",
    "buggify",
    "choose",
    "consumes",
    "current_world",
    "draw",
    "drift",
    "enumerate_tapes",
    "explore",
    "faults",
    "from_model",
    "initialize",
    "invariant",
    "knob",
    "linearizable",
    "multiple",
    "mutant",
    "openapi",
    "precondition",
    "reachable",
    "replay",
    "rule",
    "run",
    "simulate",
    "sometimes",
    "state",
    "together",
]
