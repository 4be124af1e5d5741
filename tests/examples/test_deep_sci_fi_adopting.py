"""docs/adopting.md shows the example's real code, and the workflow beside it uses what there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adopting.md").read_text("utf-8")
WORKFLOW = (ROOT / "examples/deep_sci_fi/ci/foretold.yml").read_text("utf-8")


def strays(block: str, source: str) -> list[str]:
    """Lines of an excerpt that do not follow one another in the source; `...` leaves some out."""
    lines = iter(source.splitlines())
    shown = [line for line in block.splitlines() if line.strip() and line.strip() != "..."]
    return [line for line in shown if line not in lines]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_the_code_is_that_of_the_example(block: str) -> None:
    """Each excerpt names its file, and stands there line by line."""
    head, _, excerpt = block.partition("\n")
    assert head.startswith("# examples/"), head
    assert strays(excerpt, (ROOT / head[2:]).read_text("utf-8")) == []


def test_a_line_that_is_not_there_is_caught() -> None:
    """Planted: a changed line, and lines in another order."""
    assert strays("a\n...\nc\n", "a\nb\nc\n") == []
    assert strays("a\nB\n", "a\nb\n") == ["B"]
    assert strays("b\na\n", "a\nb\n") == ["a"]


def commands() -> list[list[str]]:
    """What the workflow runs of ours."""
    joined = re.sub(
        r"run: >\n((?: +\S.*\n)+)", lambda m: f"run: {' '.join(m[1].split())}\n", WORKFLOW
    )
    return [shlex.split(line) for line in re.findall(r"run: (foretold .*)", joined)]


def test_all_its_options_exist() -> None:
    """A workflow is not run by our tests: at least it must not be wrong about the command."""
    help_text = _foretold("explore", "--help").stdout
    assert len(commands()) == 3
    assert "--runs 200" in " ".join(commands()[0]), "enough to judge vacuity"
    for command in commands():
        assert command[:3] == ["foretold", "explore", "$TARGET"]
        for option in command[3:]:
            assert not option.startswith("--") or f"  {option} " in help_text, option


def test_a_pull_request_is_annotated(tmp_path: Path) -> None:
    """The workflow's command, on a small program with a bug: code, annotation, JUnit, store."""
    _, _, _, *options = commands()[0]
    target = f"{ROOT / 'examples/lost_update.py'}:transfer"
    done = _foretold("explore", target, *options, cwd=tmp_path, GITHUB_ACTIONS="true")
    assert done.returncode == 1, done.stderr
    assert re.search(r"^::error file=.*lost_update.py,line=\d+", done.stdout, re.MULTILINE)
    assert "<failure" in (tmp_path / "foretold.xml").read_text("utf-8")
    assert list((tmp_path / ".foretold/failures").rglob("*.tape"))


def _foretold(
    *arguments: str, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foretold", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
