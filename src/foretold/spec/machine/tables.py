"""Which tables a transaction may have touched, read from its statements, and read generously.

A table counts as soon as its name stands in a statement that is not a plain SELECT, with all that
follow it by a foreign key. Where a trigger, a rule, a function of the user's own or a change of the
schema is involved, it may be any table.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

_OTHER_WORK = ("create", "alter", "drop", "truncate", "do", "call", "execute", "refresh")
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


class Tables:
    def __init__(self, server: Any) -> None:
        self._server = server
        self._latest: tuple[str, ...] | None = None
        self._touched: set[str] | None = None
        self._read_catalogue()

    def _read_catalogue(self) -> None:
        self._tables: set[str] = set()
        self._opaque: set[str] = set()
        """Names behind which there may be any table: views, functions, what has triggers."""
        self._follows: defaultdict[str, set[str]] = defaultdict(set)
        self._known: dict[str, set[str] | None] = {}
        for kind, name, other in self._server.look_again(_CATALOGUE):
            if kind == "follows":
                self._follows[name].add(other)
            else:
                (self._tables if kind == "table" else self._opaque).add(name)

    def named(self, sql: str) -> set[str] | None:
        """The tables that a query or a statement names; None if it may be any."""
        if sql not in self._known:
            words: frozenset[str] = self._server.words_of(sql)
            self._known[sql] = None if words & self._opaque else self._tables & words
        return self._known[sql]

    def touched(self, statements: tuple[str, ...]) -> set[str] | None:
        """The tables whose rows a transaction may have changed; None if it may be any. A change of
        the schema is noticed here. Everybody who looks after a commit asks this."""
        if statements is not self._latest:
            self._touched, self._latest = self._touched_by(statements), statements
        return self._touched

    def _touched_by(self, statements: tuple[str, ...]) -> set[str] | None:
        if any(not self._server.words_of(sql).isdisjoint(_OTHER_WORK) for sql in statements):
            self._read_catalogue()
            return None
        touched: set[str] = set()
        for sql in statements:
            named = self.named(sql)
            if named is None:
                return None
            if not self._server.only_reads(sql):  # what it calls counts as opaque, if it may
                touched |= named
        return self._followed(touched)

    def _followed(self, touched: set[str]) -> set[str] | None:
        front = touched
        while front:
            front = set().union(*(self._follows[name] for name in front)) - touched
            touched |= front
            if front & self._opaque:
                return None
        return touched

    def concerns(self, sql: str, touched: set[str] | None) -> bool:
        """Whether a query may find something else after such a transaction."""
        named = self.named(sql)
        return touched is None or not named or bool(named & touched)
