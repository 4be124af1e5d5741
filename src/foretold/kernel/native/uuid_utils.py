"""`uuid_utils`, a module in Rust, goes on from its last id: in a run it begins anew.

It keeps what it needs for the next id (a seeded generator, the last timestamp, a counter) for the
life of the process, as Python's own `uuid` does (entropy_patches.py), but out of reach. So in a run
its ids are made here: random bits come from the computer when an id is asked for, and no sooner. A
program that only imports the module draws nothing. Versions 1 and 6 get a sequence number, version
7 the counter of RFC 9562 that orders ids within a millisecond.
"""

from __future__ import annotations

import functools
import sys
import uuid
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.swap import Swap, copy_of

MODULE: Final = "uuid_utils"
_COUNTER_BITS, _SEQUENCE_BITS = 42, 14
_EIGHTH_BITS = (48, 12, 62)


def _random(computer: Computer, bits: int) -> int:
    return int.from_bytes(computer.entropy(8), "big") % (1 << bits)


class _Ids:
    """What one process keeps between two ids."""

    def __init__(self, computer: Computer) -> None:
        self._computer = computer
        self._last_ms = self._counter = 0
        self._sequence = _random(self._computer, _SEQUENCE_BITS)

    def next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) % (1 << _SEQUENCE_BITS)
        return self._sequence

    def next_seventh(self, now_ms: int) -> int:
        """The next id of version 7: later ones are greater."""
        self._counter += 1
        if now_ms > self._last_ms or self._counter >> _COUNTER_BITS:
            self._last_ms = max(now_ms, self._last_ms + 1)
            self._counter = _random(self._computer, _COUNTER_BITS - 1)
        high, low = divmod(self._counter, 1 << 30)
        first = self._last_ms << 16 | 7 << 12 | high
        return first << 64 | 2 << 62 | low << 32 | _random(self._computer, 32)


_ids: Final[dict[int, _Ids]] = {}
"""By computer, in this run."""


def _ids_of(computer: Computer) -> _Ids:
    found = _ids.get(id(computer))
    if found is None:
        found = _ids[id(computer)] = _Ids(computer)
    return found


def _seventh(original: Callable[..., Any], make: Callable[[int], Any]) -> Callable[..., Any]:
    def uuid7(*, nanoseconds: int | None = None) -> Any:
        computer = computer_of(get_ident())
        if computer is None:
            return original(nanoseconds=nanoseconds)
        if nanoseconds is not None:  # of another moment: in no order with the others
            return make(_Ids(computer).next_seventh(nanoseconds // 1_000_000))
        return make(_ids_of(computer).next_seventh(computer.wall_ns() // 1_000_000))

    return uuid7


def _by_sequence(original: Callable[..., Any]) -> Callable[..., Any]:
    def by_sequence(node: int | None = None, clock_seq: int | None = None) -> Any:
        computer = computer_of(get_ident())
        if computer is None:
            return original(node, clock_seq)
        node = computer.node() if node is None else node
        return original(node, _ids_of(computer).next_sequence() if clock_seq is None else clock_seq)

    return by_sequence


def _fourth(original: Callable[[], Any], make: Callable[[int], Any]) -> Callable[[], Any]:
    def uuid4() -> Any:
        computer = computer_of(get_ident())
        if computer is None:
            return original()
        return make(uuid.UUID(bytes=computer.entropy(16), version=4).int)

    return uuid4


def _eighth(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is not given is random."""

    def uuid8(a: int | None = None, b: int | None = None, c: int | None = None) -> Any:
        computer = computer_of(get_ident())
        if computer is None:
            return original(a, b, c)
        blocks = zip((a, b, c), _EIGHTH_BITS, strict=True)
        return original(
            *(_random(computer, bits) if block is None else block for block, bits in blocks)
        )

    return uuid8


def _node(original: Callable[[], int]) -> Callable[[], int]:
    def getnode() -> int:
        computer = computer_of(get_ident())
        return original() if computer is None else computer.node()

    return getnode


def is_imported() -> bool:
    """Whether there is something to change."""
    return hasattr(sys.modules.get(MODULE), "uuid8")


@functools.cache
def changes() -> tuple[Swap, ...]:
    """For the module, which is imported."""
    module: Any = sys.modules[MODULE]

    def made(number: int) -> Any:
        return module.UUID(int=number)

    makers: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "uuid1": _by_sequence,
        "uuid6": _by_sequence,
        "uuid7": lambda original: _seventh(original, made),
        "_uuid7_int": lambda original: _seventh(original, int),
        "uuid4": lambda original: _fourth(original, made),
        "_uuid4_int": lambda original: _fourth(original, int),
        "uuid8": _eighth,
        "getnode": _node,
    }
    builtins = {name: vars(module).get(name) for name in makers}
    return tuple(
        Swap(builtin, makers[name](copy_of(builtin)))
        for name, builtin in builtins.items()
        if builtin is not None
    )


def begin_anew() -> None:
    """A run begins or ends."""
    _ids.clear()
