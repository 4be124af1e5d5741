"""Slow disk: for a while each operation takes long, and blocks its whole host.

A neighbour on the same machine, a RAID that is rebuilt, a cloud volume whose credits are used up.
"""

from __future__ import annotations

from typing import Any

from foretold.kernel.clock import to_ns
from foretold.tape import Stream
from foretold.world.faults.kind import TroubleOnDisk

SLOW_S = (0.005, 0.02, 0.1)


class DiskSlow(TroubleOnDisk):
    name = "disk_slow"
    touches = "disk speed"
    sets = "slow_ns"
    over = "the disk of {} is quick again"

    def trouble(self, choices: Stream) -> tuple[Any, str]:
        slow_s = choices.pick(SLOW_S, "each operation takes")
        return to_ns(slow_s), f"the disk of {{}} takes {slow_s:g} s for each operation"
