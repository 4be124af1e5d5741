"""Every run begins in exactly the same state, however the run before it left the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alembic.config
import pytest
import sqlalchemy

import foretold
from foretold.errors import PostgresError, UsageError
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.side import SideConnection
from foretold.services.postgres.state import Database
from tests.postgres.machines import run_child

SCHEMA = """
    create type mood as enum ('calm', 'wild');
    create table "Owner" (id serial primary key, name text not null unique);
    create table item (
        id bigint generated always as identity primary key,
        owner int not null references "Owner" on delete cascade,
        mood mood not null default 'calm', note text check (note <> 'planted'));
    create index on item (owner, mood);
    create table log (at timestamptz default now(), line text);
    create function note_it() returns trigger language plpgsql as
        $$ begin insert into log (line) values (tg_op); return null; end $$;
    create trigger noted after insert or delete on item
        for each statement execute function note_it();
    create sequence ticket start 100 increment 5;
    create table country (code text primary key, name text not null);
    insert into country values ('at', 'Austria'), ('ch', 'Switzerland'), ('de', 'Germany');
    create table region (id int primary key, country text references country, area int);
    insert into region select i, 'at', i * 7 from generate_series(1, 200) i;
"""

STATE = {
    "countries": "select ctid, * from country",
    "regions": "select ctid, * from region",
    "rows": """select (select count(*) from "Owner"), (select count(*) from item),
               (select count(*) from log)""",
    "sizes": """select relname, pg_relation_size(oid) from pg_class
                where oid >= 16384 and relkind = 'r' order by oid""",
    "figures": """select oid, relname, relpages, reltuples, relallvisible from pg_class
                  where oid >= 16384 order by oid""",
    "plan": "explain select * from item join region on owner = region.id where mood = 'wild'",
    "sequences": """select last_value, is_called from ticket union all
                    select last_value, is_called from "Owner_id_seq" union all
                    select last_value, is_called from item_id_seq""",
    "catalogs": "select oid, proname from pg_proc where oid >= 16384 order by oid",
    "types": "select oid, typname from pg_type where oid >= 16384 order by oid",
    "roles": "select rolname from pg_roles where oid >= 16384",
}


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    """A database with the schema above."""
    made = Database(cluster, "app", SCHEMA)
    yield made
    made.close()


def seen(database: Database) -> dict[str, Any]:
    """All that a program could see of the state."""
    side = database.cluster.connect(database.name)
    try:
        return {name: side.simple(sql) for name, sql in STATE.items()}
    finally:
        side.close()


USE = """insert into "Owner" (name) select 'o' || i from generate_series(1, {owners}) i;
         insert into item (owner) select id from "Owner"; select nextval('ticket')"""

USES = {
    "rows": USE.format(owners=3),
    "many rows": USE.format(owners=3000),
    "a rollback": f"begin; {USE.format(owners=3)}; rollback",
    "a row of the schema changed": "update country set name = 'Alps' where code = 'ch'",
    "a row of the schema locked": "select * from country where code = 'at' for update",
    "a row of the schema deleted": "delete from region where id = 7",
    "a row of the schema written again": "update country set name = name",
    "rows added to those of the schema": "insert into country values ('fr', 'France')",
    "all rows exchanged": "delete from region; insert into region select 1, null, 2",
    "truncate": 'truncate "Owner" restart identity cascade; truncate region',
    "a sequence set back": "select setval('ticket', 20, false)",
    "nothing": "select 1",
    "a table made": "create table extra (id int)",
    "a column added": "alter table log add column more int",
    "a table dropped": "drop table log",
    "an index made": "create index on log (line)",
    "a function replaced": """create or replace function note_it() returns trigger
        language plpgsql as $$ begin return null; end $$""",
    "a comment": "comment on table log is 'planted'",
    "a right granted": "grant select on log to public",
    "statistics": "analyze",
    "a large object": "select lo_create(4711)",
    "a role": "create role planted; grant select on log to planted",
    "a prepared transaction": "begin; insert into log default values; prepare transaction 'one'",
    "an enum's value": "alter type mood add value 'tired'",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_run_begins_in_the_same_state(database: Database, use: str) -> None:
    """Rows and their places, sizes, the planner's figures, sequences, ids: all as at first."""
    database.reset()
    before = seen(database)
    for _ in range(2):
        side = database.cluster.connect(database.name)
        side.simple(use)
        side.close()
        database.reset()
        assert seen(database) == before


def test_the_check_sees_a_difference(database: Database) -> None:
    """Planted: without a reset, what `seen` shows is another state."""
    database.reset()
    before = seen(database)
    side = database.cluster.connect(database.name)
    side.simple(USES["rows"])
    side.close()
    after = seen(database)
    assert {name for name in STATE if before[name] != after[name]} >= {"rows", "sizes", "sequences"}
    database.reset()


def test_only_a_changed_schema_costs_a_new_copy(database: Database) -> None:
    """Rows are put right in place, and the sessions of a pool live on."""
    database.reset()
    side = database.cluster.connect(database.name)
    before = database.generation
    for use in ("rows", "many rows", "truncate", "all rows exchanged", "nothing"):
        side.simple(USES[use])
        database.reset()
    assert database.generation == before
    assert side.simple("select count(*) from region") == [["200"]]
    side.close()
    database.mark_schema_changed()
    database.reset()
    assert database.generation == before + 1


def test_what_a_run_makes_has_the_same_ids_in_each(database: Database) -> None:
    """Drivers show the ids of tables and types: those made in a run repeat as well."""
    found = []
    for _ in range(3):
        side = database.cluster.connect(database.name)
        side.simple("create table made (id int); create temporary table passing (id int)")
        found.append(side.simple("select 'made'::regclass::oid, 'passing'::regclass::oid"))
        side.close()
        database.reset()
    assert found[0] == found[1] == found[2]


def test_a_session_in_a_transaction_does_not_stop_a_reset(database: Database) -> None:
    """A session that was forgotten holds a lock: the reset ends it, with a new copy."""
    database.reset()
    side = database.cluster.connect(database.name)
    side.simple("begin; insert into log (line) values ('planted')")
    before = database.generation
    database.reset()
    assert database.generation == before + 1
    with pytest.raises(PostgresError):
        side.simple("select 1")
    side.close()


IDS = """
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.state import Database
from tests.postgres.test_state import SCHEMA, seen
server = Cluster.shared()
if {earlier}:
    Database(server, "earlier", "create table other (id serial primary key); analyze")
print(seen(Database(server, "app", SCHEMA)))
"""


def test_other_processes_have_the_same_ids() -> None:
    """A replay elsewhere sees the same, whatever else was made in its server before."""
    first = run_child(IDS.format(earlier=False))
    assert first == run_child(IDS.format(earlier=True))
    assert "100000" in first


# --- kinds of schemas ------------------------------------------------------------------------


def tables(database: Database) -> list[str | None]:
    """The names of its tables."""
    side = database.cluster.connect(database.name)
    rows = side.simple(
        "select relname from pg_class where relkind = 'r' and oid >= 16384 order by 1"
    )
    side.close()
    return [name for (name,) in rows]


METADATA = sqlalchemy.MetaData()
sqlalchemy.Table("child", METADATA, sqlalchemy.Column("of", sqlalchemy.ForeignKey("parent.id")))
sqlalchemy.Table("parent", METADATA, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True))


async def by_asyncpg(address: str) -> None:
    """A function as a test would write it."""
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute("create table parent (); create table child ()")
    await asyncio.sleep(0)
    await connection.close()


MIGRATION = """
from alembic import op
revision, down_revision = "1", None
def upgrade():
    op.execute("create table parent (); create table child ()")
"""
ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine
engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""


def test_migrations(cluster: Cluster, tmp_path: Path) -> None:
    """Alembic's own code runs all migrations, with the driver that its configuration names."""
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions/first.py").write_text(MIGRATION)
    (tmp_path / "env.py").write_text(ENVIRONMENT)
    config = alembic.config.Config()
    config.set_main_option("script_location", str(tmp_path))
    config.set_main_option("sqlalchemy.url", "postgresql+psycopg://nobody@nowhere/nothing")
    made = Database(cluster, "migrated", config)
    assert tables(made) == ["alembic_version", "child", "parent"]
    assert config.get_main_option("sqlalchemy.url") == "postgresql+psycopg://nobody@nowhere/nothing"
    made.close()


KINDS = {
    "text": "create table parent (); create table child ()",
    "MetaData": METADATA,
    "async function": by_asyncpg,
}


@pytest.mark.parametrize("schema", KINDS.values(), ids=KINDS)
def test_kinds_of_schemas(schema: Any) -> None:
    """Each kind of schema makes its tables, outside of a run and inside of one."""
    server = Cluster()

    async def main(world: foretold.World) -> list[str | None]:
        made = Database(server, "inside", schema)
        try:
            return tables(made)
        finally:
            made.close()

    try:
        made = Database(server, "outside", schema)
        assert tables(made) == ["child", "parent"]
        made.close()
        assert foretold.run(main, seed=1).value == ["child", "parent"]
    finally:
        server.stop()


def test_an_empty_database_and_a_wrong_schema(cluster: Cluster) -> None:
    """No schema is a schema; what is none is refused with the kinds that are."""
    made = Database(cluster, "empty")
    made.reset()
    assert tables(made) == []
    made.close()
    with pytest.raises(UsageError, match="not a schema"):
        Database(cluster, "wrong", 42)
    with pytest.raises(UsageError, match="cannot name a database"):
        Database(cluster, "Wrong name")
    with pytest.raises(PostgresError, match="syntax error"):
        Database(cluster, "wrong", "create tabel")


def test_side_connections_pass_values(cluster: Cluster) -> None:
    """Values travel apart from the text, NULL included, and bytes of a copy come back."""
    side: SideConnection = cluster.connect()
    rows = side.query("select $1::text, $2::int + 1, $3::text is null", "it's", 41, None)
    assert rows == [["it's", "42", "t"]]
    with pytest.raises(PostgresError) as raised:
        side.query("select 1 / $1::int", 0)
    assert raised.value.sqlstate == "22012"
    assert side.simple("select 1; select null, 'ä'") == [["1"], [None, "ä"]]
    side.simple("create temporary table c (a int, b text)")
    side.copy_in("copy c from stdin", b"1\tx\n2\t\\N\n")
    assert side.copy_out("copy c to stdout") == b"1\tx\n2\t\\N\n"
    side.close()
    side.close()
