"""`foretold check`: is a program deterministic?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from foretold.cli.group import HELD, NONDETERMINISM, app
from foretold.cli.options import read_target, seed_option
from foretold.cli.targets import is_node_id, load_target
from foretold.errors import UsageError
from foretold.pytest_support import child
from foretold.pytest_support.replayer import PytestReplayer
from foretold.pytest_support.seeds import fresh_seed
from foretold.report.checked import check_text
from foretold.search.check import ReplayerWith, check
from foretold.search.replayers import FreshReplayer
from foretold.world.run import bind_main


@app.command("check")
@click.argument("target", callback=read_target)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Tapes.")
@seed_option
def check_command(target: str, runs: int, seed: int | None) -> None:
    """Is TARGET deterministic? Run tapes twice, in fresh processes with different hash seeds."""
    replayer, main = _replayer_and_main(target)
    seed = fresh_seed() if seed is None else seed
    report = check(target, replayer, main, runs=runs, seed=seed)
    click.echo(check_text(report))
    sys.exit(HELD if report.divergence is None else NONDETERMINISM)


def _replayer_and_main(target: str) -> tuple[ReplayerWith, Callable[..., Any] | None]:
    if not is_node_id(target):
        main = bind_main(load_target(target)[0])
        return (lambda hash_seed: FreshReplayer(target, hash_seed)), main
    if "::" not in target:
        raise UsageError(f"name one test to check, such as {target.rstrip('/')}::test_x")
    arguments = child.plugin_arguments()
    return (lambda hash_seed: PytestReplayer(target, arguments, hash_seed=hash_seed)), None
