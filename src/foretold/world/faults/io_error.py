"""I/O error: for a while reads, writes or syncs of a disk fail with EIO.

A bad cable, a dying disk, a volume that was detached and comes back. After a sync that failed,
Linux counts the data as written: see `world/disk/crash.py`. Never: an error on `close`, or on what
needs no disk, such as a `stat`.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnDisk, Undo
from foretold.world.faults.nemesis import Ground

OPERATIONS = (("fsync",), ("write",), ("read",), ("write", "fsync"), ("read", "write", "fsync"))


class IoError(OnDisk):
    """Some operations fail, all of their sort."""

    name = "io_error"
    touches = "disk errors"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        failing = choices.pick(OPERATIONS, "operations")
        trouble = host.disk.trouble
        trouble.failing = frozenset(failing)
        ground.world.note_fault(f"the disk of {host.name} fails ({', '.join(failing)})")

        def undo() -> None:
            trouble.failing = frozenset()
            ground.world.note_fault(f"the disk of {host.name} works again")

        return undo


IO_ERROR = IoError()
