"""Correct programs that keep files: they survive power cuts and errors that the disk admits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import zlib
from typing import Any

import foretold
from foretold.world.world import World
from tests.correct.program import program

CRASHES = foretold.faults.hosts.only("crash", "kill") + foretold.faults.disk_errors.only(
    "disk_slow", "disk_stall", "short_write"
)


def sync_folder(path: str) -> None:
    """A new name is durable when its folder is."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def crash_at_times(host: Any) -> None:
    """Three power cuts, at moments that the search chooses."""
    for _ in range(3):
        await asyncio.sleep(foretold.between(1, 60, "crash after") / 1000)
        host.crash()
        host.restart()


class Log:
    """Records with a checksum each; a record is kept when `append` returns."""

    def __init__(self, path: str, *, broken: bool) -> None:
        self.path, self.broken = path, broken
        self.records, size = self._read()
        self.file = open(path, "ab")  # noqa: SIM115  # for as long as the process lives
        self.file.truncate(size)
        self.file.seek(size)
        if not broken:
            os.fsync(self.file.fileno())
        sync_folder(os.path.dirname(path))

    def _read(self) -> tuple[list[str], int]:
        found, size = list[str](), 0
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            for line in file:
                checksum, _, text = line.partition(b" ")
                if not line.endswith(b"\n") or int(checksum, 16) != zlib.crc32(text):
                    break
                found.append(text[:-1].decode())
                size += len(line)
        return found, size

    def append(self, record: str) -> None:
        """Write it, and wait until it is durable. Broken: until the kernel has it."""
        text = record.encode() + b"\n"
        self.file.write(b"%08x " % zlib.crc32(text) + text)
        self.file.flush()
        if not self.broken:
            os.fsync(self.file.fileno())
        self.records.append(record)


@program(faults=CRASHES, runs_max=100)
async def write_ahead_log(world: World, *, broken: bool) -> None:
    """What was acknowledged is there after a power cut. Broken: no fsync."""
    acknowledged: list[str] = []
    found: list[list[str]] = []

    async def database() -> None:
        log = Log("/var/log.txt", broken=broken)
        found.append(list(log.records))
        assert log.records[: len(acknowledged)] == acknowledged, "an acknowledged record is gone"
        while len(log.records) < 8:
            log.append(f"record {len(log.records)}")
            acknowledged[:] = log.records
            await asyncio.sleep(0.02)

    host = world.host("db")
    host.start(database)
    await crash_at_times(host)
    await asyncio.sleep(8)
    if host not in world.live_hosts():
        host.restart()
        await asyncio.sleep(8)
    assert acknowledged == [f"record {number}" for number in range(8)]


@program(faults=CRASHES, runs_max=100)
async def config_by_rename(world: World, *, broken: bool) -> None:
    """A file is replaced as a whole: readers and power cuts see the old one or the new one.
    Broken: the name is durable before the content is."""
    path = "/etc/config.json"

    def replace(version: int) -> None:
        text = json.dumps({"version": version, "filling": "x" * 5000})
        with open(path + ".new", "w") as file:
            file.write(text)
            file.flush()
            if not broken:
                os.fsync(file.fileno())
        os.replace(path + ".new", path)
        sync_folder("/etc")

    def current() -> int:
        with open(path) as file:
            return int(json.load(file)["version"])

    promised = 0

    async def editor() -> None:
        nonlocal promised
        if os.path.exists(path):
            assert current() >= promised
        for version in range(promised + 1, promised + 5):
            replace(version)
            promised = version
            await asyncio.sleep(0.01)

    async def reader() -> None:
        while True:
            if os.path.exists(path):
                assert current() >= 1
            await asyncio.sleep(0.005)

    host = world.host("box")
    host.start(editor)
    host.start(reader)
    await crash_at_times(host)
    await asyncio.sleep(0.2)


@program()
async def sqlite_counter(world: World, *, broken: bool) -> None:
    """Each change is a transaction that locks before it reads. Broken: it reads before."""
    os.makedirs("/srv", exist_ok=True)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect("/srv/app.db", timeout=10, isolation_level=None)

    def add() -> None:
        with contextlib.closing(connect()) as db:
            if broken:
                (value,) = db.execute("SELECT value FROM counter").fetchone()
                db.execute("UPDATE counter SET value = ?", (value + 1,))
                return
            db.execute("BEGIN IMMEDIATE")
            (value,) = db.execute("SELECT value FROM counter").fetchone()
            db.execute("UPDATE counter SET value = ?", (value + 1,))
            db.execute("COMMIT")

    with contextlib.closing(connect()) as db:
        db.execute("CREATE TABLE counter (value INTEGER)")
        db.execute("INSERT INTO counter VALUES (0)")
    await asyncio.gather(*(asyncio.to_thread(add) for _ in range(3)))
    with contextlib.closing(connect()) as db:
        assert db.execute("SELECT value FROM counter").fetchone() == (3,)


@program(faults=foretold.faults.hosts.only("kill", "crash"), runs_max=100)
async def sqlite_through_crashes(world: World, *, broken: bool) -> None:
    """Two rows that belong together are both there or both not, and a commit lasts. Broken: two
    transactions instead of one."""
    committed = 0

    def connect() -> sqlite3.Connection:
        db = sqlite3.connect("/srv/bank.db", timeout=10, isolation_level=None)
        db.execute("PRAGMA synchronous = EXTRA")  # FULL may lose a commit, and says so
        db.execute("CREATE TABLE IF NOT EXISTS entry (number INTEGER, side TEXT)")
        return db

    async def bank() -> None:
        nonlocal committed
        os.makedirs("/srv", exist_ok=True)
        sync_folder("/")
        with contextlib.closing(connect()) as db:
            sides: list[Any] = db.execute("SELECT number, side FROM entry ORDER BY 1, 2").fetchall()
            assert sides == [(n, side) for n in range(len(sides) // 2) for side in "ab"]
            assert len(sides) // 2 >= committed
            for number in range(len(sides) // 2, len(sides) // 2 + 3):
                if not broken:
                    db.execute("BEGIN IMMEDIATE")
                for side in "ab":
                    db.execute("INSERT INTO entry VALUES (?, ?)", (number, side))
                    if broken:
                        await asyncio.sleep(0.01)
                if not broken:
                    db.execute("COMMIT")
                committed = number + 1
                await asyncio.sleep(0.01)

    host = world.host("bank")
    host.start(bank)
    await crash_at_times(host)
    await asyncio.sleep(1)


class Store:
    """A snapshot, and a log of what came after it. A snapshot is durable, under its name, before
    the log that it replaces is emptied. Broken: its content is, its name is not."""

    def __init__(self, folder: str, *, broken: bool) -> None:
        self.folder, self.broken = folder, broken
        os.makedirs(folder, exist_ok=True)
        sync_folder(os.path.dirname(folder))
        self.values = self._snapshot()
        self.log = Log(f"{folder}/log", broken=False)
        for line in self.log.records:
            name, number = json.loads(line)
            self.values[name] = max(number, self.values.get(name, 0))

    def _snapshot(self) -> dict[str, int]:
        with contextlib.suppress(FileNotFoundError), open(f"{self.folder}/snapshot") as file:
            return dict(json.load(file))
        return {}

    def set(self, name: str, number: int) -> None:
        """Durable when it returns."""
        self.log.append(json.dumps([name, number]))
        self.values[name] = number

    def compact(self) -> None:
        """Replace the log by a snapshot."""
        with open(f"{self.folder}/snapshot.new", "w") as file:
            json.dump(self.values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self.folder}/snapshot.new", f"{self.folder}/snapshot")
        if not self.broken:
            sync_folder(self.folder)
        self.log.file.truncate(0)
        self.log.file.seek(0)
        os.fsync(self.log.file.fileno())
        self.log.records.clear()


@program(faults=CRASHES, runs_max=200)
async def snapshot_and_log(world: World, *, broken: bool) -> None:
    """What was set is there after a power cut, also in the middle of a compaction."""
    promised: dict[str, int] = {}

    async def database() -> None:
        store = Store("/var/store", broken=broken)
        assert all(store.values.get(name, 0) >= number for name, number in promised.items())
        for number in range(1, 100):
            name = f"key {number % 3}"
            store.set(name, store.values.get(name, 0) + 1)
            promised[name] = store.values[name]
            if number % 4 == 0:
                store.compact()
            await asyncio.sleep(0.004)

    host = world.host("db")
    host.start(database)
    await crash_at_times(host)
    await asyncio.sleep(1)
