"""All process-wide substitutions together: installed once per campaign, active once per run.

*Installed* means that the builtins lead to us; that takes a fraction of a millisecond. *Active*
means that a thread of this process lives on a simulated computer; that takes microseconds, so that
a thousand short runs do not pay for it. A patched function that is called while nothing is active,
or from a thread that is not of the run, does what the original does.

    with patches.installed():
        patches.catch_bound_methods()
        for tape in tapes:
            with patches.active(computer):
                ...

There is one world per process at a time, since modules hold state for all threads alike (the global
`random`, `uuid`, `sys.stdin`).
"""

from __future__ import annotations

import atexit
import gc
import sys
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from sys import getrefcount
from types import BuiltinFunctionType
from typing import Any, Final

from foretold.errors import ForetoldError
from foretold.kernel import (
    clock_patches,
    counters,
    engines,
    entropy_patches,
    environment_patches,
    fence,
    file_patches,
    generators,
    hashes,
    imports,
    interrupt,
    machine_patches,
    tls_patches,
)
from foretold.kernel.aging import Aging, collections, young
from foretold.kernel.computer import Computer, running
from foretold.kernel.libraries import numpy
from foretold.kernel.native import extensions, libpq, openssl, uuid_utils
from foretold.kernel.sqlite import adopt as sqlite
from foretold.kernel.swap import Changes, ProcessChange, Swap, Swaps
from foretold.kernel.syscalls import c_functions, dispatch, interpreter, reality, types
from foretold.kernel.threads import alone, listing, locks, start


class Patches:
    """The substitutions of this process. Use the one object `patches`."""

    def __init__(self) -> None:
        self._depth = 0
        self._changes = Changes()
        self._ssl_done = self._ssl_sockets_done = False
        self._libraries: list[Any] = []
        """Modules of ours about libraries that are adopted."""
        self._computer: Computer | None = None
        self._marks: tuple[int, ...] = ()
        self._caught = False
        """Whether somebody has looked at the heap since `install`."""
        self.aging = Aging(_to_be_kept)
        self._bound: list[Swap] = []
        self._of_locks: list[BuiltinFunctionType] = []
        self._drivers: tuple[str, ...] = ()
        self._awaited = set(dispatch.LATE)
        """Modules of the table that nobody has imported yet."""

    # --- installed ---------------------------------------------------------------------------

    def install(self) -> None:
        """Put the substitutions in place; each call needs a `remove`."""
        if not self._depth:
            self._changes.apply(*_CHANGES)
            try:
                self._adopt_ssl()
                self._adopt_imported()
                self._changes.apply(*extensions.CHANGES)
                hashes.install()
            except BaseException:
                self._undo()
                raise
        self._depth += 1

    def remove(self) -> None:
        """Undo the outermost `install`: each object is as it was before, to the last field."""
        if not self._depth:
            raise ForetoldError("remove() without install(): nothing of ours is in place.")
        if self._depth == 1:
            self.deactivate()
            hashes.remove()
            self._undo()
            self._marks = self._heap_marks() if self._caught else ()
            self._caught = False
        self._depth -= 1

    def _undo(self) -> None:
        self._changes.undo()
        self._ssl_done = self._ssl_sockets_done = False
        self._libraries.clear()
        sqlite.forget()
        engines.forget()
        self._drivers = ()
        self._awaited = set(dispatch.LATE)
        locks.forget_bound_methods()

    def _adopt_ssl(self) -> None:
        if not self._ssl_done and "_ssl" in sys.modules:
            self._changes.apply(*entropy_patches.ssl_swaps(), tls_patches.TlsRandom())
            self._ssl_done = True
        if not self._ssl_sockets_done and hasattr(sys.modules.get("ssl"), "SSLSocket"):
            self._changes.apply(*tls_patches.tls_changes())
            self._ssl_sockets_done = True

    def _adopt_imported(self) -> None:
        self._changes.apply(*sqlite.new_changes())
        self._adopt_libpq()
        for module in [each for each in self._awaited if each in sys.modules]:
            self._awaited.remove(module)
            self._changes.apply(*dispatch.swaps_of(module), *types.late_changes(module))
        self._adopt_libraries()
        self._changes.apply(*engines.new_changes())

    def _adopt_in_a_run(self) -> None:
        self._adopt_imported()
        hashes.adopt_libraries()

    def _adopt_libraries(self) -> None:
        for library in (openssl, uuid_utils):
            if library not in self._libraries and library.is_imported():
                self._changes.apply(*library.changes())
                self._libraries.append(library)

    def _adopt_libpq(self) -> None:
        found = libpq.drivers()
        if found != self._drivers:
            self._changes.apply(*libpq.changes(found, self._drivers))
            self._drivers = found

    @contextmanager
    def installed(self) -> Iterator[None]:
        self.install()
        try:
            yield
        finally:
            self.remove()

    def catch_bound_methods(self) -> None:
        """Catch each `datetime.now` that was bound before `install`.

        A dataclass with `default_factory=datetime.utcnow` holds such a method. The generators of
        random numbers are found on the way, for `generators.py`. Only what can be new since the
        last time is looked at: a scan of a large heap costs more than a short run. Objects made
        since then are young, or were seen while they were (`aging.py`). Where that is not sure,
        because a collection has made them old or modules were imported, the whole heap is looked
        at. To be done before `gc.freeze()`, which hides objects from the search.
        """
        self._caught = True
        grown = [] if self._heap_marks() == self._marks != () else self.aging.seen()
        if grown is None:
            self._bound, self._of_locks = [], []
            heap = _of_interest(gc.get_objects())
        else:
            self._let_go()
            known = {id(swap.function) for swap in self._bound} | {*map(id, self._of_locks)}
            new = {id(thing): thing for thing in _of_interest(young()) + grown}
            heap = [thing for key, thing in new.items() if key not in known]
            grown.clear()
            new.clear()  # as with the heap below
        builtins = clock_patches.builtins_on_the_heap(heap)
        self._bound += clock_patches.find_bound_methods(builtins)
        self._of_locks += locks.bound_methods_of_locks(builtins)
        locks.remember_bound_methods(self._of_locks)
        self._changes.apply(*self._bound)
        _learn_generators(heap)

    def _let_go(self) -> None:
        """Of methods that were found in earlier sessions, those that only we still hold."""
        self._bound = [swap for swap in self._bound if getrefcount(swap.function) > 2]
        kept = self._of_locks
        self._of_locks = [kept[n] for n in range(len(kept)) if getrefcount(kept[n]) > 2]

    def _heap_marks(self) -> tuple[int, ...]:
        """Changes whenever young objects may have become old ones; empty where nobody can tell."""
        counted = collections()
        return () if counted is None else (len(sys.modules), counted)

    # --- active ------------------------------------------------------------------------------

    def activate(self, computer: Computer) -> None:
        """From here on, this thread lives on `computer`."""
        if not self._depth:
            raise ForetoldError("activate() needs install() first.")
        if self._computer is not None:
            raise ForetoldError(
                "a run is already active in this process: end it first. Simulations do not nest;"
                " use the world that is there (foretold.current_world())"
            )
        self._adopt_ssl()
        self._adopt_imported()
        hashes.begin_run()
        entropy_patches.begin_run(computer)
        counters.begin_run()
        fence.begin_run()
        reality.begin_run()
        interpreter.begin_run()
        start.begin_run()
        file_patches.begin_run(computer)
        environment_patches.begin_run()
        sqlite.begin_run()
        imports.begin_run()
        imports.on_import = self._adopt_in_a_run
        self._computer = running[get_ident()] = computer
        extensions.begin_run(computer)
        uuid_utils.begin_anew()

    def deactivate(self) -> None:
        """Back to the real world, for all threads of the run; no harm if nothing is active."""
        if self._computer is not None:
            self._computer = None
            running.clear()
            extensions.end_run()
            uuid_utils.begin_anew()
            imports.on_import = None
            sqlite.end_run()
            environment_patches.end_run()
            file_patches.end_run()
            start.end_run()
            interpreter.end_run()
            fence.end_run()
            counters.end_run()
            entropy_patches.end_run()

    @contextmanager
    def active(self, computer: Computer) -> Iterator[None]:
        self.activate(computer)
        try:
            yield
        finally:
            self.deactivate()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """The calling thread lives in the real world for a while: fence, clock and entropy."""
        computer = running.pop(get_ident(), None)
        try:
            yield
        finally:
            if computer is not None and self._computer is not None:
                running[get_ident()] = computer


def _to_be_kept(heap: list[Any]) -> list[Any]:
    """Of objects that become old, those that a session has to know."""
    found = _of_interest(heap)
    of_locks = locks.bound_methods_of_locks(clock_patches.builtins_on_the_heap(found))
    kept = {*map(id, of_locks)}
    return [
        thing
        for thing in found
        if type(thing) is not BuiltinFunctionType
        or id(thing) in kept
        or clock_patches.is_bound_clock(thing)
    ]


def _of_interest(heap: list[Any]) -> list[Any]:
    """What is looked for, found in one go: there may be a million of others."""
    wanted = {BuiltinFunctionType, *generators.kinds(), *numpy.kinds()}
    found = [thing for thing in heap if type(thing) in wanted]
    heap.clear()  # see below
    return found


def _learn_generators(heap: list[Any]) -> None:
    kinds, of_numpy = generators.kinds(), numpy.kinds()
    both = kinds | of_numpy
    found = [thing for thing in heap if type(thing) in both]
    heap.clear()  # or it would be one more that refers to each of them
    generators.learn([each for each in found if type(each) in kinds])
    if of_numpy:
        numpy.learn([each for each in found if type(each) in of_numpy])


_PATCHING: Final = (
    *(clock_patches, entropy_patches, machine_patches, imports, start, alone, listing, interrupt),
    *(environment_patches, interpreter, dispatch, types, c_functions),
)

_ALL: Final[list[ProcessChange]] = [change for module in _PATCHING for change in module.CHANGES]
_CHANGES: Final[tuple[ProcessChange, ...]] = (
    Swaps(change for change in _ALL if isinstance(change, Swap)),
    *(change for change in _ALL if not isinstance(change, Swap)),
)

patches: Final = Patches()


@atexit.register
def _remove_all() -> None:
    # Modules lose their globals while the interpreter ends; no builtin may lead into ours then.
    while patches._depth:
        patches.remove()
