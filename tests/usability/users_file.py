"""A test file as a user writes it: every handle and every call that gives something is in it.

`assert_type` refuses Any: mypy fails if it knows less, or something else, than stands here. At run
time it does nothing, and `test_types.py` runs the file as well.
"""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import assert_type

import httpx
from hypothesis import strategies as st

import foretold

SCHEMA = "create table account (name text primary key, balance int not null)"


class App:
    """An ASGI application, as FastAPI makes one."""

    async def __call__(self, scope: object, receive: object, send: object) -> None: ...


class Account:
    """What is tested."""

    def __init__(self) -> None:
        self.balance = 0

    async def deposit(self, amount: int) -> int:
        """Half of it is read, half of it is written."""
        before = self.balance
        await asyncio.sleep(foretold.knob("pause_s", [0.0, 0.1]))
        self.balance = before + amount
        foretold.sometimes(amount > 5, "a large deposit")
        return self.balance


class Bank(foretold.Machine):
    """Two actors deposit."""

    actors = 2
    faults = foretold.faults.network + foretold.faults.hosts.without("crash")
    receipts = foretold.Bundle[int]("receipts")
    anything = foretold.Bundle("anything")

    def __init__(self) -> None:
        self.account = Account()
        self.deposited = 0

    async def setup(self) -> None:
        """The machine knows its world and its actors."""
        assert_type(self.world, foretold.World)
        for actor in self.cast:
            assert_type(actor, foretold.Actor)
            assert_type(actor.name, str)

    @foretold.initialize(target=receipts)
    def open(self) -> int:
        """The first receipt."""
        return 0

    @foretold.rule(target=receipts, amount=st.integers(1, 9))
    @foretold.precondition(lambda self: self.deposited < 100)
    async def deposit(self, actor: foretold.Actor, amount: int) -> int:
        """Somebody deposits something."""
        async with asyncio.timeout(60):
            self.deposited += amount
            return await self.account.deposit(amount)

    @foretold.rule(receipt=foretold.consumes(receipts))
    async def file(self, receipt: int) -> None:
        """Rules can be called, and keep their types."""
        assert_type(self.open(), int)
        assert_type(await self.deposit(self.cast[0], 1), int)

    @foretold.invariant(when="end")
    def nothing_is_below_zero(self) -> int:
        """Over how many accounts."""
        assert self.account.balance >= 0
        return 1


TestBank = foretold.simulate(Bank, runs=2, steps=5)
TestBank.settings = {"runs": 3}
TestOther = Bank.TestCase


async def hosts(world: foretold.World) -> str:
    """Hosts, their clocks and disks, the network."""

    async def serve() -> int:
        return 7

    api = world.host("api", environment={"PORT": "80"})
    assert_type(api, foretold.Host)
    assert_type(await api.start(serve), int)
    assert_type(await api.start(serve()), int)
    assert_type(api.restart().done(), bool)
    assert_type(await api.stop(grace_s=1), bool)
    assert_type(api.ip + api.name, str)
    world.network.latency(0.001, 0.002, between=(api, "main"))
    world.network.partition(api, world.host("main"), one_way=True)
    api.clock.skew(3.0)
    assert_type(api.clock.now() + world.clock.monotonic(), float)
    assert_type(world.clock.datetime(), datetime.datetime)
    assert_type(world.clock.schedule(lambda: None, 1.0).cancelled, bool)
    api.disk.write("/etc/app.toml", b"x = 1")
    assert_type(api.disk.read(Path("/etc/app.toml")), bytes)
    assert_type(api.disk.tree("/etc"), dict[str, bytes | str | None])
    async with world.calm():
        assert_type(foretold.current_world(), foretold.World)
    await world.heal()
    return api.name


async def choices() -> tuple[int, str, float]:
    """What a workload draws has the type of what it is drawn from."""
    assert_type(foretold.choose(["a", "b"]), str)
    assert_type(foretold.between(1, 9), int)
    assert_type(foretold.draw(st.lists(st.booleans())), list[bool])
    assert_type(foretold.buggify("slow"), bool)
    account = Account()
    assert_type(await foretold.together(account.deposit(1), account.deposit(2)), list[int])
    return foretold.between(0, 1), foretold.choose("ab"), 1.0


@foretold.simulate(runs=2, faults=foretold.faults.network, exact_time=True, vacuity="ignore")
async def test_hosts(world: foretold.World) -> None:
    """A test that wants the world."""
    assert_type(await hosts(world), str)


async def server(world: foretold.World) -> None:
    """A database and an application."""
    pg = await world.postgres(schema=SCHEMA, port=5433, superuser=True)
    assert_type(pg, foretold.Postgres)
    assert_type(pg.dsn + pg.url("asyncpg"), str)
    assert_type(pg.host, foretold.Host)
    pg.on_commit(lambda commit: commit.statements)
    assert_type(len(pg.sql("select name from account where balance < $1", 0)), int)
    for step in await pg.interleave(("a", "BEGIN"), ("b", "BEGIN")):
        assert_type(step.waited, bool)
    assert_type(pg.failures, list[str])
    web = await world.web(App(), through="asgi", environment={"DSN": pg.dsn})
    assert_type(web, foretold.Web)
    assert_type(web.host, foretold.Host)
    assert_type(web.failures, list[str])
    async with web.client("ada", headers={"x": "y"}, timeout=3) as ada:
        assert_type(ada, httpx.AsyncClient)
    web.fail_next("request_lost", path="/orders")


def searches() -> None:
    """Runs, searches and what they give."""
    done = foretold.run(choices, seed=3, order="any")
    assert_type(done, foretold.Run[tuple[int, str, float]])
    assert_type(done.value, tuple[int, str, float])
    assert_type(foretold.replay(choices, done.tape).value, tuple[int, str, float])
    assert_type(foretold.run(lambda: 3).value, int)
    assert_type(foretold.run(Bank, steps=3, seed=1), foretold.Run[None])
    assert_type(done.trace.digest, str)
    outcome = foretold.explore(Bank, runs=3, steps=4, actors=["payer", "payee"], shrink=False)
    assert_type(outcome, foretold.Outcome)
    assert_type(outcome.runs, int)
    failure = outcome.failure
    if failure is not None:
        assert_type(failure, foretold.Failure)
        assert_type(failure.exception, BaseException)
        assert_type(failure.tape, foretold.Tape)
        assert_type(failure.delays, list[foretold.Delay])
        assert_type(failure.stock_asyncio, bool | None)
        assert_type(failure.save("failed.tape"), Path)
    clock: foretold.Clock = foretold.ManualClock()
    assert_type(clock.now(), float)
