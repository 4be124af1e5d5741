"""Randomness and identity come from the computer of the run, whichever way a program asks.

`os.urandom` is the root of most: `secrets`, `random.SystemRandom` and `uuid4` follow it. Generators
of `random.Random` seed themselves inside C when they are given no seed, so the seeding is caught at
the C type, under all classes derived from it.

Some modules keep state from one call to the next: the global `random`, `uuid` (node, last
timestamp), `tempfile` (its sequence of names). It is made anew when a run begins, so that a run
does not depend on the ones before it, and put back when it ends. That state belongs to the process:
a real thread that draws from the global `random` during a run disturbs it, as it would any seed.
"""

from __future__ import annotations

import _random
import operator
import os
import random
import sys
import tempfile
import uuid
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from foretold.kernel import generators, real
from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.libraries import numpy
from foretold.kernel.swap import Setting, Swap, copy_of

# --- bytes -----------------------------------------------------------------------------------


def _urandom(size: int, /) -> bytes:
    computer = computer_of(get_ident())
    if computer is None:
        return real.urandom(size)
    n = operator.index(size)
    return real.urandom(n) if n < 0 else computer.entropy(n)  # the original's error


def _getrandom(size: int, flags: int = 0) -> bytes:
    computer = computer_of(get_ident())
    if computer is None:
        return real.getrandom(size, flags)
    n = operator.index(size)
    return real.getrandom(n, flags) if n < 0 else computer.entropy(n)


def _getpid() -> int:
    computer = computer_of(get_ident())
    return real.getpid() if computer is None else computer.pid()


# --- seeds -----------------------------------------------------------------------------------

_SEED_BYTES = 32
_real_seed: Final = _random.Random.__dict__["seed"]


def _seed(self: _random.Random, n: Any = None, /) -> None:
    computer = computer_of(get_ident())
    if computer is not None:
        generators.note_seeding(self, n)
        if n is None:
            n = int.from_bytes(computer.entropy(_SEED_BYTES), "big")
    _real_seed(self, n)


# --- OpenSSL ---------------------------------------------------------------------------------


def ssl_swaps() -> list[Swap]:
    """Swaps for OpenSSL's generator, once `ssl` has been imported; it is not imported for this."""
    module = sys.modules.get("_ssl")
    if module is None:
        return []
    real_bytes = copy_of(module.RAND_bytes)

    def rand_bytes(n: int, /) -> bytes:
        computer = computer_of(get_ident())
        if computer is None or operator.index(n) < 0:
            return cast("bytes", real_bytes(n))
        return computer.entropy(n)

    swaps = [Swap(module.RAND_bytes, rand_bytes)]
    pseudo = getattr(module, "RAND_pseudo_bytes", None)  # until Python 3.11
    if pseudo is not None:
        real_pseudo = copy_of(pseudo)

        def rand_pseudo_bytes(n: int, /) -> tuple[bytes, bool]:
            inside = computer_of(get_ident()) is not None and operator.index(n) >= 0
            return (rand_bytes(n), True) if inside else cast("tuple[bytes, bool]", real_pseudo(n))

        swaps.append(Swap(pseudo, rand_pseudo_bytes))
    return swaps


# --- state of modules ------------------------------------------------------------------------

_global_random: Final[Any] = random._inst  # the object behind random.random()
_state: Final = generators.memory_of(_global_random)


# Without libuuid's function uuid1 is computed in Python, from time_ns, random and the node. Those
# of versions 6 and 7 go on from the last one: its time, its counter (Python 3.14).
_NEW_IN_UUID: Final[dict[str, Any]] = {
    "_generate_time_safe": None,
    "_last_timestamp": None,
    "_last_timestamp_v6": None,
    "_last_timestamp_v7": None,
    "_last_counter_v7": 0,
    "_node": None,
}
_IN_UUID: Final = [name for name in _NEW_IN_UUID if name in vars(uuid)]


class _Before:
    """What the modules held when the run began."""

    __slots__ = ("gauss_next", "names", "random", "seeded", "uuid")

    def __init__(self) -> None:
        self.random = self.seeded = _state.raw
        self.gauss_next = _global_random.gauss_next
        self.uuid = {name: vars(uuid)[name] for name in _IN_UUID}
        self.names = vars(tempfile)["_name_sequence"]

    def put_back(self) -> None:
        _state.raw = self.random
        _global_random.gauss_next = self.gauss_next
        vars(uuid).update(self.uuid)
        vars(tempfile)["_name_sequence"] = self.names


_before: _Before | None = None


def begin_run(computer: Computer) -> None:
    """Make the modules' state new, from the computer's entropy."""
    global _before
    first = computer.entropy(16)
    node = computer.node()
    _before = _Before()
    _real_seed(_global_random, int.from_bytes(first, "big"))
    _before.seeded = _state.raw
    _global_random.gauss_next = None
    vars(uuid).update({name: _NEW_IN_UUID[name] for name in _IN_UUID}, _node=node)
    vars(tempfile)["_name_sequence"] = None
    generators.begin_run(first)
    numpy.begin_run(first)


@contextmanager
def own_random(computer: Computer) -> Iterator[None]:
    """Inside, the global `random` is that of `computer`; afterwards it is as it was."""
    before, gauss = _state.raw, _global_random.gauss_next
    _real_seed(_global_random, int.from_bytes(computer.entropy(16), "big"))
    try:
        yield
    finally:
        _state.raw, _global_random.gauss_next = before, gauss


def random_state() -> bytes:
    """The state of the global `random`, to see whether somebody draws from it."""
    return bytes(_state.raw)


def random_was_used() -> bool:
    """Whether somebody drew from the global `random`, or from a generator that the machine had
    seeded, numpy's among them, since the run began."""
    if _before is None:
        return False
    if _state.raw != _before.seeded:
        return True
    return generators.were_used() or numpy.were_used()


def end_run() -> None:
    """Put the modules' state back as it was before the run."""
    global _before
    if _before is not None:
        _before.put_back()
        _before = None
        generators.end_run()
        numpy.end_run()


CHANGES: Final[tuple[Swap | Setting, ...]] = (
    Swap(os.urandom, _urandom),
    Swap(os.getrandom, _getrandom),
    Swap(os.getpid, _getpid),
    Setting(_random.Random, "seed", _seed),
)
