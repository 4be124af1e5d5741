"""What a TARGET on the command line is, and how it is made ready to run."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from foretold.errors import ForetoldError, TargetError, UsageError
from foretold.search.replayers import FreshReplayer
from foretold.search.retry import ends_its_process
from foretold.search.targets import find_function
from foretold.tape import TapeFile
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings


def is_node_id(target: str) -> bool:
    """Whether pytest runs this one."""
    return "::" in target or target.endswith(".py") or Path(target).is_dir()


def is_tape(what: str) -> bool:
    """Whether this is a tape file rather than a target."""
    return what.endswith(".tape") or (Path(what).is_file() and not what.endswith(".py"))


def refuse_for_tests(options: dict[str, Any]) -> None:
    """A test has its own settings; ignoring an option would search something else."""
    given = [name for name, value in options.items() if value]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        name = given[0].removeprefix("no_").replace("time", "time_s")
        raise UsageError(
            f"{flag} is for module:function. A test says it itself: @foretold.simulate({name}=…)"
        )


def load_target(target: str) -> tuple[Callable[..., Any], dict[str, Any]]:
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


@contextlib.contextmanager
def output_dropped() -> Iterator[None]:
    """What the program prints is not shown, nor what it logs where it has set up no logging:
    thousands of runs with faults would bury everything else."""
    former, logging.lastResort = logging.lastResort, cast(Any, logging.NullHandler())
    try:
        with open(os.devnull, "w", encoding="utf-8") as drain, contextlib.redirect_stdout(drain):
            yield
    finally:
        logging.lastResort = former


def run_tape(file: TapeFile) -> Run:
    """Run a tape on the target it was recorded for, in detail. Raises WorkerDied if the run ends
    its process, as it did when it was recorded: this one is not risked for that."""
    if ends_its_process(file):
        FreshReplayer(file.target)(file.tape)
    main, _ = load_target(file.target)
    return execute(bind_main(main), file.tape, Settings.from_tape(file.tape.settings), detail=True)
