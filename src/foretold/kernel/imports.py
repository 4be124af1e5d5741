"""Modules that are imported for the first time inside a run.

A process imports a module once, in whichever of its runs comes first; the next runs find it there.
What the module's top level asks of the computer must therefore not come from the tape, nor move the
clock, or the first run would differ from all others and from its own replay. So a module is
imported as if it had been there when the world began: a computer that the host provides for it
(`answer("import")`) gives it the time of that moment, and randomness that hangs on its name alone.
Objects it makes get no number, and the global `random` is put back.

Libraries that try an optional import at each call (`import sniffio` for every lock) pay for the
search each time; in a run the answer cannot change, so a module that is missing is missing at once.

Modules that a host imports for itself (`isolate=[…]`) are imported in every run, by every host:
they see the host as it is.
"""

from __future__ import annotations

import importlib._bootstrap as import_system
import sys
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel import entropy_patches, generators, hashes
from foretold.kernel.computer import running
from foretold.kernel.libraries import numpy
from foretold.kernel.swap import ModuleName

_bootstrap: Final[Any] = import_system
_find_and_load: Final[Callable[..., Any]] = _bootstrap._find_and_load
AT_ONCE: Final = frozenset({"ctypes.util"})
"""Modules whose importers use them at their own top level."""
on_import: Callable[[], None] | None = None
"""Called after each import inside a run, of its outermost module or one of these: what was brought
along may want patches."""
_missing: Final[dict[str, tuple[list[str], list[Any]]]] = {}
"""Top-level modules that this run has looked for in vain: where, and with which finders."""


def begin_run() -> None:
    """What was missing in an earlier run may have been installed since."""
    _missing.clear()


def _find_and_load_in_a_run(name: str, import_: Any) -> Any:
    ident = get_ident()
    computer = running.get(ident)
    give = None if computer is None else computer.answer("import")
    stand_in = None if give is None else give(name)
    if computer is None or stand_in is None:
        return _find_and_load(name, import_)
    if name in _missing and _missing[name] == (sys.path, sys.meta_path):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    outermost, born = not hashes.is_paused(), generators.births()
    engines = numpy.there_are() if outermost else []
    running[ident] = stand_in
    hashes.pause()
    try:
        with entropy_patches.own_random(stand_in):
            return _find_and_load(name, import_)
    except ModuleNotFoundError as error:
        if error.name == name and "." not in name and name not in sys.modules:
            _missing[name] = sys.path[:], sys.meta_path[:]
        raise
    finally:
        hashes.go_on()
        running[ident] = computer
        if outermost:
            generators.adopt_imported(born)
            numpy.adopt_imported(engines)
        if on_import is not None and (outermost or name in AT_ONCE):
            on_import()


# Python leaves the frames of its import system out of tracebacks; this one belongs to it.
_find_and_load_in_a_run.__code__ = _find_and_load_in_a_run.__code__.replace(
    co_filename=_find_and_load.__code__.co_filename
)

CHANGES: Final = (ModuleName(_bootstrap, "_find_and_load", _find_and_load_in_a_run),)
