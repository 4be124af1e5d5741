"""libpq and the drivers above it: psycopg (C, binary and pure Python) and psycopg2.

libpq opens its connections, waits and reads the time by itself, in C. While a session lasts its
imports lead to the simulated computer, so that it is on the simulated network like everybody else:
connection strings, several hosts, time limits, cancelling, COPY and all its messages are its own
code. The drivers' own modules are treated alike, for the few such calls that they make themselves.

Nothing is done before a driver is imported; the libraries are looked at once in a process.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.native import calls, psycopg2
from foretold.kernel.native.images import Image, ImportSlot, loaded
from foretold.kernel.swap import ModuleName, ProcessChange
from foretold.kernel.tls_patches import TlsRandom

_DRIVERS: Final = (psycopg2.MODULE, "psycopg_binary.pq", "psycopg_c.pq", "psycopg.pq._pq_ctypes")
_FINDER: Final = "ctypes.util"
_FOLDERS: Final = ("psycopg2", "psycopg_binary", "psycopg_c")

_stand_ins: Final[dict[str, calls.NativeStandIn]] = {}
_looked_at: tuple[str, ...] = ()
_slots: Final[dict[Image, list[ImportSlot]]] = {}
"""What was found in each library."""


def drivers() -> tuple[str, ...]:
    """The drivers that are imported, and what finds libraries for them."""
    return tuple(name for name in (*_DRIVERS, _FINDER) if name in sys.modules)


def changes(imported: tuple[str, ...], before: tuple[str, ...]) -> Iterator[ProcessChange]:
    """What has to be changed for these drivers, beyond what was for those before."""
    if imported not in (_looked_at, (_FINDER,)):
        _look(imported)
    if _FINDER in imported and _FINDER not in before:
        yield _real_finder()
    for image, slots in _slots.items():
        if not slots[0].applied:
            yield from slots
            if _is_libpq(image.path):
                yield _random_of(image.path)
    if psycopg2.MODULE in imported and psycopg2.MODULE not in before:
        yield from _changes_of_psycopg2()


_random_of: Final = functools.cache(TlsRandom)


@functools.cache
def _changes_of_psycopg2() -> tuple[ProcessChange, ...]:
    """Made once: they are applied and undone for every session."""
    return tuple(psycopg2.changes())


def _real_finder() -> ModuleName:
    """`find_library` starts a process to ask where libraries are. As an import it sees reality."""
    module = sys.modules[_FINDER]
    original = module.find_library

    def find_library(name: str) -> str | None:
        with fence.passage():
            found: str | None = original(name)
        return found

    return ModuleName(module, "find_library", find_library)


def _look(imported: tuple[str, ...]) -> None:
    global _looked_at
    for image in loaded(_is_wanted):
        if image not in _slots and (found := list(_slots_of(image))):
            _slots[image] = found
    _looked_at = imported


def _is_libpq(path: str) -> bool:
    return os.path.basename(path).startswith("libpq")


def _is_wanted(path: str) -> bool:
    return _is_libpq(path) or os.path.basename(os.path.dirname(path)) in _FOLDERS


def _slots_of(image: Image) -> Iterator[ImportSlot]:
    wanted = calls.NAMES - calls.LOCKS if _is_libpq(image.path) else calls.NAMES
    for name, slot, sealed in image.imports(wanted):
        yield ImportSlot(slot, _stand_in(image, name).address, sealed=sealed)


def _stand_in(image: Image, name: str) -> calls.NativeStandIn:
    """Not by the slot's content, which a lazy linker has not filled yet: by the name."""
    found = _stand_ins.get(f"{image.path} {name}")
    if found is None:
        library: Any = ctypes.CDLL(image.path)
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None, "a function has an address"
        found = _stand_ins[f"{image.path} {name}"] = calls.NativeStandIn(name, address)
    return found
