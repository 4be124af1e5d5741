"""What a power cut may take and what it may not, on the bare file system, over many tapes.

Each behaviour that `world/disk/crash.py` names is shown to happen in some run, and each guarantee
to hold in all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from foretold.tape import Tape
from foretold.world.disk import crash
from foretold.world.disk.content import SECTOR
from foretold.world.disk.filesystem import FileSystem
from foretold.world.disk.nodes import Directory, File
from foretold.world.disk.openfile import OpenFile

SEEDS = range(300)
CREATE = os.O_CREAT | os.O_RDWR


class Bench:
    """A file system and short words for what is done to it."""

    def __init__(self) -> None:
        self.fs = FileSystem()

    def open(self, path: str, flags: int = CREATE) -> OpenFile:
        opened = self.fs.open(path, flags, 0o644, self.fs.root)
        assert isinstance(opened, OpenFile)
        return opened

    def put(self, path: str, data: bytes, *, sync: bool = False) -> None:
        file = self.open(path, CREATE | os.O_TRUNC)
        file.write(data)
        if sync:
            file.sync()
        file.close()

    def rename(self, a: str, b: str) -> None:
        self.fs.rename(a, b, (self.fs.root, self.fs.root))

    def sync_directory(self, path: str = "/") -> None:
        self.fs.sync_node(self.fs.node(path, self.fs.root))

    def read(self, path: str) -> bytes | None:
        node = self.fs.find(path, self.fs.root).node
        if node is None:
            return None
        assert isinstance(node, File)
        return node.content.read(0, node.size)

    def crash(self, seed: int) -> list[str]:
        return crash.power_cut(self.fs, Tape.seeded(seed).stream("disk"))


def outcomes(before: Callable[[Bench], object], path: str) -> set[bytes | None]:
    """All that a file may hold after a crash."""
    seen = set()
    for seed in SEEDS:
        bench = Bench()
        before(bench)
        bench.crash(seed)
        seen.add(bench.read(path))
    return seen


def test_what_was_synced_properly_survives_every_crash() -> None:
    """fsync of the file and of its directory: content and name are there, in all runs, whatever is
    done afterwards and not synced."""

    def before(bench: Bench) -> None:
        bench.fs.mkdir("/data", 0o755, bench.fs.root)
        bench.sync_directory("/")
        bench.put("/data/kept", b"k" * 2_000, sync=True)
        bench.sync_directory("/data")
        bench.put("/data/other", b"o" * 2_000)
        bench.rename("/data/other", "/data/another")

    assert outcomes(before, "/data/kept") == {b"k" * 2_000}


def test_a_new_file_needs_its_directory_synced() -> None:
    """fsync of the file alone: it may be gone, and if it is there it is whole."""
    seen = outcomes(lambda bench: bench.put("/new", b"x" * 700, sync=True), "/new")
    assert seen == {None, b"x" * 700}


def test_unsynced_data_may_be_lost_or_torn_at_a_sector() -> None:
    """All, nothing, a front part, holes: and never a cut inside of a sector that was written."""

    def before(bench: Bench) -> None:
        bench.put("/log", b"a" * 1_500)
        bench.sync_directory("/")

    seen = outcomes(before, "/log")
    assert {b"a" * 1_500, b"", b"a" * 512, b"a" * 1_024} <= seen
    assert any(data and data[:512] == bytes(512) and data[512:1_024] == b"a" * 512 for data in seen)
    for data in seen:
        assert data is not None
        for at in range(0, len(data), SECTOR):
            sector = data[at : at + SECTOR]
            assert sector in (b"a" * len(sector), bytes(len(sector)))


def test_sectors_survive_in_any_order_and_version() -> None:
    """Two writes to two places: the second may survive without the first; and of one place written
    twice each version may."""

    def before(bench: Bench) -> None:
        bench.put("/f", b"0" * 1_024, sync=True)
        bench.sync_directory("/")
        file = bench.open("/f")
        file.pwrite(b"1" * 512, 0)
        file.pwrite(b"2" * 512, 512)
        file.pwrite(b"3" * 512, 0)

    seen = outcomes(before, "/f")
    assert seen == {bytes([a]) * 512 + bytes([b]) * 512 for a in b"013" for b in b"02"}


def test_a_write_within_a_synced_sector_is_whole_or_not_there() -> None:
    """A sector is written whole: the bytes beside those that changed never suffer."""

    def before(bench: Bench) -> None:
        bench.put("/f", b"-" * 512, sync=True)
        bench.sync_directory("/")
        bench.open("/f").pwrite(b"new", 100)

    old = b"-" * 512
    assert outcomes(before, "/f") == {old, old[:100] + b"new" + old[103:]}


def test_a_rename_may_come_without_its_data() -> None:
    """write, rename, no fsync: the new name may lead to an empty file. With fsync before the rename
    it is the old content or the new, nothing else."""

    def replace(bench: Bench, *, sync: bool) -> None:
        bench.put("/f", b"old", sync=True)
        bench.sync_directory("/")
        bench.put("/f.tmp", b"new", sync=sync)
        bench.rename("/f.tmp", "/f")

    assert {b"old", b"new", b""} <= outcomes(lambda bench: replace(bench, sync=False), "/f")
    assert outcomes(lambda bench: replace(bench, sync=True), "/f") == {b"old", b"new"}


def test_names_survive_in_their_order() -> None:
    """Changes of names are lost from the end on: never an earlier one without the later ones."""
    seen = set()
    for seed in SEEDS:
        bench = Bench()
        for name in "abcd":
            bench.put(f"/{name}", b"")
        bench.crash(seed)
        seen.add("".join(bench.fs.names(bench.fs.root)))
    assert seen == {"", "a", "ab", "abc", "abcd"}


def test_a_rename_is_one_change() -> None:
    """After a crash there is the old name or the new one: never both, never none, also between two
    directories of which one was synced."""
    seen = set()
    for seed in SEEDS:
        bench = Bench()
        for name in ("/a", "/b"):
            bench.fs.mkdir(name, 0o755, bench.fs.root)
        bench.put("/a/f", b"x", sync=True)
        bench.fs.make_durable()
        bench.rename("/a/f", "/b/f")
        bench.put("/b/later", b"")
        bench.crash(seed)
        seen.add((bench.read("/a/f"), bench.read("/b/f")))
    assert seen == {(b"x", None), (None, b"x")}


def test_syncing_a_directory_keeps_what_was_done_before() -> None:
    """The journal is written in its order: with a directory's last change all earlier ones."""
    for seed in SEEDS:
        bench = Bench()
        bench.fs.mkdir("/a", 0o755, bench.fs.root)
        bench.fs.mkdir("/a/b", 0o755, bench.fs.root)
        bench.put("/a/b/f", b"x", sync=True)
        bench.sync_directory("/a/b")
        bench.crash(seed)
        assert bench.read("/a/b/f") == b"x"


def test_an_unlink_that_was_not_synced_may_be_undone() -> None:
    """The file comes back with what was durable of it, also if its room had been given away."""

    def before(bench: Bench) -> None:
        bench.put("/f", b"x" * 5_000, sync=True)
        bench.sync_directory("/")
        bench.fs.unlink("/f", bench.fs.root)

    assert outcomes(before, "/f") == {None, b"x" * 5_000}


def test_a_truncation_may_be_lost() -> None:
    """Cut and not synced: the old content may be back, whole."""

    def before(bench: Bench) -> None:
        bench.put("/f", b"x" * 5_000, sync=True)
        bench.sync_directory("/")
        bench.fs.truncate("/f", 100, bench.fs.root)

    seen = outcomes(before, "/f")
    assert {b"x" * 100, b"x" * 5_000} <= seen


def test_after_a_failed_fsync_a_later_one_saves_nothing() -> None:
    """Linux counts the pages of a failed fsync as clean: the next one succeeds, and the data may be
    lost all the same. Written again, it is safe."""

    class Failing:
        """A disk on which one sync fails."""

        fails = True

        def before(self, what: str, node: object) -> None:
            if what == "fsync" and self.fails:
                self.fails = False
                raise OSError(5, "Input/output error")

        def before_write(self, file: File, offset: int, data: bytes) -> tuple[File, int, bytes]:
            return file, offset, data

        def is_lying(self) -> bool:
            return False

    def before(bench: Bench, *, again: bool) -> None:
        bench.put("/f", b"")
        bench.fs.make_durable()
        bench.fs.trouble = Failing()  # type: ignore[assignment]  # bytes alone are enough here
        file = bench.open("/f")
        file.write(b"x" * 600)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        if again:
            file.pwrite(b"x" * 600, 0)
        file.sync()

    assert {bytes(600), b"x" * 600} <= outcomes(lambda bench: before(bench, again=False), "/f")
    assert outcomes(lambda bench: before(bench, again=True), "/f") == {b"x" * 600}


def test_calm_loses_nothing() -> None:
    """A tape without choices is the quiet run: everything survives, and nothing is said."""
    bench = Bench()
    bench.fs.mkdir("/d", 0o755, bench.fs.root)
    bench.put("/d/f", b"x" * 3_000)
    bench.rename("/d/f", "/d/g")
    assert crash.power_cut(bench.fs, Tape("recorded").stream("disk")) == []
    assert bench.read("/d/g") == b"x" * 3_000


def test_what_was_lost_is_said() -> None:
    """A report names each change and each file; and only if something was lost."""
    texts: set[str] = set()
    for seed in SEEDS:
        bench = Bench()
        bench.put("/a", b"")
        bench.fs.make_durable()
        bench.put("/a", b"x" * 600)
        bench.rename("/a", "/b")
        texts.update(bench.crash(seed))
    assert "lost: rename /a to /b" in texts
    assert "lost: of /b 2 of 2 unsynced sectors and its size (0 instead of 600)" in texts


def test_links_and_room_are_counted_again() -> None:
    """After a crash the books are right: links of files and directories, and used space."""
    for seed in range(50):
        bench = Bench()
        bench.fs.mkdir("/d", 0o755, bench.fs.root)
        bench.put("/d/f", b"x" * 9_000, sync=True)
        bench.fs.make_durable()
        bench.fs.link("/d/f", "/g", (bench.fs.root, bench.fs.root), follow=False)
        bench.fs.mkdir("/e", 0o755, bench.fs.root)
        bench.fs.unlink("/d/f", bench.fs.root)
        bench.crash(seed)
        names = [path for path, node in bench.fs.walk_all() if isinstance(node, File)]
        files = {node.number: node for _, node in bench.fs.walk_all() if isinstance(node, File)}
        (file,) = files.values()
        assert file.nlink == len(names)
        assert bench.fs.space.used == len(file.content.pages) == 3
        directories = [n for _, n in bench.fs.walk_all() if isinstance(n, Directory)]
        assert bench.fs.root.nlink == 2 + len(directories)


def test_old_changes_are_written_back_by_themselves() -> None:
    """The journal has an end: of two thousand creations the first thousand survive every crash."""
    bench = Bench()
    for number in range(2_000):
        bench.put(f"/{number:04}", b"")
    bench.crash(1)
    assert len(bench.fs.names(bench.fs.root)) >= 1_000
