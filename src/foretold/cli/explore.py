"""`foretold explore`: search for a run that fails."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from foretold.arguments import printable
from foretold.cli.group import HELD, INTERRUPTED, VACUOUS, VIOLATED, app, say_where
from foretold.cli.live import allow_host_option, explore_live, refuse_without_url, url_option
from foretold.cli.options import (
    actors_option,
    faults_option,
    order_option,
    read_duration,
    read_feedback,
    read_target,
    seed_option,
    steps_option,
    strategy_option,
    weight_option,
)
from foretold.cli.targets import (
    decision_of,
    is_node_id,
    load_target,
    output_dropped,
    refuse_for_tests,
    run_tape,
)
from foretold.errors import UsageError, WorkerDied
from foretold.pytest_support import child
from foretold.pytest_support.seeds import fresh_seed
from foretold.report.campaign import campaign_text, group_lines, verdict_line
from foretold.report.data import history_data, outcome_json
from foretold.report.exports import github_annotations
from foretold.report.planted import planting_json, planting_text
from foretold.report.progress import SearchProgress
from foretold.report.terminal import expect_commands, in_github_actions, put, put_command, say
from foretold.report.text import interrupted_text
from foretold.search.checking.observe import Observation
from foretold.search.checking.plant import plant
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.explore import Progress, explore
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.failures.retry import failure_elsewhere, failure_of, try_again
from foretold.search.failures.store import Store
from foretold.search.planning.portfolio import EXHAUSTIVE
from foretold.search.workers.executors import WORKERS_MAX
from foretold.search.workers.targets import may_make_application
from foretold.story.signature import signature_of
from foretold.story.words import count
from foretold.tape import TapeFile

RUNS_DEFAULT = 500
RUNS_WITHIN_TIME = 1_000_000_000
LONG_RUNS = 1_000
"""A search of so many runs is remembered, and what it reached is kept for the next one; unless its
seed is pinned: then it shall do the same again, whatever was before."""


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
@click.option(
    "--delays",
    type=click.IntRange(min=0),
    help="With --strategy exhaustive: the maximum number of delays.  [default: 2]",
)
@faults_option
@steps_option
@actors_option
@weight_option
@click.option("--workers", type=click.IntRange(1, WORKERS_MAX), help="Processes.  [default: 1]")
@click.option(
    "--executor", metavar="NAME", help="What makes the runs: processes, or dask://HOST:PORT."
)
@click.option("--keep-going", is_flag=True, help="Go on after a failure; report all kinds.")
@click.option("--isolation", type=click.Choice(["fork"]), help="Start each run in a fork.")
@click.option("--no-shrink", is_flag=True, help="Report the failing run as it was found.")
@click.option(
    "--shrink-runs",
    type=click.IntRange(1),
    metavar="N",
    help="Shrink with this many runs, however long.  [default: 2000, or fewer]",
)
@click.option("--no-confirm", is_flag=True, help="Do not replay a failure in a fresh process.")
@click.option("--no-saved", is_flag=True, help="Do not try saved failures first.")
@click.option("--no-feedback", is_flag=True, help="Do not learn from what runs reach.")
@click.option(
    "--vacuity",
    type=click.Choice(["fail", "warn"]),
    help="A search that tests nothing: exit code 4, or a table only.  [default: fail]",
)
@click.option(
    "--plant", is_flag=True, help="Switch on declared mutants one by one. Are they caught?"
)
@click.option(
    "--mutant",
    "mutants",
    metavar="NAME",
    multiple=True,
    help="Search with this declared mutant on. With --plant: one more to try.",
)
@click.option(
    "--feedback",
    metavar="WHAT",
    callback=read_feedback,
    help='Observe "branches" of your own code, or "branches: shop, redis" of these modules.',
)
@url_option
@allow_host_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--junit", metavar="FILE", help="Write the outcome as JUnit XML.")
@click.option("--github", is_flag=True, help="Print annotations.  [default: in GitHub Actions]")
def explore_command(
    target: str,
    runs: int | None,
    time_s: float | None,
    seed: int | None,
    **options: Any,
) -> None:
    """Search for a run of TARGET that fails.

    What the program prints is not shown; `foretold replay` shows it.
    """
    shown = Shown(
        target,
        options.pop("as_json"),
        options.pop("junit"),
        options.pop("github"),
        options.pop("vacuity") or "fail",
    )
    expect_commands(shown.github)
    click.get_current_context().call_on_close(lambda: expect_commands(False))
    if shown.junit is not None:
        _prepare_junit(shown.junit)
    url, allowed = options.pop("url"), options.pop("allowed")
    if url is not None:
        seed = fresh_seed() if seed is None else seed
        given = {**options, **vars(shown), "runs": runs, "time_s": time_s, "seed": seed}
        sys.exit(explore_live(target, url, allowed, given, as_json=shown.as_json))
    refuse_without_url(allowed)
    planting, mutants = options.pop("plant"), options.pop("mutants")
    if is_node_id(target):
        if planting or mutants:
            raise UsageError(
                "--plant and --mutant do not work with a pytest node id: name the function or "
                "machine, such as tests/test_shop.py:Shop"
            )
        refuse_for_tests({**options, "time": time_s})
        sys.exit(
            child.explore(
                target,
                runs=runs,
                seed=seed,
                vacuity=shown.vacuity,
                as_json=shown.as_json,
                junit=shown.junit,
                github=shown.annotates,
            )
        )
    if runs is None:
        to_the_end = time_s is not None or options["strategy"] == EXHAUSTIVE
        runs = RUNS_WITHIN_TIME if to_the_end else RUNS_DEFAULT
    pinned = seed is not None
    seed = fresh_seed() if seed is None else seed
    main, own = load_target(target)
    store = Store(Path.cwd())
    outcome = Outcome(0, seed)
    tries_saved = not options.pop("no_saved")
    asked = {"runs": runs, "seed": seed, "time_s": time_s, **own, **_settings_of(options)}
    if planting:
        sys.exit(_plant(main, shown, mutants, asked))
    if mutants:
        sys.exit(_with_mutant(main, shown, store, _only(mutants), asked))
    if tries_saved:
        outcome.failures = _saved_failures(target, store)
    if not outcome.failures or options["keep_going"]:
        outcome = run_search(
            main, shown, store, outcome, **asked,
            corpus=None if pinned or runs < LONG_RUNS else store.corpus_of(target),
        )  # fmt: skip
        if outcome.vacuous and (hint := may_make_application(main)):
            outcome.notes.append(hint)
        if outcome.runs >= LONG_RUNS and store.is_writable():
            store.remember(target, history_data(outcome))
    sys.exit(shown.show(outcome, runs))


def _plant(
    main: Callable[..., Any], shown: Shown, mutants: tuple[str, ...], settings: dict[str, Any]
) -> int:
    """Declared mutants, one at a time. Returns the exit code."""
    with output_dropped():
        found = plant(main, mutants, on_mutant=lambda name: say(f"planting {name!r}"), **settings)
    if found.outcome.failure is not None:
        say("without any mutant it must hold, and it does not:")
        return shown.show(found.outcome, settings["runs"])
    code = VIOLATED if found.survivors else HELD
    if shown.as_json:
        put(planting_json(found, target=shown.target, exit_code=code))
    else:
        put(planting_text(found, target=shown.target))
    return code


def _only(mutants: tuple[str, ...]) -> str:
    if len(mutants) > 1:
        raise UsageError(
            "a search switches on one mutant: give --mutant once, or add --plant, which tries them "
            "one after the other"
        )
    return mutants[0]


def _with_mutant(
    main: Callable[..., Any], shown: Shown, store: Store, mutant: str, settings: dict[str, Any]
) -> int:
    """One declared mutant is on, and what is found is told as any other failure. Its tape is kept
    apart from those of bugs, and what failed before is not tried. Returns the exit code."""
    outcome = run_search(
        main, shown, store, Outcome(0, settings["seed"]), mutant=mutant, **settings
    )
    passed = outcome.tally.mutants
    if outcome.failure is None and not outcome.interrupted:
        check_passed(mutant, passed, outcome.runs)
        outcome.notes.append(
            f"the mutant {mutant!r} was on, and passed in {count(passed[mutant], 'run')}: nobody "
            "noticed it"
        )
    return shown.show(outcome, settings["runs"])


def check_passed(mutant: str, passed: Collection[str], runs: int) -> None:
    """A search in which no run passed the mutant says nothing about it: it may be misspelt."""
    if mutant not in passed:
        known = f"those passed were: {', '.join(sorted(passed))}" if passed else "nor any other"
        raise UsageError(f"no run passed a mutant named {mutant!r} ({count(runs, 'run')}); {known}")


def _settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Options as `foretold.explore` takes them; what was not given is left to the target."""
    if options["no_feedback"] and options["feedback"]:
        raise UsageError("--feedback and --no-feedback contradict each other: give one")
    given = {k: v for k, v in options.items() if v is not None and not k.startswith("no_")}
    without = [name for name in ("shrink", "confirm", "feedback") if options[f"no_{name}"]]
    return given | dict.fromkeys(without, False)


@dataclass(frozen=True)
class Shown:
    target: str
    as_json: bool
    junit: str | None
    github: bool
    vacuity: str

    @property
    def annotates(self) -> bool:
        return self.github or in_github_actions()

    def show(self, outcome: Outcome, runs: int) -> int:
        """Show it in all the ways that were asked for. Returns the exit code."""
        target = self.target
        outcome.forgiven = self.vacuity == "warn"
        code = VIOLATED if outcome.failure else VACUOUS if outcome.is_vacuous else HELD
        code = INTERRUPTED if outcome.interrupted else code
        if self.as_json:
            put(outcome_json(outcome, target=target, exit_code=code))
        elif not outcome.interrupted:
            put(campaign_text(outcome, runs=runs, target=target))
        if self.annotates:
            for line in github_annotations(outcome, target):
                put_command(line, err=self.as_json)
        if self.junit is not None:
            from foretold.report.junit import junit_xml  # few ask for it

            _write_junit(self.junit, junit_xml(outcome, runs=runs, target=target))
        return code


def _prepare_junit(path: str) -> None:
    """That it cannot be written is said before the search begins, not after it."""
    try:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists()
        with open(file, "a", encoding="utf-8"):
            pass
        if is_new:
            file.unlink()  # an empty one would be no JUnit file, should the search be interrupted
    except (OSError, ValueError) as error:
        raise UsageError(f"--junit {printable(path)}: it cannot be written: {error}") from None


def _write_junit(path: str, text: str) -> None:
    """Last of all: whatever happens to the file, the report has been printed."""
    try:
        Path(path).write_text(text, "utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"--junit {printable(path)}: it cannot be written: {error}") from None


def _saved_failures(target: str, store: Store) -> list[Failure]:
    """What failed before is tried first; that which still does, with its story."""
    failures = []
    for path in store.saved(target):
        verdict = try_again(path, lambda named: _replayer_of(named, target))
        say(verdict_line(verdict))
        if verdict.word == "FIXED":
            store.set_aside(path)
        elif verdict.word == "STILL FAILS" and verdict.file is not None:
            with output_dropped():
                failures.append(_failure_again(verdict.file, path, verdict.seen))
    return failures


def _replayer_of(named: str, target: str) -> FreshReplayer:
    """Who replays a tape that was kept for `target`, which the user has named."""
    if named != target:
        raise UsageError(f"it was recorded for {named!r}, and not for {target}")
    return FreshReplayer(target)


def _failure_again(file: TapeFile, path: Path, seen: Observation | None) -> Failure:
    """With its story, if it fails here as well; a fresh process has `seen` that it does."""
    try:
        done = run_tape(file)
        found = failure_of(done, file, path, decision_of(file, done))
        if found is None:
            assert seen is not None, "a failure of which nothing was seen ends its process"
            return failure_elsewhere(seen, file, path)
        return found
    except WorkerDied as error:
        found = Failure(error, file.tape, signature_of(error), 0, file.tape.seed)
        found.target, found.saved_as, found.reproduced = file.target, path, True
        return found


def run_search(
    main: Callable[..., Any],
    shown: Shown,
    store: Store,
    known: Outcome,
    *,
    confirm: bool = True,
    **settings: Any,
) -> Outcome:
    """Search, with a bar on the terminal; Ctrl-C ends it, and what was found is kept."""
    target, runs = shown.target, settings["runs"]
    mutant = settings.get("mutant", "")
    before = store.saved(target, mutant)
    progress = SearchProgress(runs if runs != RUNS_WITHIN_TIME else None)
    try:
        with progress, output_dropped(), _stoppable(progress, store) as on_progress:
            outcome = explore(
                main,
                confirm=confirm,
                replayer=FreshReplayer(target) if confirm else None,
                save_to=store.folder_of(target, mutant) if store.is_writable() else None,
                target=target,
                on_progress=on_progress,
                **settings,
            )
    except KeyboardInterrupt as stopped:
        found = [path for path in store.saved(target, mutant) if path not in before]
        outcome = getattr(stopped, "outcome", known)
        if len(outcome.failures) > 1 or settings["keep_going"]:
            say("\n".join(group_lines(outcome, target)))
        say_where()
        say(interrupted_text(progress.last.runs, settings["seed"], found))
        outcome.interrupted = True
    seen = {failure.signature for failure in outcome.failures}
    outcome.failures += [old for old in known.failures if old.signature not in seen]
    return outcome


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
        if standing.stage != "searching" or standing.failures:
            store.keep_out_of_git()
        if asked:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, stop)
    try:
        yield on_progress
    finally:
        signal.signal(signal.SIGINT, former)
