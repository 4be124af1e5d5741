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

from foretold.errors import WorkerDied
from foretold.search.isolation import in_fork
from foretold.search.observe import Observation, observe
from foretold.search.targets import find_function, importable_name
from foretold.tape import Tape
from foretold.tape.file import TapeFile, load, save
from foretold.world.run import bind_main


class Replayer(Protocol):
    """Runs a tape elsewhere. With `entries`, every entry of the trace is written to that file."""

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation: ...


def replayer_for(main: Callable[..., Any]) -> Replayer:
    """The best place there is to replay `main`."""
    name = importable_name(main)
    return ForkedReplayer(main) if name is None else FreshReplayer(name)


class FreshReplayer:
    """Replays `module:function` in a new interpreter."""

    def __init__(self, target: str, hash_seed: str = "0") -> None:
        self.target = target
        self.hash_seed = hash_seed

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
        with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
            tape_path, result = Path(folder, "run.tape"), Path(folder, "seen.json")
            save(tape_path, TapeFile(tape, target=self.target))
            request = {
                "target": self.target,
                "tape": str(tape_path),
                "result": str(result),
                "entries": str(entries) if entries else None,
                "path": [entry or os.getcwd() for entry in sys.path],
            }
            done = subprocess.run(
                [sys.executable, "-c", "from foretold.search.replayers import child; child()"],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": self.hash_seed, "PYTHONPATH": _path()},
                check=False,
            )
            if not result.exists():
                tail = done.stderr.strip().splitlines()[-1:] or ["no output"]
                if done.returncode < 0:
                    tail = [f"killed by {signal.Signals(-done.returncode).name}"]
                raise WorkerDied(f"the process that replays {self.target} died: {tail[0]}")
            return Observation.from_json(result.read_text("utf-8"))


def _path() -> str:
    """Where the child finds foretold itself, even if it is not installed."""
    ours = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))


def child() -> None:
    """What a fresh interpreter does: read a request, replay, write what was seen."""
    request = json.loads(sys.stdin.read())
    sys.path[:] = [str(entry) for entry in request["path"]]
    main = bind_main(find_function(request["target"]))
    seen = _observe_to(main, load(request["tape"]).tape, request["entries"])
    Path(request["result"]).write_text(seen.to_json(), "utf-8")


def _observe_to(main: Callable[[Any], Any], tape: Tape, entries: str | None) -> Observation:
    if entries is None:
        return observe(main, tape)
    with open(entries, "w", encoding="utf-8", errors="surrogatepass") as file:
        return observe(main, tape, sink=lambda entry: file.write(entry.replace("\n", "\\n") + "\n"))


class ForkedReplayer:
    """Replays a function that only exists in this process, in a forked child."""

    def __init__(self, main: Callable[..., Any]) -> None:
        self._main = bind_main(main)

    def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
        where = str(entries) if entries else None
        return Observation.from_json(
            in_fork(lambda: _observe_to(self._main, tape, where).to_json())
        )
