"""Lost fsync: for a while syncs say that all is durable, and nothing is.

Disks with a volatile cache that ignore flushes, hypervisors with `cache=unsafe`, containers on top
of them. It shows only if the power is cut before a later sync, that is honest, writes the same. No
program survives it alone; a replicated one may.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnDisk, Undo
from foretold.world.faults.nemesis import Ground


class LostFsync(OnDisk):
    """A disk that lies."""

    name = "lost_fsync"
    touches = "disk honesty"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        trouble = host.disk.trouble
        trouble.lying = True
        ground.world.note_fault(f"syncs on {host.name} are lost")

        def undo() -> None:
            trouble.lying = False
            ground.world.note_fault(f"syncs on {host.name} are honest again")

        return undo


LOST_FSYNC = LostFsync()
