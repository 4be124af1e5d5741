"""What a step of a task touched, as far as that can be known.

Only *tracked* objects count: asyncio's locks, events, conditions, semaphores and queues. Whoever
runs anything that could change something else (a plain dictionary, an attribute, a list, a call
into code that is not known here) may have touched anything. So two steps that race on a plain
object always depend on each other, and no search that relies on this skips their other order.

How it is known: between two suspensions a coroutine runs a piece of its byte code. All ways from
where it was suspended to where it is suspended now are read (`pieces.py`). If nothing on them can
change shared state except methods of tracked objects, those objects are what the step touched. In
all other cases, and where this cannot tell: unknown.
"""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

from foretold.kernel.actors import WorldTask
from foretold.kernel.handles import AnyHandle
from foretold.kernel.pieces import BEGIN, END, Touched, is_sleep, piece_of, tracked_by

_FRAMES_MAX = 50
_THEIR_FILES = (asyncio.locks.__file__, asyncio.mixins.__file__, asyncio.queues.__file__)


class Watch:
    """Looks at one step at a time."""

    def __init__(self) -> None:
        self._task: Any = None
        self._chain: list[tuple[FrameType, int, dict[str, Any]]] = []

    def before(self, handle: AnyHandle) -> None:
        """This step is about to be made."""
        task: Any = getattr(handle._callback, "__self__", None)
        self._task = None
        if type(task) is not WorldTask or getattr(task, "_must_cancel", True):
            return
        if any(not isinstance(arg, asyncio.Future) or _raises(arg) for arg in handle._args):
            return
        self._task = task
        self._chain = [(frame, frame.f_lasti, dict(frame.f_locals)) for frame in _frames(task)]

    def after(self) -> Touched:
        """It was made: what it touched; None if that may be anything."""
        task, chain = self._task, self._chain
        self._task, self._chain = None, []
        if task is None or task.done() or not chain:
            return None
        return _touched(chain, _frames(task))


def _touched(
    before: list[tuple[FrameType, int, dict[str, Any]]], after: list[FrameType]
) -> Touched:
    common = 0
    while common < min(len(before), len(after)) and before[common][0] is after[common]:
        common += 1
    if not common:
        return None
    found = set[int]()
    for frame, lasti, names in before[common:]:  # they came to their end
        if not _note(found, frame, lasti, END, names):
            return None
    frame, lasti, names = before[common - 1]  # it went on
    if not _note(found, frame, lasti, frame.f_lasti, names):
        return None
    for frame in after[common:]:  # they began
        if not _note(found, frame, BEGIN, frame.f_lasti, dict(frame.f_locals)):
            return None
    return frozenset(found)


def _note(found: set[int], frame: FrameType, start: int, end: int, names: dict[str, Any]) -> bool:
    """Add what a frame touched between two places. False if that may be anything."""
    code = frame.f_code
    if is_sleep(code):
        return bool(names.get("delay", 0) == 0)
    touched = tracked_by(names.get("self"))
    if touched is None or code.co_filename not in _THEIR_FILES:
        touched = piece_of(code, start, end, names, frame.f_globals)
    if touched is None:
        return False
    found.update(touched)
    return True


def _raises(future: Any) -> bool:
    return bool(future.cancelled() or (future.done() and future.exception() is not None))


def _frames(task: Any) -> list[FrameType]:
    """The suspended frames of a task, the outermost first; empty if that is not all of them."""
    frames: list[FrameType] = []
    inner = task.get_coro()
    while inner is not None:
        if hasattr(inner, "cr_frame"):
            frame, inner = inner.cr_frame, inner.cr_await
        elif hasattr(inner, "gi_frame"):
            frame, inner = inner.gi_frame, inner.gi_yieldfrom
        else:
            break  # the future itself
        if frame is None or len(frames) > _FRAMES_MAX:
            return []
        frames.append(frame)
    return frames
