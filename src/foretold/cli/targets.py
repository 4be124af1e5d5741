"""What a TARGET on the command line is, and how it is made ready to run."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from foretold.errors import ForetoldError, TapeError, TargetError, UsageError
from foretold.scenario.source import is_scenario
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.failures.recall import recalled
from foretold.search.failures.retry import ends_its_process
from foretold.search.failures.store import FOLDER
from foretold.search.workers.targets import check_inside, find_function, settings_of_target
from foretold.search.workers.warming import run_warm
from foretold.story.decision import Decision
from foretold.tape import TapeFile
from foretold.world.run import Run, bind_main
from foretold.world.settings import Settings


def is_node_id(target: str) -> bool:
    """Whether pytest runs this one."""
    return "::" in target or target.endswith(".py") or os.path.isdir(target)


def is_tape(what: str) -> bool:
    """Whether this is a tape file rather than a target."""
    named = what.endswith(".tape")
    return named or (os.path.isfile(what) and not what.endswith(".py") and not is_scenario(what))


def refuse_for_tests(options: dict[str, Any]) -> None:
    """A test has its own settings; ignoring an option would search something else."""
    given = [name for name, value in options.items() if value]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        name = given[0].removeprefix("no_").replace("time", "time_s")
        raise UsageError(
            f"{flag} works with module:function only. In a test write @foretold.simulate({name}=…)"
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
    bind_main(function)  # a wrong signature is found before anything is run
    return function, settings_of_target(target, function)


@contextlib.contextmanager
def output_dropped() -> Iterator[None]:
    """What the program prints is not shown, nor what it logs to the terminal: thousands of runs
    with faults would bury everything else."""
    former, logging.lastResort = logging.lastResort, cast(Any, logging.NullHandler())
    handlers: Any = logging.StreamHandler
    emit, terminal = handlers.emit, (sys.stdout, sys.stderr)

    def emit_elsewhere(handler: Any, record: logging.LogRecord) -> None:
        """As always, since formatting a record may call the program; and not to the terminal."""
        stream = handler.stream
        handler.stream = drain if stream in terminal else stream
        try:
            emit(handler, record)
        finally:
            handler.stream = stream

    try:
        with open(os.devnull, "w", encoding="utf-8") as drain, contextlib.redirect_stdout(drain):
            handlers.emit = emit_elsewhere
            yield
    finally:
        handlers.emit = emit
        logging.lastResort = former


def project_folder() -> Path:
    """The folder whose programs tapes may name: this one, or that above it whose tapes are kept."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / FOLDER).is_dir()), here)


def with_target(file: TapeFile, target: str | None) -> TapeFile:
    """The tape with the target that the user has named, or with its own, if that may be run."""
    if target is not None:
        return replace(file, target=target)
    if file.target:
        check_inside(file.target, project_folder())
    return file


def run_tape(file: TapeFile) -> Run:
    """Run a tape on the target it was recorded for, in detail. Raises WorkerDied if the run ends
    its process, as it did when it was recorded: this one is not risked for that."""
    if ends_its_process(file):
        FreshReplayer(file.target)(file.tape)
    main, _ = load_target(file.target)
    settings = Settings.from_tape(file.tape.settings)
    done = run_warm(bind_main(main), file.tape, settings, detail=True)
    if isinstance(done.error, TapeError):
        raise done.error  # the program has not failed: the tape cannot be read by it
    return done


def decision_of(file: TapeFile, done: Run) -> Decision | None:
    """What its file says decides the failure that a tape gave here."""
    main, _ = load_target(file.target)
    return recalled(file, done, bind_main(main), Settings.from_tape(file.tape.settings))
