"""A power cut for coroutines: they are freed where they stand, and nothing of them runs again.

Python ends a suspended coroutine politely: when it is collected, `GeneratorExit` is thrown into it
and its `finally` blocks run. A host that lost its power has none. So the one byte in which CPython
keeps a frame's state is set to "completed": the frame's variables are then released and its code is
left alone. Where that byte is, is found out by looking, and tried before it is relied on; on a
Python where it cannot be found, `abandon` keeps the coroutines for the life of the process.

A coroutine also holds generators that it does not await: each `with` of a `@contextmanager` is one.
Which of them are its own and which are shared with the living, only the collector knows. So those
are not looked for: the frames of the dead are emptied, and while `nothing_is_finalized`, what is
freed is freed as it stands. A generator that somebody else holds is not freed, and goes on.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, Final

from foretold.kernel.waiting import awaited_by, frame_of

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


steppers: Final = set[type]()
"""Classes of foretold's own whose `__await__` steps through a coroutine by hand; their instances
tell which: `steps_through`."""


def _awaited_by(coro: Any) -> Any:
    inner = awaited_by(coro)
    if inner is not None:
        return inner
    held = (each for each in gc.get_referents(coro) if type(each) in steppers)
    return next((each.steps_through for each in held), None)


def chain_of(coro: Any) -> list[Any]:
    """A coroutine and all that it waits in, as long as they are Python's own."""
    found = []
    while coro is not None and frame_of(coro) is not None:
        found.append(coro)
        coro = _awaited_by(coro)
    return found


_CLEAR: Final = 192
"""Where a type keeps its `tp_clear`, on 64-bit CPython since 3.8."""


def _slot(kind: type, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(kind) + offset)


_clear: Any = None
if sys.version_info < (3, 15) and ctypes.sizeof(ctypes.c_void_p) == 8:
    _address = _slot(FrameType, _CLEAR).value
    assert _address, "frames are cleared by the collector"
    _clear = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(_address)


def _empty(frame: FrameType) -> None:
    """Let go what a frame holds, also on its stack. (`frame.clear()` closes a generator's frame,
    and else does nothing to it: this is what the collector calls.)"""
    if _clear is not None:
        _clear(frame)


def abandon(*coros: Any) -> None:
    """Free suspended coroutines, and those they await, without running any of their code. What
    their frames hold is let go: do it while `nothing_is_finalized`."""
    chains = [each for coro in coros for each in chain_of(coro)]
    if _STATE_BYTE is None:
        _kept.extend(chains)
        return
    frames = [frame_of(each) for each in chains]  # who is marked does not show its frame
    for each in chains:
        ctypes.c_ubyte.from_address(id(each) + _STATE_BYTE).value = _COMPLETED
    for frame in frames:
        if frame is not None:
            _empty(frame)


# --- greenlets that the dead hold ----------------------------------------------------------------

_THROWS_MAX: Final = 50
"""A greenlet that waits for something else each time is left lying after so many."""


def greenlets_of(*coros: Any) -> list[Any]:
    """The suspended greenlets of coroutines: SQLAlchemy runs its code in them."""
    known: Any = sys.modules.get("greenlet")
    if known is None:
        return []
    # By the collector's eyes: `frame.f_locals` would hold what is to be let go.
    return [
        value
        for coro in coros
        for each in chain_of(coro)
        for value in gc.get_referents(each)
        if isinstance(value, known.greenlet) and value
    ]


def end_greenlets(greenlets: list[Any]) -> None:
    """Unwind what greenlets of this thread were doing. Their stacks are C's, and cannot be thrown
    away: who frees one has `GreenletExit` raised in it, once; and if a `finally` there waits for
    something, it is never freed, nor what it knows. So it is raised again, until nothing is left.
    For the end of a run alone: by then, nothing they do has an effect."""
    if not greenlets:
        return
    known: Any = sys.modules["greenlet"]
    level = logging.root.manager.disable
    logging.disable()
    try:  # what they say of their end is for nobody
        for each in greenlets:
            with suppress(ValueError, known.error):  # it is another thread's
                each.parent = known.getcurrent()
                _unwind(each, known.GreenletExit)
    finally:
        logging.disable(level)


def _unwind(greenlet: Any, exit: type[BaseException]) -> None:
    for _ in range(_THROWS_MAX):
        if greenlet.dead:
            break
        with suppress(BaseException):
            awaited: Any = greenlet.throw(exit)
            awaited.close()  # nobody will


# --- generators that the dead hold ---------------------------------------------------------------

_FINALIZE: Final = 392
"""Where a type keeps its `tp_finalize`, on 64-bit CPython since 3.8."""
_KINDS: Final = (GeneratorType, CoroutineType, AsyncGeneratorType)
_NO_FINALIZER: Final = (list, dict, tuple)


def _finalizer_is_there() -> bool:
    """All three kinds have the same one there, and others have none."""
    values = {_slot(kind, _FINALIZE).value for kind in _KINDS}
    return (
        len(values) == 1
        and None not in values
        and not any(_slot(kind, _FINALIZE).value for kind in _NO_FINALIZER)
    )


_can_silence = ctypes.sizeof(ctypes.c_void_p) == 8 and _finalizer_is_there()


@contextmanager
def nothing_is_finalized() -> Iterator[None]:
    """Inside, a suspended generator or coroutine that is freed runs no `finally`."""
    if not _can_silence:
        yield
        return
    before = [(slot := _slot(kind, _FINALIZE), slot.value) for kind in _KINDS]
    for slot, _ in before:
        slot.value = None
    try:
        yield
    finally:
        for slot, value in before:
            slot.value = value


def _suspended(ran: list[str]) -> Any:
    coro = _probe(ran)
    coro.send(None)
    return coro


def _try_it() -> bool:
    ran: list[str] = []
    abandon(_suspended(ran))
    return not ran


def _try_silence() -> bool:
    ran: list[str] = []
    with nothing_is_finalized():
        _suspended(ran)
    silent = not ran
    _suspended(ran)
    return silent and ran == ["finally"]


if _STATE_BYTE is not None and not _try_it():
    _STATE_BYTE = None
_can_silence = _can_silence and _try_silence()
