"""`foretold explore` as a campaign, and `foretold replay --all` after it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import foretold
from tests.report import programs

TWO_BUGS = '''\
"""Two ways to fail."""

import asyncio

import foretold


async def step():
    await asyncio.sleep(0)


async def main():
    number = foretold.between(0, 19, "number")
    await foretold.together(step(), step())
    assert number != 7, "seven"
    foretold.sometimes(number == 99, "ninety-nine")
    assert number != 8, "eight"


async def other():
    assert foretold.between(0, 9, "digit") < 5, "five or more"
'''


def test_all_kinds_of_failure_are_told_once(tmp_path: Path) -> None:
    """Two workers, --keep-going: each kind in full, a list, figures; JUnit and annotations too."""
    programs.write(tmp_path, TWO_BUGS)
    search = (
        "explore",
        "bank:main",
        "--seed",
        "6",
        "--runs",
        "200",
        "--keep-going",
        "--no-confirm",
    )
    done = foretold(tmp_path, *search, "--workers", "2", "--junit", "out.xml", "--github")
    assert done.code == 1, str(done)
    listed = done.out.partition("2 kinds of failure in 200 runs of bank:main:\n")[2].splitlines()
    assert listed[0].startswith("  AssertionError: seven at bank.py:15 (")
    assert listed[1].startswith("  AssertionError: eight at bank.py:17 (")
    assert "different hand-overs, states, faults and points" in listed[2]
    assert "the next 200 runs may reach about" in listed[3]
    tapes = {path.relative_to(tmp_path) for path in tmp_path.glob(".foretold/failures/*/*.tape")}
    assert {line.rpartition(": foretold replay ")[2] for line in listed[:2]} == set(map(str, tapes))
    annotations = [line for line in done.out.splitlines() if line.startswith("::")]
    assert annotations[0].startswith(
        "::error file=bank.py,line=15,title=foretold%3A AssertionError::AssertionError: seven"
    )
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    assert [case.get("name") for case in suite.iter("testcase")] == [
        "bank:main [AssertionError bank.py:15]",
        "bank:main [AssertionError bank.py:17]",
    ]
    assert "Replay it: foretold replay" in "".join(suite.itertext())


def test_feedback_by_branches(tmp_path: Path) -> None:
    """Asked for on the command line or by the target itself; the report says what was counted."""
    text = TWO_BUGS.replace("assert number != 7", "assert number < 99").replace("!= 8", "< 99")
    text += """

@foretold.simulate(feedback="branches")
async def decorated():
    await main()
"""
    programs.write(tmp_path, text)
    search = ("--seed", "1", "--runs", "40")
    for target in (("bank:main", "--feedback", "branches"), ("bank:decorated",)):
        done = foretold(tmp_path, "explore", *target, *search)
        assert done.code == 0, str(done)
        assert "different hand-overs, states, faults, points and branches" in done.out
    plain = foretold(tmp_path, "explore", "bank:decorated", *search, "--no-feedback")
    assert "different hand-overs" not in plain.out


def test_saved_failures_are_tried_first_and_all_can_be_replayed(tmp_path: Path) -> None:
    """STILL FAILS, FIXED, CANNOT REPLAY, each with its reason, by explore and by replay --all."""
    programs.write(tmp_path, TWO_BUGS)
    assert foretold(tmp_path, "replay", "--all").out.startswith("no failure is saved here")
    search = ("--seed", "1", "--no-confirm")
    assert foretold(tmp_path, "explore", "bank:main", *search, "--keep-going").code == 1
    assert foretold(tmp_path, "explore", "bank:other", *search).code == 1
    again = foretold(tmp_path, "explore", "bank:other", *search)
    assert again.code == 1
    assert again.err.startswith("STILL FAILS: .foretold/failures/other-")
    assert "foretold replayed a saved failure" in again.out
    [tape] = tmp_path.glob(".foretold/failures/other-*/*.tape")
    (tape.parent / "broken.tape").write_text("foretold tape 1\nnonsense\n", "utf-8")
    programs.write(tmp_path, TWO_BUGS.replace("number != 8", "number != 80"))
    every = foretold(tmp_path, "replay", "--all")
    assert every.code == 1, str(every)
    words = [line.partition(": .foretold/failures/")[0] for line in every.out.splitlines()]
    assert sorted(words[:-1]) == ["CANNOT REPLAY", "FIXED", "STILL FAILS", "STILL FAILS"]
    assert words[-1] == "4 saved failures: 1 CANNOT REPLAY, 1 FIXED, 2 STILL FAILS"
    assert len(list(tmp_path.glob(".foretold/fixed/*.tape"))) == 1


def test_ctrl_c_ends_a_campaign_with_a_report(tmp_path: Path) -> None:
    """The parent is interrupted while its workers run: what was found is listed, and as JSON."""
    programs.write(
        tmp_path,
        TWO_BUGS
        + """

import ctypes, os
from foretold.kernel import fence
parent = os.getpid()
libc = ctypes.CDLL(None)


async def interrupted():
    number = foretold.between(0, 399, "number")
    await main()
    if number == 1:
        with fence.passage():
            libc.kill(parent, 2)
""",
    )
    search = ("explore", "bank:interrupted", "--seed", "1", "--keep-going", "--json", "--no-shrink")
    done = foretold(tmp_path, *search, "--workers", "2", "--time", "10m", "--no-confirm")
    assert done.code == 130, str(done)
    data = json.loads(done.out)
    assert data["interrupted"] is True
    assert [each["message"].split(" at ")[0] for each in data["failures"]]
    assert "stopped by Ctrl-C after" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explore", "bank:main", "--executor", "threads"), "executor is 'processes', or"),
        (("explore", "bank:main", "--workers", "0"), "is not in the range"),
        (("explore", "bank:main", "--feedback", "branch"), "feedback is True, False,"),
        (
            ("explore", "bank:main", "--feedback", "branches", "--no-feedback"),
            "contradict each other",
        ),
        (("explore", "test_x.py::test_y", "--feedback", "branches"), "simulate(feedback=…)"),
        (("replay",), "name what to replay"),
        (("replay", "--all", "bank:main"), "give no target and no other option"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """Each is exit code 2 and a sentence."""
    programs.write(tmp_path, TWO_BUGS)
    done = foretold(tmp_path, *arguments)
    assert done.code == 2
    assert words in done.err


IN_ANY_ORDER = """
import asyncio
import foretold

async def main():
    order = []

    async def note(number):
        await asyncio.sleep(0)
        order.append(number)

    await foretold.together(note(1), note(2))
    assert order == [1, 2]
"""


def test_a_saved_tape_is_replayed_in_its_own_order(tmp_path: Path) -> None:
    """A search in stock order begins with what failed before, in the order in which it failed. Its
    own runs are of the order that was asked for."""
    programs.write(tmp_path, IN_ANY_ORDER)
    assert foretold(tmp_path, "explore", "bank:main", "--seed", "1", "--no-confirm").code == 1
    search = ("explore", "bank:main", "--seed", "2", "--order", "asyncio")
    again = foretold(tmp_path, *search)
    assert again.code == 1, str(again)
    assert again.err.startswith("STILL FAILS: .foretold/failures/main-")
    assert "Stock asyncio does not take this order" in again.out
    programs.write(tmp_path, IN_ANY_ORDER.replace("order == [1, 2]", "len(order) == 2"))
    fixed = foretold(tmp_path, *search)
    assert fixed.code == 4, str(fixed)
    assert fixed.err.startswith("FIXED: ")
    assert "no two tasks could\nchange places" in fixed.out
