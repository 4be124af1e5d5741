"""pytest in a child process, for the command line: its exit code turned into one of ours.

The command `foretold` leaves tests to pytest, which alone knows how to find them and what their
fixtures are. What came of them it learns from the plugin, in the file named by FORETOLD_RECORD.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from foretold.errors import UsageError
from foretold.platforms import environment_with
from foretold.pytest_support.replayer import NO_TESTS
from foretold.pytest_support.summary import never_reached
from foretold.pytest_support.trial import EXPLAIN_VARIABLE
from foretold.report.exports import error_line, warning_line
from foretold.report.terminal import COMMANDS_VARIABLE, put, put_command
from foretold.search.failures.store import FOLDER

HELD, VIOLATED, USAGE, VACUOUS, INTERRUPTED = 0, 1, 2, 4, 130
_PLUGIN = "_foretold_pytest"


def explore(
    target: str,
    *,
    runs: int | None,
    seed: int | None,
    vacuity: str,
    as_json: bool,
    junit: str | None = None,
    github: bool = False,
) -> int:
    """Search with the tests that `target` names. Returns an exit code of ours."""
    options = [] if runs is None else [f"--foretold-runs={runs}"]
    options += [] if seed is None else [f"--foretold-seed={seed}"]
    options += [] if vacuity == "fail" else [f"--foretold-vacuity={vacuity}"]
    options += [] if junit is None else [f"--junit-xml={junit}"]
    read_by_github = {COMMANDS_VARIABLE: "1"} if github else {}
    code, record = _pytest(target, options, to_stderr=as_json, environment=read_by_github)
    if as_json:
        words = {HELD: "held", VIOLATED: "violated", VACUOUS: "vacuous"}
        verdict = words.get(code, "error")
        data = {"target": target, "verdict": verdict, "exit_code": code, **record}
        put(json.dumps(data, indent=2))
    if github:
        for line in _annotations(record["tests"]):
            put_command(line, err=as_json)
    return code


def _annotations(tests: list[dict[str, Any]]) -> Iterator[str]:
    """As for other targets; but a test that is expected to fail is none of anybody's business."""
    for test in tests:
        if test["annotation"] is not None and not test.get("expected"):
            yield error_line(test["annotation"])
    for point, name in never_reached(tests).items():
        yield warning_line(f"never true in any run: {point} ({name})")


def replay_seed(target: str, seed: int, profile: str = "") -> int:
    """The one run with this seed, of a search that had learned so much."""
    learned = [f"--foretold-run-profile={profile}"] if profile else []
    return _pytest(target, [f"--foretold-run-seed={seed}", *learned])[0]


def replay_file(tape: str, target: str, *, continuations: int = 0) -> int:
    """A tape on the test it was recorded for; with continuations, it is explained as well."""
    options = [f"--foretold-replay={Path(tape).resolve()}"]
    asked = {EXPLAIN_VARIABLE: str(continuations)} if continuations else {}
    return _pytest(_from_here(target, tape), options, environment=asked)[0]


def _from_here(target: str, tape: str) -> str:
    """Node ids are relative to the project: where the folder lies in which the tape is kept."""
    file, colons, test = target.partition("::")
    for folder in Path(tape).resolve().parents:
        if folder.name == FOLDER and not Path(file).exists() and (folder.parent / file).exists():
            return f"{folder.parent / file}{colons}{test}"
    return target


def _pytest(
    target: str,
    options: list[str],
    *,
    to_stderr: bool = False,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
        record = Path(folder, "record.json")
        command = [sys.executable, "-m", "pytest", *plugin_arguments(), target, *options]
        process = subprocess.Popen(
            command,
            env={
                **environment_with("0"),  # or pytest would begin twice
                **(environment or {}),
                "FORETOLD_RECORD": str(record),
            },
            stdout=sys.stderr if to_stderr else None,
        )
        code = _wait(process)
        seen = json.loads(record.read_text("utf-8")) if record.exists() else {"tests": []}
    return _code_of(code, seen, target), seen


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()  # Ctrl-C reaches the child as well, and it has something to say
        return INTERRUPTED


def plugin_arguments() -> tuple[str, ...]:
    """None where foretold is installed: there pytest finds the plugin by itself."""
    found = metadata.entry_points(group="pytest11", name="foretold")
    return () if found else ("-p", _PLUGIN)


def _code_of(code: int, record: dict[str, Any], target: str) -> int:
    tests = record["tests"]
    if code == NO_TESTS:
        hint = f" To explore a function, name it: {target}:function"
        raise UsageError(f"pytest finds no test in {target}.{'' if '::' in target else hint}")
    if code == HELD and not tests:
        raise UsageError(f"no test in {target} is simulated: decorate it with @foretold.simulate")
    if code == HELD:
        return VACUOUS if all(test["vacuous"] for test in tests) else HELD
    if code == VIOLATED and not any(test["failed"] for test in tests):
        hollow = record.get("failed_for") or any(test["hollow"] or test["empty"] for test in tests)
        return VACUOUS if hollow else VIOLATED
    return code if code in (VIOLATED, INTERRUPTED) else USAGE
