"""The raw file below Python's own buffers: `io.FileIO` for the simulated disk.

`open` inside a run gives CPython's own `BufferedReader`, `BufferedWriter` and `TextIOWrapper`; so
buffering, decoding, newlines and `readline` are not ours. Only the lowest layer is.
"""

from __future__ import annotations

import errno
import io
import os
import warnings
from typing import TYPE_CHECKING, Any, Final

from foretold.world.disk.nodes import Device, File
from foretold.world.disk.openfile import OpenFile
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.disk.calls import Calls

READ_AT_ONCE: Final = 1 << 20


class DiskFile(io.RawIOBase):
    _blksize = 4_096

    def __init__(self, calls: Calls, fd: int, mode: str, name: Any, *, closefd: bool) -> None:
        self._calls = calls
        self._fd = fd
        self._reads = "r" in mode or "+" in mode
        self._writes = not set("wax+").isdisjoint(mode)
        self._created = "x" in mode
        self._appends = "a" in mode
        self.name = name
        self.closefd = closefd

    @property
    def mode(self) -> str:
        if self._created:
            return "xb+" if self._reads else "xb"
        if self._appends:
            return "ab+" if self._reads else "ab"
        if self._reads:
            return "rb+" if self._writes else "rb"
        return "wb"

    def __repr__(self) -> str:
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        if self.closed:
            return f"<{name} [closed]>"
        return f"<{name} name={self.name!r} mode={self.mode!r} closefd={self.closefd!r}>"

    def __getstate__(self) -> None:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    # --- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            if self.closefd and not self._calls.dead:
                self._opened()
                self._calls.close(self._fd)

    def _dealloc_warn(self, source: object) -> None:
        """Called by the layers above when they are collected without having been closed."""
        if not self.closed and self.closefd and not self._is_over():
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)

    def __del__(self) -> None:
        if hasattr(self, "_calls") and not self.closed:
            self._dealloc_warn(self)
            self.close()

    def _is_over(self) -> bool:
        return self._calls.dead or self._calls.host.world.sealed

    # --- what it can -----------------------------------------------------------------------------

    def _check(self, *, reads: bool = False, writes: bool = False) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if reads and not self._reads:
            raise io.UnsupportedOperation("File not open for reading")
        if writes and not self._writes:
            raise io.UnsupportedOperation("File not open for writing")

    def readable(self) -> bool:
        self._check()
        return self._reads

    def writable(self) -> bool:
        self._check()
        return self._writes

    def seekable(self) -> bool:
        self._check()
        return not isinstance(self._opened().node, Device)

    def fileno(self) -> int:
        self._check()
        return self._fd

    def isatty(self) -> bool:
        self._check()
        return False

    # --- bytes -----------------------------------------------------------------------------------

    def _opened(self) -> OpenFile:
        """The open file; somebody may have closed the descriptor behind our back."""
        if self._calls.dead:
            raise os_error(errno.EBADF)
        return self._calls.opened(self._fd)

    def readinto(self, buffer: Any) -> int:
        self._check(reads=True)
        self._opened()
        # No view outlives its line: an error would keep it, and forbid a change of the buffer.
        data = self._calls.read(self._fd, memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        self._check(reads=True)
        if size is None or size < 0:
            return self.readall()
        self._opened()
        return self._calls.read(self._fd, size)

    def readall(self) -> bytes:
        self._check(reads=True)
        opened, parts = self._opened(), []
        node = opened.node
        left = max(0, node.size - opened.offset) + 1 if isinstance(node, File) else READ_AT_ONCE
        while part := self._calls.read(self._fd, left):
            parts.append(part)
        return b"".join(parts)

    def write(self, data: Any) -> int:
        self._check(writes=True)
        if self._calls.dead:
            return memoryview(data).nbytes
        self._opened()
        return self._calls.write(self._fd, data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        self._opened()
        return self._calls.lseek(self._fd, offset, whence)

    def tell(self) -> int:
        return self.seek(0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        self._check(writes=True)
        self._opened()
        if size is None:
            size = self.tell()
        self._calls.ftruncate(self._fd, size)
        return size
