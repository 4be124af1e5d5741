"""Rows for tests: `pg.sql(…)` gives Python values, by column number or by name."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from foretold.services.postgres.protocol import DATA_ROW, ROW_DESCRIPTION

_UTC: Final = datetime.UTC


def _timestamp(value: str) -> Any:
    try:
        found = datetime.datetime.fromisoformat(value)
    except ValueError:
        return value  # infinity, or before the year 1
    return found.astimezone(_UTC) if found.tzinfo is not None else found


def _date(value: str) -> Any:
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return value


def _array(of: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        if '"' in value or "\\" in value or "{" in value[1:]:
            return value  # quoted or nested: as the server writes it
        inner = value[1:-1]
        return [None if v == "NULL" else of(v) for v in inner.split(",")] if inner else []

    return read


_READERS: Final[dict[int, Callable[[str], Any]]] = {
    16: lambda value: value == "t",
    17: lambda value: bytes.fromhex(value[2:]),
    20: int,
    21: int,
    23: int,
    26: int,
    28: int,
    114: json.loads,
    700: float,
    701: float,
    1005: _array(int),
    1007: _array(int),
    1009: _array(str),
    1016: _array(int),
    1082: _date,
    1114: _timestamp,
    1184: _timestamp,
    1700: decimal.Decimal,
    2950: uuid.UUID,
    3802: json.loads,
}
"""By the type's number in the catalogue; all others stay text."""


class Row(tuple[Any, ...]):
    """One row: `row[0]`, `row["id"]`, or unpacked."""

    __slots__ = ()
    columns: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self.columns.index(key))
            except ValueError:
                known = ", ".join(self.columns)
                raise KeyError(f"there is no column {key!r}; there are {known}") from None
        return tuple.__getitem__(self, key)

    def keys(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.columns


class Rows(list[Row]):
    """What a query found. It may be awaited too, which gives the same."""

    def __await__(self) -> Generator[Any, None, Rows]:
        yield from ()
        return self


def rows_of(columns: Sequence[tuple[str, int]], found: Sequence[Sequence[str | None]]) -> Rows:
    """Python values for what the server has written as text."""
    names = tuple(name for name, _ in columns)
    readers = [_READERS.get(kind, str) for _, kind in columns]
    made = type("Row", (Row,), {"columns": names, "__slots__": ()})
    return Rows(
        made(None if v is None else read(v) for v, read in zip(row, readers, strict=True))
        for row in found
    )


def found_in(messages: Iterable[bytes]) -> Rows:
    """The rows of an answer; of its last statement, if there are several."""
    columns: list[tuple[str, int]] = []
    found: list[list[str | None]] = []
    for message in messages:
        if message[:1] == ROW_DESCRIPTION:
            columns, found = columns_of(message), []
        elif message[:1] == DATA_ROW:
            found.append(texts_of(message))
    return rows_of(columns, found)


def columns_of(description: bytes) -> list[tuple[str, int]]:
    """Names and types of a RowDescription."""
    found, place = [], 7
    for _ in range(int.from_bytes(description[5:7], "big")):
        end = description.index(0, place)
        kind = int.from_bytes(description[end + 7 : end + 11], "big")
        found.append((description[place:end].decode("utf-8", "replace"), kind))
        place = end + 19
    return found


def texts_of(row: bytes) -> list[str | None]:
    """The values of a DataRow, which were asked for as text."""
    found: list[str | None] = []
    place = 7
    for _ in range(int.from_bytes(row[5:7], "big")):
        size = int.from_bytes(row[place : place + 4], "big", signed=True)
        place += 4
        if size < 0:
            found.append(None)
        else:
            found.append(row[place : place + size].decode("utf-8", "replace"))
            place += size
    return found
