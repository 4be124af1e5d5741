"""Disk full: for a while nothing can be written (ENOSPC): another program took the room.

Names can still be changed and taken away, and what exists can be read. `host.disk.space(n)` is the
permanent kind.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnDisk, Undo
from foretold.world.faults.nemesis import Ground


class DiskFull(OnDisk):
    """No room, until somebody cleans up."""

    name = "disk_full"
    touches = "disk room"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        trouble = host.disk.trouble
        trouble.full = True
        ground.world.note_fault(f"the disk of {host.name} is full")

        def undo() -> None:
            trouble.full = False
            ground.world.note_fault(f"the disk of {host.name} has room again")

        return undo


DISK_FULL = DiskFull()
