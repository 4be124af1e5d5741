"""Every program of docs/patterns.md is run: the flaky ones fail on some tape, all others hold."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/patterns.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
FLAKY = [program for _, program in BLOCKS if program.startswith("# flaky")]
RIGHT = [program for _, program in BLOCKS if not program.startswith("# flaky")]


def test_every_block_is_a_program() -> None:
    """Nothing on the page is left out: each block is Python, and has a test in it."""
    assert {kind for kind, _ in BLOCKS} == {"python"}
    assert all(re.search(r"^(async )?def test_|^Test", program, re.M) for _, program in BLOCKS)
    assert (len(FLAKY), len(RIGHT)) == (3, 13)


@pytest.mark.parametrize(
    "program", FLAKY, ids=lambda text: "".join(re.findall(r"def (test_\w+)", text))
)
def test_a_flaky_form_fails_on_some_tape(program: str, tmp_path: Path) -> None:
    """What the page calls flaky is: a search finds a run that fails, and one that holds."""
    path = tmp_path / "program.py"
    path.write_text(program, "utf-8")
    found: dict[str, Any] = runpy.run_path(str(path))
    (main,) = (each for name, each in found.items() if name.startswith("test_"))
    outcome = foretold.explore(main, runs=200, shrink=False, confirm=False)
    assert isinstance(getattr(outcome.failure, "exception", None), AssertionError)
    foretold.run(main, tape=foretold.Tape.calm())


def test_the_deterministic_forms_hold(tmp_path: Path) -> None:
    """pytest collects and runs them as a user's; that this is the same on every machine is the
    point of the page, so `CI=true` is set and nothing is skipped."""
    for number, program in enumerate(RIGHT):
        (tmp_path / f"test_program_{number}.py").write_text(program, "utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:asyncio",
            "--foretold-seed=1",
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^14 passed", done.stdout, re.MULTILINE), done.stdout
