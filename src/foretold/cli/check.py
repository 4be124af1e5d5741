"""`foretold check`: is a program deterministic?"""

from __future__ import annotations

import functools
import sys
from typing import Any

import click

from foretold.cli.group import HELD, NONDETERMINISM, app
from foretold.cli.options import read_target, seed_option
from foretold.cli.targets import is_node_id, load_target
from foretold.errors import Interference, UsageError
from foretold.pytest_support import child
from foretold.pytest_support.replayer import PytestReplayer
from foretold.pytest_support.seeds import fresh_seed
from foretold.report.checked import check_text
from foretold.report.terminal import put
from foretold.search.checking.check import ReplayerWith, check
from foretold.search.checking.replayers import FreshReplayer
from foretold.spec.model import check_interference


@app.command("check")
@click.argument("target", callback=read_target)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Tapes.")
@seed_option
@click.option("--isolation", type=click.Choice(["fork"]), help="Start each run in a fork.")
def check_command(target: str, runs: int, seed: int | None, isolation: str | None) -> None:
    """Is TARGET deterministic? Run tapes several times, in fresh processes with different hash
    seeds."""
    replayer = _replayer(target, isolation)
    seed = fresh_seed() if seed is None else seed
    _check_model(target, seed)
    report = check(target, replayer, runs=runs, seed=seed)
    put(check_text(report))
    sys.exit(HELD if report.divergence is None else NONDETERMINISM)


def _check_model(target: str, seed: int) -> None:
    """A machine's model must not change its runs."""
    found: Any = None if is_node_id(target) else load_target(target)[0]
    if getattr(found, "model", None) is None or not hasattr(found, "foretold_settings"):
        return
    try:
        check_interference(found, seeds=[seed])
    except Interference as error:
        put(str(error))
        sys.exit(NONDETERMINISM)


def _replayer(target: str, isolation: str | None) -> ReplayerWith:
    if not is_node_id(target):
        load_target(target)  # what is wrong with it is best said here
        return functools.partial(FreshReplayer, target, isolation=isolation)
    if isolation is not None:
        raise UsageError(
            "--isolation is for functions and applications. A test says it itself: "
            '@foretold.simulate(isolation="fork")'
        )
    if "::" not in target:
        raise UsageError(f"name one test to check, such as {target.rstrip('/')}::test_x")
    arguments = child.plugin_arguments()
    return lambda hash_seed, *, littered=False: PytestReplayer(
        target, arguments, hash_seed=hash_seed, littered=littered
    )
