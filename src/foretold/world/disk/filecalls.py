"""The calls that give a descriptor of a file, and `os.sync`. Those that take one are beside it:
descriptorcalls.py."""

from __future__ import annotations

import os
from typing import Any, Final

from foretold.kernel.file_patches import RealPath
from foretold.world.descriptorcalls import DescriptorCalls
from foretold.world.disk.filesystem import WRITES
from foretold.world.disk.openfile import OpenFile
from foretold.world.disk.process import Process, real_path, text

_CHANGES: Final = WRITES | os.O_CREAT | os.O_APPEND
_UNNAMED: Final = "/tmp"


class FileCalls(Process, DescriptorCalls):
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
