"""I/O error: for a while reads, writes or syncs of a disk fail with EIO.

A bad cable, a dying disk, a volume that was detached and comes back. After a sync that failed,
Linux counts the data as written: see `world/disk/crash.py`. Never: an error on `close`, or on what
needs no disk, such as a `stat`.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import TroubleOnDisk

OPERATIONS = (("fsync",), ("write",), ("read",), ("write", "fsync"), ("read", "write", "fsync"))


class IoError(TroubleOnDisk):
    name = "io_error"
    touches = "disk errors"
    sets = "failing"
    over = "the disk of {} works again"

    def trouble(self, choices: Stream) -> tuple[Any, str]:
        failing = choices.pick(OPERATIONS, "operations")
        return frozenset(failing), f"the disk of {{}} fails ({', '.join(failing)})"
