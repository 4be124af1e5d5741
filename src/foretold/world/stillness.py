"""A deadlock among hosts that still tick.

Real servers have timers that renew themselves for ever (uvicorn looks around ten times a second):
a world with one of them is never out of things to do, and a test that waits for ever would only be
found by the limit on steps. What tells such ticks from work is that nothing comes of them. So: the
test's own host has nothing ready and no alarm; and for `STILL_S` of virtual time there was
nothing but timers of other hosts. No message on the wire, hence no fault either; no choice and no
randomness drawn; as many tasks as before; and no alarm from before is still to come: who sleeps
for a day is waited for, and has the same time again afterwards.

What is left out because it is neither work that a test could notice nor cheap to see: that a tick
writes to a file of its own host or starts a task that ends at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from foretold.kernel.clock import NS
from foretold.kernel.timed import KEY_BITS, NEVER_NS
from foretold.kernel.waiting import deadlock_among

if TYPE_CHECKING:
    from foretold.errors import Deadlock
    from foretold.kernel.threads.crew import Crew
    from foretold.world.host import Host
    from foretold.world.hostloop import HostLoop
    from foretold.world.net.wire import Wire

STILL_S = 3600
"""Longer than what counts its own ticks before it speaks up: health checks, leases, retries with a
growing pause; and than TCP's last retransmission (a quarter of an hour). Short enough to be found
within a real second at ten ticks a second."""
FIRST_LOOK_NS = 60 * NS
"""After so long a wait we look for the first time. Most are over long before, and cost nothing."""
_NUMBER_MASK = (1 << KEY_BITS) - 1
_NO_WORK = ("pace/", "schedule/", "threads/")
"""Streams that are drawn from because time passes and steps are made."""


class Stillness:
    """Looks now and then whether anything has happened, while the test's own host waits."""

    def __init__(self, driver: Host, others: list[Host], wire: Wire) -> None:
        self.driver = driver
        self.others = others
        self.wire = wire
        self._seen: tuple[int, ...] = ()
        self._since_ns = 0
        self._alarms_then: dict[HostLoop, int] = {}

    def look(self, now_ns: int) -> int:
        """When to look again; raises `Deadlock` if the whole time since the last look was still."""
        state = self._state()
        if state != self._seen:
            self._seen, self._since_ns = state, now_ns
            self._alarms_then = {loop: loop._alarm_number for loop in self._loops()}
        else:
            awaited_ns = self._last_alarm_from_before_ns()
            if awaited_ns >= now_ns:
                self._seen = ()  # what follows from it has the full time as well
                return awaited_ns
            if self.wire.is_vain():
                raise self._deadlock(now_ns)
        return now_ns + STILL_S * NS

    def _loops(self) -> list[HostLoop]:
        return [
            loop
            for host in self.others
            if not host.paused and not host.stack.dead
            for loop in host.loops
        ]

    def _state(self) -> tuple[int, ...]:
        """Counters that stand still if nothing happens but ticks."""
        hosts = [self.driver, *self.others]
        draws = self.driver.world.tape.draws
        return (
            self.wire.events,
            sum(count for name, count in draws.items() if not name.startswith(_NO_WORK)),
            sum(host.entropy_drawn for host in hosts),
            sum(crew.steps for crew in self._crews()),
            *(len(asyncio.all_tasks(loop)) for loop in self._loops()),
        )

    def _last_alarm_from_before_ns(self) -> int:
        """When the last of the alarms is due that were set before the stillness began, or a
        thread has waited long enough: those of a world that is still began before."""
        waits = [s.deadline_ns for crew in self._crews() for s in crew.blocked]
        return max(
            max((ns for ns in waits if ns < NEVER_NS), default=0),
            self._last_timer_from_before_ns(),
        )

    def _last_timer_from_before_ns(self) -> int:
        return max(
            (
                key >> KEY_BITS
                for loop in self._loops()
                for key, handle in loop._alarm_of.items()
                if key & _NUMBER_MASK <= self._alarms_then.get(loop, 0)
                and key >> KEY_BITS < NEVER_NS
                and not handle._cancelled
            ),
            default=0,
        )

    def _crews(self) -> list[Crew]:
        found = (host.kernel.crew for host in (self.driver, *self.others))
        return [crew for crew in found if crew is not None]

    def _deadlock(self, now_ns: int) -> Deadlock:
        ticking = dict.fromkeys(
            loop.host.name for loop in self._loops() if loop.next_alarm_ns() is not None
        )
        self.driver.kernel.jump_to(now_ns)  # it has waited until now
        start_ns = self.driver.kernel.clock.start_ns
        since_s, now_s = (self._since_ns - start_ns) / NS, (now_ns - start_ns) / NS
        return deadlock_among(
            tasks_of([self.driver, *self.others]),
            f"the test waits without a time limit, and from {since_s:,.0f} s to {now_s:,.0f} s of "
            f"virtual time nothing has happened but timers of {', '.join(ticking)}: no message, no "
            "fault, no choice",
            "If it waits for what comes later, say how long: async with asyncio.timeout(…)",
        )


def tasks_of(hosts: list[Host]) -> list[asyncio.Task[Any]]:
    """All tasks on these hosts that are not done."""
    return [t for host in hosts for loop in host.loops for t in asyncio.all_tasks(loop)]
