"""A database with a schema, in exactly the same state at the start of every run.

The schema is made once, in a *template*; the program works in a copy of it. After a run only what
is dirty is put right, which takes a millisecond or two; a new copy would take fifteen:

    a table with rows       DELETE and VACUUM, then its first rows again, at their first places
    one whose index grew    REINDEX besides: the size of an index has a say in PostgreSQL's plans
    a sequence              setval
    the schema itself       the copy is thrown away, and the template is copied anew

"The same state" includes what a program can see by accident: physical places of rows (they are the
order of a query without ORDER BY), the planner's figures, and the ids of tables and types. Ids of
transactions are the exception: they can never be used twice.
"""

from __future__ import annotations

import re
from itertools import starmap
from typing import Any, Final, NamedTuple

from foretold.errors import PostgresError, ServiceError, UsageError
from foretold.services.postgres import schema as schemas
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.preparation import BEGINS_US
from foretold.services.postgres.side import SideConnection

_FIRST_OID: Final = 100_000  # of the objects of a schema
_FIRST_OID_OF_A_RUN: Final = 200_000
_SCHEMA_SEED: Final = 20_260_101
_INDEX_PAGES_SMALL: Final = 2  # a B-tree's first two pages: what it begins with, and its root
_LOCK_TIMEOUT: Final = "2s"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,50}")

TABLES: Final = """
    select c.oid,
           array_to_string(array(select indexrelid from pg_index where indrelid = c.oid), ','),
           format('%I.%I', n.nspname, c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and c.relpersistence <> 't' and c.oid >= 16384 order by c.oid
"""
SEQUENCES: Final = """
    select format('%I.%I', n.nspname, c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'S' and c.relpersistence <> 't' and c.oid >= 16384 order by c.oid
"""
# An empty B-tree has one page if it is new, and two if it was used: to the planner they are the
# same if the catalog says two in both cases.
_NORMAL_INDEXES: Final = """
    update pg_class c set relpages = 2, reltuples = 0 from pg_am a
    where a.oid = c.relam and a.amname = 'btree' and c.relkind = 'i' and c.oid >= 16384
        and c.relpages < 2
"""
_ALWAYS: Final = "select 1 from pg_trigger where tgenabled = 'A' and not tgisinternal"
ROLE: Final = "postgres"
"""As whom programs log in, and who owns what the schema makes."""
_ROLES: Final = "select quote_ident(rolname) from pg_authid where oid >= 16384 order by oid"
_PREPARED: Final = "select quote_literal(gid) from pg_prepared_xacts where database = $1"
# Everything that a statement can change in the catalogs for objects of users. Of pg_class without
# what VACUUM and TRUNCATE change; a materialized view that was refreshed has a new file.
_CATALOGS: Final = {
    "pg_attribute": "attrelid", "pg_attrdef": "adrelid", "pg_constraint": "oid",
    "pg_index": "indexrelid", "pg_trigger": "oid", "pg_proc": "oid", "pg_type": "oid",
    "pg_namespace": "oid", "pg_enum": "oid", "pg_rewrite": "oid", "pg_policy": "oid",
    "pg_extension": "oid", "pg_inherits": "inhrelid", "pg_sequence": "seqrelid",
    "pg_statistic_ext": "oid", "pg_statistic": "starelid", "pg_default_acl": "oid",
    "pg_operator": "oid", "pg_cast": "oid", "pg_collation": "oid", "pg_opclass": "oid",
    "pg_description": "objoid", "pg_event_trigger": "oid", "pg_publication": "oid",
    "pg_ts_config": "oid", "pg_ts_dict": "oid", "pg_foreign_table": "ftrelid",
    "pg_largeobject_metadata": "16384 + oid::int8",
}  # fmt: skip
_CLASS: Final = """
    select sum(hashtextextended((oid, relname, relnamespace, relkind, relowner, relacl, reloptions,
        relnatts, relchecks, relhasrules, relhastriggers, relrowsecurity, relpersistence,
        relforcerowsecurity, case relkind when 'm' then relfilenode end)::text, 1))
    from pg_class where oid >= 16384 and relpersistence <> 't'
"""


class _Table(NamedTuple):
    """A table as it is at the start of a run."""

    oid: str
    indexes: str
    """Their oids, with commas between."""
    name: str
    index_pages: int
    rows: int
    content: bytes
    """Its rows, as COPY writes them."""


class _Seen(NamedTuple):
    """What a look at a table shows."""

    heap_bytes: int
    index_pages: int
    file: int
    """It changes with TRUNCATE, CLUSTER and the like."""
    rows_first: int
    """Rows that are as they were first written: not changed, deleted or locked since."""
    rows: int
    xmin: str
    """The transaction that wrote the first of them."""
    changes: int
    """How many rows were ever written or deleted, also by who rolled back."""

    @classmethod
    def read(cls, text: str) -> _Seen:
        heap, index, file, first, rows, xmin, changes = text.split(":")
        numbers = (int(heap), int(index), int(file or 0), int(first), int(rows))
        return cls(*numbers, xmin, int(changes))


class Database:
    """One database of the cluster. `name` is what the program connects to.

    `reset` is for between two runs, when no session of the program is in a transaction.
    """

    def __init__(
        self, cluster: Cluster, name: str, schema: Any = None, *, superuser: bool = False
    ) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot name a database: use lower-case letters, digits, _.")
        self.cluster = cluster
        self.name = name
        self.schema = schema
        self.generation = 0
        """Counts the copies: with each new one all sessions of the one before have ended."""
        self._template = f"{name}__template"
        self._schema_changed = False
        self._side: SideConnection | None = None
        self._admin = cluster.connect()
        try:
            self._make_role(superuser=superuser)
            self._make_template()
            self._clone()
        except BaseException:
            self.close()
            raise

    def address(self, database: str = "") -> str:
        """As libpq and all drivers understand it."""
        where = f"{database or self.name}?host={self.cluster.folder}"
        return f"postgresql://{ROLE}@/{where}"

    def close(self) -> None:
        """Drop the database and its template."""
        self._close_side()
        for name in (self.name, self._template):
            self._admin.simple(f"drop database if exists {name} with (force)")
        self._admin.close()

    # --- the template ------------------------------------------------------------------------

    def _make_role(self, *, superuser: bool) -> None:
        """What the first role of a hosted database may do. Files of the server, its programs and
        other servers are a superuser's: they lie outside of the world."""
        rights = "superuser" if superuser else "nosuperuser createdb createrole"
        known = self._admin.simple(f"select 1 from pg_roles where rolname = '{ROLE}'")
        self._admin.simple(f"{'alter' if known else 'create'} role {ROLE} login {rights}")

    def _make_template(self, *, stubborn: bool = False) -> None:
        for name in (self.name, self._template):
            self._admin.simple(f"drop database if exists {name} with (force)")
        self._admin.simple(f"create database {self._template} template template0 owner {ROLE}")
        self._set_next_oid(_FIRST_OID)
        self._apply_schema()
        side = self.cluster.connect(self._template)
        try:
            # Triggers that always act would act on what we do, too: each run gets a new copy then.
            self._is_stubborn = stubborn or bool(side.simple(_ALWAYS))
            self._learn(side)
        except PostgresError:
            if stubborn:
                raise
            side.close()
            self._make_template(stubborn=True)  # its rows can't be written again as they are
        finally:
            side.close()

    def _apply_schema(self) -> None:
        """At an instant and with randomness that are always the same: rows may have defaults."""
        page = self.cluster.page
        if page is not None:
            page.set_clock(BEGINS_US)
            page.set_seed(_SCHEMA_SEED)
        side = self.cluster.connect(self._template, user=ROLE)
        try:
            with schemas.sleepers_woken(page):
                schemas.apply(self.schema, side, self.address(self._template))
        finally:
            side.close()
            if page is not None:
                page.real_time()

    def _learn(self, side: SideConnection) -> None:
        """Bring the template into the state that a reset leaves, and note it."""
        found = [tuple(map(str, row)) for row in side.simple(TABLES)]
        if self._is_stubborn:
            found = []
        contents = {name: side.copy_out(f"copy {name} to stdout") for *_, name in found}
        filled = {name: content for name, content in contents.items() if content}
        _empty(side, [name for *_, name in found], reindex=list(filled))
        side.simple(_NORMAL_INDEXES)
        for _ in range(2 if filled else 0):  # the second time is as after a run
            _fill(side, filled)
            _empty(side, list(filled), reindex=[])
        _fill(side, filled)
        self._tables = []
        for oid, indexes, name in found:
            seen = _Seen.read(str(side.simple(f"select {_look(oid, indexes, name, '0')}")[0][0]))
            table = _Table(oid, indexes, name, seen.index_pages, seen.rows, contents[name])
            self._tables.append(table)
        self._sequences = [
            (str(name), str(side.simple(f"select {position_of(str(name))}")[0][0]))
            for (name,) in side.simple(SEQUENCES)
        ]
        self._fingerprint = _fingerprint(side)
        self._roles = {str(name) for (name,) in side.simple(_ROLES)}

    # --- the copy ----------------------------------------------------------------------------

    def _clone(self) -> None:
        self._close_side()
        how = " strategy file_copy" if self.cluster.version_num >= 150000 else ""
        self._admin.simple(f"drop database if exists {self.name} with (force)")
        self._drop_roles()
        self._admin.simple(
            f"create database {self.name} owner {ROLE} template {self._template}{how}"
        )
        self._side = side = self.cluster.connect(
            self.name, lock_timeout=_LOCK_TIMEOUT, plan_cache_mode="force_generic_plan"
        )
        side.simple(f"prepare look (xid[]) as {self._query()}; prepare changes as {_CHANGES}")
        self._first = [_Seen.read(text) for text in self._look(["0"] * len(self._tables))[0]]
        self._counters = self._count_changes()
        self._schema_changed = False
        self.generation += 1
        self._set_next_oid(_FIRST_OID_OF_A_RUN)

    def _drop_roles(self) -> None:
        """Roles belong to all databases; those that the program has made go with it."""
        for (name,) in self._admin.simple(_ROLES):
            if name not in self._roles:
                self._admin.simple(f"drop role {name}")

    def _close_side(self) -> None:
        if self._side is not None:
            self._side.close()
            self._side = None

    def _set_next_oid(self, oid: int) -> None:
        if self.cluster.page is not None:
            self.cluster.page.set_next_oid(oid, self._admin.pid)
            self._admin.simple("select clock_timestamp()")

    # --- between runs ------------------------------------------------------------------------

    def mark_schema_changed(self) -> None:
        """The program has changed the schema: the next reset makes a new copy."""
        self._schema_changed = True

    def look_after(self) -> None:
        """The program has ended sessions; if ours was one of them, the next reset begins anew."""
        if self._side is not None and self._side.is_dead():
            self._close_side()
            self._schema_changed = True

    def reset(self) -> None:
        """Back to the state in which every run begins. Time is the real one from here on."""
        if self.cluster.page is not None:
            self.cluster.page.real_time()
        for (gid,) in self._admin.query(_PREPARED, self.name):
            self._of_copy().simple(f"rollback prepared {gid}")
        changed = self._is_stubborn or self._schema_changed or self._catalogs_differ()
        if changed or not self._put_right():
            self._clone()
        else:
            self._set_next_oid(_FIRST_OID_OF_A_RUN)

    def _of_copy(self) -> SideConnection:
        if self._side is None:
            raise ServiceError(f"the database {self.name} is closed.")
        return self._side

    def _put_right(self) -> bool:
        """Clear what is dirty; False if that did not help."""
        side = self._of_copy()
        tables, sequences = self._dirty()
        if sequences:
            side.simple("; ".join(set_to(*self._sequences[i]) for i in sequences))
        if not tables:
            return True
        try:
            renewed = [table.name for table, is_renewed in tables if is_renewed]
            _empty(side, [table.name for table, _ in tables], reindex=renewed)
            _fill(side, {table.name: table.content for table, _ in tables if table.rows})
        except PostgresError:
            side.simple("rollback")
            return False  # some session has not ended, or the schema itself is against it
        return self._is_right([table for table, _ in tables])

    def _is_right(self, tables: list[_Table]) -> bool:
        """Look again at tables that were cleared, and note what is to be expected from now on."""
        if self.cluster.version_num >= 150000:  # what we have changed ourselves is counted first
            self._of_copy().simple("select pg_stat_force_next_flush()")
        looks = [_look(t.oid, t.indexes, t.name if t.rows else "", "'0'") for t in tables]
        (row,) = self._of_copy().simple(f"select {', '.join(looks)}")
        right = True
        for table, text in zip(tables, row, strict=True):
            seen = _Seen.read(str(text))
            self._first[self._tables.index(table)] = seen
            right &= (seen.heap_bytes == 0) == (table.rows == 0) and seen.rows == table.rows
        return right

    def _query(self) -> str:
        """A look at all tables and sequences; $1 has the transactions that wrote the first rows."""
        parts = [_look(t.oid, t.indexes, t.name if t.rows else "", f"$1[{i}]")
                 for i, t in enumerate(self._tables, 1)]  # fmt: skip
        parts += [position_of(name) for name, _ in self._sequences]
        return f"select array[{', '.join(parts)}]::text[], $1"

    def _look(self, xmins: list[str]) -> tuple[list[str], list[str]]:
        (row,) = self._of_copy().simple(f"execute look ('{{{','.join(xmins)}}}')")
        texts = str(row[0]).strip("{}").split(",") if row[0] != "{}" else []
        return texts[: len(self._tables)], texts[len(self._tables) :]

    def _dirty(self) -> tuple[list[tuple[_Table, bool]], list[int]]:
        """Tables that are not as at the start, and whether their indexes must be made anew; and the
        numbers of such sequences."""
        texts, positions = self._look([first.xmin or "0" for first in self._first])
        tables = []
        for table, first, text in zip(self._tables, self._first, texts, strict=True):
            seen = _Seen.read(text)
            other_file = seen.file != first.file
            other_rows = (seen.rows_first, seen.rows) != (table.rows, table.rows)
            other_places = (seen.heap_bytes, seen.changes) != (first.heap_bytes, first.changes)
            if other_file or other_rows or other_places:
                has_grown = seen.index_pages > max(_INDEX_PAGES_SMALL, table.index_pages)
                tables.append((table, other_file or has_grown))
        moved = [i for i, (_, at) in enumerate(self._sequences) if positions[i] != at]
        return tables, moved

    # --- the schema itself -------------------------------------------------------------------

    def _catalogs_differ(self) -> bool:
        """Whether anything was made, changed or dropped. The server counts changes of catalogs; if
        there were none, which is cheap to ask, they need not be read."""
        changes = self._count_changes()
        if changes and changes == self._counters:
            return False
        self._counters = changes
        return _fingerprint(self._of_copy()) != self._fingerprint

    def _count_changes(self) -> str:
        """Without the preload library a session may report its changes seconds later: then ""."""
        if self.cluster.page is None or self.cluster.version_num < 150000:
            return ""
        return str(self._of_copy().simple("execute changes")[0][0])


# --- SQL -------------------------------------------------------------------------------------


def _look(oid: str, indexes: str, name: str, xmin: str) -> str:
    """An expression that gives the text of a `_Seen`. Tables without rows need not be read."""
    sizes = ", ".join(f"pg_relation_size({index})" for index in indexes.split(",") if index)
    rows = "'0:0:'"
    if name:
        rows = f"""(select count(*) filter (where xmin = {xmin} and xmax = 0) || ':' || count(*)
                    || ':' || coalesce(min(xmin::text), '') from only {name})"""
    # Rows that were never committed leave their places behind: only the server's count shows them.
    changes = " + ".join(
        f"pg_stat_get_tuples_{what}({oid})" for what in ("inserted", "updated", "deleted")
    )
    return f"""concat_ws(':', pg_relation_size({oid}), greatest(0, {sizes or 0}) / 8192,
               coalesce(pg_relation_filenode({oid}), 0), {rows}, {changes if name else 0})"""


def position_of(sequence: str) -> str:
    """SQL that asks how far a sequence is."""
    return f"(select last_value || ':' || is_called from {sequence})"


def set_to(sequence: str, position: str) -> str:
    """SQL that brings a sequence there."""
    value, called = position.split(":")
    quoted = sequence.replace("'", "''")
    return f"select setval('{quoted}', {value}, {called})"


def _without_triggers(statements: list[str]) -> str:
    """In one transaction; neither triggers nor foreign keys act."""
    return "; ".join(["begin", "set local session_replication_role = replica", *statements])


def _empty(side: SideConnection, names: list[str], *, reindex: list[str]) -> None:
    """No rows, no pages, and the planner's figures of an empty table."""
    if names:
        side.simple(_without_triggers([f"delete from only {n}" for n in names]) + "; commit")
        side.simple(f"vacuum (index_cleanup on, truncate on) {', '.join(names)}")
        for name in reindex:
            side.simple(f"reindex table {name}")
        if reindex:
            side.simple(_NORMAL_INDEXES)


def _fill(side: SideConnection, contents: dict[str, bytes]) -> None:
    """Rows of the schema, at the places that they always have."""
    if contents:
        side.simple(_without_triggers([]))
        for name, content in contents.items():
            side.copy_in(f"copy {name} from stdin", content)
        side.simple("commit")
        side.simple(f"vacuum {', '.join(contents)}")


def _sum_of(catalog: str, column: str) -> str:
    return f"""(select sum(hashtextextended(r::text, 1)) from {catalog} r
                where {column} >= 16384)"""


_FINGERPRINT: Final = "select " + ", ".join([f"({_CLASS})", *starmap(_sum_of, _CATALOGS.items())])
_CHANGES: Final = "select " + " + ".join(
    f"pg_stat_get_tuples_{what}('{catalog}'::regclass)"
    for catalog in ("pg_class", *_CATALOGS)
    for what in ("inserted", "updated", "deleted")
)


def _fingerprint(side: SideConnection) -> list[str | None]:
    """Equal if the schemas are."""
    return side.simple(_FINGERPRINT)[0]
