"""`world.clock`: what a test reads and moves."""

from __future__ import annotations

import asyncio
import datetime
import inspect
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold import handles
from foretold.arguments import check_number
from foretold.errors import UsageError
from foretold.kernel.clock import NS, to_ns

if TYPE_CHECKING:
    from foretold.world.host import Host

IDLE_LIMIT_S = 24 * 3600


class CancelToken:
    """Something scheduled that can be called off."""

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        """Call it off; harmless if it has happened already."""
        self._handle.cancel()

    @property
    def cancelled(self) -> bool:
        return self._handle.cancelled()


@handles.shown_as(handles.HostClock)
class WorldClock:
    """The clock of `handles.HostClock`, over the virtual clock of its host's kernel."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._clock = host.kernel.clock
        self._skew_ns = 0
        """By how much the wall clock is wrong, apart from what it drifts since `drift`."""
        self.changes = 0
        """How often somebody has set it, right or wrong."""

    def now(self) -> float:
        return self._clock.read_wall_ns() / NS

    def now_ns(self) -> int:
        return self._clock.read_wall_ns()

    def monotonic(self) -> float:
        return self._clock.read_monotonic_ns() / NS

    def monotonic_ns(self) -> int:
        return self._clock.read_monotonic_ns()

    def datetime(self) -> datetime.datetime:
        seconds, ns = divmod(self._clock.read_wall_ns(), NS)
        base = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        return base + datetime.timedelta(microseconds=ns // 1_000)

    def set_time(self, epoch_s: float) -> None:
        check_number("set_time's epoch_s", epoch_s)
        self._take_stock(self._clock.drift_ppm)
        self._clock.wall_offset_ns = to_ns(epoch_s) - self._clock.ns
        self._skew_ns = 0

    def skew(self, seconds: float) -> None:
        check_number("skew's seconds", seconds)
        self._take_stock(self._clock.drift_ppm)
        self._clock.wall_offset_ns += to_ns(seconds) - self._skew_ns
        self._skew_ns = to_ns(seconds)
        self._note(f"is wrong by {seconds:+g} s" if seconds else "is right")

    def drift(self, ppm: float) -> None:
        check_number("drift's ppm", ppm, above=-1e6)
        self._take_stock(ppm)
        self._note(f"drifts by {ppm:+g} ppm" if ppm else "drifts no more")

    @property
    def is_right(self) -> bool:
        """Whether nobody has set the wall clock wrong."""
        return not self._skew_ns and not self._clock.drift_ppm

    def _take_stock(self, ppm: float) -> None:
        self.changes += 1
        self._skew_ns += self._clock.drift(ppm)

    def _note(self, what: str) -> None:
        self._host.world.note_fault(f"the clock of {self._host.name} {what}", self._host.name)

    def schedule(self, callback: Callable[[], Any], delay_s: float) -> CancelToken:
        check_number("delay_s", delay_s)
        if delay_s < 0:
            raise UsageError(f"schedule(..., {delay_s}): the past cannot be scheduled")
        loop = events._get_running_loop() or self._host.loop

        def call() -> None:
            result = callback()
            if inspect.iscoroutine(result):
                self._host.keep_task(loop.create_task(result))

        return CancelToken(loop.call_later(delay_s, call))

    async def advance(self, seconds: float) -> None:
        check_number("seconds", seconds)
        if seconds < 0:
            raise UsageError("time does not run backwards: world.clock.set_time sets a clock back")
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        alarm = loop.call_later(seconds, arrived.set_result, None)
        try:
            await arrived
            await self.settle()
        finally:
            alarm.cancel()

    async def settle(self) -> None:
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._host.kernel.settlers.append(settled)
        await settled

    async def run_until_idle(self, limit_s: float = IDLE_LIMIT_S) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._host.kernel.idlers.append((idle, self._clock.ns + to_ns(limit_s)))
        await idle
