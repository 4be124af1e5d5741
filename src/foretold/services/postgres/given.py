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
from typing import Final

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
