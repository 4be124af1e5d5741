"""What the server says reaches its client: all of it, once, and in the order of its saying."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest

import foretold
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.protocol import CANCEL_REQUEST, message, query, text
from tests.postgres.raw import COPY_DONE, FLUSH, SYNC, Raw, bind, data, execute, letters, parse
from tests.postgres.raw import run as statement
from tests.postgres.scenarios import SCHEMA, run

INSERT = "INSERT INTO document VALUES ('a', 'x')"
WRONG = parse("SELECT $1::int") + message(b"B", b"\0\0\0\0\0\1\0\0\0\1x\0\0") + execute()
"""Its Bind fails by itself: `x` is no number."""


async def _struck(world: foretold.World, kind: str, *messages: bytes, before: str = "") -> Any:
    """What the server answers to these messages while a failure waits for an occasion."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    if before:
        await own.sql(before)
    pg.fail_next(kind)
    came = await own.ask(*messages)
    then = await own.sql("SELECT 1")
    await own.close()
    return came, then, pg.failures


# --- failures of the server's own ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cancelled", "serialization"])
def test_an_error_of_the_servers_own_is_told(kind: str) -> None:
    """A Bind that fails by itself is answered with its error. The chosen failure has not struck: it
    waits for the next statement."""
    came, then, failures = run(lambda w: _struck(w, kind, WRONG, SYNC))
    assert came == "1 E(22P02) Z"
    assert then.startswith("E(")
    assert failures == [kind]


def test_an_error_of_the_servers_own_without_sync() -> None:
    """The same for Flush: the error comes, ReadyForQuery does not before Sync has asked for it."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        own = await Raw.connect(pg)
        pg.fail_next("cancelled")
        own.send(WRONG, FLUSH)
        came = await own.take(2)
        own.send(statement("SELECT 1"), FLUSH)  # skipped, and no occasion for a failure
        own.send(SYNC)
        after = letters(await own.until_ready())
        await own.close()
        return came, after, pg.failures

    assert run(main) == ("1E", "Z", [])


def test_a_session_that_can_only_read() -> None:
    """SELECT FOR UPDATE fails at Bind on a standby. A serialization failure does not hide it."""
    before = "BEGIN READ ONLY"
    lock = parse("SELECT 1 FROM account FOR UPDATE") + bind() + execute()
    came, then, failures = run(lambda w: _struck(w, "serialization", lock, SYNC, before=before))
    assert came == "1 E(25006) Z"
    assert (then, failures) == ("E(25P02) Z", [])


def test_nothing_but_its_end_is_heard_in_a_failed_transaction() -> None:
    """25P02 it is, also for a statement that the test has chosen to fail in another way."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        own = await Raw.connect(pg)
        await own.sql("BEGIN")
        await own.sql("SELEC")
        pg.fail_next("deadlock", sql="account")
        came = await own.sql("UPDATE account SET balance = 1")
        await own.close()
        return came, pg.failures

    assert run(main) == ("E(25P02) Z", [])


def test_a_planner_that_sleeps_is_left_alone() -> None:
    """Bind may run a function of the program; if that sleeps, the failure waits for another one."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        own = await Raw.connect(pg)
        await own.sql(
            "CREATE FUNCTION nap() RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_sleep(3); RETURN 1; END'"
        )
        began = world.clock.monotonic()
        pg.fail_next("cancelled")
        came = await own.ask(statement("SELECT nap()"), SYNC)
        await own.close()
        return came, world.clock.monotonic() - began >= 3, pg.failures

    assert run(main) == ("1 2 D C Z", True, [])


# --- chosen failures -------------------------------------------------------------------------


def test_a_copy_that_came_ahead_fails_once() -> None:
    """Parse, Bind, Execute and the data in one go: one error, one ReadyForQuery."""
    copy = statement("COPY document FROM STDIN")
    came, then, failures = run(
        lambda w: _struck(w, "cancelled", copy, data(b"a\tx\n"), COPY_DONE, SYNC)
    )
    assert came == "1 2 E(57014) Z"
    assert (then, failures) == ("T D C Z", ["cancelled"])


async def _cancel(world: foretold.World, before: list[bytes], group: list[bytes]) -> Any:
    """What is answered to a group if a request to cancel it comes before it is executed."""
    pg = await world.postgres(schema=SCHEMA)
    world.network.latency(0.000_01, 0.000_01)  # shorter than any statement takes
    own = await Raw.connect(pg)
    own.send(*before)
    reader, writer = await asyncio.open_connection(pg.host.name, pg.port)
    await asyncio.sleep(1)
    own.send(*group)
    writer.write(struct.pack("!ii", 8 + len(own.key), CANCEL_REQUEST) + own.key)
    await reader.read()
    writer.close()
    own.send(query("SELECT 1"))
    came = [letters(await own.until_ready())]
    while "D" not in came[-1]:
        came.append(letters(await own.until_ready()))
    await own.close()
    return came


def _after_cancel(*group: bytes, before: tuple[bytes, ...] = ()) -> Any:
    """The same, in a run of its own."""
    return run(lambda w: _cancel(w, list(before), list(group)))


def test_a_cancelled_commit_takes_back_settings_and_says_so() -> None:
    """A driver that learned of a setting by ParameterStatus learns that it is gone."""
    begin = query("BEGIN; SET application_name = 'other'")
    assert _after_cancel(query("COMMIT"), before=(begin,)) == [
        "C C S Z",
        "E(57014) S Z",
        "T D C Z",
    ]


def test_a_request_to_cancel_what_is_skipped_comes_too_late() -> None:
    """After an error the server skips all up to Sync: nothing of that can fail."""
    came = _after_cancel(statement("SELECT 2"), SYNC, before=(WRONG, FLUSH))
    assert came == ["1 E(22P02) Z", "T D C Z"]


def test_a_request_to_cancel_a_sync_comes_too_late() -> None:
    """What was executed before is committed, and answered as ever."""
    came = _after_cancel(SYNC, before=(statement(INSERT), FLUSH))
    assert came == ["1 2 C Z", "T D C Z"]


def test_a_request_to_cancel_a_batch_fails_its_first_statement() -> None:
    """Its transaction goes on as a failed one, though a COMMIT comes later in the batch."""
    batch = statement(INSERT) + statement("COMMIT") + SYNC
    then = (query("SAVEPOINT s"), query("ROLLBACK"))
    came = _after_cancel(batch, *then, before=(query("BEGIN"),))
    assert came == ["C Z", "1 2 E(57014) Z", "E(25P02) Z", "C Z", "T D C Z"]


# --- notifications ---------------------------------------------------------------------------


async def _notifications(dsn: str) -> list[str]:
    """What a session hears of two transactions, each with several notifications; and of one that
    came while it was in a transaction itself."""
    open_one = psycopg.AsyncConnection.connect
    listener, one, other = [await open_one(dsn, autocommit=True) for _ in range(3)]
    await listener.execute("LISTEN news")
    for teller in (one, other):
        await teller.execute("BEGIN")
    for number in range(4):
        await one.execute(f"NOTIFY news, 'one {number}'")
        await other.execute(f"NOTIFY news, 'other {number}'")
    await other.execute("COMMIT")
    await one.execute("COMMIT")
    await one.execute("NOTIFY news, 'last'")
    heard = [told.payload async for told in listener.notifies(stop_after=9)]
    for each in (listener, one, other):
        await each.close()
    return heard


IN_ORDER = [f"other {n}" for n in range(4)] + [f"one {n}" for n in range(4)] + ["last"]


def test_notifications_of_the_server_itself(cluster: Cluster) -> None:
    """The real arm: in the order of commits, and within one as they were sent."""
    place = Path(cluster.socket_path)
    port = place.name.rpartition(".")[2]
    dsn = f"host={place.parent} port={port} user={cluster.superuser} dbname=postgres"
    assert asyncio.run(_notifications(dsn)) == IN_ORDER


@pytest.mark.parametrize("seed", range(6))
def test_notifications_come_in_order(seed: int) -> None:
    """The simulated arm, on several tapes."""

    async def main(world: foretold.World) -> Any:
        return await _notifications((await world.postgres()).dsn)

    assert foretold.run(main, seed=seed).value == IN_ORDER


def test_an_answer_does_not_overtake_a_notification() -> None:
    """What a session hears in the answer to its own NOTIFY comes after what it was told before."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        world.network.latency(0.000_01, 0.000_01)
        listener, teller = await Raw.connect(pg), await Raw.connect(pg)
        await listener.sql("LISTEN news")
        for number in range(4):
            each = listener if number % 2 else teller
            await each.sql(f"NOTIFY news, '{number}'")
        await listener.sql("SELECT 1")
        heard = [each[-2:-1] for each in listener.heard if each[:1] == b"A"]
        for each in (listener, teller):
            await each.close()
        return b"".join(heard)

    for seed in range(6):
        assert foretold.run(main, seed=seed).value == b"0123", seed


def test_a_setting_that_changes_meanwhile_is_told_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reload the server also says ParameterStatus unasked. The test says it here: when
    a real one looks at its configuration again is up to the machine."""
    status = message(b"S", text("TimeZone"), text("Asia/Tokyo"))

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        listener, other = await Raw.connect(pg), await Raw.connect(pg)
        await listener.sql("LISTEN news")
        monkeypatch.setattr(pg._gateway.waits, "_look", lambda session: [status])
        await other.sql("SELECT 1")
        came = await listener.next()
        for each in (listener, other):
            await each.close()
        return came

    assert run(main) == status
