"""The serial oracle and metamorphic relations: races are found with no invariant written down."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI
from hypothesis import strategies as st

import foretold
from examples.prophecy import bank
from foretold.spec.alike import Ending, alike, ending_of, invented, renamed
from foretold.spec.serial import is_refusal, not_serial, orders_of

SCHEMA = """
create table item (id int primary key, stock int not null, changed timestamptz default now());
create table sale (
    id int generated always as identity primary key, key uuid default gen_random_uuid(),
    item int references item, buyer text
);
create table line (sale int references sale, what text);
insert into item values (1, 2), (2, 2);
"""


# ---------------------------------------------------------------- serially


def test_a_withdrawal_that_reads_and_writes_later() -> None:
    """The report as a user reads it: what both gave, what each serial order gives, the rows that
    only the odd one has, and the statements in their order."""
    with pytest.raises(foretold.NotSerial) as caught:
        foretold.run(bank.withdraw_twice)
    lines = str(caught.value).split("\n")
    assert lines[:5] == [
        "call 1 and call 2 at the same time end as no serial order of them ends",
        "  together: call 1: gave paid; call 2: gave paid",
        "  call 1 → call 2: call 1: gave paid; call 2: gave refused",
        "  call 2 → call 1: call 1: gave refused; call 2: gave paid",
        "  together has movement: id <id>, name ada, amount -60",
    ]
    assert lines[5] == "  the statements, in their order:"
    reads = [line for line in lines if "select balance" in line]
    assert [line[4] for line in reads] == ["1", "2"]


def test_the_story_does_not_read_many_tries_as_one_history() -> None:
    """The run has tried several orders, and has put the database back before each. A story that
    took all of their statements for one history would name conflicts that never were."""
    options: Any = {"shrink": False, "confirm": False}
    failure = foretold.explore(bank.withdraw_twice, runs=1, seed=1, **options).failure
    assert failure is not None
    assert failure.story.pair is None
    assert "the statements, in their order:" in str(failure.exception)
    assert "Look at" not in str(failure.story)
    assert "The statements of that" not in str(failure.story)
    assert "(call 1 × " in str(failure.story), "the tasks are called after a function of ours"


def test_a_locked_withdrawal_is_serial() -> None:
    """With the row locked from the read on every order of the statements ends well."""
    foretold.run(bank.locked_twice)


def counted(how: str, calls: int = 2) -> Any:
    """A run that gives how many orders were tried."""

    async def main(world: foretold.World) -> int:
        pg = await world.postgres(schema=SCHEMA)

        async def buy() -> str:
            connection = await asyncpg.connect(pg.dsn)
            try:
                async with connection.transaction(isolation=how):
                    left = await connection.fetchval("select stock from item where id = 1")
                    await connection.execute("update item set stock = $1 where id = 1", left - 1)
                    sale = "insert into sale (item, buyer) values (1, 'x') returning id"
                    number = await connection.fetchval(sale)
                    await connection.execute("insert into line values ($1, 'lamp')", number)
                return "bought"
            finally:
                await connection.close()

        return await foretold.serially(pg, *[buy] * calls)

    return main


def test_an_abort_is_no_anomaly() -> None:
    """At REPEATABLE READ the second one is aborted and changes nothing: the other one alone
    explains that. At READ COMMITTED the same functions lose an update. Ids, uuids and times differ
    from order to order, and are not compared."""
    assert foretold.run(counted("repeatable_read")).value > 10
    with pytest.raises(foretold.NotSerial, match="has item: id 1, stock 1, changed <time>"):
        foretold.run(counted("read_committed"))


def test_a_program_that_tells_of_an_abort() -> None:
    """The same if the function catches the error and says so, or is a request whose response
    refuses. If something was committed after the abort, what it gave is compared."""

    def answering(again: bool) -> Any:
        async def main(world: foretold.World) -> int:
            pg = await world.postgres(schema=SCHEMA)

            async def buy() -> str:
                connection = await asyncpg.connect(pg.dsn)
                try:
                    async with connection.transaction(isolation="repeatable_read"):
                        left = await connection.fetchval("select stock from item where id = 1")
                        await connection.execute(
                            "update item set stock = $1 where id = 1", left - 1
                        )
                except asyncpg.SerializationError:
                    if again:
                        await connection.execute("update item set stock = stock - 1 where id = 1")
                    return "busy"
                finally:
                    await connection.close()
                return "bought"

            return await foretold.serially(pg, buy, buy)

        return main

    assert foretold.run(answering(again=False)).value > 5
    with pytest.raises(foretold.NotSerial, match="gave busy"):
        foretold.run(answering(again=True))
    refused = SimpleNamespace(status_code=409)
    assert is_refusal(refused)
    assert not is_refusal(SimpleNamespace(status_code=204))


def test_calls_are_functions() -> None:
    """Each is called many times: a coroutine cannot be."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=SCHEMA)
        await foretold.serially(pg, asyncio.sleep(0), asyncio.sleep(0))  # type: ignore[arg-type]  # the mistake

    with pytest.raises(foretold.UsageError, match=r"right: serially\(pg, lambda"):
        foretold.run(main)
    assert list(orders_of(2, [1])) == [(0, 1), (1, 0), (0,)]


# ---------------------------------------------------------------- same


def test_two_ways_that_end_alike() -> None:
    """A batch and its parts: the ids differ, and the rows are the same. A batch that forgets one is
    told with the row that is missing."""

    async def main(world: foretold.World, forgets: bool = False) -> None:
        pg = await world.postgres(schema=SCHEMA)

        async def buy(*items: int) -> str:
            connection = await asyncpg.connect(pg.dsn)
            for item in items:
                await connection.execute("insert into sale (item, buyer) values ($1, 'x')", item)
            await connection.close()
            return "bought"

        async def singly() -> str:
            await buy(2)
            return await buy(1)

        assert await foretold.same(lambda: buy(*[1, 2][forgets:]), singly) == "bought"

    async def forgetful(world: foretold.World) -> None:
        await main(world, forgets=True)

    foretold.run(main)
    with pytest.raises(foretold.PropertyViolated) as caught:
        foretold.run(forgetful)
    assert str(caught.value) == (
        "two ways that must end alike do not\n"
        "  the first gave gave bought\n"
        "  the second gave gave bought\n"
        "  the second has sale: id <id>, key <id>, item 1, buyer x"
    )


# ---------------------------------------------------------------- machines


class Shop(foretold.Machine):
    """Three customers; what they buy is read and written later."""

    actors = 3
    steps = 3
    quiet_s = 0.0
    oracle = "serial"
    how = ""

    async def setup(self) -> None:
        self.pg = await self.world.postgres(schema=SCHEMA)
        self.number = 0

    @foretold.rule(item=st.integers(1, 2))
    async def buy(self, actor: Any, item: int) -> str:
        self.number += 1  # what a rule remembers is right in each order, since each is a run
        connection = await asyncpg.connect(self.pg.dsn)
        try:
            async with connection.transaction():
                stock = f"select stock from item where id = $1 {self.how}"
                left = await connection.fetchval(stock, item)
                if left < 1:
                    raise foretold.Refused("sold out")
                changed = "update item set stock = $2, changed = now() where id = $1"
                await connection.execute(changed, item, left - 1)
                sold = "insert into sale (item, buyer) values ($1, $2)"
                await connection.execute(sold, item, actor.name)
        finally:
            await connection.close()
        return "bought"


class Locked(Shop):
    """The row is locked from the read on."""

    how = "for update"


def test_a_machine_without_invariants_finds_a_race() -> None:
    """Found in a few runs, shrunk to the two calls, told with the serial endings, and replayed."""
    outcome = foretold.explore(Shop, runs=60, seed=1, confirm=False)
    failure = outcome.failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotSerial)
    said = str(failure.exception)
    assert "at the same time end as no serial order of them ends" in said
    assert "buy(item=1)" in said
    assert "together has item: id 1, stock 1" in said
    with pytest.raises(foretold.NotSerial):
        foretold.replay(Shop, failure.tape)


class Busy(Shop):
    """A rule that tells its caller of an abort, instead of raising."""

    @foretold.rule(item=st.integers(1, 2))
    async def buy(self, actor: Any, item: int) -> str:
        connection = await asyncpg.connect(self.pg.dsn)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                left = await connection.fetchval("select stock from item where id = $1", item)
                changed = "update item set stock = $2 where id = $1"
                await connection.execute(changed, item, left - 1)
        except asyncpg.SerializationError:
            return "busy"
        finally:
            await connection.close()
        return "bought"


def test_a_right_machine_is_silent() -> None:
    """With a lock every storm ends as some serial order does, refusals and aborts included; aborts
    also if the rule returns that it was one."""
    assert foretold.explore(Locked, runs=40, seed=1).failure is None
    assert foretold.explore(Busy, runs=15, seed=1).failure is None


def test_the_oracle_is_checked() -> None:
    """A misspelled oracle, and one actor alone, are mistakes."""

    class Misspelled(Shop):
        oracle = "serail"

    class Alone(Shop):
        actors = 1

    class Often(Shop):
        storms = 2

    wrong = (
        (Misspelled, '"serial" or None'),
        (Alone, "actors = 2 at least"),
        (Often, "a share, from 0 to 1; got 2"),
    )
    for machine, said in wrong:
        with pytest.raises(foretold.UsageError, match=said):
            foretold.run(machine)


# ---------------------------------------------------------------- what is alike


class Database:
    """Tables as the oracle gets them."""

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        from foretold.services.postgres.moment import Column, TableContents

        columns = (
            Column("id", "int4", "s"),
            Column("buyer", "text", ""),
            Column("of", "int4", "s"),
        )
        self._table = TableContents("s", columns, rows)

    def tables(self) -> list[Any]:
        return [self._table]


def ending(*rows: tuple[str, str, str]) -> Ending:
    """Of a call that gave an id and a time."""
    return ending_of([("gave", {"id": 7, "at": "2026-01-01T00:00:00Z"})], [Database(*rows)])


def test_ids_are_known_by_where_they_stand() -> None:
    """Other numbers and another order of rows are alike; another shape is not."""
    chain = ending(("1", "ada", "1"), ("2", "bob", "1"), ("3", "cleo", "2"))
    renamed = ending(("5", "cleo", "9"), ("9", "bob", "4"), ("4", "ada", "4"))
    other = ending(("1", "ada", "1"), ("2", "bob", "1"), ("3", "cleo", "1"))
    assert alike(chain, renamed)
    assert not alike(chain, other)
    assert chain.results == (("gave", ".at = <time>", ".id = <id>"),)


def test_fields_that_change_by_themselves_are_known_by_where_they_stand() -> None:
    """Two endings of the same calls that differ in a random key: the key is an id from then on, and
    a value that both have is not. A row more is no matter of keys, and there is no verdict."""

    def ended(key: str, *, more: bool = False) -> Ending:
        rows = [("1", "ada", "1"), ("2", key, "1")]
        return ending(*rows, *[("3", "bob", "1")] * more)

    made = invented([(ended("x7f"), ended("q2k"))])
    assert made == {("s", "buyer"): frozenset({"ada"})}
    one, other = (renamed(ended(key), made) for key in ("x7f", "zzz"))
    assert alike(one, other)
    assert not alike(renamed(ended("ada"), made), one)
    uncompared = renamed(ended("ada"), dict.fromkeys(made))
    assert alike(uncompared, renamed(ended("zzz"), dict.fromkeys(made)))
    assert invented([(ended("x7f"), ended("q2k", more=True))]) is None


def test_a_field_of_an_answer_that_is_invented() -> None:
    """The same for what calls give: by the name of the value. Why a call was refused is always
    compared."""

    def ended(word: str, given: Any) -> Ending:
        return ending_of([(word, given)], [])

    pair = (ended("gave", {"n": 1, "token": "a"}), ended("gave", {"n": 1, "token": "b"}))
    made = invented([pair])
    assert made == {("", ".token"): frozenset()}
    assert alike(renamed(pair[0], made), renamed(pair[1], made))
    assert invented([(ended("refused", "429 slow down"), ended("refused", "409 taken"))]) is None


# ---------------------------------------------------------------- what a program invents

KEYED = """
create table key (id serial primary key, secret text, hash text);
create table counter (n int);
insert into counter values (0);
"""


def keyed(how: str = "") -> Any:
    """Two calls that each make a random key, and count; with `for update` they do it rightly."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=KEYED)

        async def make() -> dict[str, Any]:
            connection = await asyncpg.connect(pg.dsn)
            try:
                async with connection.transaction():
                    n = await connection.fetchval(f"select n from counter {how}")
                    await connection.execute("update counter set n = $1", n + 1)
                    key = secrets.token_urlsafe(8)
                    hashed = hashlib.sha256(key.encode()).hexdigest()
                    sql = "insert into key (secret, hash) values ($1, $2) returning id"
                    number = await connection.fetchval(sql, key, hashed)
                    return {"key": key, "ticket": f"ticket {number}"}
            finally:
                await connection.close()

        await foretold.serially(pg, make, make)

    return main


def test_random_keys_are_no_difference() -> None:
    """Keys, their hashes, and texts with numbers of sequences differ in each try; the calls are
    serial. Without the lock the lost count is found all the same."""
    foretold.run(keyed("for update"))
    with pytest.raises(foretold.NotSerial, match="together has counter: n 1"):
        foretold.run(keyed())


def test_calls_that_are_not_repeatable_are_not_compared() -> None:
    """A call that does something else each time it is made: there is no verdict, and the run says
    so."""

    async def main(world: Any) -> list[str]:
        pg = await world.postgres(schema=KEYED)
        made = 0

        async def grow() -> None:
            nonlocal made
            made += 1
            connection = await asyncpg.connect(pg.dsn)
            await connection.executemany("insert into key (secret) values ($1)", [("x",)] * made)
            await connection.close()

        await foretold.serially(pg, grow, grow, orders=1)
        return list(world.home.kernel.notes)

    (note,) = foretold.run(main).value
    assert note.startswith("foretold.serially: the same calls in the same serial order end in")


class Keys(foretold.Machine):
    """A service that gives random keys, as an API makes tokens."""

    actors = 2
    steps = 2
    quiet_s = 0.0
    oracle = "serial"

    async def setup(self) -> None:
        app = FastAPI()
        app.add_api_route("/keys", self.make_key, methods=["POST"])
        self.web = await self.world.web(app)
        for actor in self.cast:
            actor.http = self.web.client(actor)

    async def teardown(self) -> None:
        for actor in self.cast:
            await actor.http.aclose()

    async def make_key(self) -> str:
        first = secrets.token_hex(8)
        await asyncio.sleep(0.001)  # another call draws meanwhile
        return first + secrets.token_hex(8)

    @foretold.rule()
    async def ask(self, actor: Any) -> Any:
        return (await actor.http.post("/keys")).json()


def test_randomness_belongs_to_the_call() -> None:
    """What a call of the storm draws is the same in each order, also on the application's host: a
    random key is no difference."""
    assert foretold.explore(Keys, runs=15, seed=1).failure is None


class Window(foretold.Machine):
    """A service whose answers depend on when it is asked: the instant as a number, and who has
    asked lately, as a list that gets shorter by itself."""

    actors = 2
    steps = 3
    oracle = "serial"
    loses = False

    async def setup(self) -> None:
        self.asked: list[float] = []
        self.count = 0

    @foretold.rule()
    async def ask(self) -> dict[str, int]:
        await self.count_up()
        now = asyncio.get_running_loop().time()
        self.asked.append(now)
        return {"tick": int(now * 10), "count": self.count}

    @foretold.rule()
    async def lately(self) -> list[int]:
        now = asyncio.get_running_loop().time()
        return [1 for each in self.asked if now < each + 1.5]

    @foretold.rule()
    async def count_up(self) -> int:
        before = self.count
        if self.loses:
            await asyncio.sleep(0.001)
        self.count = before + 1
        return self.count


class LosesCounts(Window):
    """The same with a race."""

    loses = True


def test_what_depends_on_the_instant_is_no_difference() -> None:
    """An instant in an answer is renamed, and a list that depends on the time leaves no verdict:
    silent. A lost count in the same service is found, by its answers alone."""
    assert foretold.explore(Window, runs=60, seed=1, confirm=False).failure is None
    failure = foretold.explore(LosesCounts, runs=60, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotSerial)


class DrawsAgain(foretold.Machine):
    """A call that draws once more if another one is under way: its key is then another one than in
    any serial order."""

    actors = 2
    steps = 2
    quiet_s = 0.0
    oracle = "serial"

    async def setup(self) -> None:
        self.under_way = 0

    @foretold.rule()
    async def ask(self, actor: Any) -> dict[str, Any]:
        if self.under_way:
            secrets.token_hex(8)
        self.under_way += 1
        await asyncio.sleep(0.001)
        self.under_way -= 1
        return {"key": secrets.token_hex(8), "who": actor.name}


def test_keys_that_depend_on_the_overlap_are_no_difference() -> None:
    """What changes with randomness is compared by where it stands, not by its value."""
    assert foretold.explore(DrawsAgain, runs=15, seed=1).failure is None


class Chooses(foretold.Machine):
    """A rule that chooses while it is carried out."""

    actors = 3
    steps = 2
    quiet_s = 0.0
    oracle = "serial"

    @foretold.rule()
    async def act(self, actor: Any) -> list[int]:
        first = foretold.between(0, 1_000)
        await asyncio.sleep(0.001)  # another call chooses meanwhile
        return [first, foretold.between(0, 1_000)]


def test_choices_belong_to_the_call() -> None:
    """What a rule chooses is the same in each order of the calls."""
    assert foretold.explore(Chooses, runs=15, seed=1).failure is None


def test_storms_are_about_the_same_things() -> None:
    """With many things to act on, two calls of a storm mostly meet on one of them."""
    met: list[bool] = []

    class Things(foretold.Machine):
        actors = 2
        steps = 12
        quiet_s = 0.0
        oracle = "serial"
        things: Any = foretold.Bundle("things")

        @foretold.rule(target=things)
        def make(self) -> object:
            return object()

        @foretold.rule(thing=things)
        async def use(self, thing: object) -> None: ...

        def foretold_after_storm(self, calls: Any) -> None:
            used = [call.arguments["thing"] for call in calls if call.name == "use"]
            if len(used) > 1:
                met.append(used[0] is used[1])

    foretold.explore(Things, runs=60, seed=1)
    assert len(met) > 15
    assert sum(met) > 0.8 * len(met)


def test_long_calls_are_named_once() -> None:
    """Calls with long arguments get a number; of a long answer only what differs is shown."""
    text = "x" * 150

    def ended(*counts: int) -> Ending:
        return ending_of([("gave", {"a": text, "b": text, "n": n}) for n in counts], [])

    said = not_serial(
        [f"ada.follow(body={text!r})", "bob.look()"], ended(1, 1), {(0, 1): ended(1, 2)}
    )
    assert said == (
        "2 calls at the same time end as no serial order of them ends\n"
        f"  call 1: ada.follow(body={text!r})\n"
        "  call 2: bob.look()\n"
        "  together: call 1: gave and what is the same in all orders; "
        "call 2: gave .n = 1, and what is the same in all orders\n"
        "  call 1 → call 2: call 1: gave and what is the same in all orders; "
        "call 2: gave .n = 2, and what is the same in all orders"
    )
