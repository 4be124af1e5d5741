"""The values that a client gives with a statement, as a story shows them: `WHERE id = $1` tells a
reader little.

What types they have the server says when the statement is prepared, or the client. Short texts,
numbers, times and ids are told; what is long is cut off, and what nobody would read is `…`.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from foretold.services.postgres.protocol import COMMAND_COMPLETE, DATA_ROW, ROW_DESCRIPTION
from foretold.trace.events import Cells

TEXT_CHARS_MAX: Final = 200
"""More than a story shows: it knows names for ids, which are shorter."""
_OTHER: Final = "…"
_EPOCH: Final = datetime.datetime(2000, 1, 1)
_COUNT: Final = struct.Struct("!h")
_LENGTH: Final = struct.Struct("!i")
_NUMBERS: Final = {20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}
_TEXTS: Final = (18, 19, 25, 114, 1042, 1043)
_BOOL, _UUID, _JSONB, _TIMES = 16, 2950, 3802, (1114, 1184)
_PLAIN: Final = (*_NUMBERS, _UUID, 1700)
"""Written without quotes."""
ROWS_MAX: Final = 50
"""Of an answer with more rows none is kept: the story knows then that it does not know them."""
_SUSPENDED: Final = b"s"
"""There are more rows than the client has asked for now."""
_FIELD: Final = struct.Struct("!ihihih")


class AnswerColumn(NamedTuple):
    table: int
    """Its number in the catalogue, and that of the column there; 0 for what is computed."""
    number: int
    kind: int
    is_binary: bool


class Expected(NamedTuple):
    """What is known of the rows of a statement before it is executed."""

    columns: tuple[AnswerColumn, ...] | None
    formats: tuple[int, ...]


def types_in(message: bytes, start: int) -> list[int]:
    """The types of parameters, where a message tells them from this byte on."""
    count = _COUNT.unpack_from(message, start)[0]
    return list(struct.unpack_from(f"!{count}I", message, start + 2))


def given_in(bind: bytes, start: int, types: Sequence[int]) -> tuple[str, ...]:
    """What a Bind message gives, from this byte on; `types` as far as they are known."""
    formats, start = _formats(bind, start)
    count = _COUNT.unpack_from(bind, start)[0]
    start += 2
    found = []
    for number in range(count):
        size = _LENGTH.unpack_from(bind, start)[0]
        start += 4
        value = None if size < 0 else bind[start : start + size]
        start += max(0, size)
        is_binary = formats[number if number < len(formats) else -1] if formats else 0
        found.append(_shown(value, types[number] if number < len(types) else 0, bool(is_binary)))
    return tuple(found)


def formats_after(bind: bytes, start: int) -> tuple[int, ...]:
    """In which formats a Bind message asks for the columns; `start` as for `given_in`."""
    _, start = _formats(bind, start)
    count = _COUNT.unpack_from(bind, start)[0]
    start += 2
    for _ in range(count):
        start += 4 + max(0, _LENGTH.unpack_from(bind, start)[0])
    return _formats(bind, start)[0]


def columns_in(description: bytes) -> tuple[AnswerColumn, ...]:
    """The columns of a RowDescription."""
    found, place = [], 7
    for _ in range(_COUNT.unpack_from(description, 5)[0]):
        place = description.index(0, place) + 1
        table, number, kind, _, _, form = _FIELD.unpack_from(description, place)
        found.append(AnswerColumn(table & 0xFFFFFFFF, number, kind & 0xFFFFFFFF, bool(form)))
        place += _FIELD.size
    return tuple(found)


def cells_of(answer: Sequence[bytes], expected: Sequence[Expected]) -> list[Cells | None]:
    """The rows that each of several statements has found; None where they are not known."""
    found: list[Cells | None] = []
    rows: list[bytes] = []
    described: tuple[AnswerColumn, ...] | None = None
    for message in answer:
        kind = message[:1]
        if kind == ROW_DESCRIPTION:
            described = columns_in(message)
        elif kind == DATA_ROW:
            rows.append(message)
        elif kind in (COMMAND_COMPLETE, _SUSPENDED):
            known = expected[len(found)] if len(found) < len(expected) else Expected(None, ())
            columns = described if known.columns is None else _with_formats(*known)
            found.append(_cells(columns, rows))
            rows, described = [], None
    return found


def _with_formats(
    columns: tuple[AnswerColumn, ...] | None, formats: tuple[int, ...]
) -> tuple[AnswerColumn, ...] | None:
    """One format for each, one for all, or none: all are texts."""
    if columns is None:
        return None
    asked = formats * len(columns) if len(formats) == 1 else formats or (0,) * len(columns)
    return tuple(c._replace(is_binary=bool(f)) for c, f in zip(columns, asked, strict=False))


def _cells(columns: tuple[AnswerColumn, ...] | None, rows: Sequence[bytes]) -> Cells | None:
    if columns is None or len(rows) > ROWS_MAX:
        return None
    numbers = tuple((column.table, column.number) for column in columns)
    return Cells(columns=numbers, rows=tuple(_row(columns, row) for row in rows))


def _row(columns: Sequence[AnswerColumn], row: bytes) -> tuple[str | None, ...]:
    found: list[str | None] = []
    place = 7
    for column in columns:
        size = _LENGTH.unpack_from(row, place)[0]
        place += 4
        value = None if size < 0 else row[place : place + size]
        place += max(0, size)
        found.append(None if value is None else _shown(value, column.kind, column.is_binary))
    return tuple(found)


def _formats(bind: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """One for each value, one for all of them, or none: all are texts."""
    count = _COUNT.unpack_from(bind, start)[0]
    return struct.unpack_from(f"!{count}h", bind, start + 2), start + 2 + 2 * count


def _shown(value: bytes | None, kind: int, is_binary: bool) -> str:
    if value is None:
        return "NULL"
    if not is_binary:
        text = value.decode("utf-8", "replace")
        return text if kind in _PLAIN else _quoted(text)
    try:
        return _read(value, kind)
    except (struct.error, ValueError, OverflowError):
        return _OTHER


def _read(value: bytes, kind: int) -> str:
    if kind in _TEXTS:
        return _quoted(value.decode("utf-8", "replace"))
    if kind in _NUMBERS:
        return str(struct.unpack(_NUMBERS[kind], value)[0])
    if kind == _BOOL:
        return "true" if value == b"\1" else "false"
    if kind == _UUID:
        return str(uuid.UUID(bytes=value))
    if kind == _JSONB:
        return _quoted(value[1:].decode("utf-8", "replace"))
    if kind in _TIMES:
        passed = datetime.timedelta(microseconds=struct.unpack("!q", value)[0])
        return f"'{_EPOCH + passed:%Y-%m-%d %H:%M:%S}'"
    return _OTHER


def _quoted(text: str) -> str:
    short = text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"
    return repr(short)
