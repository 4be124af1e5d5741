"""Which rows a statement is about, as far as it is known, and whether it read what another wrote.

Known is what conditions pick (`id = 7`), what an INSERT puts there, and what the server answers: it
says of which table's column each value is. Rows are compared by the columns that both sides know.
Where nothing can be compared, the answer is that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from foretold.services.postgres.sqlqueries import queries_of
from foretold.services.postgres.sqltext import (
    NUMBER,
    PARAMETER,
    TEXT,
    Name,
    Reading,
    Token,
    past_type,
)
from foretold.trace.events import Cells, Event, Schema, Table

Known = dict[tuple[str, str], set[str]]
"""Of (table, column) the values that rows have."""
_UNKNOWN = "…"
NULL = "NULL"
_TRUTHS = ("true", "false")


class Catalogue:
    """The tables that the server knows, and what they are called in a story."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        schemas = [event for event in events if isinstance(event, Schema)]
        self._by_number: dict[int, Table] = {}
        for each in schemas if len(schemas) == 1 else ():  # numbers of two databases may be alike
            self._by_number = each.tables
        self._named: dict[str, list[Table]] = {}
        for table in self._by_number.values():
            self._named.setdefault(table.name, []).append(table)

    def called(self, name: Name) -> str:
        """One name for one table, however it is written."""
        tables = self._named.get(name[-1], [])
        if len(name) > 1:
            tables = [table for table in tables if table.schema == name[0]]
        else:
            tables = [table for table in tables if table.schema == "public"] or tables
        if len(tables) == 1:
            return self._shown(tables[0])
        return name[-1] if name[0] == "public" else ".".join(name)

    def _shown(self, table: Table) -> str:
        alone = len(self._named[table.name]) == 1
        return table.name if alone or table.schema == "public" else f"{table.schema}.{table.name}"

    def unique(self, table: str) -> set[str] | None:
        """The columns of which one alone tells its rows apart; None if the table is not known."""
        for each in self._by_number.values():
            if self._shown(each) == table:
                return {key[0] for key in each.keys if len(key) == 1}
        return None

    def column(self, numbers: tuple[int, int]) -> tuple[str, str] | None:
        """The table and the column that the server means."""
        table = self._by_number.get(numbers[0])
        if table is None or numbers[1] not in table.columns:
            return None
        return self._shown(table), table.columns[numbers[1]]

    def owner(self, column: str, tables: Iterable[Name]) -> Name | None:
        """Which of several tables has a column of that name, if only one has it."""
        named = list(tables)
        if len(named) == 1:
            return named[0]
        having = [
            name
            for name in named
            if any(column in each.columns.values() for each in self._named.get(name[-1], ()))
        ]
        return having[0] if len(having) == 1 else None


class FoundColumn(NamedTuple):
    key: tuple[str, str] | None
    """Its table and its name; None for what is computed."""
    values: list[str]


@dataclass
class KnownRows:
    reading: Reading
    catalogue: Catalogue
    asked: Known = field(default_factory=dict)
    """What conditions ask for, and what is inserted."""
    queries: dict[str, Reading] = field(default_factory=dict)
    """By table, the query in brackets that alone reads it."""
    within: Known = field(default_factory=dict)
    """What the conditions of these ask for."""
    found: Known = field(default_factory=dict)
    """What the server has answered."""

    to: dict[str, str] = field(default_factory=dict)
    """The columns that it gives another value, and which, as far as that is known."""

    @property
    def sets(self) -> set[str]:
        """The columns that it gives another value."""
        return set(self.reading.sets)


def answered(cells: Cells | None, catalogue: Catalogue) -> list[FoundColumn]:
    """What the server has answered, column by column; nothing if that is not known."""
    if cells is None:
        return []
    return [
        FoundColumn(catalogue.column(numbers), [row[place] or NULL for row in cells.rows])
        for place, numbers in enumerate(cells.columns)
    ]


def rows_of(
    reading: Reading, values: Sequence[str], cells: Cells | None, catalogue: Catalogue
) -> KnownRows:
    """All that is known."""
    rows = KnownRows(reading, catalogue)
    for each in reading.conditions:
        name = reading.aliases.get(each.table) if each.table else None
        name = name or (None if each.table else catalogue.owner(each.column, reading.tables))
        given = [_value(token, values) for token in each.values]
        if name is not None and None not in given:
            key = (catalogue.called(name), each.column)
            rows.asked.setdefault(key, set()).update(filter(None, given))
    _note_inserted(rows, values, catalogue)
    for column, tokens in reading.sets.items():
        alone = bool(tokens) and past_type(tokens, 1) == len(tokens)
        value = _value(tokens[0], values) if alone else None
        if value is not None:
            rows.to[column] = value
    for number, columns in enumerate(cells.columns if cells is not None else ()):
        key_found = catalogue.column(columns)
        if key_found is not None and cells is not None:
            told = {bare(row[number]) for row in cells.rows}
            if None not in told:
                rows.found[key_found] = {each for each in told if each is not None}
    return rows


def note_queries(rows: KnownRows, values: Sequence[str]) -> None:
    """What is known besides from the queries that stand in brackets."""
    for name, query in queries_of(rows.reading).items():
        table = rows.catalogue.called(name)
        rows.queries[table] = query
        for (_, column), given in rows_of(query, values, None, rows.catalogue).asked.items():
            rows.within[table, column] = given


def _note_inserted(rows: KnownRows, values: Sequence[str], catalogue: Catalogue) -> None:
    reading = rows.reading
    if not reading.inserts or len(reading.written) != 1:
        return
    table = catalogue.called(next(iter(reading.written)))
    columns = set.intersection(*({name for name, _ in row} for row in reading.inserts))
    for column in columns:
        given = [_value(dict(row)[column], values) for row in reading.inserts]
        if None not in given:
            rows.asked[table, column] = {each for each in given if each is not None}


def _value(token: Token, values: Sequence[str]) -> str | None:
    """As text that can be compared; None if it is not known."""
    if token.kind != PARAMETER:
        return token.value if token.kind in (TEXT, NUMBER) or token.value in _TRUTHS else None
    number = int(token.value[1:])
    return bare(values[number - 1]) if 0 < number <= len(values) else None


def bare(value: str | None) -> str | None:
    """Without quotes; None for what is NULL, long or not shown."""
    if value is None or value in (NULL, _UNKNOWN):
        return None
    bare = value[1:-1] if value[:1] in ("'", '"') else value
    return None if bare.endswith(_UNKNOWN) or bare.startswith("{") else bare


def meets(read: KnownRows, write: KnownRows, table: str) -> bool | None:
    """Whether the one has read of a table what the other changed there. None: that is not known."""
    if _overlooks(read, write):
        return False
    same: set[str] = set()
    asked = {**read.within, **read.asked}
    for (name, column), values in {**write.found, **write.asked}.items():
        key = (name, column)
        if name != table or column in write.sets:
            continue
        if key in asked:
            if asked[key].isdisjoint(values):
                return False
            same.add(column)
        elif key in read.found and not write.reading.inserts:
            if not read.found[key].isdisjoint(values):
                same.add(column)
            elif write.sets.isdisjoint(read.reading.used):
                return False  # nor has it moved another row to where this one looked
    for column, value in write.to.items():
        if value in asked.get((table, column), ()):
            same.add(column)  # the row is one of those from now on
    whole = not read.reading.is_narrowed or not (write.reading.is_narrowed or write.reading.inserts)
    return True if whole or _is_same_row(read, same, table) else None


def _is_same_row(read: KnownRows, same: set[str], table: str) -> bool:
    """Whether rows that agree in these columns are the same for the read: one of them is a key, or
    they are all that the read asks for."""
    unique = read.catalogue.unique(table)
    if unique is None:
        return bool(same)
    query = read.queries.get(table, read.reading)
    asked = {column for name, column in {**read.within, **read.asked} if name == table}
    return bool(same & unique) or (bool(same) and query.is_plain and asked <= same)


def _overlooks(read: KnownRows, write: KnownRows) -> bool:
    """It has asked for other columns than those that were changed."""
    selects = read.reading.selects
    only_sets = bool(write.sets) and not write.reading.inserts and not write.reading.has("delete")
    return only_sets and selects is not None and write.sets.isdisjoint(selects | read.reading.used)
