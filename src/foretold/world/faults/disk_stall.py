"""Stalled disk: whoever uses it waits until the stall is over, and its whole host with it.

A disk that resets itself, a network volume that lost its path for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretold.kernel.clock import to_ns
from foretold.tape import Stream
from foretold.world.faults.kind import LASTS_S, Kind
from foretold.world.faults.nemesis import Ground


class DiskStall(Kind):
    name = "disk_stall"
    aims = True
    strikes = "disk"

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_disk("disk stall", choices)
        if host is None:
            return
        lasts_s = choices.pick(LASTS_S, "lasts")
        trouble = host.disk.trouble
        trouble.stalled_until_ns = ground.world.wire.now_ns + to_ns(lasts_s)
        ground.world.note_fault(
            f"the disk of {host.name} stands still for {lasts_s:g} s", host.name
        )
        try:
            yield lasts_s
        finally:
            trouble.stalled_until_ns = 0
            ground.give_back("disk stall", host.name)
            ground.world.note_fault(f"the disk of {host.name} goes on", host.name, is_over=True)
