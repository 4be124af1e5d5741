"""Bit rot: one bit of a file changes, and nobody says so.

Disks return wrong data about once in 10 to 100 terabytes read, memory without error correction more
often. Only a program that keeps checksums notices; ask for this kind if yours does. It is not
undone: what is rotten stays so until it is written again. Never: a bit of a name or of a size.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.disk.content import SECTOR
from foretold.world.faults.kind import Kind
from foretold.world.faults.nemesis import Ground


class BitRot(Kind):
    name = "bit_rot"
    aims = True
    strikes = "disk"

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        host = ground.take_disk("disk content", choices)
        if host is None:
            return
        ground.give_back("disk content", host.name)
        files = host.disk.trouble.files()
        if not files:
            return
        path, file = choices.pick(files, "file")
        at = choices.choose(file.size, "byte")
        bit = choices.choose(8, "bit")
        number, low = divmod(at, SECTOR)
        sector = bytearray(file.content.sector(number) or bytes(SECTOR))
        sector[low] ^= 1 << bit
        file.content.put_sector(number, bytes(sector))
        ground.world.note_fault(
            f"bit rot on {host.name}: bit {bit} of byte {at} of {path}", host.name
        )
        yield 0.0
