"""The command `foretold`, one file for each verb.

Thin on purpose: a verb reads options, calls the search, prints what `report/` makes of the outcome,
and ends with an exit code that means something:

    0 held    1 violated    2 usage    3 nondeterminism    4 vacuous    130 Ctrl-C
"""

from __future__ import annotations

import os
import sys

from foretold.cli import check, explain, explore, replay, show
from foretold.cli.group import app

VERBS = (explore, replay, show, explain, check)
"""Importing a verb adds it to the command."""


def main() -> None:
    """The entry point. Starts the interpreter anew with hash seed 0, unless one was given.

    A program that iterates over a set of strings then does the same in a search, in its replay and
    in the process that confirms a failure.
    """
    if sys.flags.hash_randomization and "PYTHONHASHSEED" not in os.environ:
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    app(prog_name="foretold")


__all__ = ["app", "main"]
