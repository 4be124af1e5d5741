"""`foretold.faults`: what a world may do to a program by itself.

    foretold.explore(main, faults=foretold.faults.network)
    foretold.explore(main, faults=foretold.faults.network.only("reset", "partition"))
    foretold.explore(main, faults=foretold.faults.network + foretold.faults.hosts.on("worker*"))

One kind of fault per file; `nemesis.py` decides when which of them strikes, and keeps all of them
inside a budget. Never: a fault that does not end, bytes that change on the way, a name that leads
to the wrong host, anything inside `async with world.calm()` or after `await world.heal()`.
(What a silent fault of a disk has changed stays changed.)
"""

from __future__ import annotations

from foretold.world.faults.bit_rot import BIT_ROT
from foretold.world.faults.clock_skew import CLOCK_SKEW
from foretold.world.faults.clog import CLOG
from foretold.world.faults.crash import CRASH
from foretold.world.faults.disk_full import DISK_FULL
from foretold.world.faults.disk_slow import DISK_SLOW
from foretold.world.faults.disk_stall import DISK_STALL
from foretold.world.faults.dns_missing import DNS_MISSING
from foretold.world.faults.dns_slow import DNS_SLOW
from foretold.world.faults.duplication import DUPLICATION
from foretold.world.faults.external import KINDS as EXTERNAL_KINDS
from foretold.world.faults.faultset import FaultSet, fault_kinds, faults_text, name_sets
from foretold.world.faults.hold import HOLD
from foretold.world.faults.io_error import IO_ERROR
from foretold.world.faults.join import JOIN
from foretold.world.faults.kill import KILL
from foretold.world.faults.latency import LATENCY
from foretold.world.faults.leave import LEAVE, RESTART
from foretold.world.faults.loss import LOSS
from foretold.world.faults.lost_fsync import LOST_FSYNC
from foretold.world.faults.misdirected_write import MISDIRECTED_WRITE
from foretold.world.faults.one_way import ONE_WAY
from foretold.world.faults.partition import PARTITION
from foretold.world.faults.pause import PAUSE
from foretold.world.faults.postgres import KINDS as POSTGRES_KINDS
from foretold.world.faults.reordering import REORDERING
from foretold.world.faults.reset import RESET
from foretold.world.faults.short_write import SHORT_WRITE
from foretold.world.faults.slow import SLOW
from foretold.world.faults.swizzle import SWIZZLE
from foretold.world.faults.web import KINDS as WEB_KINDS

network = FaultSet.of(
    PARTITION,
    ONE_WAY,
    HOLD,
    CLOG,
    SWIZZLE,
    SLOW,
    LATENCY,
    LOSS,
    DUPLICATION,
    REORDERING,
    RESET,
    DNS_MISSING,
    DNS_SLOW,
)
"""What happens between hosts."""

hosts = FaultSet.of(KILL, PAUSE, CLOCK_SKEW, CRASH)
"""What happens to hosts other than the test's own. Only a program that is made to be killed
survives these: they are in a run if they are asked for, and never part of another set."""

churn = FaultSet.of(JOIN, LEAVE, RESTART)
"""Hosts come and go: those that stand by join (`host.standby(main)`), others leave for a while or
are restarted, each with a proper goodbye. For systems whose members change."""

disk = FaultSet.of(
    IO_ERROR,
    DISK_FULL,
    SHORT_WRITE,
    DISK_SLOW,
    DISK_STALL,
    BIT_ROT,
    MISDIRECTED_WRITE,
    LOST_FSYNC,
)
"""What a disk does. The last three are silent: only programs with checksums or replicas survive
them, so take `disk_errors` for the others."""

disk_errors = disk.without("bit_rot", "misdirected_write", "lost_fsync")
"""What a disk does and says so: every program has to cope with these."""

postgres = FaultSet.of(*POSTGRES_KINDS)
"""What a PostgreSQL server does to its clients (`world.postgres`)."""

web = FaultSet.of(*WEB_KINDS)
"""What happens to HTTP requests between a client and a server (`world.web`)."""

external = FaultSet.of(*EXTERNAL_KINDS)
"""What a host outside of the program's own system does to its calls (`world.external`)."""

name_sets(
    network=network,
    hosts=hosts,
    churn=churn,
    disk=disk,
    disk_errors=disk_errors,
    postgres=postgres,
    web=web,
    external=external,
)

__all__ = [
    "FaultSet",
    "churn",
    "disk",
    "disk_errors",
    "external",
    "fault_kinds",
    "faults_text",
    "hosts",
    "network",
    "postgres",
    "web",
]
