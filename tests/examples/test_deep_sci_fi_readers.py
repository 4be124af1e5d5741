"""What a reader of the example runs: its two pytest files, and its workflow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from examples.deep_sci_fi.machine import DeepSciFi
from foretold.spec.machine.machine import blueprint_of

ROOT = Path(__file__).parents[2]
FOLDER = "examples/deep_sci_fi/tests"
WORKFLOW = (ROOT / ".github/workflows/deep_sci_fi.yml").read_text("utf-8")


def test_readers_run_both_with_pytest() -> None:
    """The files run from the root, hold, and say how many runs they made."""
    environment = {**os.environ, "DEEP_SCI_FI_RUNS": "2"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-n0", "-q", FOLDER]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b2 passed", done.stdout), done.stdout


def test_both_have_all_rules_and_invariants() -> None:
    """The second file adds faults, and neither leaves anything out."""
    sys.path.insert(0, str(ROOT / FOLDER / "simulation"))
    try:
        from test_game_rules import GameRules  # type: ignore[import-not-found]  # see above
        from test_game_rules_with_faults import (  # type: ignore[import-not-found]  # see above
            GameRulesWithFaults,
        )
    finally:
        sys.path.remove(str(ROOT / FOLDER / "simulation"))
    whole = blueprint_of(DeepSciFi)
    for machine in (GameRules, GameRulesWithFaults):
        found = blueprint_of(machine)
        assert len(found.rules) == len(whole.rules)
        assert len(found.invariants) == len(whole.invariants)
        assert len(found.mirrors) == len(whole.mirrors)
    assert GameRules.faults is None
    assert GameRulesWithFaults.faults is not None


def test_the_workflow_names_what_there_is() -> None:
    """It is not run by our tests: targets, folders and make targets in it must exist."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"run: make (\w+)", WORKFLOW):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"PYTEST_ARGS='(\S+)'", WORKFLOW):
        assert (ROOT / path).exists(), path
    for module, name in re.findall(r"explore ([\w.]+):(\w+)", WORKFLOW):
        assert f"class {name}(" in _source(module), (module, name)


def _source(module: str) -> str:
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text("utf-8")
