"""Misdirected write: a write goes to another place, and the disk says that all is well.

Firmware bugs and vibrating heads do it. Where the data belongs, the old content stays; where it
lands, sectors of another file (or of the same) are overwritten. Only a program that keeps checksums
notices; ask for this kind if yours does. One write a strike, and not undone.
"""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import TroubleOnDisk


class MisdirectedWrite(TroubleOnDisk):
    name = "misdirected_write"
    touches = "disk aim"
    sets = "misdirects"

    def trouble(self, choices: Stream) -> tuple[Any, str]:
        return 1, "the next write on {} will miss"
