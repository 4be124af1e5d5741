"""A power cut for coroutines: they are freed where they stand, and nothing of them runs again.

Python ends a suspended coroutine politely: when it is collected, `GeneratorExit` is thrown into it
and its `finally` blocks run. A host that lost its power has none. So the one byte in which CPython
keeps a frame's state is set to "completed": the frame's variables are then released and its code is
left alone. Where that byte is, is found out by looking, and tried before it is relied on; on a
Python where it cannot be found, `abandon` keeps the coroutines for the life of the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import Any, Final

_COMPLETED: Final = 1
_kept: list[Any] = []


class _Pause:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def _probe(ran: list[str]) -> None:
    try:
        await _Pause()
    finally:
        ran.append("finally")


def _bytes_of(thing: Any) -> bytes:
    return ctypes.string_at(id(thing), type(thing).__basicsize__)


def _find_state_byte() -> int | None:
    """The byte that counts up from created (negative) over suspended to cleared (4)."""
    coro = _probe([])
    created = _bytes_of(coro)
    coro.send(None)
    suspended = _bytes_of(coro)
    coro.close()
    closed = _bytes_of(coro)
    found = [
        i
        for i in range(16, len(created))
        if 0xFC <= created[i] < suspended[i] <= 0xFF and closed[i] == 4
    ]
    return found[0] if len(found) == 1 else None


_STATE_BYTE: int | None = _find_state_byte()


def _mark(coro: Any) -> None:
    assert _STATE_BYTE is not None, "asked for only where it was found"
    ctypes.c_ubyte.from_address(id(coro) + _STATE_BYTE).value = _COMPLETED


def _chain(coro: Any) -> list[Any]:
    """A coroutine and all that it waits in, as long as they are Python's own."""
    found = []
    while coro is not None and any(
        getattr(coro, name, None) is not None for name in ("cr_frame", "gi_frame", "ag_frame")
    ):
        found.append(coro)
        coro = next(
            (
                inner
                for name in ("cr_await", "gi_yieldfrom", "ag_await")
                if (inner := getattr(coro, name, None)) is not None
            ),
            None,
        )
    return found


def abandon(coro: Any) -> None:
    """Free a suspended coroutine, and those it awaits, without running any of their code."""
    chain = _chain(coro)
    if _STATE_BYTE is None:
        _kept.extend(chain)
        return
    for each in chain:
        _mark(each)


def _try_it() -> bool:
    ran: list[str] = []
    coro = _probe(ran)
    coro.send(None)
    abandon(coro)
    del coro
    return not ran


if _STATE_BYTE is not None and not _try_it():
    _STATE_BYTE = None
