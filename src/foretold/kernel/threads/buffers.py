"""Buffered files while threads are there.

`io.BufferedReader` and its siblings hold a lock of C code while they read or write beneath. Beneath
may be a socket or a pipe of ours, where a thread waits; another one that came to the same file
would wait for that C lock with the baton in its hand, for ever. So their methods are replaced, as
those of locks are: who finds the file in use waits for it as for any lock, in virtual time.

Text files have no such lock: they ask the binary file beneath them, by its methods.
"""

from __future__ import annotations

import functools
import io
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.strand import Strand

_KINDS: Final = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
_NAMES: Final = (
    "__next__",
    "close",
    "detach",
    "flush",
    "peek",
    "read",
    "read1",
    "readinto",
    "readinto1",
    "readline",
    "seek",
    "tell",
    "truncate",
    "write",
)
_BUSY: Final = "a file that another thread uses"
_users: Final[dict[int, Strand]] = {}
"""Which thread is inside a method of a file, by the file's id."""


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **names: Any) -> Any:
        strand = strand_of(get_ident())
        if strand is None:
            return method(self, *args, **names)
        key = id(self)
        if _users.get(key) is strand:  # from inside: CPython has an error for that
            return method(self, *args, **names)
        while key in _users:  # another one may have been first
            strand.crew.block(strand, _BUSY, lambda: key not in _users)
        _users[key] = strand
        try:
            return method(self, *args, **names)
        finally:
            del _users[key]

    return call


METHODS: Final[dict[type, dict[str, Callable[..., Any]]]] = {
    kind: {name: _guarded(vars(kind)[name]) for name in _NAMES if name in vars(kind)}
    for kind in _KINDS
}


def forget() -> None:
    """The run is over: nobody is inside a file any more."""
    _users.clear()
