"""`foretold covers`: does a machine reach all that it says it covers?"""

from __future__ import annotations

import sys

import click

from foretold.cli.group import HELD, VACUOUS, VIOLATED, app
from foretold.cli.options import read_target, seed_option
from foretold.cli.targets import is_node_id, load_target, output_dropped
from foretold.errors import UsageError
from foretold.pytest_support.seeds import fresh_seed
from foretold.report.covered import covered_text
from foretold.report.terminal import put
from foretold.search.gate import gate

RUNS_DEFAULT = 200


@app.command("covers")
@click.argument("target", callback=read_target)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=RUNS_DEFAULT,
    show_default=True,
    help="Stop after so many runs; sooner, if all is covered.",
)
@seed_option
def covers_command(target: str, runs: int, seed: int | None) -> None:
    """Does the machine TARGET reach all operations that it `covers`?

    Exit code 4 if an operation has no rule, a rule never succeeds, a page is never read, an
    invariant or a mirror never looks at anything, or a strategy and its model have drifted apart.
    For CI and pre-commit.
    """
    if is_node_id(target):
        raise UsageError("foretold covers takes a machine, such as tests/test_shop.py:Shop")
    main, settings = load_target(target)
    seed = fresh_seed() if seed is None else seed
    with output_dropped():
        found = gate(main, runs=runs, seed=seed, **settings)
    put(covered_text(found, target))
    sys.exit(VIOLATED if found.failure is not None else VACUOUS if found.gaps else HELD)
