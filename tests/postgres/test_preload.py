"""Inside the server time and randomness obey, and PostgreSQL's own code draws its conclusions."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foretold.errors import PostgresError
from foretold.kernel.native import build
from foretold.services.postgres import preload
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.shared_page import SharedPage
from foretold.services.postgres.side import SideConnection
from tests.postgres.machines import SECOND_US, START_US, wait_until_blocked


@pytest.fixture
def page(cluster: Cluster) -> Iterator[SharedPage]:
    """The page of the server, its clock at the start."""
    assert cluster.page is not None, cluster.page_missing
    cluster.page.set_clock(START_US)
    cluster.page.read_notices()
    yield cluster.page
    cluster.page.real_time()


class Sessions:
    """Opens watched sessions, and closes all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.opened: list[SideConnection] = []

    def __call__(self, stream: int = 0) -> SideConnection:
        side = self.cluster.connect(client_min_messages="log")
        assert self.cluster.page is not None
        self.cluster.page.watch(side.pid, stream)
        self.opened.append(side)
        return side


@pytest.fixture
def session(cluster: Cluster, page: SharedPage) -> Iterator[Sessions]:
    """Makes sessions; there is a table `t` with one row."""
    sessions = Sessions(cluster)
    sessions().simple(
        "drop table if exists t; create table t (id int primary key, v int);"
        "insert into t values (1, 0), (2, 0)"
    )
    yield sessions
    for side in sessions.opened:
        with contextlib.suppress(ProcessLookupError):
            os.kill(side.pid, signal.SIGTERM)  # a failed test may leave one that sleeps for ever
        side.close()


def sleep_begins(page: SharedPage) -> list[int]:
    """Wait for the notice of a sleep, and read it."""
    select.select([page.notify_fd], [], [])
    return page.read_notices()


def test_every_clock_is_the_virtual_one(page: SharedPage, session: Sessions) -> None:
    """Transactions, statements, `clock_timestamp` and measured durations: none shows real time."""
    side = session()
    sql = "select now(), statement_timestamp(), clock_timestamp(), timeofday()"
    assert side.simple(sql) == [
        ["2023-11-14 22:13:20+00"] * 3 + ["Tue Nov 14 22:13:20.000000 2023 UTC"]
    ]
    page.set_clock(START_US + 90 * SECOND_US + 1)
    assert side.simple("select now()") == [["2023-11-14 22:14:50.000001+00"]]
    plan = side.simple("explain (analyze, costs off) select * from t")
    assert "Execution Time: 0.000 ms" in [row[0] for row in plan]


def test_a_session_begun_in_a_run_is_virtual_from_birth(cluster: Cluster, page: SharedPage) -> None:
    """Also its start: when the server says a session began is virtual time."""
    side = cluster.connect()
    sql = "select backend_start from pg_stat_activity where pid = pg_backend_pid()"
    assert side.simple(sql) == [["2023-11-14 22:13:20+00"]]
    side.close()


def test_between_runs_time_is_real(cluster: Cluster, page: SharedPage) -> None:
    """Planted: with no virtual time set, the same session shows the real year."""
    side = cluster.connect()
    assert side.simple("select extract(year from now())") == [["2023"]]
    page.real_time()
    assert side.simple("select extract(year from now()) > 2023") == [["t"]]
    side.close()


FORKS = """
import ctypes, os, sys, time

go = os.pipe()
if ctypes.PyDLL(None).fork() == 0:  # os.fork() looks at the clock
    os.read(go[0], 1)
    print(time.gmtime(time.time()).tm_year, flush=True)
    os._exit(0)
print("forked", flush=True)
sys.stdin.read(1)
os.write(go[1], b"!")
os.wait()
"""


@pytest.mark.parametrize("is_late", [True, False])
def test_when_a_process_is_forked_decides_which_time_it_has(
    cluster: Cluster, page: SharedPage, tmp_path: Path, *, is_late: bool
) -> None:
    """And not how soon it runs then: a process of the server itself that began late, on a busy
    machine, was virtual, slept, and moved the clock of the schema."""
    if is_late:
        page.real_time()
    library = tmp_path / "preload.so"
    library.write_bytes(preload.library())
    child = subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env={"LD_PRELOAD": str(library), "FORETOLD_PG_PAGE": str(cluster.folder / "page")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "forked\n"
    page.set_clock(START_US)
    said, _ = child.communicate("!")
    assert (int(said) > 2023) == is_late


def test_pg_sleep_takes_virtual_time_alone(page: SharedPage, session: Sessions) -> None:
    """The session says when its sleep is over, and goes on at exactly that time, not earlier."""
    side = session()
    side.begin("select pg_sleep(300.5), clock_timestamp()")
    assert sleep_begins(page) == [side.pid]
    assert page.sleep_of(side.pid) == START_US + 300 * SECOND_US + SECOND_US // 2
    page.set_clock(START_US + SECOND_US)
    page.fire(side.pid)  # too early: PostgreSQL looks at the clock and goes on sleeping
    assert sleep_begins(page) == [side.pid]
    end = page.sleep_of(side.pid)
    assert end is not None
    page.set_clock(end)
    page.fire(side.pid)
    assert side.finish() == [["", "2023-11-14 22:18:20.5+00"]]
    assert page.sleep_of(side.pid) is None
    assert page.read_notices() == []


def test_a_blocked_session_says_so_at_once(page: SharedPage, session: Sessions) -> None:
    """`deadlock_timeout` is due as soon as a session waits, though virtual time stands still."""
    first, second = session(), session()
    first.simple("begin; update t set v = 1 where id = 1")
    second.begin("update t set v = 2 where id = 1; select clock_timestamp(), v from t where id = 1")
    wait_until_blocked(second)
    first.simple("commit")
    assert second.finish() == [["2023-11-14 22:13:20+00", "2"]]


def test_a_deadlock_is_found_by_postgresql(page: SharedPage, session: Sessions) -> None:
    """The genuine 40P01, without any time passing."""
    first, second = session(), session()
    first.simple("begin; update t set v = 1 where id = 1")
    second.simple("begin; update t set v = 1 where id = 2")
    first.begin("update t set v = 1 where id = 2")
    wait_until_blocked(first)
    with pytest.raises(PostgresError) as raised:
        second.simple("update t set v = 1 where id = 1")
    assert raised.value.sqlstate == "40P01"
    first.finish()


def test_all_timeouts_of_a_session_together(page: SharedPage, session: Sessions) -> None:
    """PostgreSQL keeps them in one timer: the nearest is published, and after it the next."""
    first, second = session(), session()
    first.simple("begin; update t set v = 1 where id = 1")
    second.simple("set lock_timeout = '3s'; set statement_timeout = '10s'")
    second.begin("update t set v = 2 where id = 1")
    wait_until_blocked(second)
    assert page.timer_of(second.pid) == START_US + 3 * SECOND_US
    page.set_clock(START_US + 3 * SECOND_US)
    page.fire(second.pid)
    with pytest.raises(PostgresError) as raised:
        second.finish()
    assert raised.value.sqlstate == "55P03"
    second.simple("set lock_timeout = 0")
    second.begin("select pg_sleep(60)")
    assert sleep_begins(page) == [second.pid]
    assert page.timer_of(second.pid) == START_US + 13 * SECOND_US
    page.set_clock(START_US + 13 * SECOND_US)
    page.fire(second.pid)
    with pytest.raises(PostgresError) as raised:
        second.finish()
    assert raised.value.sqlstate == "57014"
    assert page.idle_timer_of(second.pid) is None


def test_idle_sessions_time_out_too(page: SharedPage, session: Sessions) -> None:
    """A session that idles in a transaction is ended at its virtual deadline."""
    side = session()
    side.simple("set idle_in_transaction_session_timeout = '5min'")
    assert page.idle_timer_of(side.pid) is None
    side.simple("begin")
    assert page.idle_timer_of(side.pid) == START_US + 300 * SECOND_US
    page.set_clock(START_US + 300 * SECOND_US)
    page.fire(side.pid)
    with pytest.raises(PostgresError) as raised:
        side.simple("select 1")
    assert raised.value.sqlstate == "25P03"


def test_an_unused_timeout_leaves_no_timer(page: SharedPage, session: Sessions) -> None:
    """PostgreSQL lets a timer run on after a statement; nothing of that is published."""
    side = session()
    side.simple("set statement_timeout = '10s'")
    for _ in range(20):
        side.simple("insert into t select max(id) + 1, 0 from t")
        assert page.idle_timer_of(side.pid) is None


def test_randomness_follows_from_seed_and_stream(page: SharedPage, session: Sessions) -> None:
    """One seed gives one sequence of bytes, another one another, and so does another stream."""

    def draw(seed: int, stream: int) -> list[list[str | None]]:
        side = session(stream)
        page.set_seed(seed)
        return side.simple("select gen_random_uuid(), gen_random_uuid(), random()")

    again = draw(7, 1)
    assert draw(7, 1) == again
    assert again[0][0] != again[0][1]
    assert draw(8, 1) != again
    assert draw(7, 2) != again


def test_a_new_seed_begins_anew(page: SharedPage, session: Sessions) -> None:
    """A pooled session draws the same in each run, whatever it has drawn before."""
    side = session()
    drawn = []
    for seed in (5, 6, 5):
        page.set_seed(seed)
        drawn.append(side.simple("select gen_random_uuid()"))
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_cancel_key_follows_from_the_seed(cluster: Cluster, page: SharedPage) -> None:
    """What the server draws while a session starts counts as well: here its next random numbers."""
    seen = []
    for _ in range(2):
        page.set_seed(3)
        side = cluster.connect()
        seen.append(side.simple("select random(), gen_random_uuid()"))
        side.close()
    assert seen[0] == seen[1]


def test_many_sessions_have_a_place_each(cluster: Cluster, page: SharedPage) -> None:
    """Slots are found by pid, never shared, and given back when the session ends."""
    for _ in range(3):
        sides = [cluster.connect() for _ in range(30)]
        for number, side in enumerate(sides):
            page.watch(side.pid, number)
        assert len({page._places[side.pid] for side in sides}) == len(sides)
        for side in sides:
            side.close()
            page.forget(side.pid)


def test_without_a_compiler_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither a compiler nor a library from before: the server starts, and says what it lacks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(build, "COMPILERS", ("no-such-compiler",))
    server = Cluster()
    try:
        assert server.page is None
        assert "no C compiler" in server.page_missing
        side = server.connect()
        assert side.simple("select 1") == [["1"]]
        side.close()
    finally:
        server.stop()
