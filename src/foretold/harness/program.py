"""A scenario as a program: it is run, explored, shrunk and replayed like any other.

Its load and wiring stand on the tape, in the setting `machine`, so a replay needs the tape and the
file alone. Time is exact and begins at 0: a log that says 20 minutes means 20 minutes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from foretold.arguments import check_whole, known_words
from foretold.errors import TapeError, UsageError
from foretold.harness.factory import Harness, HarnessFactory
from foretold.harness.machines import scripted, words_of
from foretold.harness.replays import tape_of
from foretold.harness.runner import ScenarioRunner
from foretold.scenario.model import Scenario, load_scenario
from foretold.scenario.source import Mark
from foretold.scenario.vocabulary import check_words
from foretold.spec.machine.machine import Machine
from foretold.tape import Tape
from foretold.world.faults import faults_text
from foretold.world.run import bind_main

if TYPE_CHECKING:
    from foretold.world.world import World

Resolve = Callable[[str], Any]
OPTIONS = ("load", "wiring")
LOAD_MAX = 10_000


def load_program(path: str, resolve: Resolve, harness: str = "") -> ScenarioProgram:
    """The program of a file. `resolve` finds what the file names as its harness."""
    scenario = load_scenario(path)
    name = harness or scenario.harness
    if not name:
        raise scenario.problem(
            "name",
            "it does not say what it is played on: write harness: module:name, or --harness",
        )
    try:
        target = resolve(name)
    except UsageError as error:
        raise scenario.problem("harness", str(error)) from None
    return ScenarioProgram(scenario, target)


class ScenarioProgram:
    """What `foretold.run`, `explore` and `replay` are given."""

    def __init__(self, scenario: Scenario, target: Any) -> None:
        self.scenario, self.target = scenario, target
        self.foretold_name = scenario.file
        """By which another process finds it."""
        self.__name__ = self.__qualname__ = scenario.name
        self.foretold_runs = scenario.runs
        self.drawn: dict[Mark, list[Any]] = {}
        """What the last run has drawn, by place in the file."""
        self._check()

    def _check(self) -> None:
        scenario, target, tape = self.scenario, self.target, self.tape
        self._check_target(scenario, target, tape)
        if not scenario.steps and not scenario.replay:
            raise scenario.problem(
                "steps",
                "it has no steps, so it would hold whatever the application does: write some",
            )

    def _check_target(self, scenario: Scenario, target: Any, tape: Tape | None) -> None:
        if scenario.faults:
            try:
                faults_text(scenario.faults)
            except UsageError as error:
                raise scenario.problem("faults", str(error)) from None
        if isinstance(target, Harness):
            check_words(scenario, target.vocabulary())
            for wiring in scenario.wirings:
                self._known_wiring(target, wiring)
        elif isinstance(target, type) and issubclass(target, Machine):
            own = "" if tape is None else str(tape.settings.get("machine", ""))
            check_words(scenario, words_of(target, own))
        elif not callable(target) or scenario.steps or not scenario.replay:
            raise scenario.problem(
                "harness",
                f"{scenario.harness} is neither a Harness nor a Machine. A function can be named "
                "by a scenario that has a replay and no steps",
            )

    def _known_wiring(self, target: Harness, wiring: str) -> None:
        if wiring not in target.wirings:
            known = known_words(wiring, target.wirings)
            raise self.scenario.problem(
                "wiring", f"there is no wiring {wiring!r}; there are {known}"
            )

    def __call__(self, world: World) -> Any:
        """Play it in a world."""
        return self.foretold_target()(world)

    # What foretold asks a target for (`world/run.py`).

    def foretold_target(self) -> Callable[[World], Any]:
        """The scenario as a function of the world."""
        scenario, target = self.scenario, self.target
        if isinstance(target, Harness):
            return lambda world: self._named(world, target)
        if isinstance(target, type) and issubclass(target, Machine):
            return scripted(target, scenario)
        return bind_main(target)

    def _named(self, world: World, target: Harness) -> Coroutine[Any, Any, list[str]]:
        main: Any = self._play(world, target)
        main.__name__ = self.scenario.name  # by which the story knows the task
        coroutine: Coroutine[Any, Any, list[str]] = main
        return coroutine

    async def _play(self, world: World, target: Harness) -> list[str]:
        """The main of a run; gives the lines of the log."""
        load, wiring = options_of(world.settings.machine)
        made = HarnessFactory.create(target.config(wiring))
        runner = ScenarioRunner(made)
        self.drawn = runner.drawn
        log = await runner.play(self.scenario, load=load)
        return log.lines()

    def foretold_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a search or a run, with what the scenario says."""
        settings = {name: value for name, value in given.items() if name not in OPTIONS}
        if not isinstance(self.target, Harness):
            own = getattr(self.target, "foretold_settings", dict)(settings)
            return dict(own)
        wiring = given.get("wiring") or (self.scenario.wirings or ("",))[0]
        load = given.get("load") or self.scenario.loads[0]
        check_whole("load", load, at_least=1, example=10)
        if load > LOAD_MAX:
            raise UsageError(f"load={load} is more than {LOAD_MAX:,}")
        wired = self.target.config(wiring).wiring
        defaults = {"exact_time": True, "epoch_s": 0.0, **wired.settings}
        defaults |= {"faults": self.scenario.faults} if self.scenario.faults else {}
        told = {name: value for name, value in settings.items() if value is not None}
        return {**defaults, **told, "machine": options_text(load, wiring)}

    # A scenario may bring the choices of a run that failed.

    @functools.cached_property
    def tape(self) -> Tape | None:
        """The run that it was written from, if it was."""
        if not self.scenario.replay:
            return None
        try:
            return tape_of(self.scenario.replay)
        except TapeError as error:
            raise self.scenario.problem("replay", f"replay: {error}") from None


def options_text(load: int, wiring: str) -> str:
    """As it stands on a tape: only what is not the default."""
    told = {"load": load} if load != 1 else {}
    return json.dumps(told | ({"wiring": wiring} if wiring else {})) if told or wiring else ""


def options_of(text: str) -> tuple[int, str]:
    """Load and wiring, as they stand on a tape."""
    try:
        given = json.loads(text) if text else {}
        load, wiring = given.get("load", 1), given.get("wiring", "")
    except (ValueError, AttributeError, RecursionError) as error:
        raise TapeError(f"the tape's setting machine cannot be read: {error}") from None
    if type(load) is not int or not 0 < load <= LOAD_MAX or not isinstance(wiring, str):
        raise TapeError(
            f"the tape's setting machine says {text!r}, which is not a load and a wiring"
        )
    return load, wiring
