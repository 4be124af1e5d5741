"""`world.clock`: what a test reads and moves."""

from __future__ import annotations

import asyncio
import datetime
import inspect
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


class WorldClock:
    """A host's clock, in seconds. Satisfies `foretold.Clock`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._clock = host.kernel.clock
        self._skew_ns = 0
        """By how much the wall clock is wrong, apart from what it drifts since `drift`."""
        self.changes = 0
        """How often somebody has set it, right or wrong."""

    def now(self) -> float:
        """Seconds since 1970 on the wall clock, as `time.time()`."""
        return self._clock.read_wall_ns() / NS

    def now_ns(self) -> int:
        return self._clock.read_wall_ns()

    def monotonic(self) -> float:
        """Seconds on the clock that never goes back, as `time.monotonic()`."""
        return self._clock.read_monotonic_ns() / NS

    def monotonic_ns(self) -> int:
        return self._clock.read_monotonic_ns()

    def datetime(self) -> datetime.datetime:
        """The wall clock as an aware UTC datetime."""
        seconds, ns = divmod(self._clock.read_wall_ns(), NS)
        base = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        return base + datetime.timedelta(microseconds=ns // 1_000)

    def set_time(self, epoch_s: float) -> None:
        """Set the wall clock, forwards or back. The monotonic clock goes on undisturbed."""
        check_number("set_time's epoch_s", epoch_s)
        self._take_stock(self._clock.drift_ppm)
        self._clock.wall_offset_ns = to_ns(epoch_s) - self._clock.ns
        self._skew_ns = 0

    def skew(self, seconds: float) -> None:
        """Let the wall clock be wrong by this much: not in addition to an earlier skew, nor to what
        it has drifted until now. 0 puts it right."""
        check_number("skew's seconds", seconds)
        self._take_stock(self._clock.drift_ppm)
        self._clock.wall_offset_ns += to_ns(seconds) - self._skew_ns
        self._skew_ns = to_ns(seconds)
        self._note(f"is wrong by {seconds:+g} s" if seconds else "is right")

    def drift(self, ppm: float) -> None:
        """Let the wall clock run too fast from now on, by `ppm` microseconds a second, or too slow
        (below 0). With 0 it runs as it should again, and what it has drifted stays: `skew(0)` puts
        it right. The monotonic clock and all timers go on undisturbed."""
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
        self._host.world.note_fault(f"the clock of {self._host.name} {what}")

    def schedule(self, callback: Callable[[], Any], delay_s: float) -> CancelToken:
        """Call `callback` after `delay_s` virtual seconds. An async function becomes a task.

        What is scheduled for the same instant happens in the order of scheduling. If it raises,
        the run fails.
        """
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
        """Let virtual time pass. All that falls due is done, in order of time, and so is the
        work that follows from it, before this returns."""
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
        """Wait until nothing is left to do at this instant. Virtual time does not jump."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._host.kernel.settlers.append(settled)
        await settled

    async def run_until_idle(self, limit_s: float = IDLE_LIMIT_S) -> None:
        """Let time pass until nothing is scheduled any more.

        Work that renews itself for ever would never be done: past `limit_s` virtual seconds it is
        an error.
        """
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._host.kernel.idlers.append((idle, self._clock.ns + to_ns(limit_s)))
        await idle
