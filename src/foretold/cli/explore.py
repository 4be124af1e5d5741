"""`foretold explore`: search for a run that fails."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from foretold.cli.group import HELD, INTERRUPTED, VACUOUS, VIOLATED, app
from foretold.cli.options import (
    faults_option,
    order_option,
    read_duration,
    read_target,
    seed_option,
    strategy_option,
)
from foretold.cli.targets import is_node_id, load_target, output_dropped, refuse_for_tests
from foretold.pytest_support import child
from foretold.pytest_support.seeds import fresh_seed
from foretold.report.data import outcome_json
from foretold.report.progress import SearchProgress, say
from foretold.report.text import interrupted_text, outcome_text
from foretold.search.explore import Progress, explore
from foretold.search.failure import Outcome
from foretold.search.replayers import FreshReplayer
from foretold.search.store import Store

RUNS_DEFAULT = 500
RUNS_WITHIN_TIME = 1_000_000_000


@app.command("explore")
@click.argument("target", callback=read_target)
@click.option(
    "--runs", type=click.IntRange(min=1), help=f"How many runs.  [default: {RUNS_DEFAULT}]"
)
@click.option(
    "--time",
    "time_s",
    metavar="TIME",
    callback=read_duration,
    help="Stop after so long: 30s, 10m, 1h.",
)
@seed_option
@order_option
@strategy_option
@faults_option
@click.option("--isolation", type=click.Choice(["fork"]), help="Start each run in a fork.")
@click.option("--no-shrink", is_flag=True, help="Report the failing run as it was found.")
@click.option("--no-confirm", is_flag=True, help="Do not replay a failure in a fresh process.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explore_command(
    target: str,
    runs: int | None,
    time_s: float | None,
    seed: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for a run of TARGET that fails.

    What the program prints is not shown; `foretold replay` shows it.
    """
    if is_node_id(target):
        refuse_for_tests({**options, "time": time_s})
        sys.exit(child.explore(target, runs=runs, seed=seed, as_json=as_json))
    settings = {k: v for k, v in options.items() if v is not None and not k.startswith("no_")}
    settings |= {"shrink": not options["no_shrink"], "confirm": not options["no_confirm"]}
    if runs is None:
        runs = RUNS_DEFAULT if time_s is None else RUNS_WITHIN_TIME
    seed = fresh_seed() if seed is None else seed
    outcome = _explore(target, runs=runs, seed=seed, time_s=time_s, **settings)
    code = VIOLATED if outcome.failure else VACUOUS if outcome.vacuous else HELD
    if as_json:
        click.echo(outcome_json(outcome, target=target, exit_code=code))
    else:
        click.echo(outcome_text(outcome, runs=runs, target=target))
    sys.exit(code)


def _explore(target: str, *, runs: int, seed: int, confirm: bool, **settings: Any) -> Outcome:
    main, own = load_target(target)
    store = Store(Path.cwd())
    before = store.saved(target)
    progress = SearchProgress(runs if runs != RUNS_WITHIN_TIME else None)
    try:
        with progress, output_dropped(), _stoppable(progress, store) as on_progress:
            return explore(
                main,
                runs=runs,
                seed=seed,
                confirm=confirm,
                replayer=FreshReplayer(target) if confirm else None,
                save_to=store.folder_of(target) if store.is_writable() else None,
                target=target,
                on_progress=on_progress,
                **{**own, **settings},
            )
    except KeyboardInterrupt:
        found = [path for path in store.saved(target) if path not in before]
        say(interrupted_text(progress.last.runs, seed, found))
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def _stoppable(progress: SearchProgress, store: Store) -> Iterator[Callable[[Progress], None]]:
    """Ctrl-C ends the search after the run at the latest, even if the program swallows it."""
    asked = False

    def stop(number: int, frame: Any) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    def on_progress(standing: Progress) -> None:
        progress(standing)
        if standing.stage != "searching":
            store.keep_out_of_git()
        if asked:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, stop)
    try:
        yield on_progress
    finally:
        signal.signal(signal.SIGINT, former)
