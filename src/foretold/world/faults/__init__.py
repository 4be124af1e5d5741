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

from foretold.world.faults.bit_rot import BitRot
from foretold.world.faults.clock_skew import ClockSkew
from foretold.world.faults.clog import Clog
from foretold.world.faults.crash import Crash
from foretold.world.faults.disk_full import DiskFull
from foretold.world.faults.disk_slow import DiskSlow
from foretold.world.faults.disk_stall import DiskStall
from foretold.world.faults.dns_missing import DnsMissing
from foretold.world.faults.dns_slow import DnsSlow
from foretold.world.faults.duplication import Duplication
from foretold.world.faults.external import KINDS as EXTERNAL_KINDS
from foretold.world.faults.faultset import FaultSet, fault_kinds, faults_text, name_sets
from foretold.world.faults.hold import HoldMessages
from foretold.world.faults.io_error import IoError
from foretold.world.faults.join import Join
from foretold.world.faults.kill import Kill
from foretold.world.faults.latency import Latency
from foretold.world.faults.leave import Leave, Restart
from foretold.world.faults.loss import Loss
from foretold.world.faults.lost_fsync import LostFsync
from foretold.world.faults.misdirected_write import MisdirectedWrite
from foretold.world.faults.one_way import OneWay
from foretold.world.faults.partition import Partition
from foretold.world.faults.pause import Pause
from foretold.world.faults.postgres import KINDS as POSTGRES_KINDS
from foretold.world.faults.reordering import Reordering
from foretold.world.faults.reset import Reset
from foretold.world.faults.short_write import ShortWrite
from foretold.world.faults.slow import SlowNetwork
from foretold.world.faults.swizzle import Swizzle
from foretold.world.faults.web import KINDS as WEB_KINDS

network = FaultSet.of(
    Partition(),
    OneWay(),
    HoldMessages(),
    Clog(),
    Swizzle(),
    SlowNetwork(),
    Latency(),
    Loss(),
    Duplication(),
    Reordering(),
    Reset(),
    DnsMissing(),
    DnsSlow(),
)
"""What happens between hosts."""

hosts = FaultSet.of(Kill(), Pause(), ClockSkew(), Crash())
"""What happens to hosts other than the test's own. Only a program that is made to be killed
survives these: they are in a run if they are asked for, and never part of another set."""

churn = FaultSet.of(Join(), Leave(), Restart())
"""Hosts come and go: those that stand by join (`host.standby(main)`), others leave for a while or
are restarted, each with a proper goodbye. For systems whose members change."""

disk = FaultSet.of(
    IoError(),
    DiskFull(),
    ShortWrite(),
    DiskSlow(),
    DiskStall(),
    BitRot(),
    MisdirectedWrite(),
    LostFsync(),
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
