"""The README is a program, and its shown output is the real one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    text = (ROOT / "README.md").read_text("utf-8")
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_example_is_the_file_it_names() -> None:
    """What a reader copies from the README is what `make demo` runs."""
    source = (ROOT / "examples/lost_update.py").read_text("utf-8")
    assert blocks("python")[0].strip() in source


def test_the_shown_output_is_real(tmp_path: Path) -> None:
    """The first thing a visitor reads must be true: run the command and compare all of it."""
    command, _, shown = blocks("console")[0].partition("\n")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    arguments = command.removeprefix("$ foretold ").split()
    done = subprocess.run(
        [sys.executable, "-m", "foretold", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.strip() == shown.strip()


def test_the_lines_that_the_story_of_the_demo_names_are_those() -> None:
    """Each is a line of the platform at which a statement is waited for, and no other."""
    text = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r"\b(app/\w[\w/]*\.py):(\d+)", text))
    assert len(named) > 2
    for file, number in named:
        lines = (ROOT / "examples/deep_sci_fi" / file).read_text("utf-8").splitlines()
        assert "await db." in lines[int(number) - 1], (file, number)
