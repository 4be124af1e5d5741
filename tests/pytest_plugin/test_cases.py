"""A simulated method of a unittest.TestCase finds a new instance in every run, under pytest and
under unittest itself."""

from __future__ import annotations

import subprocess

import pytest

from tests.report.programs import PYTHON, environment

pytest_plugins = ["pytester"]

ASYNC = """
import asyncio, unittest
import foretold

CALLS = []

class TestBank(unittest.IsolatedAsyncioTestCase):
    def __init__(self, name):
        super().__init__(name)
        self.seen = []

    def setUp(self):
        foretold.current_world()
        self.total = 0
        self.addCleanup(CALLS.append, "cleanup")

    async def asyncSetUp(self):
        self.lock = asyncio.Lock()
        self.addAsyncCleanup(self.clean_later)

    async def clean_later(self):
        await asyncio.sleep(1)
        CALLS.append("async cleanup")

    async def asyncTearDown(self):
        await asyncio.sleep(1)
        CALLS.append("async down")

    def tearDown(self):
        CALLS.append("down")

    async def add(self):
        async with self.lock:
            before = self.total
            await asyncio.sleep(0)
            self.total = before + 1

    @foretold.simulate(runs=4)
    async def test_add(self):
        self.seen.append(1)
        await foretold.together(self.add(), self.add())
        self.assertEqual((self.total, self.seen), (2, [1]))
        self.addCleanup(CALLS.append, "of the test")

class TestLast(unittest.TestCase):
    def test_calls(self):
        once = ["async down", "down", "of the test", "async cleanup", "cleanup"]
        self.assertEqual(CALLS[:25], once * 5)  # the first one warms up
"""


def test_all_that_unittest_does_is_done_in_every_run(pytester: pytest.Pytester) -> None:
    """`asyncSetUp`, its end, cleanups of both kinds, and what the constructor sets: in the world of
    the run, in the order of unittest. Nothing is shared, so nothing is warned of."""
    pytester.makepyfile(ASYNC)
    pytester.runpytest("-W", "error").assert_outcomes(passed=2)


def test_under_unittest_too(pytester: pytest.Pytester) -> None:
    """unittest has set the instance up, outside of any world, before foretold is asked. It finds
    that again when it takes it down."""
    path = pytester.makepyfile(ASYNC.replace("        foretold.current_world()\n", ""))
    done = subprocess.run(
        [PYTHON, "-m", "unittest", path.name],
        cwd=pytester.path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_plain_cleanups_are_done_after_a_deadlock(pytester: pytest.Pytester) -> None:
    """The loop does not run any more, so an async cleanup cannot be done. The plain one is: what it
    undoes must not reach the next run."""
    pytester.makepyfile("""
        import asyncio, unittest
        import foretold

        PATCHED = []

        class TestIt(unittest.IsolatedAsyncioTestCase):
            def setUp(self):
                PATCHED.append(1)
                self.addCleanup(PATCHED.clear)
                self.addAsyncCleanup(asyncio.sleep, 1)

            @foretold.simulate(runs=2, confirm=False)
            async def test_waits(self):
                assert len(PATCHED) == 1
                await asyncio.Event().wait()
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Deadlock*"])
