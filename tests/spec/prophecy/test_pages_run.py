"""The programs of docs/prophecy.md and docs/models.md, as a newcomer pastes them into an empty
folder."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import foretold

DOCS = Path(__file__).parents[3] / "docs"


def programs(page: str) -> list[str]:
    """The blocks of Python."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def pasted(program: str, folder: Path, name: str) -> dict[str, Any]:
    """What a file with this program defines."""
    path = folder / name
    path.write_text(program, encoding="utf-8")
    return runpy.run_path(str(path), run_name=path.stem)


def whole(page: str) -> list[str]:
    """Those that are whole programs."""
    return [each for each in programs(page) if "\nimport foretold\n" in f"\n{each}"]


def test_a_deposit_that_is_made_twice(tmp_path: Path) -> None:
    """The first program of the page finds what the page says, word for word."""
    program, _ = whole("prophecy.md")
    made = pasted(program, tmp_path, "deposits.py")
    failure = foretold.explore(made["Deposits"], runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotRefined)
    page = (DOCS / "prophecy.md").read_text(encoding="utf-8")
    assert f"NotRefined: {failure.exception}\n" in page


def test_the_corrected_deposit_holds(tmp_path: Path) -> None:
    """The correction, pasted behind the first program, has no failing run, and tests something."""
    (correction,) = (each for each in programs("prophecy.md") if "class Corrected" in each)
    made = pasted(whole("prophecy.md")[0] + correction, tmp_path, "deposits.py")
    outcome = foretold.explore(made["Corrected"], runs=20, seed=1)
    assert outcome.failure is None
    assert outcome.tally.faults["response_lost"].effect


def test_withdrawals_that_are_not_serial(tmp_path: Path) -> None:
    """The second one is the serial oracle's, and its first lines stand on the page."""
    _, program = whole("prophecy.md")
    made = pasted(program, tmp_path, "bank.py")
    with pytest.raises(foretold.NotSerial) as caught:
        foretold.run(made["test_withdrawals"])
    page = (DOCS / "prophecy.md").read_text(encoding="utf-8")
    shown = str(caught.value).split("\n")[:8]
    assert "\n".join(shown) in page


def test_the_page_of_models_is_one_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks, one after the other, run as they stand."""
    pasted("\n\n".join(programs("models.md")), tmp_path, "models_page.py")
    assert "get() gave 1\nthe model allows None" in capsys.readouterr().out
