"""Short writes: for a while `os.write` writes less than it was given, and says so.

POSIX allows it at any time; it happens when room runs out in the middle, on network file systems
and when a signal comes. Python's buffered files go on with the rest by themselves; whoever calls
`os.write`, or opens with `buffering=0`, has to.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnDisk, Undo
from foretold.world.faults.nemesis import Ground


class ShortWrite(OnDisk):
    """Every other write, on average."""

    name = "short_write"
    touches = "disk writes"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        trouble = host.disk.trouble
        trouble.short = True
        ground.world.note_fault(f"short writes on {host.name}")

        def undo() -> None:
            trouble.short = False
            ground.world.note_fault(f"no more short writes on {host.name}")

        return undo


SHORT_WRITE = ShortWrite()
