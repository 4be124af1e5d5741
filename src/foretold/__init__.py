"""foretold: deterministic simulation testing for Python.

Runs your real asyncio program in a world where time, order, randomness and every fault come from
one tape of choices. The same tape gives the same run; a failing one is shrunk and told.

Layers (imports point only downward; `tests/style/test_layers.py` enforces it):

    L6  cli/, and below it pytest_support/ (simulate, and what src/_foretold_pytest.py needs)
    L5  report/    what a person reads: text on a terminal, notes on exceptions
    L4  search/    how tapes are found, by one process or many workers; shrunk, confirmed, kept
        story/     what happened in a run, in words; whom it accuses
    L3  spec/      what must hold, and what a workload chooses; machine/: actors, rules, invariants
        services/  in the world: real postgres/ and web/, scripted external/; models/ of them
        scenario/  programs that are written as data
        harness/   plays them: an application with its ports, its event bus and its log
    L2  world/     what surrounds the program: the world of a run and its hosts
    L1  kernel/    the simulated computer: loop, clock, entropy, patches, fence, schedulers
    L0  tape/      choices: streams, origins, file format, shrink passes
        trace/     what happened: events as data, and a running digest
        errors.py  the exception tree, platforms.py (where it works), arguments.py (checks),
                   handles.py (what of the engine's classes is for users), keywords.py (settings,
                   for type checkers) and _version.py, below all layers

Everything public is re-exported here; the modules behind it may move. What an application keeps in
production code is here at once, on every platform; `engine.py` has the rest, and is loaded by the
first name that is asked for. `keywords.py` names the settings of calls, for type checkers.
"""

from typing import TYPE_CHECKING, Any

from foretold._version import VERSION
from foretold.errors import (
    BackgroundFailure,
    Contradiction,
    Deadlock,
    DidNotReproduce,
    EscapedWorld,
    ForetoldError,
    ForetoldWarning,
    Hang,
    HostDied,
    Interference,
    LimitExceeded,
    ModelLooksAround,
    Nondeterminism,
    NotRefined,
    NotSerial,
    PropertyViolated,
    Refused,
    ScenarioError,
    TapeError,
    TargetError,
    Unforeseen,
    Unfulfilled,
    UnseenFailure,
    UsageError,
    Vacuous,
    WorkerDied,
)
from foretold.platforms import refuse_elsewhere, without_collections
from foretold.spec.buggify import buggify, buggify_delay
from foretold.spec.events import event
from foretold.spec.knobs import knob
from foretold.spec.mutants import mutant
from foretold.spec.properties import always, reachable, sometimes, state

if TYPE_CHECKING:
    from foretold.engine import *  # a type checker sees all names at once
else:

    def __getattr__(name: str) -> Any:
        """Everything that simulates, when somebody first asks for it."""
        if name not in __all__:
            raise AttributeError(f"module 'foretold' has no attribute {name!r}")
        refuse_elsewhere()
        with without_collections():
            import foretold.engine as engine

        globals()[name] = value = getattr(engine, name)
        return value


__version__ = VERSION


def __dir__() -> list[str]:
    """For completion at a prompt."""
    return sorted({*globals(), *__all__})


__all__ = [
    "UNKNOWN",
    "Actor",
    "BackgroundFailure",
    "Bundle",
    "Clock",
    "Contradiction",
    "Deadlock",
    "Delay",
    "DidNotReproduce",
    "EscapedWorld",
    "Failure",
    "Fake",
    "ForetoldError",
    "ForetoldWarning",
    "Hang",
    "Host",
    "HostDied",
    "Interference",
    "LimitExceeded",
    "Machine",
    "ManualClock",
    "Mirror",
    "ModelLooksAround",
    "Nondeterminism",
    "NotRefined",
    "NotSerial",
    "Operation",
    "Outcome",
    "Postgres",
    "Progress",
    "PropertyViolated",
    "Prophecy",
    "Refused",
    "Run",
    "ScenarioError",
    "Spec",
    "StepModel",
    "SystemClock",
    "Tape",
    "TapeError",
    "TargetError",
    "Unforeseen",
    "Unfulfilled",
    "UnseenFailure",
    "UsageError",
    "Vacuous",
    "Verdict",
    "Web",
    "WorkerDied",
    "World",
    "__version__",
    "always",
    "between",
    "buggify",
    "buggify_delay",
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
    "event",
    "eventually",
    "explore",
    "faults",
    "from_model",
    "harness",
    "initialize",
    "invariant",
    "knob",
    "linearizable",
    "models",
    "multiple",
    "mutant",
    "openapi",
    "precondition",
    "reachable",
    "refines",
    "replay",
    "rule",
    "run",
    "same",
    "serially",
    "shared",
    "simulate",
    "sometimes",
    "state",
    "throughout",
    "together",
    "unique",
]
