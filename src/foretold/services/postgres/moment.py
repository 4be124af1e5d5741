"""What a database holds at one instant: to come back to it, and to compare it with another one.

`foretold.serially` runs the same calls in many orders from the same beginning. Sessions of the
program stay as they are; nobody may be in a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from foretold.services.postgres.state import SEQUENCES, TABLES, position_of, set_to

if TYPE_CHECKING:
    from foretold.services.postgres.side import SideConnection

_WITHOUT_TRIGGERS: Final = "begin; set local session_replication_role = replica"
_COLUMNS: Final = """
    select format('%I.%I', n.nspname, c.relname), a.attname, t.typname,
        a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid), '') like 'nextval(%',
        (select format('%I.%I', rn.nspname, rc.relname) from pg_constraint k
         join pg_class rc on rc.oid = k.confrelid
         join pg_namespace rn on rn.oid = rc.relnamespace
         where k.contype = 'f' and k.conrelid = c.oid and k.conkey = array[a.attnum] limit 1)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relkind = 'r' and c.relpersistence <> 't' and c.oid >= 16384
    order by c.oid, a.attnum
"""


class DatabaseContents(NamedTuple):
    """All rows and the positions of all sequences."""

    contents: dict[str, bytes]
    sequences: list[tuple[str, str]]


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    """The name of its type."""
    counts: str
    """The table whose rows it numbers, if its numbers are made by a sequence."""


class TableContents(NamedTuple):
    """A table with all of its rows, each value as text."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str | None, ...], ...]


def taken(side: SideConnection) -> DatabaseContents:
    """The state of the database now, as far as it is committed."""
    names = [str(row[2]) for row in side.simple(TABLES)]
    contents = {name: side.copy_out(f"copy {name} to stdout") for name in names}
    sequences = [str(name) for (name,) in side.simple(SEQUENCES)]
    at = [(each, str(side.simple(f"select {position_of(each)}")[0][0])) for each in sequences]
    return DatabaseContents(contents, at)


def restore(side: SideConnection, moment: DatabaseContents) -> None:
    """Bring the database back to where it was."""
    side.simple(_WITHOUT_TRIGGERS)
    for name, content in moment.contents.items():
        side.simple(f"delete from only {name}")
        if content:
            side.copy_in(f"copy {name} from stdin", content)
    side.simple("commit")
    for name, position in moment.sequences:
        side.simple(set_to(name, position))


def skip_numbers(side: SideConnection, by: int) -> None:
    """Leave out so many numbers of each sequence. One that has not so many left stays."""
    for (name,) in side.simple(SEQUENCES):
        value, _ = str(side.simple(f"select {position_of(str(name))}")[0][0]).split(":")
        limit = f"select seqmax from pg_sequence where seqrelid = '{name}'::regclass"
        if int(value) + by < int(str(side.simple(limit)[0][0])):
            side.simple(set_to(str(name), f"{int(value) + by}:true"))


def tables(side: SideConnection) -> list[TableContents]:
    """All tables, by name."""
    columns: dict[str, list[Column]] = {}
    known = side.simple(_COLUMNS)
    numbered = {str(table) for table, _, _, is_numbered, _ in known if is_numbered == "t"}
    for table, name, kind, is_numbered, other in known:
        counts = str(table) if is_numbered == "t" else other if other in numbered else ""
        columns.setdefault(str(table), []).append(Column(str(name), str(kind), counts or ""))
    found = []
    for name, its in sorted(columns.items()):
        asked = ", ".join(f'"{column.name}"' for column in its)
        rows = side.simple(f"select {asked} from only {name}")
        found.append(TableContents(name, tuple(its), tuple(map(tuple, rows))))
    return found
