"""Corners of the protocol, and clients that behave badly: each as with PostgreSQL itself."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import psycopg
import pytest

import foretold
from foretold.services.postgres.protocol import (
    CANCEL_REQUEST,
    PROTOCOL_3,
    message,
    query,
    startup,
    text,
)
from tests.postgres.driving import check, for_each
from tests.postgres.raw import (
    COPY_DONE,
    FLUSH,
    SYNC,
    TERMINATE,
    Raw,
    bind,
    data,
    execute,
    letters,
    parse,
    run,
)
from tests.postgres.scenarios import SCHEMA, compared, connect

INSERT = "INSERT INTO document VALUES ('{}', 'x')"
UPDATE = "UPDATE account SET balance = 0 WHERE id = {}"
COPY = "COPY document FROM STDIN"
NAMES = "SELECT name FROM document ORDER BY 1"


def names(pg: Any) -> str:
    """The documents that there are, as committed."""
    return " ".join(row[0] for row in pg.sql(NAMES))


# --- extended queries ------------------------------------------------------------------------


async def errors_in_a_pipeline(world: foretold.World) -> None:
    """After an error all is skipped up to Sync, and what came before it in the batch is undone."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    bad = parse("SELEC 1")
    came = await own.ask(run(INSERT.format("a")), bad, run(INSERT.format("b")), SYNC)
    assert came == "1 2 C E(42601) Z"
    assert names(pg) == ""
    own.send(run(INSERT.format("c")), SYNC, bad, SYNC, run(INSERT.format("d")), SYNC)
    assert [letters(await own.until_ready()) for _ in range(3)] == [
        "1 2 C Z",
        "E(42601) Z",
        "1 2 C Z",
    ]
    assert names(pg) == "c d"
    await own.close()


async def flush_without_sync(world: foretold.World) -> None:
    """Answers come with Flush; after an error nothing does, not even to a simple query."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    own.send(parse("SELECT 1"), FLUSH)
    assert await own.take(1) == "1"
    own.send(bind(), message(b"D", b"P\0"), execute(), FLUSH)
    assert await own.take(4) == "2TDC"
    own.send(parse("SELEC 1"), FLUSH)
    assert await own.take(1) == "E"
    own.send(run(INSERT.format("a")), FLUSH, query("SELECT 1"), FLUSH)
    assert await own.ask(SYNC) == "Z"
    assert await own.sql("SELECT 1") == "T D C Z"
    assert names(pg) == ""
    await own.close()


async def portals(world: foretold.World) -> None:
    """Execute with a limit suspends; a named portal goes on later, until it is closed."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    await own.sql("BEGIN")
    came = await own.ask(
        parse("SELECT generate_series(1, 5)", "s"), bind("p", "s"), execute("p", 2), SYNC
    )
    assert came == "1 2 D D s Z"
    assert await own.ask(execute("p", 2), SYNC) == "D D s Z"
    assert await own.ask(execute("p", 2), SYNC) == "D C Z"
    assert await own.ask(message(b"C", b"Pp\0"), execute("p"), SYNC) == "3 E(34000) Z"
    assert await own.ask(run("SELECT 1"), SYNC) == "E(25P02) Z"
    await own.sql("ROLLBACK")
    assert await own.ask(parse(""), bind(), execute(), SYNC) == "1 2 I Z"
    await own.close()


async def function_call(world: foretold.World) -> None:
    """The oldest way: FunctionCall, here of int4pl; and one that fails."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)

    def call(function: int) -> bytes:
        four, none = struct.pack("!ii", 4, 4), struct.pack("!ii", 4, 0)
        return message(
            b"F", struct.pack("!ihhh", function, 1, 1, 2), four, none, struct.pack("!h", 1)
        )

    own.send(call(177))
    result, ready = await own.until_ready()
    assert (result, ready[:1]) == (message(b"V", struct.pack("!ii", 4, 4)), b"Z")
    assert await own.ask(call(154)) == "E(22012) Z"
    assert await own.ask(call(4_000_000)) == "E(42883) Z"
    await own.close()


async def long_statements(world: foretold.World) -> None:
    """Megabytes of SQL, and a pipeline of megabytes in both directions."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    assert await own.sql(f"SELECT length('{'x' * 5_000_000}')") == "T D C Z"
    many = [run("SELECT repeat('x', 100000)") for _ in range(20)]
    padding = message(b"P", text("p"), text(f"SELECT '{'x' * 2_000_000}'"), b"\0\0")
    assert await own.ask(*many, padding, SYNC) == "1 2 D C " * 20 + "1 Z"
    await own.close()


# --- COPY ------------------------------------------------------------------------------------


@compared
async def copies(world: foretold.World) -> Any:
    """Two COPYs among other statements of one query; COPY by the extended protocol, and ahead."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    own.send(query(f"SELECT 1; {COPY}; SELECT 2; {COPY}; SELECT 3"))
    seen = [await own.take(4)]
    own.send(data(b"a\tx\n"), COPY_DONE)
    seen.append(await own.take(5))
    own.send(data(b"b\tx\n"), data(b"c\tx\n"), COPY_DONE)
    seen.append(letters(await own.until_ready()))
    assert seen == ["TDCG", "CTDCG", "C T D C Z"]
    own.send(run(COPY), SYNC)
    assert await own.take(3) == "12G"
    assert await own.ask(data(b"d\tx\n"), SYNC, data(b"e\tx\n"), COPY_DONE, SYNC) == "C Z"
    own.send(run(COPY), FLUSH)
    assert await own.take(3) == "12G"
    own.send(data(b"f\tx\n"), COPY_DONE, FLUSH)
    assert await own.take(1) == "C"
    assert await own.ask(SYNC) == "Z"
    assert await own.ask(run(COPY), data(b"g\tx\n"), COPY_DONE, SYNC) == "1 2 G C Z"
    own.send(query(COPY))
    assert await own.take(1) == "G"
    assert await own.ask(message(b"f", b"no more\0")) == "E(57014) Z"
    assert await own.ask(COPY_DONE, query("SELECT 1")) == "T D C Z"
    assert names(pg) == "a b c d e f g"
    await own.close()
    return seen


async def idle_in_copy(world: foretold.World) -> None:
    """A server that waits for the data of a COPY is not idle in its transaction."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    await own.sql("SET idle_in_transaction_session_timeout = '5s'")
    await own.sql("BEGIN")
    own.send(query(COPY))
    assert await own.take(1) == "G"
    await asyncio.sleep(20)
    assert await own.ask(data(b"a\tx\n"), COPY_DONE) == "C Z"
    await asyncio.sleep(20)
    assert letters(await own.until_ready()) == "E(25P03)"
    assert names(pg) == ""
    await own.close()


# --- clients that go -------------------------------------------------------------------------


async def last_words(world: foretold.World) -> None:
    """What was sent before Terminate, or before the end of the stream, is done; and answered, if
    the client still reads."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    own.send(query(INSERT.format("a")), query(INSERT.format("b")), TERMINATE, query("SELECT 1"))
    assert letters(await own.until_ready()) == "C Z"
    assert letters(await own.until_ready()) == "C Z"
    assert await own.next() is None
    await own.close()
    own = await Raw.connect(pg)
    own.send(query(INSERT.format("c")), query(INSERT.format("d")))
    own.writer.write_eof()
    assert letters(await own.until_ready()) == "C Z"
    assert letters(await own.until_ready()) == "C Z"
    assert await own.next() is None
    await own.close()
    assert names(pg) == "a b c d"


@compared
async def orphans(world: foretold.World) -> Any:
    """A client dies while its statement waits: the server notices when that is over, and until
    then keeps all its locks."""
    pg = await world.postgres(schema=SCHEMA)
    seen = []
    for die in ("abort", "close"):
        holder, other, own = [await Raw.connect(pg) for _ in range(3)]
        await holder.sql(f"BEGIN; {UPDATE.format(1)}")
        await own.sql(f"BEGIN; {UPDATE.format(2)}")
        own.send(query(UPDATE.format(1)))
        await asyncio.sleep(1)
        own.writer.transport.abort() if die == "abort" else own.writer.close()
        await asyncio.sleep(10)
        nowait = "SELECT 1 FROM account WHERE id = 2 FOR UPDATE NOWAIT"
        seen.append(await other.sql(nowait))
        await holder.sql("COMMIT")
        await asyncio.sleep(1)
        seen.append(await other.sql(nowait))
        await holder.close()
        await other.close()
    assert seen == ["T E(55P03) Z", "T D C Z"] * 2 or seen == ["E(55P03) Z", "T D C Z"] * 2
    return seen


async def dead_clients(world: foretold.World) -> None:
    """A reset with a statement on its way, due, asleep, in COPY, in a transaction, in a login."""
    pg = await world.postgres(schema=SCHEMA)
    for number, wait_s in enumerate((0.0, 0.001, 0.5)):
        own = await Raw.connect(pg)
        own.send(query(INSERT.format(number)))
        await asyncio.sleep(wait_s)
        own.writer.transport.abort()
    for last in ("SELECT pg_sleep(100)", COPY, f"BEGIN; {INSERT.format('never')}"):
        own = await Raw.connect(pg)
        own.send(query(last))
        await asyncio.sleep(1)
        own.writer.transport.abort()
    _, writer = await asyncio.open_connection(pg.host.name, pg.port)
    writer.transport.abort()
    await asyncio.sleep(200)
    assert "2" in names(pg)
    assert "never" not in names(pg)
    (step,) = await pg.interleave(
        ("a", "SELECT count(*) AS n FROM pg_locks WHERE relation > 16000")
    )
    assert step.rows[0]["n"] == 0


async def locks_of_sessions(world: foretold.World) -> None:
    """Advisory locks of a session are free when it ends, however it does."""
    pg = await world.postgres(schema=SCHEMA)
    for end in ("terminate", "close", "abort"):
        own, other = await Raw.connect(pg), await Raw.connect(pg)
        await own.sql("SELECT pg_advisory_lock(5), pg_advisory_lock(5)")
        other.send(query("SELECT pg_advisory_lock(5)"))
        await asyncio.sleep(5)
        if end == "terminate":
            own.send(TERMINATE)
        elif end == "abort":
            own.writer.transport.abort()
        if end != "abort":
            await own.close()
        assert letters(await other.until_ready()) == "T D C Z"
        await other.close()
        await asyncio.sleep(1)


# --- beginnings ------------------------------------------------------------------------------


async def beginnings(world: foretold.World) -> None:
    """Options of all sorts, versions of the protocol, nonsense."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg, options="-c statement_timeout=77s", application_name="ours")
    own.send(query("SHOW statement_timeout"))
    assert b"77s" in (await own.until_ready())[1]
    assert await own.ask(message(b"?", b"what")) == "E(08P01)"
    await own.close()
    for wrong, value, code in (
        ("options", "-c no_such=1", "42704"),
        ("nonsense", "1", "42704"),
        ("database", "nowhere", "3D000"),
        ("user", "nobody", "28000"),
    ):
        own = await Raw.connect(pg, PROTOCOL_3, **{wrong: value})
        assert letters(own.greeting).split()[-1] == f"E({code})"
        await own.close()
    own = await Raw.connect(pg, 3 << 16 | 2, **{"_pq_.nothing": "1"})
    assert letters(own.greeting)[:1] in "vR"
    assert b"v" in {each[:1] for each in own.greeting}
    assert await own.sql("SELECT 1") == "T D C Z"
    await own.close()
    reader, writer = await asyncio.open_connection(pg.host.name, pg.port)
    writer.write(startup(2 << 16, []))
    assert (await reader.read()).startswith(b"EFATAL:  unsupported frontend protocol 2.0")
    writer.close()
    own = await Raw.connect(pg, 4 << 16)
    assert letters(own.greeting) == "E(0A000)"
    await own.close()
    async with await psycopg.AsyncConnection.connect(
        pg.dsn, max_protocol_version="3.2", autocommit=True
    ) as new:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await new.execute("SELECT pg_sleep(60)")
        assert (await (await new.execute("SELECT 1")).fetchone()) == (1,)


# --- cancelling, ending ----------------------------------------------------------------------


async def cancel_with_a_wrong_key(world: foretold.World) -> None:
    """Nothing happens; with the right one the statement is cancelled."""
    pg = await world.postgres(schema=SCHEMA)
    own = await Raw.connect(pg)
    own.send(query("SELECT pg_sleep(30)"))
    await asyncio.sleep(1)
    began = world.clock.monotonic()
    for key in (own.key[:-1] + b"\xff", b"\0\0\0\1" + own.key[4:], own.key):
        reader, writer = await asyncio.open_connection(pg.host.name, pg.port)
        writer.write(struct.pack("!ii", 8 + len(key), CANCEL_REQUEST) + key)
        assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(1)
    assert letters(await own.until_ready()) == "T E(57014) Z"
    assert world.clock.monotonic() - began < 5
    await own.close()


@compared
async def ended_by_the_program(world: foretold.World) -> Any:
    """pg_cancel_backend and pg_terminate_backend, of sessions that wait, sleep and do nothing."""
    pg = await world.postgres(schema=SCHEMA)
    seen = []
    for function in ("pg_cancel_backend", "pg_terminate_backend"):
        chief, idle, busy, waiting = [
            await Raw.connect(pg, application_name=name)
            for name in ("chief", "other", "other", "other")
        ]
        await idle.sql(f"BEGIN; {UPDATE.format(1)}")
        busy.send(query("SELECT pg_sleep(100)"))
        waiting.send(query(UPDATE.format(1)))
        await asyncio.sleep(1)
        seen.append(await chief.sql(
            f"SELECT {function}(pid) FROM pg_stat_activity WHERE application_name = 'other' "
            "AND state <> 'idle'"
        ))  # fmt: skip
        seen += [letters(await each.until_ready()) for each in (busy, waiting)]
        seen.append(await idle.sql("COMMIT"))
        for each in (chief, idle, busy, waiting):
            await each.close()
    assert seen[:4] == ["T D D D C Z", "T E(57014) Z", "E(57014) Z", "C Z"]
    assert seen[4:] == ["T D D D C Z", "T E(57P01)", "E(57P01)", "E(57P01)"]
    own = await Raw.connect(pg)
    last = await own.sql("SELECT pg_terminate_backend(pg_backend_pid())")
    assert last.endswith("E(57P01)")
    await own.close()
    own = await Raw.connect(pg)
    await own.sql(
        "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    assert await own.sql(INSERT.format("still there")) == "C Z"
    assert names(pg) == "still there"
    await own.close()
    return seen


async def silent_waiting(world: foretold.World) -> None:
    """A session that wants no notices tells nobody that it waits; it is found out all the same."""
    pg = await world.postgres(schema=SCHEMA)
    holder, own = await Raw.connect(pg), await Raw.connect(pg)
    await own.sql("SET client_min_messages = error")
    await holder.sql(f"BEGIN; {UPDATE.format(1)}")
    own.send(query(UPDATE.format(1)))
    await asyncio.sleep(5)
    assert pg.waits == 1
    await holder.sql("COMMIT")
    assert letters(await own.until_ready()) == "C Z"
    await holder.close()
    await own.close()


async def slow_reader(world: foretold.World) -> None:
    """A client that does not read holds up its own session: the next statement waits."""
    pg = await world.postgres(schema=SCHEMA)
    world.network.buffers(16_384, 16_384)
    own = await Raw.connect(pg)
    own.hold(True)
    own.send(query("SELECT repeat('x', 1000000)"), query(INSERT.format("later")))
    await asyncio.sleep(10)
    assert names(pg) == ""
    own.hold(False)
    assert letters(await own.until_ready()) == "T D C Z"
    assert letters(await own.until_ready()) == "C Z"
    assert names(pg) == "later"
    own.hold(True)
    own.send(query("SELECT repeat('x', 1000000)"), query(INSERT.format("never")))
    await asyncio.sleep(10)
    own.writer.transport.abort()
    await asyncio.sleep(1)
    assert pg.sql("SELECT count(*) FROM document")[0][0] == 2
    (one,) = await connect(pg, 1)
    await one.close()


@for_each(
    errors_in_a_pipeline, flush_without_sync, portals, function_call, long_statements, copies,
    idle_in_copy, last_words, orphans, dead_clients, locks_of_sessions, beginnings,
    cancel_with_a_wrong_key, ended_by_the_program, silent_waiting, slow_reader,
)  # fmt: skip
def test_protocol(main) -> None:
    """What each scenario says holds on every tape, and repeats."""
    check(main)
