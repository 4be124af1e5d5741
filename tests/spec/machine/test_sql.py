"""Invariants in SQL: asked after every commit that may have touched their tables, and only then."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import asyncpg
import pytest
from hypothesis import strategies as st

import foretold
from foretold.world.world import World

SCHEMA = """
create table item (id int primary key, stock int not null);
create table sale (id serial primary key, item int references item on delete cascade, n int);
create table note (text text);
create table audit (text text);
create function audited() returns trigger language plpgsql as $$
begin insert into audit values ('x'); return new; end $$;
create table watched (id int);
create trigger watching after insert on watched execute function audited();
insert into item values (1, 3), (2, 3);
"""


class Shop(foretold.Machine):
    """Sells what was there when it looked, or locks it first."""

    actors = 2
    steps = 8
    lock: ClassVar[str] = ""

    async def setup(self) -> None:
        self.pg = await self.world.postgres(schema=SCHEMA)
        for actor in self.cast:
            actor.db = await asyncpg.connect(self.pg.dsn)

    async def teardown(self) -> None:
        for actor in self.cast:
            if "db" in actor:
                await actor.db.close()

    @foretold.rule(item=st.integers(1, 2), n=st.integers(1, 3))
    async def buy(self, actor: foretold.Actor, item: int, n: int) -> None:
        async with actor.db.transaction():
            look = f"select stock from item where id = $1 {self.lock}"
            if await actor.db.fetchval(look, item) < n:
                raise foretold.Refused("sold out")
            await actor.db.execute("update item set stock = stock - $2 where id = $1", item, n)
            await actor.db.execute("insert into sale (item, n) values ($1, $2)", item, n)

    @foretold.invariant(sql="select * from item where stock < 0;", over="select count(*) from item")
    def never_below_zero(self, rows: Any) -> None:
        """Nothing is sold that is not there."""


class Locked(Shop):
    """The same with a row lock."""

    lock = "for update"


def test_the_transaction_is_named() -> None:
    """Overselling is found by the commit that does it, told with its statements and its call."""
    failure = foretold.explore(Shop, runs=60, seed=0).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.PropertyViolated)
    assert str(failure.exception).startswith("Nothing is sold that is not there; these rows")
    assert "id = 1, stock = -" in str(failure.exception)
    note = "\n".join(failure.exception.__notes__)
    assert re.search(r"never_below_zero failed after transaction \d+ of session \d", note)
    assert "during actor" in note
    assert "update item set stock = stock - $2 where id = $1" in note
    assert failure.reproduced
    program = failure.story.split("No task")[0].partition("The program, ")[2]
    assert program.splitlines()[1] == "  together:"
    assert program.count(".buy(item=1, n=") == 2, "the calls are not repeated with the invariant"
    assert re.search(
        r"  the invariant never_below_zero failed after transaction 1 of \w+ \d\n", program
    )


def test_the_story_accuses_whose_commit_it_was() -> None:
    """The failure is no step of any task; what the database did says who did it, with the values,
    and where to look."""
    failure = foretold.explore(Shop, runs=60, seed=0, confirm=False).failure
    assert failure is not None
    story = failure.story
    assert "(callback)" not in story
    (fails,) = re.findall(r"\n  ([\d.]+) s +\S+:\d+ +fails: PropertyViolated: Nothing", story)
    (commit,) = re.findall(r"\n  ([\d.]+) s .* COMMIT  \(after this the invariant fails\)", story)
    assert fails == commit, "both at one moment"
    assert re.search(r"actor\d\.buy .* select stock from item where id = [12] → \d\n", story)
    assert re.search(r"\n  actor\d\.buy read item .*\n  before actor\d\.buy had changed it", story)
    assert "\n  Look at " in story
    assert "No two steps were found" not in story


def test_the_correction_holds_and_is_counted() -> None:
    """With a lock nothing is found, and the count says over how many rows it ranged."""
    outcome = foretold.explore(Locked, runs=10, seed=0, confirm=False)
    assert outcome.failure is None
    counted = outcome.tally.invariants["never_below_zero"]
    assert counted.ranged == 2 * counted.checks > 40


def asked_after(*statements: str) -> set[str]:
    """Which invariants are looked at after these statements."""
    found: set[str] = set()

    class Asks(foretold.Machine):
        world: World

        async def setup(self) -> None:
            self.pg = await self.world.postgres(schema=SCHEMA)

        @foretold.rule()
        async def step(self) -> None:
            """Replaced by what the test does by hand."""

        @foretold.invariant(sql="select * from item where stock < 0")
        def of_item(self, rows: Any) -> None:
            """About items."""

        @foretold.invariant(sql="select * from sale s join item i on i.id = s.item where s.n < 0")
        def of_sale(self, rows: Any) -> None:
            """About sales."""

        @foretold.invariant(sql="select * from audit where text = ''")
        def of_audit(self, rows: Any) -> None:
            """About what a trigger writes."""

        async def teardown(self) -> None:
            tally = self.world.tally.invariants
            before = {name: count.checks for name, count in tally.items()}
            db = await asyncpg.connect(self.pg.dsn)
            for sql in statements:
                await db.execute(sql)
            await db.close()
            found.update(name for name, count in tally.items() if count.checks > before[name])

    foretold.run(Asks, steps=0)
    return found


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("insert into note select stock::text from item", {"of_item", "of_sale"}),
        ("select stock from item; update sale set n = 1 where false", {"of_item", "of_sale"}),
        ("update item set stock = 9", {"of_item", "of_sale"}),
        ("insert into sale values (9, 1, 1)", {"of_sale"}),
        ("insert into note values ('sale of an item')", {"of_item", "of_sale"}),
        ("insert into note values ('x')", set()),
        ("delete from item where id = 2", {"of_item", "of_sale"}),
        ("insert into watched values (1)", {"of_item", "of_sale", "of_audit"}),
        ("do $$ begin delete from audit; end $$", {"of_item", "of_sale", "of_audit"}),
        ("select * from item", set()),
    ],
)
def test_only_what_may_have_changed_is_asked(statement: str, names: set[str]) -> None:
    """By the tables that a statement names, and what follows from it; too many rather than too
    few: a name in a text counts, and where a trigger acts all are asked."""
    assert asked_after(statement) == names


def test_what_was_only_read_has_not_changed() -> None:
    """A transaction that asks about items and writes a note: no invariant is about notes."""
    reads = "select stock from item where id = 1 for update"
    assert asked_after("begin", reads, "insert into note values ('')", "commit") == set()


def test_all_are_asked_in_one_round_trip() -> None:
    """However many there are."""
    looked: list[list[str]] = []

    class Many(Locked):
        world: World

        @foretold.invariant(sql="select * from sale where n < 0", over="select count(*) from sale")
        def another(self, rows: Any) -> None:
            """Sales are of something."""

        @foretold.invariant(sql="with x as (select 1 from sale where n > 3 order by n) table x")
        def a_third(self, rows: Any) -> None:
            """Nobody gets more than there is."""

        @foretold.initialize()
        def listen(self) -> None:
            server = self.world.services["postgres"][0]
            ask = server.look_at_all

            def look_at_all(queries: list[str]) -> Any:
                looked.append(queries)
                return ask(queries)

            server.look_at_all = look_at_all

    foretold.run(Many, seed=3)
    together = ["\n".join(queries) for queries in looked]
    together = [sql for sql in together if "from item" in sql]
    assert together
    assert all("from sale where n < 0" in sql and "order by n" in sql for sql in together)


def test_the_time_is_that_of_the_world() -> None:
    """An invariant may ask what time it is: not what the clock on the wall says."""

    class InJanuary(Locked):
        @foretold.invariant(
            sql="select now() from sale where now() not between '2026-01-01' and '2026-01-02'",
            over="select count(*) from sale",
        )
        def is_january(self, rows: Any) -> None:
            """Worlds begin on the first of January."""

    outcome = foretold.explore(InJanuary, runs=3, seed=3, confirm=False, shrink=False)
    assert outcome.failure is None, outcome.failure.story
    assert outcome.tally.invariants["is_january"].ranged > 0


@pytest.mark.parametrize("raises", [True, False])
def test_the_method_may_speak_for_itself(raises: bool) -> None:
    """It gets the rows with their names, and returns a text or fails an assertion."""

    class Tells(Shop):
        @foretold.invariant(sql="select id, n from sale where n > 2")
        def small(self, rows: Any) -> Any:
            assert not raises, f"sale {rows[0]['id']} of {rows[0]['n']}"
            return f"there are {len(rows)} such sales"

        @foretold.precondition(lambda self: False)
        @foretold.invariant(sql="select 1 from item")
        def not_looked_at(self, rows: Any) -> None:
            """Always wrong, and never asked."""

    said = r"^sale 1 of 3" if raises else r"^there are 1 such sales\n  id = 1, n = 3"
    found = foretold.explore(Tells, runs=30, actors=1, confirm=False).failure
    assert found is not None
    assert re.search(said, str(found.exception)), found.exception


def test_a_query_with_a_mistake_is_named() -> None:
    """PostgreSQL's words, and which invariant it was."""

    class Wrong(Shop):
        @foretold.invariant(sql="select * from itme")
        def misspelt(self, rows: Any) -> None:
            """No such table."""

    with pytest.raises(foretold.UsageError, match='misspelt: relation "itme" does not exist'):
        foretold.run(Wrong)


def test_what_is_wrong_from_the_start_is_found() -> None:
    """Before any commit: the schema itself may break it."""

    class Begins(Shop):
        @foretold.invariant(sql="select * from item where id = 2")
        def only_one_item(self, rows: Any) -> None:
            """There is one item."""

    with pytest.raises(foretold.PropertyViolated, match="There is one item") as raised:
        foretold.run(Begins)
    assert "when the machine was set up" in str(raised.value.__notes__)


def test_two_servers_have_to_be_told_apart() -> None:
    """`host=` says which is meant."""

    class Two(Shop):
        async def setup(self) -> None:
            await super().setup()
            await self.world.postgres(schema="create table t (n int)", host="other")

    with pytest.raises(foretold.UsageError, match="host='postgres'"):
        foretold.run(Two)


def test_a_query_that_does_not_apply_yet_is_checked() -> None:
    """All queries go to PostgreSQL when the machine is set up, also one whose precondition does not
    hold yet."""

    class Shop(foretold.Machine):
        steps = 1

        async def setup(self) -> None:
            await self.world.postgres(schema="create table item (id int primary key, stock int)")

        @foretold.rule()
        def nothing(self) -> None:
            pass

        @foretold.invariant(sql="select * from item where stock < 0")
        def right(self, rows: Any) -> None:
            pass

        @foretold.precondition(lambda self: False)
        @foretold.invariant(sql="select * from item", over="select stocks from item")
        def wrong(self, rows: Any) -> None:
            pass

    with pytest.raises(foretold.UsageError, match='invariant wrong: column "stocks" does not'):
        foretold.run(Shop)
