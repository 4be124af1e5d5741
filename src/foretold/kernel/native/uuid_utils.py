"""`uuid_utils`, a module in Rust, goes on from its last id: in a run it begins anew.

It keeps what it needs for the next id (a seeded generator, the last timestamp, a counter) for the
life of the process, as Python's own `uuid` does (entropy_patches.py), but out of reach. The
generator can be seeded again. Ids of versions 1, 6 and 7 are given what they would keep: a sequence
number, and for version 7 the counter of RFC 9562 that orders ids within a millisecond.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel.computer import Computer, computer_of, running
from foretold.kernel.swap import Swap, copy_of

MODULE: Final = "uuid_utils"
_COUNTER_BITS, _SEQUENCE_BITS = 42, 14


class _Ids:
    """What one process keeps between two ids."""

    def __init__(self, computer: Computer) -> None:
        self._entropy = computer.entropy
        self._last_ms = self._counter = 0
        self._sequence = self._random(_SEQUENCE_BITS)

    def _random(self, bits: int) -> int:
        return int.from_bytes(self._entropy(8), "big") % (1 << bits)

    def next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) % (1 << _SEQUENCE_BITS)
        return self._sequence

    def next_seventh(self, now_ms: int) -> int:
        """The next id of version 7: later ones are greater."""
        self._counter += 1
        if now_ms > self._last_ms or self._counter >> _COUNTER_BITS:
            self._last_ms = max(now_ms, self._last_ms + 1)
            self._counter = self._random(_COUNTER_BITS - 1)
        high, low = divmod(self._counter, 1 << 30)
        first = self._last_ms << 16 | 7 << 12 | high
        return first << 64 | 2 << 62 | low << 32 | self._random(32)


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
        if computer is None or nanoseconds is not None:
            return original(nanoseconds=nanoseconds)
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


def _counted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Who makes a random id uses randomness, though the seed was drawn when the run began."""

    def made(*args: Any, **names: Any) -> Any:
        computer: Any = computer_of(get_ident())
        if hasattr(computer, "entropy_drawn"):  # a host; not the one that modules are imported on
            computer.entropy_drawn += 1
        return original(*args, **names)

    return made


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
    makers: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "uuid1": _by_sequence,
        "uuid6": _by_sequence,
        "uuid7": lambda original: _seventh(original, lambda number: module.UUID(int=number)),
        "_uuid7_int": lambda original: _seventh(original, int),
        "uuid4": _counted,
        "_uuid4_int": _counted,
        "getnode": _node,
    }
    builtins = {name: vars(module).get(name) for name in makers}
    return tuple(
        Swap(builtin, makers[name](copy_of(builtin)))
        for name, builtin in builtins.items()
        if builtin is not None
    )


def begin_anew() -> None:
    """A run begins or ends, or the module was imported in one: its generator gets a new seed.

    The first seeding in the life of a thread draws twice. So that one is done in the real world.
    """
    _ids.clear()
    reseed = getattr(sys.modules.get(MODULE), "reseed_rng", None)
    if reseed is None:
        return
    computer: Any = running.pop(get_ident(), None)
    reseed()
    if computer is not None:
        running[get_ident()] = computer
        drawn = getattr(computer, "entropy_drawn", None)
        reseed()
        if drawn is not None:
            computer.entropy_drawn = drawn  # by us, whether or not the program asks for an id
