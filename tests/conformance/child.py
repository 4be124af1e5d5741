"""Runs one module of CPython's asyncio tests on our loop and writes down what became of each test.

    python -m tests.conformance.child test_tasks result.json

Excluded tests run too, last, since they may leave a mess: an exclusion that passes is no longer
needed. A process of its own, so that nothing stays patched in the process of our own tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from foretold.kernel.fence import passage
from foretold.kernel.session import session
from tests.conformance.exclusions import excluded_here
from tests.conformance.redirect import IN_A_WORLD, LastInFirstOutLoop, OurLoop, lead
from tests.conformance.worlds import lead_into_worlds, plant_a_mistake

TEST_S_MAX = 90.0
"""Nobody waits for it but a test that is stuck. The slowest (`test_drain_raises`: 16,000 buffered
writes, which asyncio of 3.12 and 3.13 sums up at each of them) takes 24 s on a busy machine."""
EXCLUDED_TEST_S_MAX = 3.0
MESSAGE_MAX = 2_000

Error = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TookTooLong(SystemExit):
    """A test is stuck. The loop lets a SystemExit through, and unittest goes on after it."""


def short_id(test: unittest.TestCase) -> str:
    """`test_locks.LockTests.test_acquire`."""
    return test.id().removeprefix("test.test_asyncio.")


class Scribe(unittest.TestResult):
    """Writes down one row per test: what became of it, and whether our loop took a step in it."""

    def __init__(self, seconds_max: float) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.ended = 0
        self._seconds_max = seconds_max
        self._outcome, self._message = "passed", ""

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        with passage():
            signal.setitimer(signal.ITIMER_REAL, self._seconds_max)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        asyncio._set_running_loop(None)  # a test that failed may have left it set
        self._write(test)
        self.ended += 1
        super().stopTest(test)

    def _write(self, test: unittest.TestCase) -> None:
        self.rows.append(
            {
                "id": short_id(test),
                "outcome": self._outcome,
                "message": self._message[-MESSAGE_MAX:],
                "steps": sum(k.steps_so_far(k.grant) for k in OurLoop.kernels),
            }
        )
        OurLoop.kernels.clear()
        self._outcome, self._message = "passed", ""

    def _failed(self, error: Error) -> None:
        self._outcome = "failed"
        self._message = "".join(traceback.format_exception(*error))

    def failed_afterwards(self, error: BaseException) -> None:
        """The test last written down has failed after all, when its loop was closed."""
        self.rows[-1] |= {"outcome": "failed", "message": f"when the loop was closed: {error}"}

    def addFailure(self, test: Any, err: Error) -> None:  # noqa: N802 - unittest's name
        self._failed(err)

    def addError(self, test: Any, err: Error) -> None:  # noqa: N802 - unittest's name
        self._failed(err)
        if not isinstance(test, unittest.TestCase):  # set-up of a class or module: not a test
            self._write(test)

    def addSubTest(self, test: Any, subtest: Any, err: Error | None) -> None:  # noqa: N802 - as above
        if err is not None:
            self._failed(err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802 - unittest's name
        self._outcome, self._message = "failed", "unexpected success"

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802 - unittest's name
        if self._outcome == "passed":
            self._outcome, self._message = "skipped", reason


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """All tests of nested suites."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flat(item)
        else:
            yield item


def run(tests: list[unittest.TestCase], seconds_max: float) -> list[dict[str, Any]]:
    """Run tests one by one and return their rows."""
    scribe = Scribe(seconds_max)
    left = tests
    while left:
        try:
            unittest.TestSuite(left).run(scribe)
            left = []
        except (Exception, TookTooLong) as error:  # closing a runner is not guarded by unittest
            scribe.failed_afterwards(error)
            left = tests[scribe.ended :]
    signal.setitimer(signal.ITIMER_REAL, 0)
    return scribe.rows


def main(module_name: str, result: str, *plant: str) -> None:
    """Run a module and end the process. With a third argument the loop or the network is broken."""

    def stop_it(*_: object) -> None:
        raise TookTooLong("the test took too long")

    signal.signal(signal.SIGALRM, stop_it)
    in_a_world = module_name in IN_A_WORLD
    if in_a_world:
        module = lead_into_worlds(module_name)
        if plant:
            plant_a_mistake()
    else:
        module = lead(module_name, LastInFirstOutLoop if plant else OurLoop)
    gc.freeze()  # many tests collect garbage, and need not look at what was imported
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))
    listed = [test for test in tests if excluded_here(short_id(test))]
    others = [test for test in tests if not excluded_here(short_id(test))]
    with session() if in_a_world else contextlib.nullcontext():
        rows = run(others, TEST_S_MAX) + run(listed, EXCLUDED_TEST_S_MAX)
    Path(result).write_text(json.dumps(rows), encoding="utf-8")
    os._exit(0)  # whatever a failed test left behind must not hold us up


if __name__ == "__main__":
    main(*sys.argv[1:])
