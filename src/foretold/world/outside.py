"""What happens outside the loop that is running: the wire, and the other hosts.

Each host has its own time, which only moves forward; the loop that runs the test drives them all.
Before it takes an iteration, everything that lies earlier happens: segments arrive, other hosts
take their iterations, always the earliest first. So hosts run side by side as on real machines; a
step that takes long makes its own host late and no other.
"""

from __future__ import annotations

import asyncio
import sys
from _thread import get_ident
from typing import TYPE_CHECKING

from foretold.kernel.computer import running
from foretold.kernel.waiting import deadlock_among

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.hostloop import HostLoop
    from foretold.world.net.wire import Wire

_set_running_loop = asyncio._set_running_loop
NEVER = 1 << 62


class Outside:
    """Drives the wire and all hosts but one, on behalf of the loop of that one."""

    def __init__(self, wire: Wire, driver: Host) -> None:
        self.wire = wire
        self.driver = driver
        self.others: list[Host] = []

    def catch_up(self, loop: HostLoop) -> None:
        """Before an iteration of `loop`: let happen what lies earlier, then see what arrived."""
        now_ns = loop._clock.ns
        queue = self.wire.queue
        if self.others:
            while self._earliest_ns() <= now_ns:
                self._one_thing()
        elif queue and queue[0][0] <= now_ns:
            self.wire.happen(now_ns)
        if loop.selector.stirred:
            loop.poll()

    def wait(self, loop: HostLoop) -> bool:
        """`loop` has nothing to do: go on elsewhere until it has. False if nothing ever happens."""
        while not loop._ready:
            alarm_ns = loop.next_alarm_ns()
            earliest_ns = self._earliest_ns()
            if alarm_ns is None and earliest_ns == NEVER:
                return False
            if alarm_ns is not None and alarm_ns < earliest_ns:
                loop.kernel.jump_to(alarm_ns)
                loop._collect_due_timers()
                return True
            self._one_thing()
            if loop.selector.stirred:
                self._follow(loop)
                loop.poll()
        self._follow(loop)
        return True

    def deadlock(self, loop: HostLoop) -> BaseException:
        """Nothing will ever happen: list who waits, on all hosts."""
        tasks = [t for host in (self.driver, *self.others) for each in host.loops
                 for t in asyncio.all_tasks(each)]
        return deadlock_among(tasks, "the world")

    def _follow(self, loop: HostLoop) -> None:
        """An idle host's clock shows the time at which something woke it."""
        loop.kernel.jump_to(max(loop._clock.ns, self._now_ns))

    _now_ns = 0

    def _earliest_ns(self) -> int:
        wire_ns = self.wire.next_ns()
        earliest = NEVER if wire_ns is None else wire_ns
        for host in self.others:
            earliest = min(earliest, host.next_ns())
        return earliest

    def _one_thing(self) -> None:
        """The earliest thing happens; at equal times the wire comes first."""
        wire_ns = self.wire.next_ns()
        best_ns = NEVER if wire_ns is None else wire_ns
        chosen: Host | None = None
        for host in self.others:
            host_ns = host.next_ns()
            if host_ns < best_ns:
                best_ns, chosen = host_ns, host
        self._now_ns = max(self._now_ns, best_ns)
        if chosen is None:
            self.wire.happen(best_ns)
        else:
            self.run_host(chosen, best_ns)

    def run_host(self, host: Host, now_ns: int) -> None:
        """One iteration of each loop of another host, at its own time."""
        clock = host.kernel.clock
        clock.ns = max(clock.ns, now_ns)
        ident = get_ident()
        former_loop = asyncio._get_running_loop()
        former_computer = running.get(ident)
        former_hooks = sys.get_asyncgen_hooks()
        try:
            running[ident] = host
            with host.modules.in_place():
                for loop in host.loops:
                    if loop.is_closed() or not loop.get_ready():
                        continue
                    _set_running_loop(loop)
                    hooks = (loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
                    sys.set_asyncgen_hooks(*hooks)
                    loop._run_once()
        finally:
            _set_running_loop(former_loop)
            sys.set_asyncgen_hooks(*former_hooks)
            if former_computer is None:
                running.pop(ident, None)
            else:
                running[ident] = former_computer
