"""Options that several verbs have, and how their values are read."""

from __future__ import annotations

import re
from typing import Any

import click

from foretold.arguments import check_seed
from foretold.pytest_support.seeds import VARIABLE
from foretold.search.planning.feedback import check_feedback
from foretold.search.planning.portfolio import STRATEGIES
from foretold.search.workers.targets import check_target
from foretold.world.faults import faults_text

SEED_CHARS_SHOWN = 60


def read_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """`30s`, `10m`, `1h`, or a number of seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{value!r} is not a duration; write 30s, 10m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def read_seed(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A whole number, decimal or as `0x3039`."""
    if value is None:
        return None
    text = value.strip()
    try:
        seed = int(text) if text.lstrip("-").isdecimal() else int(text, 0)
    except ValueError:
        said = value if len(value) <= SEED_CHARS_SHOWN else f"{value[:SEED_CHARS_SHOWN]}…"
        raise click.BadParameter(f"{said!r} is not a whole number, such as 12345") from None
    check_seed(seed)
    return seed


def read_target(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Something: to pytest, an empty text is all tests there are. None if it may be left out."""
    if value is not None and not value.strip():
        raise click.BadParameter(
            "the target is empty. Name it as module:function, path/to/file.py:function or "
            "tests/test_x.py::test_y"
        )
    if value is not None:
        check_target(value)
    return value


def read_faults(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Names of kinds and sets, with spaces or commas between them."""
    return None if value is None else faults_text(value.replace(",", " "))


def read_weights(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    """`buy=3`, as often as there are rules."""
    weights = {}
    for value in values:
        name, _, number = value.partition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a weight; write buy=3") from None
    return weights or None


def read_actors(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | list[str] | None:
    """`4`, or roles with commas between them: `buyer,buyer,admin`."""
    if value is None:
        return None
    return int(value) if value.strip().isdecimal() else [role.strip() for role in value.split(",")]


def read_feedback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """`branches`, or `branches: shop, redis`."""
    return None if value is None else check_feedback(value)


target_option = click.option(
    "--target",
    metavar="TARGET",
    callback=read_target,
    help="Run this program instead of the one that the tape names.",
)
seed_option = click.option(
    "--seed",
    metavar="N",
    callback=read_seed,
    envvar=VARIABLE,
    show_envvar=True,
    help="The first seed.  [default: fresh]",
)
order_option = click.option(
    "--order", type=click.Choice(["asyncio", "any"]), help="Which orders to take.  [default: both]"
)
strategy_option = click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    help="What decides the order of ready tasks.  [default: portfolio]",
)
faults_option = click.option(
    "--faults",
    metavar="NAMES",
    callback=read_faults,
    help='Faults to inject: sets or kinds, such as "network kill".',
)
steps_option = click.option(
    "--steps",
    type=click.IntRange(min=0),
    help="Machines: the maximum number of rule calls in a run.",
)
actors_option = click.option(
    "--actors",
    metavar="N",
    callback=read_actors,
    help="Machines: how many actors, or their roles (buyer,admin).",
)
weight_option = click.option(
    "--weight",
    "weights",
    metavar="RULE=N",
    multiple=True,
    callback=read_weights,
    help="Machines: how often a rule is applied; 0 for never.",
)
