"""A scenario as it is played: once for each of its wirings, loads and seeds.

A play is a search like any other. Before it, a scenario that was written from a failing run makes
that run, and one that has a golden file makes the calm run and compares its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from foretold.errors import PropertyViolated, TapeError
from foretold.harness.factory import Harness
from foretold.harness.golden import check_golden
from foretold.harness.program import ScenarioProgram
from foretold.search.workers.warming import run_warm
from foretold.tape import Tape
from foretold.world.run import Run, bind_main, run, settings_for
from foretold.world.settings import Settings

RUNS_DEFAULT = 100


@dataclass(frozen=True)
class Play:
    program: ScenarioProgram
    seed: int
    load: int
    wiring: str
    label: str
    """What tells it from the others of the same file, empty if there are none."""

    @property
    def options(self) -> dict[str, Any]:
        """As `foretold.explore` takes them."""
        if not isinstance(self.program.target, Harness):
            return {}
        return {"load": self.load, "wiring": self.wiring or None}

    @property
    def has_golden(self) -> bool:
        """Golden logs have exact times, so they are those of one copy on ports without slack."""
        if not self.program.scenario.golden or self.load > 1:
            return False
        target = self.program.target
        return isinstance(target, Harness) and not target.config(self.wiring).wiring.slack_ms

    def compare_golden(self, *, update: bool = False) -> None:
        """Make the calm run and compare its log; outside of any run."""
        given = settings_for(self.program, {**self.options, "order": "asyncio"}, run)
        settings = Settings().with_changes(**given)
        done = run_warm(bind_main(self.program), Tape.calm(settings.on_tape()), settings)
        if done.error is not None:
            raise done.error
        scenario = self.program.scenario
        try:
            check_golden(done.value, Path(scenario.file).parent / scenario.golden, update=update)
        except PropertyViolated as error:
            mark = scenario.mark_of("golden")
            error.place = (scenario.file, mark.line, scenario.name)
            raise


def plays_of(
    program: ScenarioProgram,
    *,
    seed: int | None = None,
    loads: Sequence[int] = (),
    wirings: Sequence[str] = (),
) -> list[Play]:
    """All ways to play a scenario, or those that somebody asks for."""
    scenario = program.scenario
    seeds = scenario.seeds if seed is None else (seed,)
    loads = loads or scenario.loads
    wirings = wirings or scenario.wirings or ("",)
    made = []
    for one_wiring, one_load, one_seed in product(wirings, loads, seeds):
        parts = [one_wiring] if len(wirings) > 1 else []
        parts += [f"load{one_load}"] if len(loads) > 1 else []
        parts += [f"seed{one_seed}"] if len(seeds) > 1 else []
        made.append(Play(program, one_seed, one_load, one_wiring, "-".join(parts)))
    return made


def run_replay(program: ScenarioProgram) -> Run | None:
    """Make the run that a scenario was written from; None if it was not."""
    if program.tape is None:
        return None
    settings = Settings.from_tape(program.tape.settings)
    done = run_warm(bind_main(program), program.tape, settings, detail=True)
    if isinstance(done.error, TapeError):
        raise done.error
    return done
