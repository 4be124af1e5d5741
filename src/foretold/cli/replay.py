"""`foretold replay`: run again, exactly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from foretold.cli.group import HELD, USAGE, VIOLATED, app
from foretold.cli.options import (
    actors_option,
    faults_option,
    order_option,
    read_seed,
    read_target,
    steps_option,
    strategy_option,
    target_option,
    weight_option,
)
from foretold.cli.targets import (
    decision_of,
    is_node_id,
    is_tape,
    load_target,
    project_folder,
    refuse_for_tests,
    run_tape,
    with_target,
)
from foretold.errors import UsageError
from foretold.pytest_support import child
from foretold.pytest_support.replayer import PytestReplayer
from foretold.report.campaign import all_text, verdict_line
from foretold.report.tapes import (
    changed_text,
    environment_text,
    seeded_text,
    story_text,
    verdict_text,
)
from foretold.report.terminal import put, say
from foretold.search.checking.replayers import FreshReplayer, Replayer
from foretold.search.failures.retry import try_again
from foretold.search.failures.store import Store
from foretold.search.planning.learning import learned_before
from foretold.search.planning.portfolio import plans_for, settings_of
from foretold.search.workers.targets import check_inside
from foretold.search.workers.warming import run_warm
from foretold.tape import Tape, TapeFile
from foretold.tape.file import load
from foretold.world.run import bind_main
from foretold.world.settings import Settings


@app.command("replay")
@click.argument("what", metavar="FILE|TARGET", required=False, callback=read_target)
@click.option("--all", "every", is_flag=True, help="All saved failures: which still fail?")
@click.option(
    "--seed",
    metavar="N",
    callback=read_seed,
    help="With a TARGET: the run that a search made with this seed.",
)
@click.option(
    "--profile", metavar="TEXT", help="With --seed: what the search had learned, as it printed it."
)
@click.option("--mutant", metavar="NAME", help="With --seed: the declared mutant that was on.")
@target_option
@order_option
@strategy_option
@faults_option
@steps_option
@actors_option
@weight_option
def replay_command(
    what: str | None, every: bool, seed: int | None, target: str | None, **asked: Any
) -> None:
    """Run again, exactly: a tape FILE, or TARGET with --seed N, or --all that have failed.

    Give --order, --strategy, --faults and what belongs to a machine as to `explore`.
    """
    if every:
        if what is not None or seed is not None or target or any(asked.values()):
            raise UsageError("--all replays all saved failures: give no target and no other option")
        sys.exit(_replay_all(Store(Path.cwd())))
    if what is None:
        raise UsageError(
            "name what to replay: `foretold replay FILE.tape`, `foretold replay TARGET --seed N`, "
            "or `foretold replay --all`"
        )
    if seed is not None and target is not None:
        raise UsageError("--target is for a tape file: with --seed, the target is named already")
    if seed is not None:
        sys.exit(_replay_seed(what, seed, asked))
    if not is_tape(what):
        raise UsageError(
            f"{what} is not a tape file. Write `foretold replay FILE.tape`, or name the run by its "
            f"seed: `foretold replay {what} --seed N`"
        )
    if any(asked.values()):
        raise UsageError(
            "a tape stores its order, strategy, faults and machine settings: leave out --order, "
            "--strategy, --faults, --steps, --actors, --weight, --profile and --mutant"
        )
    sys.exit(_replay_file(what, with_target(load(what), target)))


def _replay_all(store: Store) -> int:
    """A verdict on each saved failure, and the worst of them as exit code."""
    words: list[str] = []
    for path in reversed(store.all_saved()):
        verdict = try_again(path, replayer_of)
        put(verdict_line(verdict))
        words.append(verdict.word)
        if verdict.word == "FIXED":
            store.set_aside(path)
    put(all_text(words))
    if "STILL FAILS" in words:
        return VIOLATED
    return USAGE if "CANNOT REPLAY" in words else HELD


def replayer_of(target: str) -> Replayer:
    """Who replays this target of a tape in a fresh process."""
    check_inside(target, project_folder())
    if is_node_id(target):
        return PytestReplayer(target, child.plugin_arguments())
    return FreshReplayer(target)


def _replay_seed(target: str, seed: int, asked: dict[str, Any]) -> int:
    if is_node_id(target):
        profile = asked.pop("profile", None)
        refuse_for_tests(asked)
        return child.replay_seed(target, seed, profile or "")
    main, own = load_target(target)
    chosen = {**own, **{name: value for name, value in asked.items() if value is not None}}
    chosen.setdefault("profile", learned_before(Store(Path.cwd()), target, seed))
    plans = plans_for(chosen.pop("order", None), chosen.pop("strategy", "portfolio"))
    own_too = getattr(main, "foretold_settings", dict)(chosen)  # a machine has some of its own
    changes = {k: v for k, v in own_too.items() if k in Settings.__dataclass_fields__}
    settings = Settings().with_changes(**changes)
    settings = settings.with_changes(**dict(settings_of(seed, plans, preempt=settings.preempt)))
    tape = Tape.seeded(seed, settings.on_tape())
    done = run_warm(bind_main(main), tape, settings, recording=True, detail=True)
    put(seeded_text(target, done))
    return HELD if done.error is None else VIOLATED


def _replay_file(name: str, file: TapeFile) -> int:
    _need_target(name, file)
    if text := environment_text(file):
        say(text)
    if is_node_id(file.target):
        return child.replay_file(name, file.target)
    done = run_tape(file)
    if done.error is not None:
        put(f"{story_text(done, decision_of(file, done))}\n")
    if text := changed_text(file, done):
        say(text)
    put(verdict_text(file, done))
    return HELD if done.error is None else VIOLATED


def _need_target(name: str, file: TapeFile) -> None:
    if not file.target:
        raise UsageError(
            f"{name} does not say what it was recorded for: it was saved from a function that "
            f"cannot be imported by name. Replay it in Python: foretold.replay(main, {name!r})"
        )
