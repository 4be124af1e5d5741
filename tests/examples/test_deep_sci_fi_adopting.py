"""docs/adopting.md is a program that runs, and the workflow it names uses what there is."""

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


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.startswith("# examples/")])
def test_the_code_is_that_of_the_example(block: str) -> None:
    """Each excerpt names its file, and stands there line by line."""
    head, _, excerpt = block.partition("\n")
    assert strays(excerpt, (ROOT / head[2:]).read_text("utf-8")) == []


def paste(folder: Path, until: str = "") -> None:
    """Write the page's files as a reader does, up to the block that begins with `until`. What has
    to stand elsewhere in a file may as well stand at its end."""
    for block in BLOCKS:
        if until and block.startswith(until):
            return
        if not block.startswith("# examples/"):
            head, _, code = block.partition("\n")
            named = re.fullmatch(r"# (\w+\.py)(, .+)?", head)
            assert named, f"whose file is it? {head}"
            with (folder / named[1]).open("a" if named[2] else "w", encoding="utf-8") as file:
                file.write(f"\n{code}")


def shown(words: str) -> list[str]:
    """The one command of the page that begins with these words and shows nothing else."""
    (found,) = re.findall(rf"```\nforetold ({re.escape(words)}.*)\n```", PAGE)
    command = shlex.split(found)
    command[command.index("--runs") + 1] = "8"  # it is whether they run that is asked here
    return [*command, "--seed", "1"]


def test_the_first_find_is_a_failure_of_the_database(tmp_path: Path) -> None:
    """As far as the handler: what the page says is found, in the words that it shows."""
    paste(tmp_path, until="# wallets.py, at its end")
    done = _foretold(*shown("explore wallets_machine.py:Wallets --runs"), cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "\nPropertyViolated: the service never breaks\n" in done.stdout
    assert "```\nPropertyViolated: the service never breaks\n```" in PAGE


def test_the_pages_code_runs(tmp_path: Path) -> None:
    """All of it: with the handler it holds, and so do the rules from its schema, which succeed;
    the mistake of step 5 is caught."""
    paste(tmp_path)
    done = _foretold(*shown("explore wallets_machine.py:Wallets --runs"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"no_payment_is_lost +8 +[1-9]", done.stdout), done.stdout
    done = _foretold(*shown("explore wallets_api.py:WalletsApi"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r" pay .* 0$", done.stdout, re.MULTILINE), done.stdout
    done = _foretold(*shown("explore wallets_machine.py:Wallets --plant"), cwd=tmp_path)
    assert "1 of 1 mutant" in done.stdout, done.stdout + done.stderr


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


def test_a_team_can_copy_it() -> None:
    """Nothing in it is of our own repository, and the step that writes checks may do so."""
    for ours in ("constraints.txt", ".[", "examples"):
        assert ours not in WORKFLOW
    assert WORKFLOW.count("pip install $INSTALL") == WORKFLOW.count("runs-on:") == 2
    assert "checks: write" in WORKFLOW or "action-junit-report" not in WORKFLOW


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
