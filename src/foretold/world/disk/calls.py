"""All that a process asks of its disk, by the names of the standard library; and `open`.

Here are the calls that give a file. Those that take a path are in namecalls.py, and those that take
a descriptor in descriptorcalls.py.
"""

from __future__ import annotations

import errno
import functools
import io
import mmap
import os
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.file_patches import RealPath
from foretold.world.descriptorcalls import DescriptorCalls
from foretold.world.disk.databases import Databases
from foretold.world.disk.fileio import DiskFile
from foretold.world.disk.filesystem import WRITES
from foretold.world.disk.mapping import DiskMap, access_of
from foretold.world.disk.namecalls import NameCalls
from foretold.world.disk.nodes import Device, Directory, File
from foretold.world.disk.openfile import OpenFile
from foretold.world.disk.process import real_path, text
from foretold.world.net.descriptors import FIRST
from foretold.world.oserrors import os_error

_MODES: Final = frozenset("axrwb+t")
_CHANGES: Final = WRITES | os.O_CREAT | os.O_APPEND
_UNNAMED: Final = "/tmp"


class Calls(NameCalls, DescriptorCalls):
    @functools.cached_property
    def databases(self) -> Databases:
        """What SQLite asks for."""
        return Databases(self)

    def open(
        self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int | RealPath:
        if os.fspath(path) == os.devnull:
            return RealPath(os.devnull)
        name = text(path)
        try:
            opened = self.fs.open(name, flags, mode & ~self.umask_bits, self.base(dir_fd))
        except FileNotFoundError as error:
            if flags & _CHANGES or (
                (found := self.missing("open", path, dir_fd, error.errno)) is None
            ):
                raise
            return found
        self.passes("open")
        if isinstance(opened, OpenFile):
            return self.give(opened)
        found = real_path(opened)
        assert found is not None, "what is no open file is a real one"
        return found

    def give_unnamed(self, path: str) -> int:
        """A descriptor of a new file that no directory has."""
        opened = self.fs.open(_UNNAMED, os.O_TMPFILE | os.O_RDWR, 0o600, self.fs.root)
        assert isinstance(opened, OpenFile), "it is none of the program's own files"
        opened.path = path
        return self.give(opened)

    def sync(self) -> None:
        self.passes("fsync")
        self.fs.sync_all()

    def io_open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """`open`. What is wrong with the arguments, and real files, the real one sees to."""
        if not _is_sound(mode, buffering, encoding, errors, newline):
            return RealPath(os.devnull)
        file = file if isinstance(file, int) else os.fspath(file)  # also for `name`
        raw_mode = mode.replace("b", "").replace("t", "")
        opened = self._open_raw(file, raw_mode, closefd, opener)
        if isinstance(opened, RealPath):
            return opened
        if not isinstance(opened, DiskFile):
            with fence.passage():
                how = (mode, buffering, encoding, errors, newline, closefd)
                return open(file, *how, opener=lambda *_: opened)
        try:
            return _layers(opened, mode, buffering, encoding, errors, newline)
        except BaseException:
            opened.close()
            raise

    def mmap(
        self,
        fileno: int,
        length: int,
        flags: int = mmap.MAP_SHARED,
        prot: int = mmap.PROT_READ | mmap.PROT_WRITE,
        access: int = mmap.ACCESS_DEFAULT,
        offset: int = 0,
        **_: Any,
    ) -> DiskMap:
        opened = self.opened(fileno)
        kind = access_of(opened, flags, prot, access)
        size = opened.node.size if isinstance(opened.node, File) else -1
        if size < 0:
            raise os_error(errno.ENODEV)
        if length < 0 or offset < 0:
            raise OverflowError("memory mapped length must be positive")
        if offset % mmap.ALLOCATIONGRANULARITY:
            raise os_error(errno.EINVAL)
        if not length:
            if not size:
                raise ValueError("cannot mmap an empty file")
            if offset >= size:
                raise ValueError("mmap offset is greater than file size")
            length = size - offset
        elif offset + length > size:
            raise ValueError("mmap length is greater than file size")
        return DiskMap.of(self, opened, length, offset, kind)

    def _open_raw(
        self, file: Any, mode: str, closefd: bool, opener: Any
    ) -> DiskFile | RealPath | int:
        """The raw file; or where the real one is; or the real descriptor that an opener gave."""
        if isinstance(file, int):
            self.opened(file)
            fd = file
        elif not closefd:
            raise ValueError("Cannot use closefd=False with file name")
        else:
            found = self._open_path(file, _flags(mode), opener)
            if isinstance(found, RealPath) or found < FIRST:
                return found
            fd = found
        raw = DiskFile(self, fd, mode, file, closefd=closefd)
        try:
            node = self.opened(fd).node
            if isinstance(node, Directory):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
            if "a" in mode and not isinstance(node, Device):
                self.lseek(fd, 0, os.SEEK_END)
        except BaseException:
            raw.close()
            raise
        return raw

    def _open_path(self, file: Any, flags: int, opener: Any) -> int | RealPath:
        if opener is None:
            return self.open(file, flags, 0o666)
        fd = opener(file, flags)
        if not isinstance(fd, int):
            raise TypeError("expected integer from opener")
        if fd < 0:
            raise ValueError(f"opener returned {fd}")
        return fd


def _is_sound(mode: Any, buffering: Any, encoding: Any, errors: Any, newline: Any) -> bool:
    """Whether `open` would accept this. If not, its own message is the best one."""
    if not isinstance(mode, str) or not isinstance(buffering, int):
        return False
    if set(mode) - _MODES or len(set(mode)) != len(mode):
        return False
    if sum(letter in mode for letter in "axrw") != 1:
        return False
    binary = "b" in mode
    if binary and ("t" in mode or not encoding is errors is newline is None):
        return False
    return binary or buffering != 0


def _flags(mode: str) -> int:
    both = "+" in mode
    access = os.O_RDWR if both else (os.O_RDONLY if "r" in mode else os.O_WRONLY)
    creating = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND}
    kind = next(letter for letter in mode if letter in "rwax")
    return access | creating.get(kind, os.O_CREAT | os.O_EXCL) | os.O_CLOEXEC


def _layers(
    raw: DiskFile,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> Any:
    """Python's own buffers and decoders above the raw file, as `open` stacks them."""
    binary = "b" in mode
    by_line = buffering == 1 and not binary
    if buffering == 0:
        return raw
    size = raw._blksize if buffering < 0 or by_line or buffering == 1 else buffering
    buffer: Any
    if "+" in mode:
        buffer = io.BufferedRandom(raw, size)
    elif "r" in mode:
        buffer = io.BufferedReader(raw, size)
    else:
        buffer = io.BufferedWriter(raw, size)
    if binary:
        return buffer
    text = io.TextIOWrapper(buffer, io.text_encoding(encoding), errors, newline, by_line)
    text.mode = mode  # type: ignore[misc]  # `open` sets it too
    return text
