"""A real server under the tape: what PostgreSQL promises holds on all tapes, and it all repeats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from tests.helpers import SOAK_FACTOR
from tests.postgres.scenarios import ALL

ROOT = Path(__file__).parents[2]
SEEDS = range(12)


def values(name: str, seeds: range = SEEDS) -> list[Any]:
    """What a scenario gives on several tapes."""
    return [foretold.run(ALL[name], seed=seed).value for seed in seeds]


# --- what is promised ------------------------------------------------------------------------


def test_lost_update() -> None:
    """READ COMMITTED: on some tapes updates are lost, on others none is."""
    found = {balance for balance, _ in values("lost_update", range(30))}
    assert found > {110, 120}


def test_lost_update_refused() -> None:
    """REPEATABLE READ: who is refused sees 40001, and all others are in the balance."""
    for balance, came in values("lost_update_refused"):
        refused = [each for each in came if each is not None]
        assert all(each.startswith("40001") for each in refused)
        assert balance == 130 - 10 * len(refused)


def test_row_locks() -> None:
    """FOR UPDATE: nothing is lost on any tape."""
    assert {balance for balance, _ in values("row_locks")} == {130}


def test_no_wait() -> None:
    """NOWAIT: who comes second is told so (55P03) instead of waiting."""
    came = [each for _, all_of in values("no_wait") for each in all_of]
    assert any(each is not None and each.startswith("55P03") for each in came)


def test_write_skew() -> None:
    """REPEATABLE READ: on some tapes nobody is left on duty. SERIALIZABLE: somebody always is."""
    assert 0 in {left for left, _ in values("write_skew")}
    refusals = []
    for left, came in values("write_skew_refused"):
        assert left >= 1
        refusals += [each for each in came if each is not None]
    assert refusals
    assert all(each.startswith("40001") for each in refusals)


def test_either_one_is_the_victim_of_a_deadlock() -> None:
    """By the tape: the one, the other, or none; and never money that is lost or made."""
    victims = set()
    for rows, came in values("deadlock", range(40)):
        assert sum(balance for _, balance in rows) == 200
        victims.add(tuple(each is not None and each.startswith("40P01") for each in came))
    assert victims == {(True, False), (False, True), (False, False)}


def test_a_unique_key_has_one_author() -> None:
    """Whoever it is; and it is not always the same."""
    winners = set()
    for rows, came in values("unique_race"):
        assert len(rows) == 1
        winners.add(rows[0]["author"])
        assert sum(each is None for each in came) == 1
    assert len(winners) > 1


def test_no_job_is_taken_twice() -> None:
    """SKIP LOCKED."""
    for taken, _ in values("skip_locked"):
        assert len({job for job, _, _ in taken}) == 3


def test_advisory_locks() -> None:
    """Each is out before the next is in; who is first differs."""
    firsts = set()
    for seen in values("advisory_locks"):
        pairs = list(zip(seen[::2], seen[1::2], strict=True))
        assert all(a == ("in", who) and b == ("out", who) for a, b in pairs for who in [a[1]])
        firsts.add(seen[0][1])
    assert len(firsts) > 1


def test_the_servers_clock_is_the_worlds() -> None:
    """A day later `now()` says so; random values differ from tape to tape."""
    found = values("defaults")
    assert all(row[1].startswith("2026-01-02 00:00:0") for row in found)
    assert len({row[2] for row in found}) == len({row[3] for row in found}) == len(found)


def test_a_wait_can_be_cancelled() -> None:
    """After two seconds, by its client; then it has done nothing."""
    assert set(values("cancelled_wait")) == {("timeout", 2.0, 0)}


def test_timeouts_are_in_virtual_time() -> None:
    """In the server's own words, after exactly as long as was asked for."""
    for lock, statement, idle in values("timeouts"):
        assert lock == ("55P03 canceling statement due to lock timeout", 3.0)
        assert statement == ("57014 canceling statement due to statement timeout", 7.0)
        assert "closed" in idle[0] or "terminat" in idle[0]


def test_sleeping() -> None:
    """An hour in the server is over at once, and holds nobody up."""
    assert {tuple(each) for each in values("sleeping")} == {(3600, 1.5)}


def test_notifications() -> None:
    """What was committed is told once, what was rolled back is not."""
    for told, rows in values("notifications"):
        assert [text for _, text in told] == ["UPDATE 1", "UPDATE 2"]
        assert [row["what"] for row in rows] == ["UPDATE 1", "UPDATE 2"]


def test_copying() -> None:
    """Rows go in and come out."""
    for tag, lines, count in values("copying", range(3)):
        assert (tag, count) == ("COPY 300", 300)
        assert lines.splitlines()[:2] == [b"page 0", b"page 1"]


# --- that it repeats -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_one_tape_one_run(name: str) -> None:
    """In one process, whatever ran before, in both orders."""
    for seed in range(3):
        for order in ("any", "asyncio"):
            first = foretold.run(ALL[name], seed=seed, order=order)
            assert foretold.run(ALL[name], tape=first.tape, order=order).digest == first.digest


def digests_of(processes: int, seeds: int) -> list[dict[str, str]]:
    """What each of the processes saw; two run at a time."""
    seen: list[dict[str, str]] = []
    for first in range(0, processes, 2):
        batch = [_start(seeds) for _ in range(first, min(first + 2, processes))]
        outputs = [process.communicate()[0] for process in batch]
        assert [process.returncode for process in batch] == [0] * len(batch)
        seen += map(json.loads, outputs)
    return seen


def _start(seeds: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.child", str(seeds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "random"},
    )


def check_processes(processes: int, seeds: int) -> None:
    """One digest for each scenario and seed, over all processes; two for the planted one."""
    seen = digests_of(processes, seeds)
    differing = {key for key in seen[0] if len({each[key] for each in seen}) > 1}
    assert differing == {key for key in seen[0] if key.startswith("planted")}


def test_one_tape_one_run_in_every_process() -> None:
    """Also in another process, with another server."""
    check_processes(3, 1)


@pytest.mark.soak
def test_one_tape_one_run_in_many_processes() -> None:
    """Ten processes, five tapes."""
    check_processes(10, max(5, SOAK_FACTOR // 4))
