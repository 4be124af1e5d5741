"""Slow disk: for a while each operation takes long, and blocks its whole host.

A neighbour on the same machine, a RAID that is rebuilt, a cloud volume whose credits are used up.
"""

from __future__ import annotations

from typing import Any

from foretold.kernel.clock import to_ns
from foretold.tape import Stream
from foretold.world.faults.kind import OnDisk, Undo
from foretold.world.faults.nemesis import Ground

SLOW_S = (0.005, 0.02, 0.1)


class DiskSlow(OnDisk):
    """Each operation a little."""

    name = "disk_slow"
    touches = "disk speed"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        slow_s = choices.pick(SLOW_S, "each operation takes")
        trouble = host.disk.trouble
        trouble.slow_ns = to_ns(slow_s)
        ground.world.note_fault(f"the disk of {host.name} takes {slow_s:g} s for each operation")

        def undo() -> None:
            trouble.slow_ns = 0
            ground.world.note_fault(f"the disk of {host.name} is quick again")

        return undo


DISK_SLOW = DiskSlow()
