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
        a.attgenerated <> '',
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


class Column(NamedTuple):
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


Layout = dict[str, tuple[Column, ...]]
"""The columns of each table that are stored, in their order."""
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class DatabaseContents(NamedTuple):
    """All rows, as `COPY` gives them, and the positions of all sequences."""

    contents: dict[str, bytes]
    sequences: list[tuple[str, str]]

    def tables(self, layout: Layout) -> list[TableContents]:
        """The same as rows of text. Columns that are computed are left out."""
        return [
            TableContents(name, layout[name], tuple(map(_row, content.decode().split("\n")[:-1])))
            for name, content in sorted(self.contents.items())
        ]


def _row(line: str) -> tuple[str | None, ...]:
    return tuple(None if cell == "\\N" else _unescaped(cell) for cell in line.split("\t"))


def _unescaped(cell: str) -> str:
    if "\\" not in cell:
        return cell
    letters = iter(cell)
    return "".join(_letter(next(letters)) if each == "\\" else each for each in letters)


def _letter(escaped: str) -> str:
    return _ESCAPES.get(escaped, escaped)


def taken(side: SideConnection) -> DatabaseContents:
    """The state of the database now, as far as it is committed."""
    names = [str(row[2]) for row in side.simple(TABLES)]
    copies = side.copies_out([f"copy {name} to stdout" for name in names])
    contents = dict(zip(names, copies, strict=True))
    sequences = [str(name) for (name,) in side.simple(SEQUENCES)]
    at = [(each, str(side.simple(f"select {position_of(each)}")[0][0])) for each in sequences]
    return DatabaseContents(contents, at)


def restore(
    side: SideConnection, moment: DatabaseContents, now: DatabaseContents | None = None
) -> None:
    """Bring the database back to where it was. `now`: where it is, if that is known; what has not
    changed is left alone then."""
    before = {} if now is None else now.contents
    side.simple(_WITHOUT_TRIGGERS)
    for name, content in moment.contents.items():
        if before.get(name) == content:
            continue
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


def layout(side: SideConnection) -> Layout:
    """Of a database whose schema stays as it is."""
    return {name: tuple(its) for name, its in _columns(side, stored=True).items()}


def _columns(side: SideConnection, *, stored: bool) -> dict[str, list[Column]]:
    columns: dict[str, list[Column]] = {}
    known = side.simple(_COLUMNS)
    numbered = {str(table) for table, _, _, is_numbered, _, _ in known if is_numbered == "t"}
    for table, name, kind, is_numbered, is_computed, other in known:
        its = columns.setdefault(str(table), [])
        if not (stored and is_computed == "t"):
            counts = str(table) if is_numbered == "t" else other if other in numbered else ""
            its.append(Column(str(name), str(kind), str(counts or "")))
    return columns


def tables(side: SideConnection) -> list[TableContents]:
    """All tables, by name."""
    found = []
    for name, its in sorted(_columns(side, stored=False).items()):
        asked = ", ".join(f'"{column.name}"' for column in its)
        rows = side.simple(f"select {asked} from only {name}")
        found.append(TableContents(name, tuple(its), tuple(map(tuple, rows))))
    return found
