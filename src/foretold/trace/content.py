"""Values and outcomes as text that is the same in every process: for the digest and for stories."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

_CONTENT_DEPTH_MAX = 6
_CONTENT_ITEMS_MAX = 1_000
_DECIMAL_BITS_MAX = 4_096
_SPELLED = (int, float, str, bytes, bytearray, memoryview, BaseException)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}|(?<=\bthread id )[0-9]{6,}")
"""Addresses in messages of exceptions. `sqlite3` names two threads by theirs when a connection is
used in another thread than its own."""
_PLACE_OF_OBJECT = re.compile(r" at 0x[0-9a-fA-F]+")
RETURNED, RAISED, CANCELLED = "returned", "raised", "cancelled"
"""How a task may end."""


class TaskOutcome(NamedTuple):
    how: str
    said: str = ""
    """The value that it returned; of an exception the name of its class."""
    arguments: str | None = None
    """Those of the exception, if they are told: `'no', 7`."""
    number: int = 0
    """How many they are."""

    def __str__(self) -> str:
        """As the digest has it."""
        if self.how == CANCELLED:
            return self.how
        told = "" if self.arguments is None else f"[{self.number}: {self.arguments}]"
        return f"{self.how} {self.said}{told}"


def outcome_of(task: Any) -> TaskOutcome:
    """What became of a task that is done."""
    if task.cancelled():
        return TaskOutcome(CANCELLED)
    if task._exception is not None:
        return raised(task._exception)
    return TaskOutcome(RETURNED, encode(task._result))


def raised(error: BaseException, depth: int = 1) -> TaskOutcome:
    """The end of whoever raised this."""
    name = type(error).__name__
    if type(error) is AssertionError:
        # pytest writes its text, with addresses; more of it under -v.
        return TaskOutcome(RAISED, name)
    if depth >= _CONTENT_DEPTH_MAX:
        return TaskOutcome(RAISED, f"{name}<tuple>")
    told = [encode(each, depth + 1) for each in error.args[:_CONTENT_ITEMS_MAX]]
    return TaskOutcome(RAISED, name, _ADDRESS.sub("0x…", ", ".join(told)), len(error.args))


def encode(value: object, depth: int = 0) -> str:
    """A value as text that is the same in every process.

    Only plain data is spelled out. Of other objects the type's name alone is taken: their `repr`
    may hold addresses, or be expensive, or have effects.
    """
    if value is None or type(value) in (bool, float, str):
        return repr(value)
    if not isinstance(value, _SPELLED):
        if depth >= _CONTENT_DEPTH_MAX:
            return f"<{type(value).__name__}>"
        return _encode_container(value, depth + 1)
    if isinstance(value, int):  # hex of a large one: repr refuses those of 4,300 digits
        return int.__repr__(value) if value.bit_length() < _DECIMAL_BITS_MAX else hex(value)
    for plain in (float, str):  # of a class derived from it: its own repr may do anything
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        digest = hashlib.blake2b(bytes(value), digest_size=8).hexdigest()
        return f"<{len(value)} bytes {digest}>"
    assert isinstance(value, BaseException)
    return str(raised(value, depth + 1)).removeprefix(f"{RAISED} ")


def _encode_container(value: object, depth: int) -> str:
    if type(value) in (list, tuple):
        items = [encode(item, depth) for item in value[:_CONTENT_ITEMS_MAX]]  # type: ignore[index]  # narrowed by type()
        return f"[{len(value)}: {', '.join(items)}]"  # type: ignore[arg-type]  # narrowed by type()
    if type(value) in (set, frozenset):
        # Sorted: the order of a set of strings depends on the hash seed and is no content.
        items = sorted(encode(item, depth) for item in value)  # type: ignore[attr-defined]  # narrowed by type()
        return f"{{{', '.join(items[:_CONTENT_ITEMS_MAX])}}}"
    if type(value) is dict:
        pairs = [f"{encode(k, depth)}: {encode(v, depth)}" for k, v in value.items()]
        return f"{{{', '.join(pairs[:_CONTENT_ITEMS_MAX])}}}"
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def without_addresses(text: str) -> str:
    """What the `repr` of objects says, but for where they lie: that would be elsewhere in the next
    process, and the same run has the same story."""
    return _PLACE_OF_OBJECT.sub("", text)
