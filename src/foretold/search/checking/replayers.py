"""Running a tape again somewhere else: in a fresh process, or in a forked child.

A failure is believed when a process with another memory layout and hash seed 0 fails in the same
way. A target that can be imported is replayed in a fresh interpreter; a closure cannot be, so it is
replayed in a forked child of this one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from foretold.errors import TimeUp, WorkerDied
from foretold.kernel.watchdog import watchdog
from foretold.platforms import environment_of_child, restore_environment
from foretold.search.checking.observe import Observation, observed_by_child
from foretold.search.workers.isolation import in_fork
from foretold.search.workers.targets import find_function, importable_name, settings_of_target
from foretold.tape import Tape
from foretold.tape.file import TapeFile, load, save
from foretold.world.run import bind_main

_PROGRAM = (
    "import gc; gc.disable(); from foretold.search.checking.replayers import child; gc.enable(); "
    "child(); gc.freeze()"  # without the collections at the start and at the end: see platforms.py
)


class Replayer(Protocol):
    """Runs a tape elsewhere. With `entries` it looks closely: every entry of the trace is written
    to that file, and those of the runs before and after it beside it."""

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation: ...


def replayer_for(main: Callable[..., Any]) -> Replayer:
    """The best place there is to replay `main`."""
    name = importable_name(main)
    return ForkedReplayer(main) if name is None else FreshReplayer(name)


class FreshReplayer:
    """Replays `module:function` in a new interpreter."""

    def __init__(
        self,
        target: str,
        hash_seed: str = "0",
        *,
        littered: bool = False,
        isolation: str | None = None,
    ) -> None:
        self.target = target
        self.hash_seed = hash_seed
        self.littered = littered
        self.isolation = isolation
        """If not as the target itself says."""

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
        with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
            tape_path, result = Path(folder, "run.tape"), Path(folder, "seen.json")
            save(tape_path, TapeFile(tape, target=self.target))
            request = {
                "target": self.target,
                "tape": str(tape_path),
                "result": str(result),
                "entries": str(entries) if entries else None,
                "littered": self.littered,
                "isolation": self.isolation,
                "path": [entry or os.getcwd() for entry in sys.path],
            }
            done = in_time(
                [sys.executable, "-c", _PROGRAM],
                input=json.dumps(request),
                capture_output=True,
                env=environment_of_child(self.hash_seed),
            )
            if not result.exists():
                tail = done.stderr.strip().splitlines()[-1:] or ["no output"]
                if done.returncode < 0:
                    tail = [f"killed by {signal.Signals(-done.returncode).name}"]
                raise WorkerDied(f"the process that replays {self.target} died: {tail[0]}")
            return Observation.from_json(result.read_text("utf-8"))


def in_time(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, but not for longer than the search has."""
    try:
        return subprocess.run(command, text=True, check=False, timeout=watchdog.left_s, **how)
    except subprocess.TimeoutExpired:
        raise TimeUp("the time of the search was up before another process had replayed") from None


def child() -> None:
    """What a fresh interpreter does: read a request, replay, write what was seen."""
    restore_environment()
    request = json.loads(sys.stdin.read())
    sys.path[:] = [str(entry) for entry in request["path"]]
    target = str(request["target"])
    function = find_function(target)
    seen = observed_by_child(
        bind_main(function),
        load(request["tape"]).tape,
        request["entries"],
        isolation=request["isolation"] or settings_of_target(target, function).get("isolation"),
        littered=bool(request["littered"]),
    )
    Path(request["result"]).write_text(seen.to_json(), "utf-8")


class ForkedReplayer:
    """Replays a function that only exists in this process, in a forked child."""

    def __init__(self, main: Callable[..., Any]) -> None:
        self._main = bind_main(main)

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
        where = str(entries) if entries else None
        return in_fork(lambda: observed_by_child(self._main, tape, where), watchdog.left_s)
