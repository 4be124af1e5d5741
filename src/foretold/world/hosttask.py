"""A task on another host, as the test that started it holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from foretold import handles
from foretold.errors import HostDied

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.knowledge import Known


@handles.shown_as(handles.HostTask)
class HostTask:
    """A main of a host, and whoever waits for it. `handles.HostTask` says what is for users."""

    def __init__(self, host: Host, task: asyncio.Task[Any]) -> None:
        self.host = host
        self.task = task
        self.awaited = False
        self._waiters: list[asyncio.Future[None]] = []
        self._dead = False
        self._known: Known | None = None
        """What its host knew of events when it ended."""
        task.add_done_callback(self._done)

    def __await__(self) -> Generator[Any, None, Any]:
        self.awaited = True
        if self.task.done() and not self.task.cancelled() and self.task.exception() is not None:
            self.host.world.forgive(self.task.exception())
        yield from self.ended().__await__()
        world = self.host.world
        world.hears(world.acting_host, self._known)
        if self._dead:
            raise HostDied(f"{self.host.name} was killed or has crashed before this main had ended")
        return self.task.result()

    def done(self) -> bool:
        return self._dead or self.task.done()

    def cancel(self) -> None:
        self.task.cancel()

    async def ended(self) -> None:
        if not self.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def died(self) -> None:
        """Its process is gone: it will never end by itself, if it has not yet."""
        self._dead = not self.task.done()
        self._wake()

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None and not self.awaited:
            self.host.world.main_failed(self)
        self._wake()

    def _wake(self) -> None:
        if self._known is None:
            self._known = self.host.world.known_to(self.host)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            wake(waiter)


def wake(waiter: asyncio.Future[None]) -> None:
    """Let somebody go on who waits on another host, at the instant at which that is known."""
    loop: Any = waiter.get_loop()
    if not loop.is_closed():
        loop.host.wake()
        loop.call_soon(resolve, waiter)


def resolve(waiter: asyncio.Future[None]) -> None:
    """Let the waiter go on, unless somebody else has."""
    if not waiter.done():
        waiter.set_result(None)
