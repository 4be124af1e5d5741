"""The disk of a host, as programs and tests see it: whose it is, what outlives what."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import io
import logging
import mmap
import os
import pathlib
import tempfile
import textwrap
import weakref
from os import stat as stat_by_another_name

import pytest

import foretold
from foretold.kernel.session import session
from foretold.world.host import Host
from foretold.world.world import World
from tests.helpers import run_of

DATA = "/var/lib/app/data"
Tree = dict[str, bytes | str | None]


def write(path: str, data: str, *, sync: bool = False) -> None:
    """Write a file, and make it durable if asked to."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


# --- whose disk ------------------------------------------------------------------------------


def test_each_host_has_a_disk_of_its_own() -> None:
    """A file of one host is not there on another; the test's own host has one as well."""

    async def main(world: World) -> None:
        async def service() -> None:
            write(DATA, "of a")

        await world.host("a").start(service)
        write(DATA, "of main")
        assert world.host("a").disk.read(DATA) == b"of a"
        assert world.home.disk.read(DATA) == b"of main"
        assert not world.host("b").disk.exists(DATA)

    foretold.run(main)


def test_a_run_begins_with_an_empty_disk() -> None:
    """What one run has written, the next does not find; nor does the real machine."""

    def main() -> bool:
        found = os.path.exists("left.txt") or os.path.exists(DATA)
        pathlib.Path("left.txt").write_text("x")
        write(DATA, "x")
        return found

    assert [foretold.run(main, seed=seed).value for seed in (1, 1, 2)] == [False] * 3
    assert not os.path.exists("left.txt")


def test_a_run_without_files_has_no_disk() -> None:
    """Nobody pays for what he does not use: no disk is made, no choice is drawn."""

    async def main(world: World) -> bool:
        world.host("a").start(asyncio.sleep(1))
        await asyncio.sleep(2)
        return any(host.has_disk for host in world.hosts.values())

    done = foretold.run(main)
    assert done.value is False
    assert not [name for name in done.tape.draws if name.startswith("disk")]


def test_aliases_and_the_library_lead_there() -> None:
    """Whatever name leads to a call: imported before the run, in pathlib, in logging."""

    def main() -> None:
        handler = logging.FileHandler("app.log")
        handler.emit(logging.LogRecord("n", 20, "p", 1, "told", None, None))
        handler.close()
        assert pathlib.Path("app.log").read_text() == "told\n"
        assert stat_by_another_name("app.log").st_size == 5
        assert io.open("app.log").__class__ is io.TextIOWrapper  # noqa: UP020, SIM115  # the alias is the point

    with pytest.warns(ResourceWarning, match="unclosed"):
        foretold.run(main)
    assert not os.path.exists("app.log")


# --- what outlives what ----------------------------------------------------------------------


async def started(world: World, name: str = "db") -> Host:
    """A host that has written a file, synced it, written another one, and waits."""
    ready = asyncio.Event()

    async def main() -> None:
        write("/data/synced", "s" * 3_000, sync=True)
        for folder in ("/data", "/"):
            fd = os.open(folder, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        write("/data/written", "w" * 3_000)
        global kept
        kept = open("/data/buffered", "w")  # noqa: SIM115  # it is never closed: the process dies
        kept.write("in Python's buffer")
        ready.set()
        await asyncio.Event().wait()

    host = world.host(name)
    host.start(main)
    while not ready.is_set():
        await asyncio.sleep(0.01)
    return host


kept: io.TextIOBase | None = None
"""What a program keeps in a global name; it outlives runs, and must not keep worlds alive."""


def test_a_file_in_a_global_name_keeps_no_world_alive() -> None:
    """A file that outlives its run is closed to the world: writing to it does nothing, and the
    world is collected."""

    async def main(world: World) -> None:
        await started(world)
        worlds.append(weakref.ref(world))

    worlds: list[weakref.ref[World]] = []
    foretold.run(main)
    gc.collect()
    assert worlds[0]() is None
    assert kept is not None
    kept.write("more")
    kept.close()


def test_the_death_of_a_process_keeps_what_was_written() -> None:
    """kill: all that reached the kernel stays; what was in Python's buffers is gone for good."""

    async def main(world: World) -> Tree:
        global kept
        host = await started(world)
        host.kill()
        kept = None
        gc.collect()
        return host.disk.tree("/data")

    for seed in range(20):
        assert foretold.run(main, seed=seed).value == {
            "/data/buffered": b"",
            "/data/synced": b"s" * 3_000,
            "/data/written": b"w" * 3_000,
        }


@pytest.mark.usefixtures("one_session")
def test_a_power_cut_keeps_what_was_synced() -> None:
    """crash: the synced file is whole in every run, the other is lost in some and whole in some;
    the next process sees what is left."""
    seen = set()

    async def main(world: World) -> tuple[str, str | None]:
        global kept
        host = await started(world)
        host.crash()
        kept = None

        async def again() -> tuple[str, str | None]:
            written = pathlib.Path("/data/written")
            text = written.read_text() if written.exists() else None
            return pathlib.Path("/data/synced").read_text(), text

        result: tuple[str, str | None] = await host.restart(again)
        return result

    for seed in range(60):
        synced, written = foretold.run(main, seed=seed).value
        assert synced == "s" * 3_000
        seen.add(written)
    assert {None, "", "w" * 3_000} <= seen
    assert any(text and 0 < len(text) < 3_000 for text in seen)


def test_a_crash_tells_what_was_lost() -> None:
    """The story of a failure names the file and the reason."""

    async def main(world: World) -> None:
        host = await started(world)
        host.crash()
        assert "/data/written" in host.disk.tree(), "lost"

    failure = foretold.explore(main, runs=50, shrink=False).failure
    assert failure is not None
    assert "lost: create /data/written" in failure.story


def test_new_code_over_the_same_disk() -> None:
    """An upgrade: the host restarts with another main and finds its files, open to nobody."""

    async def main(world: World) -> str:
        async def old() -> None:
            write("/data/format", "1")
            lock = open("/data/lock", "w")  # noqa: SIM115  # held until the process ends
            fcntl.flock(lock, fcntl.LOCK_EX)
            old_files.append(lock)
            os.chdir("/data")
            await asyncio.Event().wait()

        async def new() -> str:
            with open("/data/lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert os.getcwd() != "/data"
            return pathlib.Path("/data/format").read_text() + "→2"

        old_files: list[object] = []
        host = world.host("app")
        host.start(old)
        await asyncio.sleep(1)
        result: str = await host.restart(new)
        return result

    assert foretold.run(main).value == "1→2"


@pytest.mark.usefixtures("one_session")
def test_a_crash_is_told_by_the_tape() -> None:
    """One seed, one outcome, one digest; a recorded tape gives the same."""

    async def main(world: World) -> Tree:
        host = await started(world)
        host.crash()
        return host.disk.tree("/data")

    outcomes = set()
    for seed in range(10):
        first = foretold.run(main, seed=seed)
        recorded = run_of(main, seed, recording=True)
        again = foretold.replay(main, recorded.tape)
        assert first.value == recorded.value == again.value
        assert first.digest == recorded.digest == again.digest
        outcomes.add(repr(first.value))
    assert len(outcomes) > 1


def test_a_mapping_is_the_kernels() -> None:
    """A shared mapping: its changes outlive the process, a power cut may take them, unless they
    were flushed."""

    def ended(how: str, seed: int) -> bytes:
        async def main(world: World) -> bytes:
            async def service() -> None:
                with open("/m", "wb") as file:
                    file.write(bytes(2_000))
                os.sync()
                with open("/m", "r+b") as file:
                    mapped.append(mmap.mmap(file.fileno(), 0))
                mapped[0][:2_000] = b"x" * 2_000
                if how == "flush":
                    mapped[0].flush()
                await asyncio.Event().wait()

            mapped: list[mmap.mmap] = []
            host = world.host("a")
            host.start(service)
            await asyncio.sleep(1)
            if how == "kill":
                host.kill()
            else:
                host.crash()
            return host.disk.read("/m")

        value: bytes = foretold.run(main, seed=seed).value
        return value

    assert {ended("kill", seed) for seed in range(20)} == {b"x" * 2_000}
    assert {ended("flush", seed) for seed in range(20)} == {b"x" * 2_000}
    assert len({ended("crash", seed) for seed in range(20)}) > 3


# --- what a test may do ----------------------------------------------------------------------


def test_a_test_sets_and_sees_files() -> None:
    """write makes directories, and what it writes is durable; tree shows what there is."""

    def main(world: World) -> None:
        disk = world.host("a").disk
        disk.write("/etc/app/conf.toml", "debug = true")
        disk.write("/etc/app/key", b"\x00")
        assert disk.read("/etc/app/conf.toml") == b"debug = true"
        assert disk.exists("/etc/app")
        assert not disk.exists("/etc/app/nx")
        assert disk.unsynced() == []
        world.host("a").crash()
        assert disk.tree() == {"/etc/app/conf.toml": b"debug = true", "/etc/app/key": b"\x00"}
        with pytest.raises(FileNotFoundError, match="/nx"):
            disk.read("/nx")
        with pytest.raises(IsADirectoryError):
            disk.read("/etc")
        with pytest.raises(foretold.UsageError, match="not a directory"):
            disk.write("/etc/app/key/x", b"")

    foretold.run(main)


def test_what_a_crash_could_take_is_listed() -> None:
    """unsynced names the operations and the files, and is empty after a sync."""

    def main(world: World) -> None:
        write(DATA, "x")
        os.rename(DATA, DATA + "2")
        assert world.home.disk.unsynced() == [
            "mkdir /var/lib/app",
            f"create {DATA}",
            f"rename {DATA} to {DATA}2",
            f"data of {DATA}2",
        ]
        os.sync()
        assert world.home.disk.unsynced() == []

    foretold.run(main)


def test_room_runs_out() -> None:
    """ENOSPC where a real disk gives it: on a write that needs room, on a new name; not on reading,
    deleting, overwriting. What is deleted and closed gives its room back."""

    def main(world: World) -> None:
        world.home.disk.space(40_000)
        fd = os.open("/big", os.O_RDWR | os.O_CREAT)
        assert os.write(fd, b"x" * 100_000) == 36_864  # nine pages
        with pytest.raises(OSError, match="No space left"):
            os.write(fd, b"x")
        with pytest.raises(OSError, match="No space left"):
            open("/other", "w").close()
        assert os.pwrite(fd, b"y" * 5_000, 0) == 5_000
        os.unlink("/big")
        assert world.home.disk.used == 36_864
        os.close(fd)
        assert world.home.disk.used == 0
        write("/other", "x")
        assert os.statvfs("/").f_bfree == 8

    foretold.run(main)


def test_temporary_names_come_from_the_tape() -> None:
    """One seed gives one name, run after run; another gives another; the real directory is back
    afterwards."""
    real = tempfile.gettempdir()
    names = [foretold.run(tempfile.mkdtemp, seed=seed).value for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert os.path.dirname(names[0]) == "/tmp"
    assert tempfile.gettempdir() == real


@pytest.mark.usefixtures("one_session")
def test_listings_come_in_an_order_of_the_tape() -> None:
    """Real directories list their names in any order: so do these. Calm is by name."""

    def main() -> list[str]:
        for name in "abcdef":
            write(f"/d/{name}", "")
        return os.listdir("/d")

    orders = {tuple(foretold.run(main, seed=seed).value) for seed in range(30)}
    assert len(orders) > 2
    assert foretold.replay(main, foretold.Tape("recorded")).value == list("abcdef")


def test_a_lock_that_nobody_gives_back_is_a_deadlock() -> None:
    """A blocking flock on one's own second descriptor waits for ever, which is found at once."""

    def main() -> None:
        with open("/l", "w") as one, open("/l", "w") as two:
            fcntl.flock(one, fcntl.LOCK_EX)
            fcntl.flock(two, fcntl.LOCK_EX)

    with pytest.raises(foretold.Deadlock):
        foretold.run(main)


def test_times_are_virtual() -> None:
    """A file's times are the host's clock, at the kernel's resolution."""

    async def main(world: World) -> None:
        write("/f", "x")
        first = os.stat("/f")
        await asyncio.sleep(60)
        with open("/f", "a") as file:
            file.write("y")
        second = os.stat("/f")
        assert first.st_mtime_ns % 4_000_000 == 0
        assert 59.9 < second.st_mtime - first.st_mtime < 60.1
        assert abs(second.st_mtime - world.clock.now()) < 0.1
        assert second.st_ino == first.st_ino

    foretold.run(main)


def test_nothing_is_left_of_a_thousand_runs() -> None:
    """No descriptor, no thread, no patched call, no growing memory."""

    async def main(world: World) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "f")
            path.write_text("x" * 5_000)
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0] = 65
            os.listdir(os.path.dirname(textwrap.__file__))
            textwrap_file = open(textwrap.__file__)  # noqa: SIM115  # closed below
            textwrap_file.close()
        assert world.home.disk.tree("/tmp") == {}

    before = (os.stat, open, mmap.mmap, repr(os.stat), os.listdir("/proc/self/fd"))
    with session():
        foretold.run(main)
        gc.collect()
        objects = len(gc.get_objects())
        for seed in range(1_000):
            foretold.run(main, seed=seed)
        gc.collect()
        assert len(gc.get_objects()) < objects + 100
    assert before == (os.stat, open, mmap.mmap, repr(os.stat), os.listdir("/proc/self/fd"))
    assert not os.path.exists("/nothing/simulated")
