"""Ctrl-C ends a search at once, with what was found so far, and without a traceback.

The planted programs send the signal to themselves, from C and at a certain run: no sleeping, no
race between two processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import foretold
from tests.report import programs

INTERRUPTING = '''\
"""Presses Ctrl-C in the middle of a search."""

import asyncio
import ctypes

import foretold

libc = ctypes.CDLL(None)
runs = 0


def press_ctrl_c():
    libc["raise"](2)  # Python handles signals after each call


async def together():
    global runs
    runs += 1
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))


async def searching():
    await together()
    if runs == 5:
        press_ctrl_c()


async def swallowing():
    await together()
    if runs == 5:
        try:
            press_ctrl_c()
        except BaseException:
            pass


async def shrinking():
    await together()
    if runs == 8:
        press_ctrl_c()
    assert runs < 5


press_ctrl_c() if __name__ == "at_import" else None
'''


@pytest.mark.parametrize("function", ["searching", "swallowing"])
def test_nothing_was_found_yet(tmp_path: Path, function: str) -> None:
    """Exit code 130, where the program was, and one line; a program that swallows the interrupt
    delays it by one run. One run does not count."""
    programs.write(tmp_path, INTERRUPTING)
    done = foretold(tmp_path, "explore", f"bank:{function}", "--seed", "1")
    runs, line = {"searching": (3, 25), "swallowing": (4, 32)}[function]
    bank = tmp_path / "bank.py"
    assert done == (
        130,
        "",
        f"Where it stands:\n  {function} runs at {bank}:13\n      {bank}:{line} in {function}\n"
        f"stopped by Ctrl-C after {runs} runs, seed 1; nothing has failed so far.\n",
    )


def test_a_failure_is_kept(tmp_path: Path) -> None:
    """Interrupted while it was shrunk: the tape was saved before, and the last line replays it."""
    programs.write(tmp_path, INTERRUPTING)
    done = foretold(tmp_path, "explore", "bank:shrinking", "--seed", "1")
    assert (done.code, done.out) == (130, "")
    [tape] = tmp_path.glob(".foretold/failures/*/*.tape")
    assert done.err.splitlines()[-2:] == [
        "stopped by Ctrl-C after 4 runs, seed 1, while a failure was being shrunk. "
        "Its tape is kept:",
        f"Replay it: foretold replay {tape.relative_to(tmp_path)}",
    ]


def test_before_anything_was_run(tmp_path: Path) -> None:
    """While the program is imported there is nothing to tell."""
    programs.write(tmp_path, INTERRUPTING, "at_import.py")
    done = foretold(tmp_path, "explore", "at_import:searching", "--seed", "1")
    assert done == (130, "", "stopped by Ctrl-C.\n")
