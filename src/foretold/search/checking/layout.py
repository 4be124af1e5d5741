"""Where objects lie in memory: made the same on purpose, or different on purpose.

Both are experiments: if a difference between two runs comes and goes with the layout, an address
has decided something.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LITTER_OBJECTS = 20_000
_ASK = 0xFFFFFFFF
_NO_RANDOM_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>


def _personality() -> Any:
    return getattr(ctypes.CDLL(None), "personality", None)


def has_fixed_addresses() -> bool:
    """Whether this process was started inside of it."""
    personality = _personality()
    former = -1 if personality is None else personality(_ASK)
    return former != -1 and bool(former & _NO_RANDOM_ADDRESSES)


@contextmanager
def fixed_addresses() -> Iterator[bool]:
    """Processes that are started inside all have the same memory layout. False if that is denied.

    It is denied in many containers, and the call exists on Linux alone.
    """
    personality = _personality()
    former = -1 if personality is None else personality(_ASK)
    if personality is None or former == -1:
        yield False
        return
    fixed = personality(former | _NO_RANDOM_ADDRESSES) != -1
    try:
        yield fixed
    finally:
        personality(former)


def litter() -> list[object]:
    """Objects of many sizes with holes between them: whatever comes next lies elsewhere."""
    made: list[object] = [bytearray(number % 509) for number in range(LITTER_OBJECTS)]
    made += [{number: object()} for number in range(LITTER_OBJECTS)]
    return made[::3]
