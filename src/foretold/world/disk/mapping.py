"""`mmap` of a file on the simulated disk.

The mapping is real memory that no real file stands behind, with a copy of the file's bytes. It and
the file are made equal at each call that could tell the difference: what was changed in the mapping
is in the file before a file is read, mapped, synced or the process ends; what is written to the
file is in its mappings afterwards. `flush` makes durable, as msync does. A change through a
`memoryview` counts like any other.

Not here: `resize`, and the SIGBUS for pages behind the end of a file that was cut.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

from foretold.world.disk.nodes import File

if TYPE_CHECKING:
    from foretold.world.disk.calls import Calls
    from foretold.world.disk.openfile import OpenFile

_Real = mmap.mmap
_READ_ONLY = "mmap can't modify a readonly memory map."


class DiskMap(_Real):
    _calls: Calls
    _opened: OpenFile
    _offset: int
    _known: bytes
    """What the mapping held when it and the file were last made equal."""
    _shared: bool
    _read_only: bool

    @classmethod
    def of(cls, calls: Calls, opened: OpenFile, length: int, offset: int, access: int) -> DiskMap:
        """Map a part of an open file."""
        made: DiskMap = _Real.__new__(cls, -1, length)
        made._calls, made._opened, made._offset = calls, opened, offset
        made._shared = access == mmap.ACCESS_WRITE
        made._read_only = access == mmap.ACCESS_READ
        made._known = b""
        opened.users += 1
        calls.maps.append(made)
        made.take()
        return made

    def _file(self) -> File:
        node = self._opened.node
        assert isinstance(node, File), "nothing else is mapped"
        return node

    def take(self) -> None:
        """What the file holds now is in the mapping. A private one keeps what it has."""
        if self.closed or (self._known and not self._shared and not self._read_only):
            return
        length = len(self)
        data = self._file().content.read(self._offset, length).ljust(length, b"\0")
        if data != self._known:
            _Real.__setitem__(self, slice(0, length), data)
            self._known = data

    def give(self) -> None:
        """What was changed in the mapping is in the file."""
        if self.closed or not self._shared:
            return
        now = _Real.__getitem__(self, slice(0, len(self)))
        if now == self._known:
            return
        content = self._file().content
        end = content.size - self._offset
        for at in range(0, len(now), mmap.PAGESIZE):
            page = now[at : at + mmap.PAGESIZE]
            if page != self._known[at : at + mmap.PAGESIZE] and at < end:
                content.write(self._offset + at, page[: end - at])
        self._known = now

    def flush(self, offset: int = 0, size: int | None = None) -> None:
        """As msync: the file is durable afterwards."""
        _Real.flush(self)  # for its errors
        if self._shared and not self._calls.dead:
            self.give()
            self._calls.passes("fsync")
            self._opened.sync()

    def close(self) -> None:
        if self.closed:
            return
        alive = not self._calls.dead
        if alive:
            self.give()
        _Real.close(self)
        if alive:
            self._calls.maps.remove(self)
            self._opened.one_user_less()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def size(self) -> int:
        return self._file().size

    def resize(self, newsize: int) -> None:
        raise SystemError("mmap: resizing not available--no mremap()")

    # --- read-only mappings ----------------------------------------------------------------------

    def _check_writable(self) -> None:
        if self._read_only:
            raise TypeError(_READ_ONLY)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writable()
        _Real.__setitem__(self, key, value)

    def write(self, data: Any) -> int:
        self._check_writable()
        return _Real.write(self, data)

    def write_byte(self, byte: int) -> None:
        self._check_writable()
        _Real.write_byte(self, byte)

    def move(self, dest: int, src: int, count: int) -> None:
        self._check_writable()
        _Real.move(self, dest, src, count)


def access_of(opened: OpenFile, flags: int, prot: int, access: int) -> int:
    """What a mapping is for: ACCESS_READ, ACCESS_WRITE (shared) or ACCESS_COPY (private)."""
    given = (flags, prot) != (mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    if access != mmap.ACCESS_DEFAULT:
        if given:
            raise ValueError("mmap can't specify both access and flags, prot.")
        if access not in (mmap.ACCESS_READ, mmap.ACCESS_WRITE, mmap.ACCESS_COPY):
            raise ValueError("mmap invalid access parameter.")
    elif not prot & mmap.PROT_WRITE:
        access = mmap.ACCESS_READ
    else:
        access = mmap.ACCESS_COPY if flags & mmap.MAP_PRIVATE else mmap.ACCESS_WRITE
    if not opened.readable_by_flags or (
        access == mmap.ACCESS_WRITE and not opened.writable_by_flags
    ):
        raise PermissionError(13, os.strerror(13))
    return access
