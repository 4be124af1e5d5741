"""`foretold.faults`: what a world may do to a program by itself.

    foretold.explore(main, faults=foretold.faults.network)
    foretold.explore(main, faults=foretold.faults.network.only("reset", "partition"))
    foretold.explore(main, faults=foretold.faults.network + foretold.faults.hosts)

One kind of fault per file; `nemesis.py` decides when which of them strikes, and keeps all of them
inside a budget. Never: a fault that does not end, bytes that change on the way, a name that leads
to the wrong host, anything inside `async with world.calm()` or after `await world.heal()`.
"""

from __future__ import annotations

from foretold.world.faults.clock_skew import CLOCK_SKEW
from foretold.world.faults.clog import CLOG
from foretold.world.faults.dns_missing import DNS_MISSING
from foretold.world.faults.dns_slow import DNS_SLOW
from foretold.world.faults.faultset import FaultSet, fault_kinds, faults_text
from foretold.world.faults.hold import HOLD
from foretold.world.faults.kill import KILL
from foretold.world.faults.latency import LATENCY
from foretold.world.faults.loss import LOSS
from foretold.world.faults.one_way import ONE_WAY
from foretold.world.faults.partition import PARTITION
from foretold.world.faults.pause import PAUSE
from foretold.world.faults.reset import RESET
from foretold.world.faults.slow import SLOW
from foretold.world.faults.swizzle import SWIZZLE

network = FaultSet.of(
    PARTITION,
    ONE_WAY,
    HOLD,
    CLOG,
    SWIZZLE,
    SLOW,
    LATENCY,
    LOSS,
    RESET,
    DNS_MISSING,
    DNS_SLOW,
)
"""What happens between hosts."""

hosts = FaultSet.of(KILL, PAUSE, CLOCK_SKEW)
"""What happens to hosts other than the test's own. Only a program that is made to be killed
survives these: they are in a run if they are asked for, and never part of another set."""

__all__ = ["FaultSet", "fault_kinds", "faults_text", "hosts", "network"]
