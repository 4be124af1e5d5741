"""The command itself, to which each verb adds its own: exit codes, and how errors are shown."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from foretold._version import VERSION
from foretold.errors import ForetoldError, Nondeterminism, WorkerDied
from foretold.kernel.interrupt import interrupts
from foretold.platforms import without_collections
from foretold.report.terminal import say

HELD, VIOLATED, USAGE, NONDETERMINISM, VACUOUS, INTERRUPTED = 0, 1, 2, 3, 4, 130
MODULES: Final = {
    "anomalies": "anomalies",
    "check": "check",
    "covers": "covers",
    "explain": "explain",
    "explore": "explore",
    "play": "play",
    "replay": "replay",
    "show": "show",
    "shrink": "explain",
}
"""The verbs, and in which file of this folder each is."""


class _Group(click.Group):
    """A verb's file is imported when the verb is asked for: together they need most of foretold.
    Errors of ours become one message and an exit code, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in MODULES:
            with without_collections():
                importlib.import_module(f"foretold.cli.{MODULES[cmd_name]}")
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ForetoldError as error:
            raise _Failed(error) from None
        except KeyboardInterrupt:
            say_where()
            say("stopped by Ctrl-C.")
            sys.exit(INTERRUPTED)


def say_where() -> None:
    """Where the program was when Ctrl-C was pressed, if that was in a run."""
    if interrupts.where:
        say(interrupts.where)


class _Failed(click.ClickException):
    """One of our errors, as click shows errors."""

    def __init__(self, error: ForetoldError) -> None:
        super().__init__(str(error))
        code = NONDETERMINISM if isinstance(error, Nondeterminism) else USAGE
        code = VIOLATED if isinstance(error, WorkerDied) else code
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class alone

    def show(self, file: object = None) -> None:
        say(f"Error: {self.format_message()}")


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 held, 1 violated, 2 usage, 3 nondeterminism, 4 vacuous.",
)
@click.version_option(VERSION, prog_name="foretold")
def app() -> None:
    """Deterministic simulation testing: one tape of choices decides the whole run.

    A TARGET is a pytest node id (tests/test_bank.py::test_transfer), module:function or
    path/to/file.py:function.
    """
