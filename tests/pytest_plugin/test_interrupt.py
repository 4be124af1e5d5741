"""Ctrl-C, and code that never comes back, under pytest: what is known reaches the terminal.

pytest captures the output of a test by the descriptors themselves, so each program runs in a
process of its own.
"""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

INTERRUPTED = """
    import asyncio, ctypes, foretold

    runs = 0

    @foretold.simulate
    async def test_it():
        global runs
        runs += 1
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
        if runs == 8:
            ctypes.CDLL(None)["raise"](2)
        assert runs < 4
"""


def test_ctrl_c_says_where_it_was_and_what_was_found(pytester: pytest.Pytester):
    """While a failure is being shrunk: its tape is named, and the line that ran."""
    path = pytester.makepyfile(test_it=INTERRUPTED)
    result = pytester.runpytest_subprocess("-q")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "*Interrupted: The search (seed *) had made 3 runs.",
            "*AssertionError at test_it.py:12: foretold replay .foretold/failures/*.tape",
            "*Where it stands:",
            f"*test_it runs at {path}:11*",
        ]
    )


NEVER_RETURNS = """
    import ctypes, itertools, foretold
    import foretold.kernel.last_resort
    import foretold.kernel.watchdog

    foretold.kernel.watchdog.GRACE_S_MIN = foretold.kernel.last_resort.GAP_S = 0.1

    def waits():
        libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_lock(mutex)

    def computes():
        sum(itertools.count())

    @foretold.simulate(wall_s_max=0.4)
    async def test_simulated():
        CALL()

    def test_plain():
        foretold.run(CALL, wall_s_max=0.4)
"""


@pytest.mark.parametrize(
    ("test", "call", "said"),
    [
        ("test_simulated", "waits", "*runs at {path}:10*"),
        ("test_plain", "computes", '*File "{path}", line 13 in computes'),
    ],
    ids=["simulated", "plain"],
)
def test_last_words_are_not_captured(pytester: pytest.Pytester, test: str, call: str, said: str):
    """The process is ended where C code does not return, with all that pytest has captured."""
    path = pytester.makepyfile(test_it=NEVER_RETURNS.replace("CALL", call))
    result = pytester.runpytest_subprocess(f"test_it.py::{test}")
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED)
    result.stderr.fnmatch_lines([said.format(path=path)])
