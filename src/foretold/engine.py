"""What simulates: loaded by the first name of `foretold` that needs it (`foretold/__init__.py`).

Applications import foretold in production, for `always` and its siblings, on machines where nothing
can be simulated. So all that is heavy or particular about its platform stands behind this module.
"""

import importlib
from typing import TYPE_CHECKING, Any

import foretold.models as models
import foretold.pytest_support.raising  # noqa: F401  # outcomes raise as tests do from here on
from foretold import harness
from foretold.handles import Web  # its class in the engine needs httpx, which not everybody has
from foretold.kernel.clock import Clock, ManualClock, SystemClock
from foretold.pytest_support import shared, simulate
from foretold.search.checking.replay import replay
from foretold.search.explore import Progress, explore
from foretold.search.failures.failure import Failure, Outcome
from foretold.spec.checkers.causal import causal
from foretold.spec.checkers.either import either
from foretold.spec.checkers.history import UNKNOWN, Operation
from foretold.spec.checkers.linearizable import Verdict, linearizable
from foretold.spec.checkers.steps import StepModel
from foretold.spec.checkers.unique import unique
from foretold.spec.conform import conform
from foretold.spec.later import drift, from_model, openapi
from foretold.spec.liveness import converges, eventually, throughout
from foretold.spec.machine.actors import Actor
from foretold.spec.machine.invariants import invariant
from foretold.spec.machine.machine import Machine
from foretold.spec.machine.mirrors import Mirror
from foretold.spec.machine.rules import initialize, multiple, precondition, rule
from foretold.spec.nondet import Fake, Spec
from foretold.spec.prophecy import Prophecy
from foretold.spec.refine import refines
from foretold.spec.serial import same, serially
from foretold.spec.workload import between, choose, draw, together
from foretold.story.tale import Delay
from foretold.tape import Tape, enumerate_tapes
from foretold.world import faults
from foretold.world.run import Run, run

if TYPE_CHECKING:
    # To type checkers, and so to editors, what tests hold has only the members that are for users.
    from foretold.handles import Host, World
    from foretold.services.postgres.server import Postgres
    from foretold.spec.machine.bundles import Bundle, consumes

    def current_world() -> World:
        """The world of this run."""

else:
    from foretold.world.current import current_world
    from foretold.world.host import Host
    from foretold.world.world import World

    LATER = {
        "Bundle": "foretold.spec.machine.bundles",
        "Postgres": "foretold.services.postgres.server",
        "consumes": "foretold.spec.machine.bundles",
    }

    def __getattr__(name: str) -> Any:
        """Bundles are strategies of Hypothesis, which takes half a second to import, and few runs
        have a database: not before somebody wants one."""
        if name in LATER:
            return getattr(importlib.import_module(LATER[name]), name)
        raise AttributeError(f"module 'foretold' has no attribute {name!r}")


__all__ = [
    "UNKNOWN",
    "Actor",
    "Bundle",
    "Clock",
    "Delay",
    "Failure",
    "Fake",
    "Host",
    "Machine",
    "ManualClock",
    "Mirror",
    "Operation",
    "Outcome",
    "Postgres",
    "Progress",
    "Prophecy",
    "Run",
    "Spec",
    "StepModel",
    "SystemClock",
    "Tape",
    "Verdict",
    "Web",
    "World",
    "between",
    "causal",
    "choose",
    "conform",
    "consumes",
    "converges",
    "current_world",
    "draw",
    "drift",
    "either",
    "enumerate_tapes",
    "eventually",
    "explore",
    "faults",
    "from_model",
    "harness",
    "initialize",
    "invariant",
    "linearizable",
    "models",
    "multiple",
    "openapi",
    "precondition",
    "refines",
    "replay",
    "rule",
    "run",
    "same",
    "serially",
    "shared",
    "simulate",
    "throughout",
    "together",
    "unique",
]
