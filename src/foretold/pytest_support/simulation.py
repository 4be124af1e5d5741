"""What `@foretold.simulate` was put on: the function, its settings, and how pytest sees it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from foretold.arguments import (
    check_number,
    check_seed,
    check_whole,
    check_word,
    nearest,
    signature_of,
)
from foretold.errors import UsageError
from foretold.search.explore import explore
from foretold.search.planning.feedback import check_feedback
from foretold.search.planning.portfolio import plans_for
from foretold.world.faults import faults_text
from foretold.world.programs import program_of
from foretold.world.settings import Settings
from foretold.world.world import World

Function = Callable[..., Any]

WORLD = "world"
RUNS_DEFAULT = 100
VACUITY = ("fail", "warn", "ignore")
_NOT_FOR_USERS = {
    "main",
    "runs",
    "seed",
    "save_to",
    "target",
    "replayer",
    "on_progress",
    "settings",
}
_OF_RUN = frozenset(field.name for field in fields(Settings))
_OF_SEARCH = frozenset(inspect.signature(explore).parameters) - _NOT_FOR_USERS
# strategy and order stand in both; explore's meaning holds.
SETTINGS = _OF_SEARCH | _OF_RUN


@dataclass(frozen=True)
class Simulation:
    function: Function
    runs: int | None
    seed: int | None
    settings: Mapping[str, Any]
    """All else that `foretold.explore` takes."""
    signature: inspect.Signature
    """Without the world: the rest are fixtures and parameters, which pytest provides."""
    wants_world: bool
    vacuity: str | None = None
    """What happens if a search tests nothing: fail, warn or ignore; None: as the project says."""

    def call(self, world: World, args: tuple[Any, ...], names: Mapping[str, Any]) -> Any:
        """Call the test function in a world. An async one gives a coroutine, as always."""
        if self.wants_world:
            names = {WORLD: world, **names}
        return self.function(*args, **names)


def simulation_of(
    function: Function, runs: int | None, seed: int | None, settings: Mapping[str, Any]
) -> Simulation:
    """Check everything that can be checked now: a mistake is best shown where it was written."""
    function = program_of(function)
    _check_function(function)
    settings = dict(settings)
    vacuity = settings.pop("vacuity", None)
    if vacuity is not None:
        check_word("vacuity", vacuity, VACUITY)
    check_settings(runs, seed, settings)
    runs = getattr(function, "foretold_runs", None) if runs is None else runs
    signature = signature_of(function)
    shown = [p for name, p in signature.parameters.items() if name != WORLD]
    return Simulation(
        function,
        runs,
        seed,
        settings,
        signature.replace(parameters=shown, return_annotation=signature.empty),
        wants_world=WORLD in signature.parameters,
        vacuity=vacuity,
    )


def _check_function(function: object) -> None:
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, type):
        raise UsageError(
            f"@foretold.simulate on the class {name}: in this version it decorates functions. Put "
            "it on each test method:\n"
            f"    class {name}:\n"
            "        @foretold.simulate\n"
            "        async def test_x(self, world): ..."
        )
    if isinstance(function, staticmethod | classmethod):
        kind = type(function).__name__
        raise UsageError(f"write @{kind} above @foretold.simulate, not below it ({name})")
    if not callable(function):
        raise UsageError(
            f"foretold.simulate decorates a test function, got {function!r}. Settings have names: "
            "@foretold.simulate(runs=500)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{name} contains a `yield`: a test is a plain or async function, which returns"
        )
    if getattr(function, "is_hypothesis_test", False):
        raise UsageError(
            f"@given on {name}: draw inside of the test instead, so that the value is on the tape "
            "and shrinks together with the schedule:\n    amount = foretold.draw(st.integers())"
        )


def check_settings(runs: object, seed: object, settings: Mapping[str, Any]) -> None:
    """Raise a `UsageError` for a setting that no run could be made with."""
    if runs is not None:
        check_whole("runs", runs, at_least=1, example=500)
    if seed is not None:
        check_seed(seed)
    if settings.get("time_s") is not None:
        check_number("time_s", settings["time_s"], above=0, finite=False)
    for name in settings:
        if name not in SETTINGS:
            meant = nearest(name, ("runs", "seed", *sorted(SETTINGS)))
            raise UsageError(f"foretold.simulate does not know the setting {name!r}.{meant}")
    check_feedback(settings.get("feedback", True))
    faults_text(settings.get("faults"))
    plans_for(settings.get("order"), settings.get("strategy", "portfolio"))
    Settings().with_changes(**{k: v for k, v in settings.items() if k in _OF_RUN - _OF_SEARCH})
