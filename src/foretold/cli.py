"""The command `foretold`: explore, replay, show, check.

Thin on purpose: it reads options, calls the search, prints what `report/` makes of the outcome,
and ends with an exit code that means something:

    0 held    1 violated    2 usage    3 nondeterminism    4 nothing to explore    130 Ctrl-C
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from foretold._version import VERSION
from foretold.errors import ForetoldError, Nondeterminism, TargetError, UsageError
from foretold.pytest_support import child
from foretold.pytest_support.replayer import PytestReplayer
from foretold.pytest_support.seeds import VARIABLE, fresh_seed
from foretold.report.checked import check_text
from foretold.report.data import outcome_json
from foretold.report.progress import SearchProgress, say
from foretold.report.tapes import (
    changed_text,
    environment_text,
    header_text,
    is_same_failure,
    schedule_text,
    seeded_text,
    story_text,
    verdict_text,
)
from foretold.report.text import interrupted_text, outcome_text
from foretold.search.check import ReplayerWith, check
from foretold.search.explore import Progress, explore
from foretold.search.failure import Outcome
from foretold.search.learning import learned_before
from foretold.search.portfolio import EXHAUSTIVE, STRATEGIES, plan_of, plans_for
from foretold.search.replayers import FreshReplayer
from foretold.search.store import Store
from foretold.search.targets import find_function
from foretold.tape import Tape, TapeFile
from foretold.tape.file import load
from foretold.world.faults import faults_text
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings

HELD, VIOLATED, USAGE, NONDETERMINISM, VACUOUS, INTERRUPTED = 0, 1, 2, 3, 4, 130
RUNS_DEFAULT = 500
RUNS_WITHIN_TIME = 1_000_000_000


def main() -> None:
    """The entry point. Starts the interpreter anew with hash seed 0, unless one was given.

    A program that iterates over a set of strings then does the same in a search, in its replay and
    in the process that confirms a failure.
    """
    if sys.flags.hash_randomization and "PYTHONHASHSEED" not in os.environ:
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    app(prog_name="foretold")


class _Group(click.Group):
    """Errors of ours become one message and an exit code, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ForetoldError as error:
            raise _Failed(error) from None
        except KeyboardInterrupt:
            say("stopped by Ctrl-C.")
            sys.exit(INTERRUPTED)


class _Failed(click.ClickException):
    """One of our errors, as click shows errors."""

    def __init__(self, error: ForetoldError) -> None:
        super().__init__(str(error))
        self.exit_code = NONDETERMINISM if isinstance(error, Nondeterminism) else USAGE  # type: ignore[misc]  # click declares it for the class alone


def _read_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """`30s`, `10m`, `1h`, or a number of seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{value!r} is no duration; write 30s, 10m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _read_seed(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A whole number, decimal or as `0x3039`."""
    if value is None:
        return None
    text = value.strip()
    try:
        return int(text) if text.lstrip("-").isdecimal() else int(text, 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no whole number, such as 12345") from None


def _read_target(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Something: to pytest, an empty text is all tests there are."""
    if not value.strip():
        raise click.BadParameter(
            "it is empty. Name it as module:function, path/to/file.py:function or "
            "tests/test_x.py::test_y"
        )
    return value


def _read_faults(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Names of kinds and sets, with spaces or commas between them."""
    return None if value is None else faults_text(value.replace(",", " "))


_seed = click.option(
    "--seed",
    metavar="N",
    callback=_read_seed,
    envvar=VARIABLE,
    show_envvar=True,
    help="The first seed.  [default: fresh]",
)
_order = click.option(
    "--order", type=click.Choice(["asyncio", "any"]), help="Which orders to take.  [default: both]"
)
_strategy = click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    help="Who decides the order of ready tasks.  [default: portfolio]",
)
_faults = click.option(
    "--faults",
    metavar="NAMES",
    callback=_read_faults,
    help='What the world may do by itself: sets or kinds of faults, such as "network kill".',
)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 held, 1 violated, 2 usage, 3 nondeterminism, 4 nothing to explore.",
)
@click.version_option(VERSION, prog_name="foretold")
def app() -> None:
    """Deterministic simulation testing: one tape of choices decides the whole run.

    A TARGET is a pytest node id (tests/test_bank.py::test_transfer), module:function or
    path/to/file.py:function.
    """


@app.command("explore")
@click.argument("target", callback=_read_target)
@click.option(
    "--runs", type=click.IntRange(min=1), help=f"How many runs.  [default: {RUNS_DEFAULT}]"
)
@click.option(
    "--time",
    "time_s",
    metavar="TIME",
    callback=_read_duration,
    help="Stop after so long: 30s, 10m, 1h.",
)
@_seed
@_order
@_strategy
@click.option(
    "--delays",
    type=click.IntRange(min=0),
    help="With the strategy exhaustive: all schedules with so many delays.  [default: 2]",
)
@_faults
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
    if _is_node_id(target):
        _refuse_for_tests({**options, "time": time_s})
        sys.exit(child.explore(target, runs=runs, seed=seed, as_json=as_json))
    settings = {k: v for k, v in options.items() if v is not None and not k.startswith("no_")}
    settings |= {"shrink": not options["no_shrink"], "confirm": not options["no_confirm"]}
    if runs is None:
        to_the_end = time_s is not None or options["strategy"] == EXHAUSTIVE
        runs = RUNS_WITHIN_TIME if to_the_end else RUNS_DEFAULT
    seed = fresh_seed() if seed is None else seed
    outcome = _explore(target, runs=runs, seed=seed, time_s=time_s, **settings)
    code = VIOLATED if outcome.failure else VACUOUS if outcome.vacuous else HELD
    if as_json:
        click.echo(outcome_json(outcome, target=target, exit_code=code))
    else:
        click.echo(outcome_text(outcome, runs=runs, target=target))
    sys.exit(code)


def _explore(target: str, *, runs: int, seed: int, confirm: bool, **settings: Any) -> Outcome:
    main, own = _load(target)
    store = Store(Path.cwd())
    before = store.saved(target)
    progress = SearchProgress(runs if runs != RUNS_WITHIN_TIME else None)
    try:
        with progress, _output_dropped(), _stoppable(progress, store) as on_progress:
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


@contextlib.contextmanager
def _output_dropped() -> Iterator[None]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


@app.command("replay")
@click.argument("what", metavar="FILE|TARGET", callback=_read_target)
@click.option(
    "--seed",
    metavar="N",
    callback=_read_seed,
    help="With a TARGET: the run that a search made with this seed.",
)
@click.option(
    "--profile", metavar="TEXT", help="With --seed: what the search had learned, as it printed it."
)
@_order
@_strategy
@_faults
def replay_command(what: str, seed: int | None, **asked: str | None) -> None:
    """Run again, exactly: a tape FILE, or TARGET with --seed N.

    Give --order, --strategy and --faults as they were given to `explore`.
    """
    if seed is not None:
        sys.exit(_replay_seed(what, seed, asked))
    if not _is_tape(what):
        raise UsageError(
            f"{what} is no tape file. Write `foretold replay FILE.tape`, or name the run by its "
            f"seed: `foretold replay {what} --seed N`"
        )
    if any(asked.values()):
        raise UsageError(
            "a tape knows its order, strategy and faults: leave --order, --strategy and --faults "
            "out"
        )
    sys.exit(_replay_file(what, load(what)))


def _replay_seed(target: str, seed: int, asked: dict[str, str | None]) -> int:
    if _is_node_id(target):
        profile = asked.pop("profile", None)
        _refuse_for_tests(asked)
        return child.replay_seed(target, seed, profile or "")
    main, own = _load(target)
    chosen = {**own, **{name: value for name, value in asked.items() if value is not None}}
    chosen.setdefault("profile", learned_before(Store(Path.cwd()), target, seed))
    plans = plans_for(chosen.pop("order", None), chosen.pop("strategy", "portfolio"))
    plan = plan_of(seed, plans)
    changes = {k: v for k, v in chosen.items() if k in Settings.__dataclass_fields__}
    settings = Settings().with_changes(**changes, order=plan.order, strategy=plan.strategy)
    tape = Tape.seeded(seed, settings.on_tape())
    done = execute(bind_main(main), tape, settings, recording=True, detail=True)
    click.echo(seeded_text(target, done))
    return HELD if done.error is None else VIOLATED


def _replay_file(name: str, file: TapeFile) -> int:
    _need_target(name, file)
    if text := environment_text(file):
        say(text)
    if _is_node_id(file.target):
        return child.replay_file(name, file.target)
    done = _run_tape(file)
    if done.error is not None:
        click.echo(f"{story_text(done)}\n")
    if text := changed_text(file, done):
        say(text)
    click.echo(verdict_text(file, done))
    return HELD if done.error is None else VIOLATED


def _need_target(name: str, file: TapeFile) -> None:
    if not file.target:
        raise UsageError(
            f"{name} does not say what it was recorded for: it was saved from a function that "
            f"cannot be imported by name. Replay it in Python: foretold.replay(main, {name!r})"
        )


def _run_tape(file: TapeFile) -> Run:
    main, _ = _load(file.target)
    return execute(bind_main(main), file.tape, Settings.from_tape(file.tape.settings), detail=True)


@app.command("show")
@click.argument("file")
def show_command(file: str) -> None:
    """Tell the story of a tape FILE."""
    loaded = load(file)
    click.echo(f"{header_text(loaded, file)}\n")
    try:
        click.echo(_story_of(loaded))
    except UsageError as error:
        click.echo(f"{schedule_text(loaded.tape)}\n(It cannot be run here: {error})")
    click.echo(f"Replay it: foretold replay {file}")


def _story_of(file: TapeFile) -> str:
    if not file.target:
        return schedule_text(file.tape)
    if _is_node_id(file.target):
        return f"{schedule_text(file.tape)}\n(pytest runs this one, and a replay tells all of it.)"
    with _output_dropped():
        done = _run_tape(file)
    warning = changed_text(file, done)
    parts = [f"{warning}\n"] if warning else []
    if done.error is None or (file.failure and not is_same_failure(file.failure, done.error)):
        parts.append(verdict_text(file, done))
    if done.error is not None:
        parts.append(story_text(done))
    return "\n".join(parts)


@app.command("check")
@click.argument("target", callback=_read_target)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Tapes.")
@_seed
def check_command(target: str, runs: int, seed: int | None) -> None:
    """Is TARGET deterministic? Run tapes twice, in fresh processes with different hash seeds."""
    replayer, main = _replayer_and_main(target)
    seed = fresh_seed() if seed is None else seed
    report = check(target, replayer, main, runs=runs, seed=seed)
    click.echo(check_text(report))
    sys.exit(HELD if report.divergence is None else NONDETERMINISM)


def _replayer_and_main(target: str) -> tuple[ReplayerWith, Callable[..., Any] | None]:
    if not _is_node_id(target):
        main = bind_main(_load(target)[0])
        return (lambda hash_seed: FreshReplayer(target, hash_seed)), main
    if "::" not in target:
        raise UsageError(f"name one test to check, such as {target.rstrip('/')}::test_x")
    arguments = child.plugin_arguments()
    return (lambda hash_seed: PytestReplayer(target, arguments, hash_seed=hash_seed)), None


# Targets


def _is_node_id(target: str) -> bool:
    return "::" in target or target.endswith(".py") or Path(target).is_dir()


def _is_tape(what: str) -> bool:
    return what.endswith(".tape") or (Path(what).is_file() and not what.endswith(".py"))


def _refuse_for_tests(options: dict[str, Any]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        name = given[0].removeprefix("no_").replace("time", "time_s")
        raise UsageError(
            f"{flag} is for module:function. A test says it itself: @foretold.simulate({name}=…)"
        )


def _load(target: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function, and the settings that its `@foretold.simulate` gives, if it has one."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        function = find_function(target)
    except (ForetoldError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module may do anything when it is imported, also exit
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise TargetError(f"importing {target.rpartition(':')[0]} failed: {said}") from error
    simulation = getattr(function, "foretold_simulation", None)
    settings = {} if simulation is None else dict(simulation.settings)
    bind_main(function)  # a wrong signature is found before anything is run
    return function, {name: value for name, value in settings.items() if value is not None}
