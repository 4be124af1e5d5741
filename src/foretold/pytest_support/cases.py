"""A simulated method of a `unittest.TestCase`: each run finds the instance as if it were new.

unittest makes one instance for a test and calls `setUp`, the test and `tearDown` once. A simulated
test is many runs, so each of them does all that inside of its world: what the constructor sets,
`setUp`, `asyncSetUp`, the test, `asyncTearDown`, `tearDown`, and what was handed to `addCleanup`
and `addAsyncCleanup`. The object itself stays the same, because fixtures and unittest hold it; what
is set on it is taken away before each run.

Not made anew: what belongs to the class (`setUpClass`) or to the module.
"""

from __future__ import annotations

import inspect
import unittest
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from foretold.pytest_support.stage import Stage

_CLEANUPS: Final = "_cleanups"
_OF_UNITTEST: Final = frozenset(vars(unittest.IsolatedAsyncioTestCase()))
"""What unittest itself keeps on an instance."""
_CONSTRUCTORS: Final = (unittest.TestCase.__init__, unittest.IsolatedAsyncioTestCase.__init__)


def has_constructor(case: unittest.TestCase) -> bool:
    """Whether the class has a constructor of its own."""
    return type(case).__init__ not in _CONSTRUCTORS


def constructed(case: unittest.TestCase) -> dict[str, Any]:
    """What the constructor of its class sets on an instance, made anew."""
    if not has_constructor(case):
        return {}
    made = vars(type(case)(case._testMethodName))
    return {name: value for name, value in made.items() if name not in _OF_UNITTEST}


class Case:
    def __init__(self, case: unittest.TestCase) -> None:
        self._case: Any = case
        self._state: dict[str, Any] | None = None
        self._set_up, self._tear_down = case.setUp, case.tearDown
        self._is_async = isinstance(case, unittest.IsolatedAsyncioTestCase)
        if isinstance(case, unittest.IsolatedAsyncioTestCase):
            self._async_set_up, self._async_tear_down = case.asyncSetUp, case.asyncTearDown

    def leave_to_runs(self) -> None:
        """unittest, which has not set it up yet, finds nothing to do there."""
        vars(self._case).update(setUp=_do_nothing, tearDown=_do_nothing)
        if self._is_async:
            vars(self._case).update(asyncSetUp=_await_nothing, asyncTearDown=_await_nothing)

    @contextmanager
    def already_set_up(self) -> Iterator[None]:
        """unittest, which has set it up, finds it so again. The runs inside see nothing of it."""
        before = dict(vars(self._case))
        self._state = {name: value for name, value in before.items() if name in _OF_UNITTEST}
        try:
            yield
        finally:
            self._become(before)

    def before_run(self) -> None:
        """Take away what an earlier run has set."""
        if self._state is None:
            self._state = dict(vars(self._case))
        self._become({**self._state, _CLEANUPS: []})
        vars(self._case).update(constructed(self._case))

    def _become(self, state: dict[str, Any]) -> None:
        vars(self._case).clear()
        vars(self._case).update(state)

    def parts(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """What each run does around the test, as fixtures by their names."""
        yield "setUp", self._around
        if self._is_async:
            yield "asyncSetUp", self._async_around

    @property
    def is_bare(self) -> bool:
        """The test of a machine that has no `setUp` is the machine alone."""
        kind, plain = type(self._case), unittest.TestCase
        has_set_up = kind.setUp is not plain.setUp or kind.tearDown is not plain.tearDown
        return hasattr(kind, "foretold_machine") and not has_set_up

    def clean_up(self, stage: Stage) -> None:
        """Do what was left for the end, the last first. If the loop does not run any more, what is
        async stays undone."""
        failed: list[BaseException] = []
        cleanups: list[Any] = vars(self._case)[_CLEANUPS]
        while cleanups:
            function, args, names = cleanups.pop()
            try:
                result = stage.call(partial(function, *args, **names))
                if inspect.iscoroutine(result):
                    result.close() if stage.is_over else stage.run(result)
            except Exception as error:
                failed.append(error)
        if failed:
            for other in failed[1:]:
                failed[0].add_note(f"another cleanup failed: {other!r}")
            raise failed[0]

    def _around(self) -> Iterator[None]:
        self._set_up()
        yield
        self._tear_down()

    async def _async_around(self) -> AsyncIterator[None]:
        await self._async_set_up()
        yield
        await self._async_tear_down()


def _do_nothing() -> None:
    """In the place of what each run calls."""


async def _await_nothing() -> None:
    """In the place of what each run awaits."""
