"""Lines that CPython tears: something shared is read, something is called, something shared is
written, as in `self.total = round(self.total + amount, 2)` or `ids.append(max(ids) + 1)`.

CPython lets another thread go on when a call of a builtin function is over, as it does when a
function begins and when a loop begins again; within `self.count += 1` it never does. Where a line
reads, calls and writes, the moment after the call is a point of its own. Everywhere else a line is
done without interruption.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType
from typing import Final, NamedTuple

_READ: Final = frozenset({"LOAD_ATTR", "BINARY_SUBSCR", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_WRITE: Final = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF", "STORE_GLOBAL"})
_CALL: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_CHANGES: Final = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft"),
        *("put", "put_nowait", "remove", "setdefault", "update", "write"),
    )
)
"""Methods that write."""
_METHOD: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBAL: Final = ("LOAD_GLOBAL", "STORE_GLOBAL")
_SUBSCRIPT: Final = ("BINARY_OP", "[]")
"""As Python 3.14 writes BINARY_SUBSCR."""


class Torn(NamedTuple):
    lines: frozenset[int]
    offsets: frozenset[int]
    """Of the instructions after the calls."""


NOWHERE: Final = Torn(frozenset(), frozenset())


@functools.lru_cache(maxsize=10_000)
def torn(code: CodeType) -> Torn:
    """Where CPython may let another thread go on in the middle of a line of this function."""
    by_line: dict[int, list[dis.Instruction]] = {}
    after: dict[int, int] = {}
    before = -1
    for each in dis.get_instructions(code):
        line = None if each.positions is None else each.positions.lineno
        if line is not None:
            by_line.setdefault(line, []).append(each)
        after[before] = before = each.offset
    calls = {line: _calls_between(each) for line, each in by_line.items()}
    lines = frozenset(line for line, offsets in calls.items() if offsets)
    offsets = frozenset(after[each] for line in lines for each in calls[line])
    return Torn(lines, offsets) if lines else NOWHERE


def _calls_between(line: list[dis.Instruction]) -> list[int]:
    """The calls of a line that come after something shared is read and before it is written."""
    written = {each.argval for each in line if each.opname == _GLOBAL[1]}
    reads = [n for n, each in enumerate(line) if _is_read(each, written)]
    writes = [n for n, each in enumerate(line) if each.opname in _WRITE]
    if any(map(_is_change, line)):
        writes += [n for n, each in enumerate(line) if each.opname in _CALL][-1:]
    if not reads or not writes:
        return []
    return [each.offset for each in line[reads[0] : max(writes)] if each.opname in _CALL]


def _is_read(each: dis.Instruction, written: set[str]) -> bool:
    if each.opname == _GLOBAL[0]:
        return each.argval in written
    is_subscript = (each.opname, each.argrepr) == _SUBSCRIPT
    return each.opname in _READ or is_subscript or _is_change(each)


def _is_change(each: dis.Instruction) -> bool:
    return each.opname in _METHOD and each.argval in _CHANGES
