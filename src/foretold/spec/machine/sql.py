"""What must hold in the database, looked at after every commit: `@foretold.invariant(sql=…)`.

All queries whose tables a transaction may have touched go to the server in one round trip, at the
instant of the commit, before anybody else acts; each of them must find nothing. Which tables a
transaction has touched is read from its statements, and read generously: a table counts as soon as
its name stands in one that is no plain SELECT, with all that follow it by a foreign key; where a
trigger, a rule, a function of the user's own or a change of the schema is involved, all are asked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from foretold.errors import PostgresError, UsageError
from foretold.spec.machine.invariants import COMMIT, Invariant
from foretold.spec.machine.printing import call_text
from foretold.trace import BROKE, Event

if TYPE_CHECKING:
    from foretold.spec.machine.course import Course

ROWS_SHOWN_MAX = 5
STATEMENTS_SHOWN_MAX = 12
SQL_CHARS_MAX = 160
_WORD = re.compile(r"[a-z_][\w$]*", re.IGNORECASE)
_OTHER_WORK = re.compile(r"\b(?:create|alter|drop|truncate|do|call|execute|refresh)\b", re.I)
_READS = re.compile(r"\s*select\b(?!.*\binto\b)(?!.*;\s*\S)", re.IGNORECASE | re.DOTALL)
"""A plain question, which changes nothing by itself: what it calls counts as opaque if it may."""
_SPACE = re.compile(r"\s+")

_USERS_OWN = "not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_%'"
_CATALOGUE = f"""
select 'table', c.relname, '' from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p') and n.nspname {_USERS_OWN}
union all
select 'opaque', c.relname, '' from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname {_USERS_OWN} and (c.relkind in ('v', 'm', 'f') or c.relhasrules
    or exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal))
union all
select 'opaque', p.proname, '' from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname {_USERS_OWN}
    and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
union all
select 'follows', b.relname, a.relname from pg_constraint k
  join pg_class a on a.oid = k.conrelid join pg_class b on b.oid = k.confrelid
  where k.contype = 'f' and k.confdeltype::text || k.confupdtype::text <> 'aa'
union all
select 'follows', p.relname, c.relname from pg_inherits i
  join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
union all
select 'follows', c.relname, p.relname from pg_inherits i
  join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
"""


def watch(course: Course) -> None:
    """Look after every commit from now on, and once at what is there already."""
    invariants = course.blueprint.at(COMMIT)
    if not invariants:
        return
    servers = course.world.services.get("postgres", [])
    by_server: defaultdict[int, list[Invariant]] = defaultdict(list)
    for each in invariants:
        by_server[_server_of(each, servers)].append(each)
    for number, its in by_server.items():
        CommitWatch(course, servers[number], its).begin()


def _server_of(each: Invariant, servers: list[Any]) -> int:
    names = [server.host.name for server in servers]
    if not servers:
        raise UsageError(
            f"the invariant {each.name} asks the database after every commit, and there is none in "
            "this run. Make it in setup:\n"
            "    async def setup(self): self.pg = await self.world.postgres(schema=SCHEMA)"
        )
    if each.host in names:
        return names.index(each.host)
    if each.host or len(servers) > 1:
        raise UsageError(
            f"the invariant {each.name} has to say which server is meant: "
            f"@foretold.invariant(sql=…, host={names[0]!r}); there are {', '.join(names)}"
        )
    return 0


class CommitWatch:
    """The queries for one server."""

    def __init__(self, course: Course, server: Any, invariants: list[Invariant]) -> None:
        self._course = course
        self._server = server
        self._invariants = invariants
        self._read_catalogue()

    def begin(self) -> None:
        """Each query by itself first, so that one with a mistake in it is known by its name."""
        for each in self._invariants:
            for query in filter(None, (each.sql, each.over)):
                try:
                    self._server.look(query)
                except PostgresError as error:
                    raise UsageError(
                        f"PostgreSQL does not take the query of the invariant {each.name}: "
                        f"{error.message}\n  {query}"
                    ) from None
        self._look_at(self._invariants, "when the machine was set up")
        self._server.telling.tell(self._committed)

    def _read_catalogue(self) -> None:
        self._tables: set[str] = set()
        self._opaque: set[str] = set()
        """Names behind which there may be any table: views, functions, what has triggers."""
        self._follows: defaultdict[str, set[str]] = defaultdict(set)
        for kind, name, other in self._server.look_again(_CATALOGUE):
            if kind == "follows":
                self._follows[name].add(other)
            else:
                (self._tables if kind == "table" else self._opaque).add(name)
        self._tables_of = {each: self._named(each.sql) for each in self._invariants}

    def _named(self, sql: str) -> set[str] | None:
        """The tables that a query or a statement names; None if it may be any."""
        words = {word.lower() for word in _WORD.findall(sql)}
        words |= set(_WORD.findall(sql))
        return None if words & self._opaque else words & self._tables

    # --- after a commit --------------------------------------------------------------------------

    def _committed(self, commit: Any) -> None:
        course = self._course
        if course.failure is not None:
            return
        if any(_OTHER_WORK.search(sql) for sql in commit.statements):
            self._read_catalogue()
            asked = self._invariants
        else:
            asked = self._concerned(commit.statements)
        try:
            self._look_at(asked, _transaction_text(course, commit), commit.session)
        except Exception as error:
            # Not raised: it is the server who acts here, and no task of the program.
            course.world.fail(error, at=self._server.host)
            course.fail(error)

    def _concerned(self, statements: Iterable[str]) -> list[Invariant]:
        touched: set[str] = set()
        for sql in statements:
            named = self._named(sql)
            if named is None:
                return self._invariants
            if not _READS.match(sql):
                touched |= named
        front = touched
        while front:
            front = set().union(*(self._follows[name] for name in front)) - touched
            touched |= front
            if front & self._opaque:
                return self._invariants
        return [
            each
            for each, tables in self._tables_of.items()
            if tables is None or not tables or tables & touched
        ]

    def _look_at(self, asked: list[Invariant], when: str, session: str = "") -> None:
        tally = self._course.tally
        asked = [each for each in asked if self._course.holds(each)]
        if not asked:
            return
        found = self._server.look_again(_together(asked))
        overs = {int(number): int(over) for number, over in found if over is not None}
        for number, each in enumerate(asked):
            tally.invariant(each.name, over=overs.get(number))
        for number in sorted({int(number) for number, over in found if over is None}):
            self._keep_for_story(asked[number], session)
            raise self._violated(asked[number], when)

    def _keep_for_story(self, each: Invariant, session: str) -> None:
        trace, host = self._course.world.trace, self._server.host
        if session and trace.detail:
            now_ns = host.kernel.clock.ns
            trace.keep(Event(now_ns, host.name, session, 0, BROKE, each.sql, each.place))

    def _violated(self, each: Invariant, when: str) -> BaseException:
        course = self._course
        rows = self._server.rows(each.sql)
        said = f"the invariant {each.name} failed {when}"
        try:
            told = each.function(course.machine, rows)
        except AssertionError as error:
            course.fail(error, said)
            return error
        shown = [f"  {_row_text(row)}" for row in rows[:ROWS_SHOWN_MAX]]
        if len(rows) > ROWS_SHOWN_MAX:
            shown.append(f"  … and {len(rows) - ROWS_SHOWN_MAX} more")
        text = (
            str(told)
            if isinstance(told, str)
            else f"{each.words.rstrip('.')}; these rows say otherwise"
        )
        violated = each.violated("\n".join([text, *shown]))
        course.fail(violated, said)
        return violated


def _together(asked: list[Invariant]) -> str:
    """One statement for all queries. A row with no second value: something was found."""
    parts = []
    for number, each in enumerate(asked):
        # One row is enough to know it; which they are is asked when there are some.
        parts.append(f"(select {number}, null::bigint from (\n{each.sql}\n) q limit 1)")
        if each.over:
            parts.append(f"(select {number}, coalesce((\n{each.over}\n)::bigint, 0))")
    return "\nunion all\n".join(parts)


def _row_text(row: Any) -> str:
    pairs = zip(row.columns, row, strict=True)
    return ", ".join(f"{name} = {_value_text(value)}" for name, value in pairs)


def _value_text(value: Any) -> str:
    return str(value) if isinstance(value, UUID) else repr(value)


def _transaction_text(course: Course, commit: Any) -> str:
    """Which transaction it was: its session, who was at work then, and its statements."""
    busy = " and ".join(call_text(course, call) for call in course.busy)
    during = f", during {busy}" if busy else ""
    shown = [_SPACE.sub(" ", sql).strip() for sql in commit.statements]
    shown = [sql if len(sql) <= SQL_CHARS_MAX else f"{sql[:SQL_CHARS_MAX]}…" for sql in shown]
    if len(shown) > STATEMENTS_SHOWN_MAX:
        left_out = len(shown) - STATEMENTS_SHOWN_MAX
        shown[2 : 2 + left_out] = [f"… {left_out} statements left out"]
    lines = "".join(f"\n  {sql}" for sql in shown)
    return (
        f"after transaction {commit.number} of {commit.session}, from host {commit.host}{during}:"
        f"{lines}"
    )
