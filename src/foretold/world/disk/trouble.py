"""What a faulty disk does to single operations while a fault lasts.

The kinds in `world/faults` switch these on and off; where one strikes is drawn from the host's own
stream, 0 being a healthy operation. Never: an error on a call that real disks do not fail (a `stat`
of something cached, `close`), a damage that was not asked for by its kind.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from foretold.world.disk.content import SECTOR
from foretold.world.disk.nodes import File, Inode
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.tape import Stream
    from foretold.world.host import Host

SHORT_P: Final = 0.5
GROWS: Final = ("write", "create")
"""What a full disk refuses. Names can still be taken away and changed."""


class DiskTrouble:
    def __init__(self, host: Host, choices: Stream) -> None:
        self.host = host
        self.choices = choices
        self.failing: frozenset[str] = frozenset()
        """Which operations fail with EIO: read, write, fsync."""
        self.full = False
        self.short = False
        self.lying = False
        self.misdirects = 0
        """How many of the next writes go to the wrong place."""
        self.slow_ns = 0
        """How much longer each operation takes."""
        self.stalled_until_ns = 0

    def before(self, what: str, node: Inode | None) -> None:
        """Something is about to happen: may take time, or raise."""
        kernel = self.host.kernel
        if self.slow_ns:
            kernel.jump_to(kernel.clock.ns + self.slow_ns)
            self._felt("disk_slow")
        if self.stalled_until_ns > kernel.clock.ns:
            kernel.jump_to(self.stalled_until_ns)
            self._felt("disk_stall")
        if self.failing and ("write" if what in ("create", "names") else what) in self.failing:
            self._felt("io_error")
            raise os_error(errno.EIO)
        if self.full and what in GROWS:
            self._felt("disk_full")
            raise os_error(errno.ENOSPC)

    def before_write(
        self, file: File, offset: int, data: bytes | memoryview
    ) -> tuple[File, int, bytes | memoryview]:
        """What is written, and where, instead of this."""
        if self.short and len(data) > 1 and self.choices.chance(SHORT_P, "short write"):
            self._felt("short_write")
            data = data[: len(data) - 1 - self.choices.choose(len(data) - 1, "bytes not written")]
        if self.misdirects:
            self.misdirects -= 1
            self._felt("misdirected_write")
            data = self._misdirect(file, offset, bytes(data))
        return file, offset, data

    def is_lying(self) -> bool:
        """Whether a sync says that it has happened and has not."""
        if self.lying:
            self._felt("lost_fsync")
        return self.lying

    def _felt(self, kind: str) -> None:
        self.host.world.tally.fault(kind, "effect")

    def files(self) -> list[tuple[str, File]]:
        """All files that have content, in a fixed order."""
        found = self.host.disk.fs.walk_all()
        return [(path, node) for path, node in found if isinstance(node, File) and node.size]

    def _misdirect(self, file: File, offset: int, data: bytes) -> bytes:
        """The data lands in another place; where it belongs, the old content stays."""
        places = self.files()
        old = file.content.read(offset, len(data)).ljust(len(data), b"\0")
        if places:
            path, victim = self.choices.pick(places, "file that is hit")
            sectors = -(-victim.size // SECTOR)
            first = self.choices.choose(sectors, "sector that is hit")
            for n in range(min(-(-len(data) // SECTOR), sectors - first)):
                part = data[n * SECTOR : (n + 1) * SECTOR]
                whole = victim.content.sector(first + n) or bytes(SECTOR)
                victim.content.put_sector(first + n, part + whole[len(part) :])
            victim.content.put_size(victim.size)
            self.host.world.note_fault(
                f"a write on {self.host.name} went to sector {first} of {path}"
            )
        return old
