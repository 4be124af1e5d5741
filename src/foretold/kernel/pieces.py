"""Reads the piece of byte code that a coroutine ran between two suspensions, and says which tracked
objects it can have touched; None if it can have touched anything else. `touches.py` says what for.

Every way from the one place to the other is followed, with a stack of what is known about the
values on it. Only the few operations named here are understood: locals, jumps, loops over `range`,
`await`, `asyncio.sleep(0)` and methods of tracked objects. Any other ends it, and so does code
within a `try`: its handler could run and lead to the same place.
"""

from __future__ import annotations

import asyncio
import builtins
import dis
import functools
import itertools
import sys
from types import CodeType, ModuleType
from typing import Any, NamedTuple

Touched = frozenset[int] | None
BEGIN = -1
END = -2
_WAYS_MAX = 2_000
_FLAGGED = sys.version_info >= (3, 12)
"""Since then one operation loads attributes and methods, and a flag says which."""

TRACKED: dict[type, frozenset[str]] = {
    asyncio.Lock: frozenset({"acquire", "release", "locked"}),
    asyncio.Event: frozenset({"set", "clear", "is_set", "wait"}),
    asyncio.Semaphore: frozenset({"acquire", "release", "locked"}),
    asyncio.BoundedSemaphore: frozenset({"acquire", "release", "locked"}),
    asyncio.Condition: frozenset({"acquire", "release", "locked", "wait", "notify", "notify_all"}),
    asyncio.Queue: frozenset(
        {"get", "put", "get_nowait", "put_nowait", "task_done", "join", "empty", "full", "qsize"}
    ),
}
"""By exact type: a subclass may do anything."""

_SLEEPS = {asyncio.sleep.__code__, asyncio.tasks.__sleep0.__code__}  # type: ignore[attr-defined]  # asyncio's own bare yield
_HARMLESS = {
    "NOP", "RESUME", "RETURN_GENERATOR", "COPY_FREE_VARS", "MAKE_CELL", "PRECALL", "CACHE",
    "EXTENDED_ARG", "GET_AWAITABLE",
}  # fmt: skip


class _Null:
    """A place on the stack that calls leave empty, or that holds a method's own object."""


_NULL = _Null()
_UNKNOWN = _Null()


class _Constant(NamedTuple):
    value: Any


class _Known(NamedTuple):
    value: Any


class _Method(NamedTuple):
    owner: Any
    name: str


class _Unclear(Exception):
    """This piece of code may do anything."""


def is_sleep(code: CodeType) -> bool:
    """Whether this is `asyncio.sleep`, or the bare yield inside of it."""
    return code in _SLEEPS


def tracked_by(value: Any) -> frozenset[int] | None:
    """What using this object touches, if it is tracked."""
    if type(value) not in TRACKED:
        return None
    if type(value) is asyncio.Condition:
        return frozenset({id(value), id(value._lock)})  # type: ignore[attr-defined]  # the lock it shares
    return frozenset({id(value)})


class _Code(NamedTuple):
    instructions: dict[int, dis.Instruction]
    follows: dict[int, int]
    precedes: dict[int, int]
    guarded: frozenset[int]
    """Offsets within a `try`, `with` or the like."""


@functools.lru_cache(maxsize=1_000)
def _read(code: CodeType) -> _Code:
    instructions = list(dis.get_instructions(code))
    offsets = [each.offset for each in instructions]
    by_offset = dict(zip(offsets, instructions, strict=True))
    guarded = set[int]()
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]  # typeshed omits it
        if by_offset[entry.target].opname not in ("CLEANUP_THROW", "CALL_INTRINSIC_1"):
            guarded.update(o for o in offsets if entry.start <= o < entry.end)
    return _Code(
        by_offset,
        dict(itertools.pairwise(offsets)),
        {later: earlier for earlier, later in itertools.pairwise(offsets)},
        frozenset(guarded),
    )


def piece_of(
    code: CodeType, start: int, end: int, names: dict[str, Any], module: dict[str, Any]
) -> Touched:
    """What was touched on the way from one suspension to the other, given the values of locals."""
    try:
        return _Reader(code, names, module).read(start, end)
    except _Unclear:
        return None


class _State(NamedTuple):
    offset: int
    stack: tuple[Any, ...]
    stored: frozenset[str]
    """Locals that have another value by now."""
    touched: frozenset[int]


class _Reader:
    """Follows all ways through one piece of code."""

    def __init__(self, code: CodeType, names: dict[str, Any], module: dict[str, Any]) -> None:
        self._code = _read(code)
        self._names = names
        self._module = module

    def read(self, start: int, end: int) -> Touched:
        """All that is touched on ways from `start` to `end`."""
        goal = END if end == END else self._send_at(end)
        first = 0 if start == BEGIN else self._resumed_at(start)
        found = set[int]()
        reached = False
        open_ways = [_State(first, (), frozenset(), frozenset())]
        seen = set[tuple[int, frozenset[str], frozenset[int]]]()
        unclear = list[_State]()
        while open_ways:
            state = open_ways.pop()
            key = (state.offset, state.stored, state.touched)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > _WAYS_MAX:
                raise _Unclear
            try:
                arrived, onward = self._step(state)
            except _Unclear:
                unclear.append(state)
                continue
            if arrived == goal:
                reached = True
                found |= state.touched
            open_ways.extend(onward)
        if not reached or any(self._can_reach(state.offset, goal) for state in unclear):
            raise _Unclear
        return frozenset(found)

    def _can_reach(self, offset: int, goal: int) -> bool:
        """Whether a way that was given up could have led to the goal without a suspension."""
        open_ways, seen = [offset], set[int]()
        while open_ways:
            at = open_ways.pop()
            if at in seen:
                continue
            seen.add(at)
            each = self._code.instructions[at]
            if each.opname.startswith("RETURN_") and each.opname != "RETURN_GENERATOR":
                if goal == END:
                    return True
                continue
            if each.opname == "SEND":
                if at == goal:
                    return True
                open_ways.append(each.argval)
                continue
            if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
                open_ways.append(each.argval)
            if not each.opname.startswith("JUMP_") and at in self._code.follows:
                open_ways.append(self._code.follows[at])
        return False

    def _resumed_at(self, lasti: int) -> int:
        each = self._code.instructions.get(lasti)
        if each is None:
            raise _Unclear
        before = self._code.instructions.get(self._code.precedes.get(lasti, BEGIN))
        if "RETURN_GENERATOR" in (each.opname, before.opname if before else ""):
            return 0  # it has not begun
        return self._send_at(lasti)

    def _send_at(self, lasti: int) -> int:
        """The `SEND` that a suspended coroutine stands at."""
        each: dis.Instruction | None = self._code.instructions.get(lasti)
        while each is not None and each.opname in ("YIELD_VALUE", "RESUME"):
            each = self._code.instructions.get(self._code.precedes[each.offset])
        if each is None or each.opname != "SEND":
            raise _Unclear
        return each.offset

    def _step(self, state: _State) -> tuple[int | None, list[_State]]:
        """One instruction: where it suspends or ends, if it can, and how it goes on."""
        each = self._code.instructions[state.offset]
        name = each.opname
        if state.offset in self._code.guarded:
            raise _Unclear
        if name == "SEND":
            beyond = state._replace(offset=each.argval, stack=(*state.stack[:-2], _UNKNOWN))
            if self._code.instructions[each.argval].opname == "END_SEND":
                beyond = beyond._replace(stack=(*state.stack[:-2], _UNKNOWN, _UNKNOWN))
            return each.offset, [beyond]
        if name in ("RETURN_VALUE", "RETURN_CONST"):
            return END, []
        if name.startswith("JUMP_"):
            return None, [state._replace(offset=each.argval)]
        if name == "FOR_ITER":
            return None, self._loop(state, each)
        return None, [self._plain(state, each)]

    def _loop(self, state: _State, each: dis.Instruction) -> list[_State]:
        if not self._is_over_range(each.offset):
            raise _Unclear
        inside = state._replace(
            offset=self._code.follows[each.offset], stack=(*state.stack, _UNKNOWN)
        )
        beyond = each.argval
        if self._code.instructions[beyond].opname == "END_FOR":
            beyond = self._code.follows[beyond]
        return [inside, state._replace(offset=beyond, stack=())]  # between two statements

    def _is_over_range(self, offset: int) -> bool:
        """Whether the loop that begins here is `for … in range(…)`, with plain bounds."""
        at = self._code.precedes[offset]
        expected = ["GET_ITER", "CALL"]
        while at in self._code.instructions:
            each = self._code.instructions[at]
            if expected and each.opname == expected[0]:
                expected.pop(0)
            elif each.opname == "LOAD_GLOBAL" and not expected:
                return bool(self._global(each.argval) == _Known(range))
            elif each.opname not in ("LOAD_CONST", "LOAD_FAST", "LOAD_DEREF", "PRECALL"):
                return False
            at = self._code.precedes.get(at, BEGIN)
        return False

    def _plain(self, state: _State, each: dis.Instruction) -> _State:
        stack, name = state.stack, each.opname
        following = state._replace(offset=self._code.follows[each.offset])
        if name in _HARMLESS:
            return following
        if name == "GET_ITER" and self._is_over_range(following.offset):
            return following
        if name in ("POP_TOP", "END_SEND"):
            return following._replace(
                stack=stack[:-1] if name == "POP_TOP" else (*stack[:-2], _UNKNOWN)
            )
        if name in ("LOAD_CONST", "PUSH_NULL"):
            value = _Constant(each.argval) if name == "LOAD_CONST" else _NULL
            return following._replace(stack=(*stack, value))
        if name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_FAST_LOAD_FAST"):
            loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            return following._replace(stack=(*stack, *(self._local(state, n) for n in loaded)))
        if name == "STORE_FAST":
            return following._replace(stack=stack[:-1], stored=state.stored | {each.argval})
        if name == "LOAD_GLOBAL":
            pushed = self._global(each.argval)
            return following._replace(
                stack=(*stack, *_with_null(pushed, bool((each.arg or 0) & 1)))
            )
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            return following._replace(stack=(*stack[:-1], *_attribute(stack, each)))
        if name == "CALL":
            return self._call(following, each.arg or 0)
        raise _Unclear

    def _local(self, state: _State, name: str) -> Any:
        if name in state.stored or name not in self._names:
            return _UNKNOWN
        return _Known(self._names[name])

    def _global(self, name: str) -> Any:
        if name in self._module:
            return _Known(self._module[name])
        return _Known(getattr(builtins, name, None))

    def _call(self, state: _State, count: int) -> _State:
        args = state.stack[len(state.stack) - count :]
        below = state.stack[: len(state.stack) - count]
        callee = next((each for each in below[-2:] if isinstance(each, _Known | _Method)), None)
        left = (*below[:-2], _UNKNOWN)
        if callee == _Known(range):
            return state._replace(stack=left)
        if callee == _Known(asyncio.sleep) and args == (_Constant(0),):
            return state._replace(stack=left)
        if isinstance(callee, _Method):
            own = tracked_by(callee.owner)
            if own is not None and callee.name in TRACKED[type(callee.owner)]:
                return state._replace(stack=left, touched=state.touched | own)
        raise _Unclear


def _with_null(value: Any, wanted: bool) -> tuple[Any, ...]:
    if not wanted:
        return (value,)
    return (value, _NULL) if sys.version_info >= (3, 13) else (_NULL, value)


def _attribute(stack: tuple[Any, ...], each: dis.Instruction) -> tuple[Any, ...]:
    """What an attribute, or a method that is about to be called, puts on the stack."""
    owner = stack[-1] if stack else _UNKNOWN
    if not isinstance(owner, _Known):
        raise _Unclear
    value, name = owner.value, each.argval
    called = each.opname == "LOAD_METHOD" or bool(_FLAGGED and (each.arg or 0) & 1)
    if type(value) in TRACKED:
        return (_Method(value, name), _NULL) if called else (_Method(value, name),)
    own = vars(value) if isinstance(value, ModuleType) else getattr(value, "__dict__", {})
    plain: tuple[Any, ...] = (object.__getattribute__, ModuleType.__getattribute__)
    if type(value).__getattribute__ not in plain:
        raise _Unclear
    if type(own) is not dict or name not in own or name in dir(type(value)):
        raise _Unclear
    return (_Known(own[name]), _NULL) if called else (_Known(own[name]),)
