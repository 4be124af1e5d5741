"""Lost fsync: for a while syncs say that all is durable, and nothing is.

Disks with a volatile cache that ignore flushes, hypervisors with `cache=unsafe`, containers on top
of them. It shows only if the power is cut before a later sync, that is honest, writes the same. No
program survives it alone; a replicated one may.
"""

from __future__ import annotations

from foretold.world.faults.kind import TroubleOnDisk


class LostFsync(TroubleOnDisk):
    name = "lost_fsync"
    touches = "disk honesty"
    sets = "lying"
    begins = "syncs on {} are lost"
    over = "syncs on {} are honest again"
