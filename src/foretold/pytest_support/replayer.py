"""A tape replayed by pytest in a fresh process: is the failure more than this process's mood?

The child runs one test, by its id, in the same folder, with the same configuration file and the
options that decide how a test is found and set up. It gets none of the options that write reports,
measure coverage or start workers: those are about the run that asks.

What the child saw comes back as a file, named in its environment:

    FORETOLD_OBSERVE   where it writes the observation (JSON)
    FORETOLD_ENTRIES   where it writes every entry of the trace, if this is set
    FORETOLD_LITTER    if this is set, objects lie elsewhere in memory than they would
    FORETOLD_OPTIONS   values for options that a conftest.py declares (JSON)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretold.errors import ForetoldError, TimeUp
from foretold.kernel.watchdog import watchdog
from foretold.platforms import environment_with
from foretold.search.checking.observe import Observation, observed_by_child
from foretold.tape import Tape
from foretold.tape.file import TapeFile, save
from foretold.world.world import World

CHILD_S_MAX = 120.0
NO_TESTS = 5  # pytest's exit code
_OBSERVE, _ENTRIES, _OPTIONS = "FORETOLD_OBSERVE", "FORETOLD_ENTRIES", "FORETOLD_OPTIONS"
_LITTER = "FORETOLD_LITTER"
# `python -m pytest` would put the current folder on the path, which `pytest` does not.
_PROGRAM = (
    "import gc, json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "gc.disable(); import pytest; gc.enable(); "  # see platforms.py
    "code = pytest.main(sys.argv[1:]); gc.freeze(); sys.exit(code)"
)
_NOT_INHERITED = ("PYTEST_CURRENT_TEST", "PYTEST_XDIST_", "COV_CORE_")


@dataclass(frozen=True)
class PytestReplayer:
    """Replays tapes on the test with the id `target`."""

    target: str
    arguments: Sequence[str] = ()
    """Those of the running pytest that matter, if there is one; else the ini-file's are taken."""
    folder: Path | None = None
    """Where pytest was started; here, if None."""
    hash_seed: str = "0"
    littered: bool = False
    """Whether objects are to lie elsewhere in memory there."""
    options: dict[str, Any] = field(default_factory=dict)
    """Values of options that a conftest.py declares."""

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
        with tempfile.TemporaryDirectory(prefix="foretold-") as name:
            tape_path, result = Path(name, "run.tape"), Path(name, "seen.json")
            save(tape_path, TapeFile(tape, target=self.target))
            variables = {_OBSERVE: str(result)}
            if entries is not None:
                variables[_ENTRIES] = str(entries)
            if self.littered:
                variables[_LITTER] = "1"
            if self.options:
                variables[_OPTIONS] = json.dumps(self.options)
            reason = self._run_child(tape_path, variables)
            if not result.exists():
                raise ForetoldError(f"a fresh pytest could not run {self.target}: {reason}")
            return Observation.from_json(result.read_text("utf-8"))

    def _run_child(self, tape_path: Path, variables: dict[str, str]) -> str:
        """Returns why there is no result, in case there is none."""
        path = json.dumps([entry or os.getcwd() for entry in sys.path])
        options = ["-p", "no:cacheprovider", "--foretold-replay", str(tape_path)]
        arguments = [self.target, *self.arguments, *options]
        # Arguments are those of a running pytest, which has heeded this variable already.
        left_out = (*_NOT_INHERITED, *(["PYTEST_ADDOPTS"] if self.arguments else []))
        around = environment_with(self.hash_seed)
        inherited = {k: v for k, v in around.items() if not k.startswith(left_out)}
        try:
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, path, *arguments],
                cwd=self.folder,
                env={**inherited, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=min(CHILD_S_MAX, watchdog.left_s or CHILD_S_MAX),
                check=False,
            )
        except subprocess.TimeoutExpired:
            if watchdog.left_s is not None:
                raise TimeUp("the time of the search was up before pytest had replayed") from None
            return f"it had not ended after {CHILD_S_MAX:.0f} s"
        return _reason(done.stdout, done.returncode)


def _reason(said: str, code: int) -> str:
    """The most telling line of what pytest printed."""
    lines = [line.strip() for line in said.splitlines()]
    for begin in ("E  ", "ERROR"):
        for line in reversed(lines):
            if line.startswith(begin):
                return line.removeprefix("E  ").strip()
    if code in (0, NO_TESTS):
        return "it was skipped there, or not selected"
    return f"the process ended with exit code {code}"


def replayer_of(item: Any, declared_early: frozenset[str]) -> PytestReplayer:
    """A replayer for a test of the running pytest.

    `declared_early`: the options that were known before any conftest.py was loaded.
    """
    config = item.config
    _, _, inner = item.nodeid.partition("::")
    return PytestReplayer(
        f"{item.path}::{inner}" if inner else item.nodeid,
        tuple(_arguments(config)),
        config.invocation_params.dir,
        options={
            name: value
            for name, value in vars(config.option).items()
            if name not in declared_early and _is_plain(value)
        },
    )


def _arguments(config: Any) -> Iterator[str]:
    """What decides how tests are found and set up, as the running pytest understood it."""
    option = config.option
    yield f"--rootdir={config.rootpath}"
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    if option.noconftest:
        yield "--noconftest"
    if option.confcutdir is not None:
        yield f"--confcutdir={option.confcutdir}"
    yield f"--import-mode={option.importmode}"
    if option.verbose:  # how much of two unequal values a failed assertion shows depends on it
        yield f"--verbosity={option.verbose}"
    for plugin in option.plugins:
        if plugin != "no:terminal":  # of pytest-xdist, for its workers
            yield from ("-p", plugin)
    for change in option.override_ini or ():
        yield from ("-o", change)
    yield from ("-o", "addopts=")  # all of it that matters stands here
    for warning in option.pythonwarnings or ():
        yield from ("-W", warning)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, str | int | float)


def asked_to_observe() -> bool:
    """Whether this process is such a child."""
    return _OBSERVE in os.environ


def observe_for_parent(main: Callable[[World], Any], tape: Tape, isolation: str | None) -> None:
    """In the child: run the tape and write what was seen where the parent looks for it."""
    entries, littered = os.environ.get(_ENTRIES), _LITTER in os.environ
    seen = observed_by_child(main, tape, entries, isolation=isolation, littered=littered)
    Path(os.environ[_OBSERVE]).write_text(seen.to_json(), "utf-8")
