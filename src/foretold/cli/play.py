"""`foretold play`: play scenario files, and search for a run of them that fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from foretold.cli.explore import Shown, check_passed, run_search
from foretold.cli.group import HELD, INTERRUPTED, VIOLATED, app
from foretold.cli.options import read_target, seed_option
from foretold.cli.targets import output_dropped
from foretold.errors import PropertyViolated, UsageError
from foretold.report.tapes import story_text
from foretold.report.terminal import put
from foretold.scenario.source import SUFFIXES, is_scenario
from foretold.search.checking.plays import RUNS_DEFAULT, Play, plays_of, run_replay
from foretold.search.failures.failure import Outcome
from foretold.search.failures.store import Store
from foretold.search.workers.targets import find_scenario
from foretold.story.words import count


@app.command("play")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@seed_option
@click.option("--runs", type=click.IntRange(min=1), help="Runs of each.  [default: 100]")
@click.option("--load", "loads", type=click.IntRange(1, 10_000), multiple=True, metavar="K",
              help="So many copies of the actors at once; may be given several times.")  # fmt: skip
@click.option("--wiring", "wirings", multiple=True, metavar="NAME", help="Play on these ports.")
@click.option("--harness", metavar="TARGET", callback=read_target,
              help="Play on this, instead of what the file names.")  # fmt: skip
@click.option("--mutant", metavar="NAME", help="Play with this declared mutant on.")
@click.option("--update", is_flag=True, help="Write golden files, and play nothing else.")
@click.option("--no-confirm", is_flag=True, help="Do not replay a failure in a fresh process.")
def play_command(files: tuple[str, ...], seed: int | None, **asked: Any) -> None:
    """Play scenario FILES, each on all of its wirings, loads and seeds.

    All files are read before anything is played. One that was written from a failing run makes just
    that run, unless --runs is given.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    wrong = [file for file in files if not is_scenario(file)]
    if wrong:
        raise UsageError(
            f"{wrong[0]} is not a scenario file: the name of one ends in {', '.join(SUFFIXES)}"
        )
    programs = [find_scenario(file, asked["harness"] or "") for file in files]
    plays = [
        each
        for program in programs
        for each in plays_of(program, seed=seed, loads=asked["loads"], wirings=asked["wirings"])
    ]
    for each in plays:
        each.program.foretold_settings(each.options)  # a wrong load or wiring, before any run
    searched: list[Outcome] = []
    codes = [_play(each, asked, searched) for each in plays]
    if asked["mutant"] and searched and not any(codes):
        passed = {name for each in searched for name in each.tally.mutants}
        check_passed(asked["mutant"], passed, sum(each.runs for each in searched))
    sys.exit(INTERRUPTED if INTERRUPTED in codes else max(codes, default=HELD))


def _play(play: Play, asked: dict[str, Any], searched: list[Outcome]) -> int:
    program, runs = play.program, asked["runs"]
    name = f"{program.scenario.name}{f'[{play.label}]' if play.label else ''}"
    if asked["update"]:
        return _update(play, name)
    if program.tape is not None and runs is None:
        return _replay(play, name)
    if play.has_golden and not asked["mutant"]:
        try:
            play.compare_golden()
        except PropertyViolated as error:
            put(f"{name}: VIOLATED\n{error}")
            return VIOLATED
    runs = runs or program.scenario.runs or RUNS_DEFAULT
    shown = Shown(program.foretold_name, as_json=False, junit=None, github=False, vacuity="warn")
    options = {**play.options, "runs": runs, "seed": play.seed, "confirm": not asked["no_confirm"]}
    options |= {"mutant": asked["mutant"]} if asked["mutant"] else {}
    outcome = run_search(program, shown, Store(Path.cwd()), Outcome(0, play.seed), **options)
    searched.append(outcome)
    if outcome.failure is None and not outcome.interrupted:
        put(f"{name}: held, {count(outcome.runs, 'run')}")
        return HELD
    return shown.show(outcome, runs)


def _update(play: Play, name: str) -> int:
    if play.has_golden:
        play.compare_golden(update=True)
        put(f"{name}: wrote {play.program.scenario.golden}")
    return HELD


def _replay(play: Play, name: str) -> int:
    with output_dropped():
        done = run_replay(play.program)
    assert done is not None, "it has a replay"
    if done.error is None:
        put(f"{name}: held; it was written from a run that failed")
        return HELD
    put(f"{story_text(done)}\n\n{name}: VIOLATED")
    return VIOLATED
