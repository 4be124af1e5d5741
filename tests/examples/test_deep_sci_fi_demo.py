"""What `make demo` says at its end: which of the five mistakes each failure belongs to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import foretold
from examples.deep_sci_fi import demo

SAID = """\
Replay it: build/bin/foretold replay .foretold/failures/Demo-1/A-1.tape
Replay it: foretold replay '.foretold/a b/B-2.tape'
2 kinds of failure in 35 runs of examples.deep_sci_fi.demo:Demo:
  B at x.py:1 (1 run, the first was run 2): foretold replay '.foretold/a b/B-2.tape'
"""


def test_tapes_are_read_from_what_a_search_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each once, with spaces in its path; those that hold without a switch are that one's."""
    owners = {".foretold/failures/Demo-1/A-1.tape": "release_claim_race"}
    missing = {name: demo.without(name).planted for name in demo.Demo.planted}
    assert all(demo.Demo.planted - left == {name} for name, left in missing.items())
    monkeypatch.setattr(
        demo,
        "_failure",
        lambda machine, tape: (
            "" if owners.get(tape) in demo.Demo.planted - machine.planted else "x"
        ),
    )
    (tmp_path / "demo.txt").write_text(SAID, "utf-8")
    demo.main(str(tmp_path / "demo.txt"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Of the 5 mistakes, 1 found")
    assert "  release_claim_race        A-1.tape" in lines
    assert sum(line.endswith("not found in these runs") for line in lines) == 4


def test_a_failure_belongs_to_the_switch_without_which_it_holds(tmp_path: Path) -> None:
    """For real, and in a process with other hashes than the search: as `make demo` asks for it."""
    failure = foretold.explore(demo.Demo, runs=20, seed=1, confirm=False, shrink=False).failure
    assert failure is not None
    tape = failure.save(tmp_path / "found.tape")
    (tmp_path / "demo.txt").write_text(f"Replay it: foretold replay {tape}\n", "utf-8")
    root = Path(__file__).parents[2]
    asked = subprocess.run(
        [sys.executable, "-m", "examples.deep_sci_fi.demo", str(tmp_path / "demo.txt")],
        cwd=root, env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.startswith("Of the 5 mistakes, 1 found")
    assert asked.stdout.count("found.tape") == 1
