"""`@foretold.simulate`: an ordinary test function becomes many runs in simulated worlds."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import unittest
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from foretold.errors import ForetoldWarning, UsageError, Vacuous
from foretold.pytest_support.cases import Case
from foretold.pytest_support.fresh import Call, staged_alone
from foretold.pytest_support.item import shown_path, trial_of
from foretold.pytest_support.machines import MachineTestCase, test_case_of
from foretold.pytest_support.seeds import fresh_seed, seed_of_environment
from foretold.pytest_support.simulation import RUNS_DEFAULT, Function, Simulation, simulation_of
from foretold.pytest_support.tidy import tidy
from foretold.pytest_support.trial import Trial, TrialSetup
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.failures.failure import Failure
from foretold.search.failures.store import Store
from foretold.search.workers.targets import importable_name
from foretold.spec.machine.machine import Machine
from foretold.world.current import world_or_none
from foretold.world.world import World

if TYPE_CHECKING:
    from typing import Unpack

    from hypothesis.stateful import RuleBasedStateMachine

    from foretold.keywords import FunctionSearch, SearchSettings

F = TypeVar("F", bound=Callable[..., Any])


@overload
def simulate(
    function: type[Machine], /, **settings: Unpack[SearchSettings]
) -> type[MachineTestCase]: ...


@overload
def simulate(
    function: type[RuleBasedStateMachine], /, **settings: Unpack[FunctionSearch]
) -> Callable[[], None]: ...


@overload
def simulate(function: F, /, **settings: Unpack[FunctionSearch]) -> F: ...


@overload
def simulate(**settings: Unpack[SearchSettings]) -> Callable[[F], F]: ...


def simulate(
    function: Function | None = None,
    /,
    *,
    runs: int | None = None,
    seed: int | None = None,
    order: str | None = None,
    strategy: str = "portfolio",
    **settings: Any,
) -> Any:
    """Decorate a test: it is run many times, each time in a world of its own, until a run fails.

        @foretold.simulate                      # or with settings: simulate(runs=500)
        async def test_no_money_is_lost(world):
            ...

    The function is async or plain. pytest collects it as any other, with fixtures, parameters,
    marks and classes; a parameter called `world` is not a fixture but the world of the run.
    Settings are those of `foretold.explore` and `foretold.run` (`runs`, `seed`, `order`,
    `strategy`, `time_s`, `exact_time`, `steps_max`, …). Seed and runs can be set from outside as
    well; what counts is the first of: command line, environment, ini-file, decorator, and else a
    fresh seed and 100 runs.

    A run that fails raises the test's own exception, with a note that tells the story and ends with
    the command that replays it. Its tape is kept in `.foretold/` and tried first the next time.

    **Function-scoped fixtures are made anew for every run**, inside of its world, async ones among
    them. Wider scopes are shared by all runs, and so is what is marked `@foretold.shared`.

    On a `foretold.Machine`, or called with one, it gives a test case for pytest or unittest:
    `TestShop = foretold.simulate(Shop, runs=500)`. Its `steps`, `actors`, `weights` are settings.

    A `RuleBasedStateMachine` of Hypothesis becomes a test as well, unchanged, which is run as often
    as its own settings say: `test_accounts = foretold.simulate(AccountsMachine)`.

    Called directly, outside of pytest, the function is tried in the same way. Inside a run it is
    simply called, in the world of that run; so `foretold.replay(test_x, "some.tape")` works.
    """
    chosen: dict[str, Any] = {"order": order, "strategy": strategy, **settings}

    def decorate(function: Any) -> Any:
        if isinstance(function, type) and issubclass(function, Machine):
            given = {"runs": runs, "seed": seed, **chosen}
            return test_case_of(function, {k: v for k, v in given.items() if v is not None})
        return _simulated(simulation_of(function, runs, seed, chosen))

    return decorate if function is None else decorate(function)


def _simulated(simulation: Simulation) -> Function:
    @functools.wraps(simulation.function)
    def test(*args: Any, **names: Any) -> Any:
        __tracebackhide__ = True
        world = world_or_none()
        if world is not None:
            return simulation.call(world, args, names)

        def call(world: World, names: Mapping[str, Any]) -> Any:
            return simulation.call(world, args, names)

        by_name = test if not args and not names else None
        case = args[0] if args and isinstance(args[0], unittest.TestCase) else None
        error = _error_of(simulation, call, names, by_name, case)
        if error is not None:
            raise error
        return None

    test.__signature__ = simulation.signature  # type: ignore[attr-defined]  # inspect looks for it
    test.foretold_simulation = simulation  # type: ignore[attr-defined]  # by this the plugin knows it
    return test


def _error_of(
    simulation: Simulation,
    call: Call,
    names: Mapping[str, Any],
    by_name: Function | None,
    case: unittest.TestCase | None,
) -> BaseException | None:
    """What the test has to raise, as the user should see it. `names`: the arguments given; `case`:
    whose method it is, if unittest calls it."""
    item = trial_of(simulation)
    try:
        if item is not None:
            found = item.run(simulation, call, names)
        else:
            errand = _direct_errand(simulation, by_name)
            found = _tried_directly(simulation, call, names, errand, case)
    except (
        UsageError,
        ForetoldWarning,
        Vacuous,
    ) as error:  # a warning is raised where filters say so
        in_run = getattr(error, "in_run", None)
        return tidy(in_run or error.with_traceback(None), simulation.function)
    return None if found is None else tidy(found.exception, simulation.function)


def _tried_directly(
    simulation: Simulation,
    call: Call,
    names: Mapping[str, Any],
    errand: TrialSetup,
    case: unittest.TestCase | None,
) -> Failure | None:
    if case is None:
        return Trial(simulation, lambda world: call(world, names), errand).run()
    anew = Case(case)
    whole = staged_alone(anew, call, names, simulation.function.__name__)
    with anew.already_set_up():
        return Trial(simulation, whole, errand).run()


def _direct_errand(simulation: Simulation, by_name: Function | None) -> TrialSetup:
    """`by_name`: the decorated function, if it needs no arguments and could be called elsewhere."""
    seed = seed_of_environment()
    if seed is None:
        seed = fresh_seed() if simulation.seed is None else simulation.seed
    target = _target_of(simulation.function)
    name = None if by_name is None else importable_name(by_name)

    def command(found: Failure) -> str:
        if found.saved_as is None or by_name is None:
            where = "" if found.saved_as is None else f", {str(found.saved_as)!r}"
            return f"foretold.replay(lambda: {simulation.function.__name__}(…){where})  # in Python"
        return f"foretold replay {shown_path(found.saved_as)}"

    return TrialSetup(
        target,
        seed,
        simulation.runs or RUNS_DEFAULT,
        Store(Path.cwd()),
        None if name is None else FreshReplayer(name),
        command,
    )


def _target_of(function: Function) -> str:
    """`module:function`, or `file.py:function` for a program's main file."""
    function = inspect.unwrap(function)
    module = function.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" and file:
        module = os.path.relpath(file)
    return f"{module}:{function.__qualname__}"
