"""The command `foretold`, one file for each verb.

Thin on purpose: a verb reads options, calls the search, prints what `report/` makes of the outcome,
and ends with an exit code that means something:

    0 held    1 violated    2 usage    3 nondeterminism    4 vacuous    130 Ctrl-C
"""

from __future__ import annotations

import gc
import os
import sys

from foretold.errors import ForetoldError
from foretold.platforms import (
    HASH_SEED,
    environment_with,
    refuse_elsewhere,
    restore_environment,
    without_collections,
)


def main() -> None:
    """The entry point. Starts the interpreter anew with hash seed 0, also if the environment has
    another one (tox sets one).

    A program that iterates over a set of strings then does the same in a search, in its replay and
    in the process that confirms a failure.
    """
    try:
        refuse_elsewhere()
    except ForetoldError as error:
        sys.exit(f"foretold: {error}")
    # `-R` randomises in spite of a 0, and `-E` does not look: no way to begin again.
    wanted = os.environ.get(HASH_SEED) != "0" and not sys.flags.ignore_environment
    if sys.flags.hash_randomization and wanted:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment_with("0"))
    restore_environment()
    with without_collections():
        # Only now: the interpreter above starts without the engine.
        from foretold.cli.group import app

    try:
        app(prog_name="foretold")
    finally:
        gc.freeze()  # the interpreter's last collections need not look at what ends anyway
