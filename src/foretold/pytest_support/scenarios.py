"""Scenario files as pytest collects them: each play of a scenario is a test."""

from __future__ import annotations

import inspect
import os
import shlex
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretold.errors import ForetoldError
from foretold.pytest_support.item import shown_path
from foretold.pytest_support.seeds import seed_for
from foretold.pytest_support.simulation import Simulation
from foretold.pytest_support.tidy import tidy
from foretold.pytest_support.trial import Trial, TrialSetup
from foretold.report.text import seed_arguments
from foretold.search.checking.plays import RUNS_DEFAULT, Play, plays_of, run_replay
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.failures.failure import Failure
from foretold.search.failures.store import Store
from foretold.search.workers.targets import find_scenario
from foretold.world.run import bind_main

if TYPE_CHECKING:
    from _foretold_pytest import Options


class ScenarioFile(pytest.File):
    def collect(self) -> Iterator[ScenarioItem]:
        try:
            program = find_scenario(os.path.relpath(self.path))
            plays = plays_of(program)
            for play in plays:
                program.foretold_settings(play.options)
        except ForetoldError as error:
            raise self.CollectError(str(error)) from None
        for play in plays:
            name = program.scenario.name
            name = f"{name}[{play.label}]" if play.label else name
            yield ScenarioItem.from_parent(self, name=name, play=play)


class ScenarioItem(pytest.Item):
    """One play."""

    def __init__(self, *, play: Play, **names: Any) -> None:
        super().__init__(**names)
        self.play = play
        self.options: Options | None = None
        self.record: dict[str, Any] = {}

    def foretold_begin(self, options: Options, record: dict[str, Any]) -> None:
        """Called by the plugin's shell, which knows what was asked for."""
        self.options, self.record = options, record

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def runtest(self) -> None:
        """The run it was written from, the golden log, what failed before, then a search."""
        program = self.play.program
        if program.tape is not None:
            done = run_replay(program)
            if done is not None and done.error is not None:
                raise done.error
            return
        if self.play.has_golden:
            self.play.compare_golden()
        trial = Trial(self._simulation(), bind_main(program), self._errand())
        tape = None if self.options is None else self.options.replay
        found = trial.run() if tape is None else trial.replay(tape)
        self.record.update(vars(trial.record))
        if found is not None:
            raise tidy(found.exception, None)

    def _simulation(self) -> Simulation:
        program = self.play.program
        settings = program.foretold_settings(self.play.options)
        return Simulation(
            program,
            program.scenario.runs,
            self.play.seed,
            settings,
            inspect.Signature(),
            wants_world=True,
            vacuity="ignore",
        )

    def _errand(self) -> TrialSetup:
        options, program = self.options, self.play.program
        seed, runs = self.play.seed, program.scenario.runs or RUNS_DEFAULT
        alone = options is not None and options.run_seed is not None
        if options is not None:
            runs = 1 if alone else options.runs or runs
            if options.run_seed is not None:
                seed = options.run_seed
            elif options.pinned_seed is not None:
                seed = seed_for(options.pinned_seed, self.nodeid)
        return TrialSetup(
            program.foretold_name,
            seed,
            runs,
            Store(self.config.rootpath),
            FreshReplayer(program.foretold_name),
            _command,
            tries_saved=not alone,
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The exception with its story; the frames of the runner say nothing."""
        return "".join(traceback.format_exception_only(excinfo.value)).rstrip()


def _command(found: Failure) -> str:
    if found.saved_as is None:  # nothing can be written here
        return f"foretold replay {shlex.quote(found.target)} {seed_arguments(found)}"
    return f"foretold replay {shown_path(found.saved_as)}"
