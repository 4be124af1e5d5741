"""The traceback as the user should see it: their own lines, and what those called.

Between the test and the line that failed lie a loop, a world and a search. None of that helps, so
our frames are taken out, wherever they stand, and so is everything above the user's first line.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from inspect import unwrap
from types import FrameType, TracebackType
from typing import Any

from foretold.kernel.waiting import is_library

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FAMILY_MAX = 100
_DECORATOR_LINES_MAX = 50


def tidy(error: BaseException, function: Any) -> BaseException:
    """Take our frames out of `error` and all that belongs to it.

    What was raised by no line of the user's (a deadlock) is shown at the test function itself.
    """
    for each in _family(error):
        each.__traceback__ = _joined(_kept(each.__traceback__))
    if error.__traceback__ is None:
        error.__traceback__ = _at_definition(unwrap(function))
    return error


def _family(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and contexts, and the members of groups, each once."""
    found: dict[int, BaseException] = {}
    open_ends: list[BaseException | None] = [error]
    while open_ends and len(found) < _FAMILY_MAX:
        each = open_ends.pop()
        if each is not None and id(each) not in found:
            found[id(each)] = each
            open_ends += [each.__cause__, each.__context__]
            open_ends += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
    yield from found.values()


def _kept(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_OURS):
            entries.append(traceback)
        traceback = traceback.tb_next
    for number, entry in enumerate(entries):
        if not is_library(entry.tb_frame.f_code.co_filename):
            return entries[number:]
    packages = [entry.tb_frame.f_globals.get("__package__") for entry in entries]
    return [] if all(package == "asyncio" for package in packages) else entries


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    joined: TracebackType | None = None
    for entry in reversed(entries):
        joined = TracebackType(joined, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return joined


def _at_definition(function: Any) -> TracebackType | None:
    """A traceback with one entry: the line where the function is defined."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    frame = _frame_named(code.co_filename, code.co_firstlineno, function.__name__)
    return TracebackType(None, frame, -1, _line_of_def(code.co_filename, code.co_firstlineno))


def _frame_named(file: str, line: int, name: str) -> FrameType:
    code = compile("import sys; frame = sys._getframe()", file, "exec")
    found: dict[str, FrameType] = {}
    exec(code.replace(co_firstlineno=line, co_name=name, co_qualname=name), found)
    frame = found["frame"]
    found.clear()  # it is the frame's own namespace, which pytest may show
    return frame


def _line_of_def(file: str, first: int) -> int:
    """A function's first line is that of its first decorator."""
    for line in range(first, first + _DECORATOR_LINES_MAX):
        if linecache.getline(file, line).lstrip().startswith(("def ", "async def ")):
            return line
    return first
