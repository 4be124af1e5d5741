"""The README is a program, and its shown output is the real one.

`FORETOLD_REWRITE=1 pytest tests/report/test_readme.py` writes the output into the README; then read
the difference.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLE = ROOT / "examples/lost_deposit.py"


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"```{kind}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m …` in a folder that is not the repository, as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_is_the_file_it_names() -> None:
    """What a reader copies from the README is the file in `examples`, all of it."""
    assert blocks("python")[0] == EXAMPLE.read_text("utf-8")


def test_the_shown_output_is_real(tmp_path: Path) -> None:
    """The first thing a visitor reads must be true: run the command and compare all of it. Stock
    asyncio takes the order of this example, so nobody takes its failure for an artefact."""
    block = blocks("console")[0]
    command, _, shown = block.partition("\n")
    shutil.copy(EXAMPLE, tmp_path)
    done = called(tmp_path, *command.removeprefix("$ ").split())
    assert done.returncode == 1, done.stderr
    if os.environ.get("FORETOLD_REWRITE"):
        text = README.read_text("utf-8")
        README.write_text(text.replace(block, f"{command}\n{done.stdout.rstrip()}\n"), "utf-8")
        return
    assert done.stdout.strip() == shown.strip()
    assert "Stock asyncio can do this." in shown


def test_the_test_of_the_readme_finds_it_too(tmp_path: Path) -> None:
    """The test that the README shows fails by its own assertion when pytest runs it."""
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "test_bank.py").write_text(blocks("python")[1], "utf-8")
    done = called(tmp_path, "pytest", "-p", "no:xdist", "--foretold-seed=1", "test_bank.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "assert account.balance == 130" in done.stdout
    assert "Stock asyncio can do this." in done.stdout


def test_the_lines_that_the_story_of_the_demo_names_are_those() -> None:
    """Each is a line of the platform at which a statement is waited for, and no other."""
    text = (ROOT / "docs/postgres.md").read_text("utf-8")
    named = set(re.findall(r"\b(app/\w[\w/]*\.py):(\d+)", text))
    assert len(named) > 2
    for file, number in named:
        lines = (ROOT / "examples/deep_sci_fi" / file).read_text("utf-8").splitlines()
        assert "await db." in lines[int(number) - 1], (file, number)
