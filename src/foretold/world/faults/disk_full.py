"""Disk full: for a while nothing can be written (ENOSPC): another program took the room.

Names can still be changed and taken away, and what exists can be read. `host.disk.space(n)` is the
permanent kind.
"""

from __future__ import annotations

from foretold.world.faults.kind import TroubleOnDisk


class DiskFull(TroubleOnDisk):
    name = "disk_full"
    touches = "disk room"
    sets = "full"
    begins = "the disk of {} is full"
    over = "the disk of {} has room again"
