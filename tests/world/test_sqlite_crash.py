"""SQLite's own recovery, tested by our crashes: what it promises holds, what it does not is seen.

A program writes one transaction after the other, and notes each that was committed. In the middle
of one the power goes, with torn and reordered sectors; another process opens the database, asks
SQLite whether it is whole, and looks for what was committed. SQLite promises in its manual
(https://www.sqlite.org/pragma.html#pragma_synchronous) what each setting keeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Coroutine
from typing import Any

import apsw
import pytest

import foretold
from tests.helpers import SOAK_FACTOR

PATH = "/var/lib/app.db"
SEEDS = 25
ROUNDS = 2


class Log:
    """What the program was told, outside of the machine that dies."""

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.found: list[int] = []
        self.verdict: Any = None
        self.was_hot = False
        """A journal was there when the end came."""


def write_for_ever(mode: str, synchronous: str, log: Log) -> Callable[[], None]:
    """Each transaction adds a row of half a page and changes an older one."""

    def main() -> None:
        db = sqlite3.connect(PATH)
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute(f"PRAGMA synchronous={synchronous}")
        db.execute("CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY, y)")
        db.commit()
        (n,) = db.execute("SELECT coalesce(max(x), 0) FROM t").fetchone()
        while True:
            n += 1
            db.execute("INSERT INTO t VALUES (?, ?)", (n, os.urandom(2_000)))
            db.execute("UPDATE t SET y = ? WHERE x = ?", (os.urandom(1_500), n * 7 % n + 1))
            db.commit()
            log.committed.append(n)
            time.sleep(0.001)

    return main


def look(log: Log) -> None:
    """What a new process finds."""
    with contextlib.closing(sqlite3.connect(PATH)) as db:
        log.verdict = db.execute("PRAGMA integrity_check").fetchall()
        tables = db.execute("SELECT name FROM sqlite_master").fetchall()
        log.found = [x for (x,) in db.execute("SELECT x FROM t")] if tables else []


Check = Callable[[Log], None]
Main = Callable[[foretold.World], Coroutine[Any, Any, int]]


def dies(how: str, mode: str, synchronous: str, check: Check) -> Main:
    """A host whose program is interrupted several times, at a moment of the tape's choice."""

    async def main(world: foretold.World) -> int:
        host, found = world.host("db"), 0
        for _ in range(ROUNDS):
            log = Log()
            host.start(write_for_ever(mode, synchronous, log))
            await asyncio.sleep(0.02 + foretold.between(0, 200) / 10_000)
            log.was_hot = host.disk.exists(f"{PATH}-journal")
            getattr(host, how)()
            await host.restart(lambda log=log: look(log))
            check(log)
            found += len(log.found)
            await host.stop()
        return found

    return main


def is_whole(log: Log) -> None:
    """SQLite has no complaint."""
    assert log.verdict == [("ok",)]


def keeps_all(log: Log) -> None:
    """And all that was committed is there."""
    is_whole(log)
    assert set(log.committed) <= set(log.found)


def keeps_all_but_one(log: Log) -> None:
    """The last one may be gone."""
    is_whole(log)
    assert set(log.committed[:-1]) <= set(log.found)


def seeds() -> range:
    """How many tapes each setting is tried on."""
    return range(SEEDS * SOAK_FACTOR)


@pytest.mark.parametrize(
    ("mode", "synchronous"),
    [("DELETE", "EXTRA"), ("TRUNCATE", "FULL"), ("PERSIST", "FULL"), ("WAL", "FULL")],
)
def test_what_was_committed_survives_a_crash(mode: str, synchronous: str) -> None:
    """The settings that SQLite calls durable: nothing is lost, on any tape."""
    main = dies("crash", mode, synchronous, keeps_all)
    assert sum(foretold.run(main, seed=seed).value for seed in seeds()) > 10 * SEEDS


def test_crashes_come_in_the_middle_of_transactions() -> None:
    """Else nothing would be recovered: often a journal is there, and it is used."""
    logs: list[Log] = []
    for seed in seeds():
        foretold.run(dies("crash", "DELETE", "EXTRA", logs.append), seed=seed)
    hot = [log for log in logs if log.was_hot]
    assert len(logs) / 2 < len(hot) < len(logs)
    assert {len(log.found) - len(log.committed) for log in logs[::ROUNDS]} <= {0, 1}


def test_with_delete_and_full_the_last_transaction_may_be_lost() -> None:
    """SQLite's default on disk: the journal's removal is the commit, and the directory is synced
    with EXTRA only. It says so; here it is seen, on some tapes, and never more than that."""
    for seed in seeds():
        foretold.run(dies("crash", "DELETE", "FULL", keeps_all_but_one), seed=seed)
    with pytest.raises(AssertionError):
        for seed in seeds():
            foretold.run(dies("crash", "DELETE", "FULL", keeps_all), seed=seed)


def test_wal_with_normal_is_whole_but_loses() -> None:
    """WAL is synced at checkpoints only: the database is whole, some transactions are gone."""
    for seed in seeds():
        foretold.run(dies("crash", "WAL", "NORMAL", is_whole), seed=seed)
    with pytest.raises(AssertionError):
        for seed in seeds():
            foretold.run(dies("crash", "WAL", "NORMAL", keeps_all), seed=seed)


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_without_syncs_it_is_caught(mode: str) -> None:
    """The planted mistake, `synchronous=OFF`: loss or damage is seen within a few tapes."""
    bad = 0
    for seed in range(10):
        try:
            foretold.run(dies("crash", mode, "OFF", keeps_all), seed=seed)
        except (AssertionError, sqlite3.DatabaseError):
            bad += 1
    assert bad >= 5


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_the_death_of_the_process_loses_nothing(mode: str) -> None:
    """What was written is the kernel's: even without any sync. A hot journal is rolled back, and
    nothing that the dead process left in memory touches the disk."""
    main = dies("kill", mode, "OFF", keeps_all)
    assert sum(foretold.run(main, seed=seed).value for seed in seeds()) > 10 * SEEDS


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("how", ["kill", "crash"])
def test_an_open_transaction_is_rolled_back_by_the_next_process(how: str) -> None:
    """A process dies in the middle of a transaction that was too large for its cache, so that
    changed pages are in the database already: the journal is hot, and undoes them."""

    async def main(world: foretold.World) -> Any:
        def program() -> None:
            db = sqlite3.connect(PATH, isolation_level=None)
            db.execute("CREATE TABLE t (x INTEGER PRIMARY KEY, y)")
            db.executemany("INSERT INTO t VALUES (?, ?)", [(n, b"a" * 2_000) for n in range(50)])
            db.execute("PRAGMA cache_size=5")
            db.execute("BEGIN")
            db.execute("UPDATE t SET y = zeroblob(2000)")
            time.sleep(1_000)

        host = world.host("db")
        host.start(program)
        await asyncio.sleep(10)
        assert "/var/lib/app.db-journal" in host.disk.tree()
        getattr(host, how)()

        def after() -> Any:
            with contextlib.closing(sqlite3.connect(PATH)) as db:
                check = db.execute("PRAGMA integrity_check").fetchall()
                return check, db.execute("SELECT DISTINCT y FROM t").fetchall()

        return await host.restart(after)

    for seed in range(10):
        assert foretold.run(main, seed=seed).value == ([("ok",)], [(b"a" * 2_000,)])


def test_a_dead_connection_that_is_collected_later_harms_nobody() -> None:
    """It would roll back, and delete a journal, which by now is that of the next process."""

    async def main(world: foretold.World) -> Any:
        kept: list[sqlite3.Connection] = []

        def program() -> None:
            db = sqlite3.connect(PATH, isolation_level=None, check_same_thread=False)
            kept.append(db)
            db.execute("CREATE TABLE IF NOT EXISTS t (x)")
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO t VALUES (1)")
            time.sleep(1_000)

        host = world.host("db")
        host.start(program)
        await asyncio.sleep(1)
        host.kill()
        host.restart()
        await asyncio.sleep(1)
        before = host.disk.tree()
        assert "/var/lib/app.db-journal" in before
        kept[0].close()
        assert host.disk.tree() == before
        host.kill()
        kept[1].close()

    foretold.run(main)


@pytest.mark.usefixtures("one_session")
def test_a_crash_of_apsw() -> None:
    """The other copy of SQLite has the same disk below it."""

    async def main(world: foretold.World) -> int:
        committed: list[int] = []

        def program() -> None:
            db = apsw.Connection(PATH)
            db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
            db.execute("CREATE TABLE IF NOT EXISTS t (x)")
            for n in range(1_000):
                with db:
                    db.execute("INSERT INTO t VALUES (?)", (n,))
                committed.append(n)
                time.sleep(0.001)

        host = world.host("db")
        host.start(program)
        await asyncio.sleep(0.02 + foretold.between(0, 200) / 10_000)
        host.crash()

        def after() -> int:
            db = apsw.Connection(PATH)
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            found = {x for (x,) in db.execute("SELECT x FROM t")}
            db.close()
            assert set(committed) <= found
            return len(found)

        found: int = await host.restart(after)
        return found

    assert sum(foretold.run(main, seed=seed).value for seed in range(10)) > 50
