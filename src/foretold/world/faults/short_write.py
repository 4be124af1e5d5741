"""Short writes: for a while `os.write` writes less than it was given, and says so.

POSIX allows it at any time; it happens when room runs out in the middle, on network file systems
and when a signal comes. Python's buffered files go on with the rest by themselves; whoever calls
`os.write`, or opens with `buffering=0`, has to.
"""

from __future__ import annotations

from foretold.world.faults.kind import TroubleOnDisk


class ShortWrite(TroubleOnDisk):
    """Every other write, on average."""

    name = "short_write"
    touches = "disk writes"
    sets = "short"
    begins = "short writes on {}"
    over = "no more short writes on {}"
