"""Random sequences of file operations give the same on a real disk and on a simulated one.

The suite beside this one has what somebody thought of; this one has the rest. Few names and few
levels, so that operations meet: renames over what exists, links to what is gone, writes through
descriptors of files that were replaced.
"""

from __future__ import annotations

import os
import stat
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foretold
from tests.fidelity.files import tree, tried
from tests.helpers import SOAK_FACTOR

NAMES = st.sampled_from(["a", "b", "c", "..", "."])
PATHS = st.builds(
    lambda parts, slash: "/".join(parts) + slash,
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/"]),
)
DATA = st.sampled_from([b"", b"x", b"0123456789", b"y" * 600, b"z" * 5_000])
PLACES = st.sampled_from([0, 1, 5, 511, 512, 4_095, 4_096, 6_000])
FLAGS = st.sampled_from(
    [
        os.O_RDONLY,
        os.O_WRONLY,
        os.O_RDWR | os.O_CREAT,
        os.O_RDWR | os.O_CREAT | os.O_EXCL,
        os.O_RDWR | os.O_TRUNC,
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
        os.O_RDONLY | os.O_DIRECTORY,
        os.O_RDWR | os.O_NOFOLLOW,
    ]
)
TARGETS = st.sampled_from(["a", "b", "c", "a/b", "./c", "../a", "../b/c", "b/", "c/../a"])
HANDLES = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink", "stat", "listdir", "readlink"]), PATHS),
    st.tuples(st.sampled_from(["rename", "link"]), PATHS, PATHS),
    st.tuples(st.just("symlink"), TARGETS, PATHS),
    st.tuples(st.just("truncate"), PATHS, PLACES),
    st.tuples(st.just("open"), HANDLES, PATHS, FLAGS),
    st.tuples(st.just("write"), HANDLES, DATA),
    st.tuples(st.just("pwrite"), HANDLES, DATA, PLACES),
    st.tuples(st.just("read"), HANDLES, st.sampled_from([1, 600, 9_000])),
    st.tuples(st.just("seek"), HANDLES, PLACES, st.sampled_from([0, 1, 2, 3, 4])),
    st.tuples(st.sampled_from(["close", "size", "fsync", "fd_listdir"]), HANDLES),
    st.tuples(st.just("ftruncate"), HANDLES, PLACES),
)


LEVELS = 12
DEEP = "/".join(["deep"] * LEVELS)
"""Where a sequence begins: so far down that no `..` leads out of its directory."""


class Program:
    """Carries operations out and keeps what each gave."""

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}

    def run(self, operations: list[tuple[Any, ...]]) -> tuple[list[Any], Any]:
        os.makedirs(DEEP)
        os.chdir(DEEP)
        seen = [tried(getattr(self, name), *args) for name, *args in operations]
        for fd in self.handles.values():
            os.close(fd)
        os.chdir("/".join([".."] * LEVELS))
        return seen, tree()

    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    unlink = staticmethod(os.unlink)
    readlink = staticmethod(os.readlink)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    symlink = staticmethod(os.symlink)
    truncate = staticmethod(os.truncate)

    def stat(self, path: str) -> Any:
        found = os.lstat(path)
        regular = stat.S_ISREG(found.st_mode)
        return (oct(found.st_mode), found.st_size, found.st_nlink) if regular else found.st_mode

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def open(self, handle: int, path: str, flags: int) -> bool:
        if handle in self.handles:
            return False
        self.handles[handle] = os.open(path, flags, 0o644)
        return True

    def _fd(self, handle: int) -> int:
        if handle not in self.handles:
            raise ValueError("not open")
        return self.handles[handle]

    def close(self, handle: int) -> None:
        os.close(self._fd(handle))
        del self.handles[handle]

    def write(self, handle: int, data: bytes) -> int:
        return os.write(self._fd(handle), data)

    def pwrite(self, handle: int, data: bytes, place: int) -> int:
        return os.pwrite(self._fd(handle), data, place)

    def read(self, handle: int, n: int) -> bytes:
        return os.read(self._fd(handle), n)

    def seek(self, handle: int, place: int, whence: int) -> Any:
        fd = self._fd(handle)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            return None  # positions in directories are the file system's own business
        return os.lseek(fd, place, whence)

    def size(self, handle: int) -> Any:
        found = os.fstat(self._fd(handle))
        return (found.st_size, found.st_nlink) if stat.S_ISREG(found.st_mode) else None

    def fsync(self, handle: int) -> None:
        os.fsync(self._fd(handle))

    def ftruncate(self, handle: int, size: int) -> None:
        os.ftruncate(self._fd(handle), size)

    def fd_listdir(self, handle: int) -> list[str]:
        return sorted(os.listdir(self._fd(handle)))


def really(operations: list[tuple[Any, ...]]) -> Any:
    """On a real disk."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return Program().run(operations)
        finally:
            os.chdir(before)


def simulated(operations: list[tuple[Any, ...]]) -> Any:
    """On the disk of a simulated host."""

    def main() -> Any:
        os.chdir(tempfile.mkdtemp())
        return Program().run(operations)

    return foretold.run(main, seed=len(operations)).value


def compare(operations: list[tuple[Any, ...]]) -> None:
    """Both give the same, operation by operation and in the end."""
    (real, real_tree), (ours, our_tree) = really(operations), simulated(operations)
    for operation, expected, seen in zip(operations, real, ours, strict=True):
        assert seen == expected, operation
    assert our_tree == real_tree


def examples(n: int) -> Any:
    """So many sequences, the same in each run of the suite."""
    return settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@examples(150)
@given(st.lists(OPERATIONS, min_size=5, max_size=40))
def test_random_operations_give_the_same(operations: list[tuple[Any, ...]]) -> None:
    """A hundred and fifty sequences of up to forty operations."""
    compare(operations)


@pytest.mark.soak
@examples(500 * SOAK_FACTOR)
@given(st.lists(OPERATIONS, min_size=1, max_size=120))
def test_many_random_operations_give_the_same(operations: list[tuple[Any, ...]]) -> None:
    """Longer ones, and many of them."""
    compare(operations)


def test_a_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a simulated disk that lets a rename replace a directory that is not empty."""
    from foretold.world.disk.filesystem import FileSystem

    def lenient(self: FileSystem, old: Any, new: Any) -> None:
        if old.node is None:
            raise FileNotFoundError(2, os.strerror(2))

    monkeypatch.setattr(FileSystem, "_check_rename", lenient)
    with pytest.raises((AssertionError, KeyError)):
        compare([("mkdir", "a"), ("mkdir", "b"), ("mkdir", "b/c"), ("rename", "a", "b")])
