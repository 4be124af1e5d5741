"""SQLite inside a run: files on the host's disk, its clock and randomness, waiting in virtual time.

SQLite is real C code with state of its own in the process, so what is left behind is looked at too:
no file, no changed function, no seed of the tape.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import foretold
from foretold.kernel import real
from foretold.kernel.sqlite import adopt, library, turns, vfs
from foretold.kernel.sqlite.abi import VFS_CALLS
from foretold.world.world import World
from tests.helpers import PLANS, run_of

PATH = "/var/lib/app.db"
ROOT = Path(__file__).parents[2]


def new(path: str = PATH, mode: str = "DELETE", **how: Any) -> sqlite3.Connection:
    """A connection to a database that has one table."""
    db: sqlite3.Connection = sqlite3.connect(path, **how)
    db.execute(f"PRAGMA journal_mode={mode}")
    db.execute("CREATE TABLE IF NOT EXISTS t (x)")
    db.commit()
    return db


def rows(db: sqlite3.Connection) -> list[Any]:
    """What is in the table."""
    return [x for (x,) in db.execute("SELECT x FROM t ORDER BY x")]


# --- where its files are -----------------------------------------------------------------------


def test_the_file_is_on_the_disk_of_the_host() -> None:
    """Another connection, the program's own `open` and the test see it; the real disk does not."""

    def main(world: World) -> None:
        with contextlib.closing(new()) as db, db:
            db.execute("INSERT INTO t VALUES (1)")
        with open(PATH, "rb") as file:
            assert file.read(15) == b"SQLite format 3"
        assert os.listdir("/var/lib") == ["app.db"]
        assert world.home.disk.read(PATH).startswith(b"SQLite format 3")
        with contextlib.closing(sqlite3.connect(PATH)) as db:
            assert rows(db) == [1]

    foretold.run(main)
    assert not os.path.exists(PATH)


def test_each_host_has_its_own() -> None:
    """The same path on two hosts is two databases; after a restart it is still there."""

    async def main(world: World) -> list[list[Any]]:
        seen: list[list[Any]] = []

        def program() -> None:
            with contextlib.closing(new()) as db, db:
                db.execute("INSERT INTO t SELECT count(*) FROM t")
                seen.append(rows(db))

        one, other = world.host("one"), world.host("other")
        await one.start(program)
        await other.start(program)
        await one.restart()
        return seen

    assert foretold.run(main).value == [[0], [0], [0, 1]]


def test_relative_paths_links_and_missing_directories() -> None:
    """As with any other file: the working directory counts, links are followed, and a directory
    that is not there is SQLite's own error."""

    def main(world: World) -> None:
        os.chdir("/var/lib")
        new("app.db").close()
        os.symlink("/var/lib/app.db", "/tmp/link.db")
        with contextlib.closing(sqlite3.connect("/tmp/link.db")) as db:
            assert db.execute("PRAGMA database_list").fetchall() == [(0, "main", PATH)]
            assert rows(db) == []
        with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
            sqlite3.connect("/var/nowhere/app.db")
        with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
            sqlite3.connect("file:/var/lib/other.db?mode=rw", uri=True)

    foretold.run(main)


def test_a_database_of_the_program_itself_is_copied_when_written(
    tmp_path: Path, monkeypatch
) -> None:
    """A database that lies beside the sources is read, and written to a copy of this run."""
    monkeypatch.chdir(tmp_path)
    new("seed.db").close()
    before = Path("seed.db").read_bytes()

    def main() -> list[Any]:
        uri = "file:seed.db?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
            assert rows(db) == []
        with contextlib.closing(sqlite3.connect("seed.db")) as db, db:
            db.execute("INSERT INTO t VALUES (1)")
            return rows(db)

    assert foretold.run(main).value == foretold.run(main).value == [1]
    assert Path("seed.db").read_bytes() == before
    assert os.listdir() == ["seed.db"]


def test_temporary_files_leave_no_name() -> None:
    """A sort that spills and a temporary table need files: they take room, and have no name."""

    def main(world: World) -> list[str]:
        with contextlib.closing(new()) as db:
            db.execute("PRAGMA temp_store=FILE")
            db.execute("PRAGMA temp.cache_size=5")
            numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<3000)"
            db.execute(f"CREATE TEMP TABLE big AS {numbers} SELECT i, hex(randomblob(50)) r FROM n")
            before = world.home.disk.used
            first = db.execute("SELECT i FROM big ORDER BY r").fetchone()
            assert first is not None
            assert before > 200_000
        return sorted(world.home.disk.tree())

    assert foretold.run(main).value == [PATH]


@pytest.mark.parametrize("connect", [sqlite3.connect, apsw.Connection])
def test_wal_mode_with_two_connections(connect: Any) -> None:
    """Both share memory: a reader sees its snapshot while another one writes, and all files of
    SQLite are there to be seen, until the last connection is closed."""

    def main(world: World) -> None:
        one, two = connect(PATH), connect(PATH)
        one.execute("PRAGMA journal_mode=WAL")
        one.execute("CREATE TABLE t (x)")
        two.execute("BEGIN")
        assert list(two.execute("SELECT * FROM t")) == []
        one.execute("BEGIN")
        one.execute("INSERT INTO t VALUES (1)")
        one.execute("COMMIT")
        assert list(two.execute("SELECT * FROM t")) == []
        two.execute("COMMIT")
        assert list(two.execute("SELECT * FROM t")) == [(1,)]
        assert sorted(os.listdir("/var/lib")) == ["app.db", "app.db-shm", "app.db-wal"]
        one.close()
        two.close()
        assert os.listdir("/var/lib") == ["app.db"]

    foretold.run(main)


# --- time, randomness, waiting -----------------------------------------------------------------


@pytest.mark.parametrize("connect", [sqlite3.connect, apsw.Connection])
def test_time_and_randomness_are_the_worlds(connect: Any) -> None:
    """`datetime('now')` is virtual time; `random()` repeats with the seed, and only with it, also
    where no file is involved."""

    def main() -> list[Any]:
        db = connect(":memory:")
        time.sleep(86_400)
        found = db.execute("SELECT datetime('now'), random(), hex(randomblob(8))").fetchall()
        db.close()
        return list(found)

    values = [foretold.run(main, seed=seed).value for seed in (1, 2, 1)]
    assert values[0] == values[2]
    assert values[0][0][0].startswith("2026-01-02 ")
    assert values[0][0][1] != values[1][0][1]


def test_outside_of_runs_randomness_is_real() -> None:
    """A seed of the tape does not go on in the process after the run."""

    def draw() -> Any:
        with contextlib.closing(sqlite3.connect(":memory:")) as db:
            return db.execute("SELECT random()").fetchone()[0]

    seen = set()
    for _ in range(3):
        foretold.run(draw, seed=1)
        seen.add(draw())
    assert len(seen) == 3


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("connect", [sqlite3.connect, apsw.Connection])
def test_a_locked_database_is_waited_for_in_virtual_time(connect: Any, mode: str) -> None:
    """Nobody will ever give the lock back: the wait ends with the timeout, and
    takes no real time."""

    def main() -> float:
        new(mode=mode).close()
        one, two = connect(PATH), connect(PATH)
        two.execute("PRAGMA busy_timeout=300000")
        one.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises((sqlite3.OperationalError, apsw.BusyError), match="locked"):
            two.execute("INSERT INTO t VALUES (1)")
        one.close()
        two.close()
        return time.monotonic() - begun

    assert 300 <= foretold.run(main).value < 301


def two_writers(begin: str) -> Callable[[], int]:
    """Two threads count up one number, each twice."""

    def main() -> int:
        setup = new()
        setup.execute("INSERT INTO t VALUES (0)")
        setup.commit()

        def count_up() -> None:
            db = sqlite3.connect(PATH, timeout=60, isolation_level=None)
            for _ in range(2):
                if begin:
                    db.execute(begin)
                (x,) = db.execute("SELECT x FROM t").fetchone()
                db.execute("UPDATE t SET x = ?", (x + 1,))
                if begin:
                    db.execute("COMMIT")
            db.close()

        threads = [threading.Thread(target=count_up) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found: int = rows(setup)[0]
        setup.close()
        return found

    return main


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_threads_wait_for_each_others_transactions(order: str, strategy: str) -> None:
    """With `BEGIN IMMEDIATE` no update is lost, on any tape; each tape repeats itself."""
    for seed in range(10):
        done = run_of(two_writers("BEGIN IMMEDIATE"), seed, order=order, strategy=strategy)
        assert (done.value, done.error) == (4, None)
        again = run_of(two_writers("BEGIN IMMEDIATE"), seed, order=order, strategy=strategy)
        assert again.digest == done.digest


def test_a_lost_update_is_found() -> None:
    """The planted mistake, without a transaction: some tapes lose an update, the calm one not."""
    values = [run_of(two_writers(""), seed, order="any").value for seed in range(30)]
    assert min(values) < 4
    assert run_of(two_writers(""), 0, order="asyncio", strategy="fifo").value == 4


def test_one_connection_in_several_threads() -> None:
    """One thread waits inside SQLite for somebody's transaction; another one wants the same
    connection. In real time both would stand still for ever."""

    def main() -> list[Any]:
        shared = new(check_same_thread=False, isolation_level=None, timeout=60)
        other = sqlite3.connect(PATH, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        threads = [
            threading.Thread(target=shared.execute, args=("INSERT INTO t VALUES (?)", (n,)))
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        time.sleep(1)
        other.execute("COMMIT")
        for thread in threads:
            thread.join()
        found = rows(shared)
        shared.close()
        other.close()
        return found

    for seed in range(10):
        assert foretold.run(main, seed=seed, order="any").value == [0, 1, 2]


def test_a_function_of_the_program_may_use_its_connection() -> None:
    """SQLite calls back into Python, which calls SQLite: that is one thread, not two."""

    def main() -> list[Any]:
        threading.Thread(target=time.sleep, args=(1,)).start()
        with contextlib.closing(new()) as db:
            db.create_function("other", 0, lambda: db.execute("SELECT 7").fetchone()[0])
            db.execute("INSERT INTO t VALUES (other())")
            return rows(db)

    assert foretold.run(main).value == [7]


def test_the_loop_of_another_host_goes_on_while_one_waits() -> None:
    """A blocking wait for a lock stops the thread that waits, and nobody else."""

    async def main(world: World) -> int:
        def program() -> None:
            one, two = new(), sqlite3.connect(PATH, timeout=5)
            one.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                two.execute("INSERT INTO t VALUES (1)")
            one.close()
            two.close()

        waiting = world.host("db").start(program)
        ticks = 0
        while not waiting.done():
            await asyncio.sleep(0.1)
            ticks += 1
        await waiting
        return ticks

    assert 48 <= foretold.run(main).value <= 52


# --- a disk in trouble -------------------------------------------------------------------------


def test_a_full_disk_is_sqlites_own_error() -> None:
    """ENOSPC becomes SQLITE_FULL; when there is room again the connection goes on."""

    async def main(world: World) -> list[Any]:
        db = new(isolation_level=None)
        world.home.disk.space(world.home.disk.used + 8_192)
        with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")
        world.home.disk.space(None)
        db.execute("INSERT INTO t VALUES (1)")
        found = rows(db)
        db.close()
        return found

    assert foretold.run(main).value == [1]


@pytest.mark.parametrize(
    ("failing", "statement"),
    [
        ("read", "SELECT * FROM t"),
        ("write", "INSERT INTO t VALUES (1)"),
        ("fsync", "DELETE FROM t"),
    ],
)
def test_a_failing_disk_is_sqlites_own_error(failing: str, statement: str) -> None:
    """EIO becomes SQLITE_IOERR, and the database is whole when the disk is."""

    def main(world: World) -> list[Any]:
        db = new(isolation_level=None)
        db.execute("INSERT INTO t VALUES (0)")
        db.close()
        db = sqlite3.connect(PATH, isolation_level=None)
        world.home.disk.trouble.failing = frozenset({failing})
        with pytest.raises(sqlite3.OperationalError, match=r"disk I/O error|unable to open"):
            db.execute(statement)
        world.home.disk.trouble.failing = frozenset()
        found = rows(db)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
        return found

    assert foretold.run(main).value == [0]


def test_short_writes_are_written_on() -> None:
    """A disk may take less than was asked for: SQLite's layer goes on with the rest."""

    def main(world: World) -> Any:
        world.home.disk.trouble.short = True
        with contextlib.closing(new()) as db, db:
            for n in range(20):
                db.execute("INSERT INTO t VALUES (?)", (n,))
            return rows(db), db.execute("PRAGMA integrity_check").fetchone()

    for seed in range(10):
        assert foretold.run(main, seed=seed).value == (list(range(20)), ("ok",))


def test_a_database_that_was_moved_is_not_written_to() -> None:
    """SQLite notices that its file has another name by now (in production: a log rotation)."""

    def main() -> None:
        db = new(isolation_level=None)
        os.rename(PATH, "/var/lib/old.db")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("INSERT INTO t VALUES (1)")
        db.close()

    foretold.run(main)


# --- what is not of this run -------------------------------------------------------------------


def test_a_connection_from_before_the_run_is_refused(tmp_path: Path) -> None:
    """It works on the real disk; one in memory harms nobody."""
    real, memory = new(str(tmp_path / "real.db")), new(":memory:")
    try:
        with pytest.raises(foretold.EscapedWorld, match="opened before the run"):
            foretold.run(lambda: real.execute("SELECT * FROM t").fetchall())
        assert foretold.run(lambda: rows(memory)).value == []
        assert rows(real) == []
    finally:
        real.close()
        memory.close()


def test_a_connection_of_apsw_from_before_the_run_is_refused(tmp_path: Path) -> None:
    """It is noticed when SQLite looks for the journal of a database that is not there; one that
    was deleted in the run is no such case."""
    real = apsw.Connection(str(tmp_path / "real.db"))
    real.execute("CREATE TABLE t (x)")
    with pytest.raises(foretold.EscapedWorld, match="opened before the run"):
        foretold.run(lambda: real.execute("SELECT * FROM t").fetchall())
    real.close()

    def deletes() -> None:
        with contextlib.closing(new()) as db:
            os.unlink(PATH)
            assert rows(db) == []

    foretold.run(deletes)


def test_a_connection_of_an_earlier_run_is_refused() -> None:
    """A pool that lives in a module keeps it: the error says what to do. Closing it is fine."""
    kept: list[sqlite3.Connection] = []
    foretold.run(lambda: kept.append(new()))
    with pytest.raises(foretold.EscapedWorld, match="dispose"):
        foretold.run(lambda: kept[0].execute("SELECT * FROM t"))
    foretold.run(lambda: kept[0].close())


def test_a_thread_outside_of_the_run_sees_the_real_disk(tmp_path: Path) -> None:
    """The functions are changed for the whole process, and answer by who calls."""
    path = str(tmp_path / "real.db")
    todo, done = threading.Lock(), threading.Lock()
    todo.acquire()
    done.acquire()

    def outside() -> None:
        real.lock_acquire(todo)
        with contextlib.closing(new(path, "WAL")) as db, db:
            db.execute("INSERT INTO t VALUES (strftime('%Y', 'now'))")
        real.lock_release(done)

    thread = threading.Thread(target=outside)
    thread.start()

    def main(world: World) -> None:
        new().close()
        real.lock_release(todo)
        real.lock_acquire(done)  # a run itself never waits for a thread outside of it

    foretold.run(main)
    thread.join()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert len(rows(db)) == 1


# --- what is left ------------------------------------------------------------------------------


def functions() -> list[list[Any]]:
    """The tables of both copies of SQLite, as they are now."""
    found = [library.find_library(name) for name in library.MODULES]
    return [[getattr(v, n) for n in VFS_CALLS] for f in found if f for v in f.structures]


def test_nothing_is_left_of_a_run() -> None:
    """Tables and methods are as they were, and connections that nobody closed keep no world."""
    before, execute = functions(), sqlite3.Connection.__dict__["execute"]
    assert len(before) >= 4
    worlds, kept = [], []

    async def main(world: World) -> None:
        worlds.append(weakref.ref(world))
        assert functions() != before
        kept.append(new())
        kept[0].execute("INSERT INTO t VALUES (1)")

        def program() -> None:
            db = new(mode="WAL", isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
            with contextlib.suppress(sqlite3.OperationalError):
                sqlite3.connect(PATH, timeout=1_000).execute("INSERT INTO t VALUES (1)")

        for how in ("kill", "crash", "restart"):
            host = world.host(how)
            host.start(program)
            await asyncio.sleep(1)
            getattr(host, how)()
            host.kill()

    foretold.run(main)
    assert functions() == before
    assert sqlite3.Connection.__dict__["execute"] is execute
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        kept[0].commit()
    kept.pop().close()
    gc.collect()
    assert [world() for world in worlds] == [None]
    assert not vfs.files
    assert not turns._opened


def test_the_library_is_found_without_its_symbols() -> None:
    """Where a Python hides them, the structure of a connection leads to the same table."""
    module: Any = sys.modules["_sqlite3"]
    found = library.find_library("_sqlite3")
    assert found is not None
    addresses = [ctypes.addressof(each) for each in found.structures]
    assert library.vfs_of_connection(module) == addresses[0]


def test_what_cannot_be_reached_is_refused(monkeypatch) -> None:
    """A file of an SQLite that we do not reach raises; memory goes on. Never the real disk."""
    monkeypatch.setattr(adopt, "_known", {"_sqlite3": adopt.copy_of("_sqlite3", None)})
    foretold.run(lambda: new(":memory:").close())
    with pytest.raises(foretold.EscapedWorld, match="cannot reach the SQLite"):
        foretold.run(new)


def test_sqlite_may_be_imported_inside_the_run() -> None:
    """In a fresh process in which nobody has imported it before: it is caught all the same, and
    the first run is as the second."""
    program = (
        "import foretold, os\n"
        "def main():\n"
        "    import sqlite3\n"
        f"    db = sqlite3.connect({PATH!r})\n"
        "    db.execute('CREATE TABLE t (x)')\n"
        "    db.close()\n"
        f"    return os.listdir('/var/lib')\n"
        "runs = [foretold.run(main) for _ in range(2)]\n"
        "print(runs[0].value, runs[0].digest == runs[1].digest)\n"
        f"print(os.path.exists({PATH!r}))\n"
    )
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (output.stdout, output.stderr) == ("['app.db'] True\nFalse\n", "")


def test_a_host_that_is_stopped_in_the_middle_of_a_write() -> None:
    """SIGTERM reaches a process whose main thread is inside SQLite. Its C code is not disturbed:
    the write is done, then the process ends as usual, with its `finally`; and no run fails."""
    log: list[str] = []

    async def writer() -> None:
        try:
            with contextlib.closing(sqlite3.connect(PATH, isolation_level=None)) as db:
                db.execute("CREATE TABLE entry (number INTEGER)")
                for number in range(1000):
                    db.execute("INSERT INTO entry VALUES (?)", (number,))
                    await asyncio.sleep(0)
        finally:
            log.append("ended")

    async def main(world: World) -> None:
        log.clear()
        world.host("bank").start(writer)
        await asyncio.sleep(foretold.between(50, 200, "for") / 100_000)

    for seed in range(10):
        done = run_of(main, seed)
        assert done.error is None
        assert log == ["ended"]
        assert done.virtual_s < 1
