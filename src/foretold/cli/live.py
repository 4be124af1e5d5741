"""`foretold explore TARGET --url …`: a machine against a running server."""

from __future__ import annotations

from typing import Any

import click

from foretold.cli.group import HELD, VACUOUS, VIOLATED
from foretold.cli.targets import is_node_id, load_target, output_dropped
from foretold.errors import UsageError
from foretold.report.live import smoke_json, smoke_text
from foretold.report.terminal import put
from foretold.search.checking.live import RUNS_DEFAULT, explore_url
from foretold.spec.machine.options import OPTIONS, options_text

url_option = click.option(
    "--url",
    metavar="URL",
    help="A machine against the server there: in real time, without faults.",
)
allow_host_option = click.option(
    "--allow-host",
    "allowed",
    metavar="NAME",
    multiple=True,
    help="With --url: a host that may be asked besides this machine.",
)
WITHOUT_MEANING = ("order", "strategy", "delays", "faults", "workers", "executor", "isolation",
                   "plant", "mutants", "keep_going", "feedback", "junit", "github")  # fmt: skip
FLAGS = {"mutants": "mutant"}
"""Options that are called otherwise in the program."""


def explore_live(
    target: str, url: str, allowed: tuple[str, ...], given: dict[str, Any], *, as_json: bool
) -> int:
    """Run the machine, show what it gave. Returns the exit code."""
    _refuse(target, given)
    machine, own = load_target(target)
    told = {name: given.get(name) or own.get(name) for name in OPTIONS}
    runs = given.get("runs")
    with output_dropped():
        smoke = explore_url(
            machine,
            url,
            runs=RUNS_DEFAULT if runs is None else runs,
            seed=given["seed"],
            time_s=given.get("time_s"),
            allowed=allowed,
            options=options_text(told),
        )
    idle = smoke.idle and smoke.runs >= RUNS_DEFAULT and given.get("vacuity") != "warn"
    code = VIOLATED if smoke.error is not None else VACUOUS if idle else HELD
    text = smoke_json(smoke, target=target, exit_code=code) if as_json else smoke_text
    put(text if isinstance(text, str) else text(smoke, target=target))
    return code


def refuse_without_url(allowed: tuple[str, ...]) -> None:
    """In a simulated world no real host is asked, whatever is allowed."""
    if allowed:
        raise UsageError(
            f"--allow-host {allowed[0]} needs --url: a simulated run contacts no real host"
        )


def _refuse(target: str, given: dict[str, Any]) -> None:
    if is_node_id(target):
        raise UsageError(
            f"--url needs a machine: name the class, such as {target.partition('::')[0]}:Shop"
        )
    for name in WITHOUT_MEANING:
        if given.get(name) not in (None, False, ()):
            flag = FLAGS.get(name, name.replace("_", "-"))
            raise UsageError(
                f"--{flag} does not work with --url: that server runs in real time and without "
                "faults"
            )
