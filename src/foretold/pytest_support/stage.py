"""Where the parts of one run of a test are played: its fixtures, the test, their ends.

Plain code runs outside of the loop, as in pytest. All that is async runs in *one* task, on the loop
of the test: so a context variable that a fixture sets is there in the test, and a cancel scope or a
task group may span the `yield` of a fixture, because the same task enters and leaves it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

from foretold.errors import UsageError
from foretold.world.world import World

_Order = tuple[Coroutine[Any, Any, Any], "asyncio.Future[Any]"]


class Stage:
    def __init__(self, world: World, name: str) -> None:
        self._loop = world.home.loop
        self._name = name
        """Of the task: that of the test."""
        self._task: asyncio.Task[None] | None = None
        self._context: contextvars.Context | None = None
        self._order: _Order | None = None
        self._wake: asyncio.Future[None] | None = None
        self.is_over = False
        """The world has come to an end: its loop does not run any more."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call plain code; it sees and sets the context variables of the async parts."""
        if self._context is None or self._loop.is_running():  # inside a part: in it already
            return function(*args)
        return self._context.run(function, *args)

    def perform(self, test: Coroutine[Any, Any, Any]) -> Any:
        """Run the test itself: where no fixture is async, as a task like any other."""
        if self._task is not None:
            return self.run(test)
        return self._loop.run_until_complete(self._loop.create_task(test, name=self._name))

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run a part that is async, in the task that runs them all."""
        if self._loop.is_running():
            coro.close()
            raise UsageError(
                "request.getfixturevalue() asked for an async fixture while the loop was running, "
                "which cannot wait for itself. Make the fixture a parameter of the test."
            )
        done = self._loop.create_future()
        self._order = coro, done
        if self._task is None or self._task.done():
            self._context = self._context or contextvars.copy_context()
            self._task = self._loop.create_task(
                self._serve(), name=self._name, context=self._context
            )
        elif self._wake is not None:
            self._wake.set_result(None)
        return self._loop.run_until_complete(done)

    def close(self) -> None:
        """The last part is over: the task ends."""
        if self._task is not None and not self._task.done() and self._wake is not None:
            self._wake.set_result(None)
            self._loop.run_until_complete(self._task)

    async def _serve(self) -> None:
        while self._order is not None:
            (coro, done), self._order = self._order, None
            try:
                value = await coro
            except BaseException as error:
                if not done.done():
                    done.set_exception(error)
                if isinstance(error, KeyboardInterrupt | SystemExit) or _is_cancelled():
                    raise
            else:
                done.set_result(value)
            self._wake = self._loop.create_future()
            await self._wake
            self._wake = None


def _is_cancelled() -> bool:
    """Whether somebody wants this task to end, as opposed to a part that raised by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
