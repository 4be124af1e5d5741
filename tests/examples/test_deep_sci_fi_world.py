"""Deep Sci-Fi knows no clock but the world's, and no chance but the tape's.

The application uses `datetime`, `uuid` and `secrets` as everybody does; its first testers had to
live with two clocks, the program's and the database's. Here every timestamp of every table is
looked at, whoever wrote it; and two runs of one tape leave the same database, to the byte.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import foretold
from examples.deep_sci_fi.app.routers import heartbeat
from examples.deep_sci_fi.machine import DeepSciFi, scenery
from tests.examples import deep_sci_fi as dsf
from tests.examples import deep_sci_fi_scenes as scenes
from tests.examples.deep_sci_fi_child import Dump, Dumped, dump_of, observed

ROOT = Path(__file__).parents[2]
PROCESSES = 5
PROCESSES_IN_SHORT = 2
UNDER_A_KEY = {"idempotency-key": "6f0a3a5e-0d0f-4a67-9c0e-5a3c9f3b7a11"}
REAL = datetime.now(UTC)
"""Of the machine that runs the tests: nothing of a run may lie near it."""
LONG_AGO = datetime(1999, 12, 31, 23, tzinfo=UTC)
COLUMNS = """SELECT table_name, column_name, data_type FROM information_schema.columns
             WHERE table_schema = 'public' AND data_type ~ 'time|date|json' ORDER BY 1, 2"""
AHEAD = {
    "maintenance_until": timedelta(hours=720),
    "expires_at": timedelta(hours=8760),
    "inhabited_until": timedelta(hours=24),
    "owner_deadline": timedelta(hours=4),
    "not_before": timedelta(seconds=16),
}
"""Columns that tell of the future, and how far they may look; all others tell of the past."""
INSTANT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:?\d\d)?")
"""As it stands inside of JSON."""


def instants(value: Any) -> list[datetime]:
    """The points of time in a value: a timestamp, or JSON with some in it."""
    if isinstance(value, datetime):
        return [value]
    text = value if isinstance(value, str) else json.dumps(value)
    found = [datetime.fromisoformat(each) for each in INSTANT.findall(text)]
    return [each if each.tzinfo else each.replace(tzinfo=UTC) for each in found]


def looked_at(pg: Any, begin: datetime, now: datetime) -> tuple[set[str], set[str]]:
    """The columns in which some time was found, and those with one that is not the world's."""
    seen, stray = set(), set()
    for table, column, kind in pg.sql(COLUMNS):
        ahead = AHEAD.get(column, timedelta(0)) if "json" not in kind else max(AHEAD.values())
        rows = pg.sql(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
        for instant in (each for row in rows for each in instants(row[0])):
            seen.add(f"{table}.{column}")
            if not begin <= instant <= now + ahead:
                stray.add(f"{table}.{column}")
    return seen, stray


async def account(platform: dsf.Platform) -> None:
    """What an agent keeps times of: keys, signs of life, a pause, a request to be done once."""
    agent = await platform.agent()
    await agent.post("heartbeat", {})
    await agent.post("auth/keys", {"expires_in_hours": 10}, **UNDER_A_KEY)
    platform.later(days=2)
    await agent.post("heartbeat/maintenance", {"hours": 5, "reason": "repairs"})


def long_ago(scene: dsf.Scene, seed: int = 0) -> tuple[set[str], set[str]]:
    """What the tables say of time when a scene was played in another century."""

    async def main(world: foretold.World) -> tuple[set[str], set[str]]:
        platform = await dsf.start(world)
        begin = world.clock.datetime()
        async with platform.client:
            await scene(platform)
        return looked_at(platform.pg, begin, platform.api.clock.datetime())

    order = ("any", "asyncio")[seed % 2]
    found: tuple[set[str], set[str]] = foretold.run(
        main, seed=seed, order=order, epoch_s=LONG_AGO.timestamp()
    ).value
    return found


def test_every_timestamp_of_the_platform_is_virtual() -> None:
    """Worlds that begin in 1999, with an empty database, and requests of all kinds: whatever tells
    a time in any table, JSON included, lies between the world's beginning and its end."""
    everything = set()
    for seed, scene in enumerate(SCENES):
        seen, stray = long_ago(scene, seed)
        assert not stray, scene.__name__
        everything |= seen
    assert len(everything) >= 30, sorted(everything)


def test_another_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: one router that reads the machine's clock. The columns that it writes are named."""
    monkeypatch.setattr(heartbeat, "utc_now", lambda: REAL)
    _, stray = long_ago(account)
    assert stray == {"users.last_heartbeat_at", "users.maintenance_until"}


SCENES: tuple[dsf.Scene, ...] = (
    account,
    scenes.graduation_without_lock,
    scenes.memories_mutated_in_place,
    scenes.escalate_unlocked,
    scenes.withdraw_accept_race,
    scenes.lease_not_released,
    scenes.rule_acclaim_unanswered,
    scenes.rule_canon_optional,
    scenes.reactions_without_unique,
    scenes.rule_terminal_reopens,
)


class Clocked(DeepSciFi):
    """Looks at every timestamp when all is over."""

    async def teardown(self) -> None:
        await super().teardown()
        seen, stray = looked_at(self.pg, scenery.BEGIN - timedelta(days=2), self.now())
        assert not stray, stray
        assert len(seen) >= 20, seen


@pytest.mark.parametrize("seed", range(4))
def test_every_timestamp_of_the_machine_is_virtual(seed: int) -> None:
    """The same with everything that the machine does: faults, jumps of time, crashed servers."""
    foretold.run(Clocked, seed=seed)


# --- one tape, one database ----------------------------------------------------------------------


def left_by(seed: int) -> Dump:
    """All tables after a run."""
    foretold.run(Dumped, seed=seed)
    return Dumped.last


def test_a_tape_leaves_one_database() -> None:
    """Ids, keys, tokens and times come from the tape: the same one twice, and every row of every
    table is the same; another one, and the ids are others."""
    first, again, other = left_by(6), left_by(6), left_by(12)
    assert len(first) >= 25
    assert first == again
    assert first["feed_events"] != other["feed_events"]


def test_secrets_come_from_the_tape() -> None:
    """Keys and tokens are random for the platform: none repeats within a run, all do in the next
    run of the tape, none does on another tape."""

    async def main(world: foretold.World) -> tuple[Dump, list[str | None]]:
        platform = await dsf.start(world)
        async with platform.client:
            agents = await platform.cast(4)
            await agents[0].post("auth/keys", {}, **UNDER_A_KEY)
        return dump_of(platform.pg), [agent.key for agent in agents]

    first, again, other = (foretold.run(main, seed=seed).value for seed in (1, 1, 2))
    assert first == again
    assert len(set(first[1])) == 4
    assert not set(first[1]) & set(other[1])
    assert not set(first[0]["api_keys"]) & set(other[0]["api_keys"])


# --- fresh processes -----------------------------------------------------------------------------

Seen = dict[str, list[str]]


def fresh_process(number: int, seeds: range) -> Seen:
    """What a new interpreter sees, with a hash seed of its own."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    command = [sys.executable, "-m", "tests.examples.deep_sci_fi_child"]
    done = subprocess.run(
        [*command, str(seeds.start), str(len(seeds))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(number + 1)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Seen = json.loads(done.stdout)
    return found


def check_processes(seeds: range, processes: int) -> None:
    """One digest, and one database, for each tape: in fresh processes and in this one. The
    program that lets a set decide differs, so the comparison can fail."""
    here = {run: list(pair) for run, pair in observed(seeds).items()}
    all_seen = [here, *(fresh_process(number, seeds) for number in range(processes))]
    differing = {run for run in here if len({tuple(seen[run]) for seen in all_seen}) > 1}
    assert differing == {"planted"}
    assert len({tuple(pair) for pair in here.values()}) == len(seeds) + 1


def test_fresh_processes_agree() -> None:
    """Whatever the hash seed, and whatever this process has done before."""
    check_processes(range(20, 22), PROCESSES_IN_SHORT)


@pytest.mark.soak
def test_five_fresh_processes_agree_on_ten_tapes() -> None:
    """The count that is promised for Deep Sci-Fi."""
    check_processes(range(100, 110), PROCESSES)
