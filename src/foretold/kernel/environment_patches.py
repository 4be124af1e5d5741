"""The environment: `os.environ` is that of the acting computer while a run is active.

Real hosts do not share one, and a run that writes into the real one would change the next run. So
for a run the table beneath `os.environ` and `os.environb` is exchanged for one that asks the
computer (`Computer.answer("os.environ")`) each time it is used: a program that does not use it pays
nothing. `os.putenv` and `os.unsetenv`, which `os.environ` calls for the C library's sake, change
nothing inside a run: no C code of the program's process reads there.
"""

from __future__ import annotations

import errno
import os
from _thread import get_ident
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

from foretold.kernel.computer import computer_of
from foretold.kernel.swap import Swap, copy_of

Table = MutableMapping[bytes, bytes]


def _answer() -> Callable[[], Table] | None:
    computer = computer_of(get_ident())
    return None if computer is None else computer.answer("os.environ")


class _Asking(MutableMapping[bytes, bytes]):
    """What lies beneath `os.environ` for a run."""

    def __init__(self, real: Table) -> None:
        self._real = real

    def _table(self) -> Table:
        answer = _answer()
        return self._real if answer is None else answer()

    def __getitem__(self, key: bytes) -> bytes:
        return self._table()[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._table()[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._table()[key]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())


def _check_name(name: Any, value: Any = b"") -> bytes:
    """As the C library and CPython check them."""
    for text in (name, value):
        if b"\0" in os.fsencode(text):
            raise ValueError("embedded null byte")
    return os.fsencode(name)


real_putenv: Final = copy_of(os.putenv)
real_unsetenv: Final = copy_of(os.unsetenv)


def _putenv(name: Any, value: Any, /) -> None:
    if _answer() is None:
        real_putenv(name, value)
    elif b"=" in _check_name(name, value):
        raise ValueError("illegal environment variable name")


def _unsetenv(name: Any, /) -> None:
    if _answer() is None:
        real_unsetenv(name)
        return
    checked = _check_name(name)
    if not checked or b"=" in checked:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _create_environ_swap() -> Iterator[Swap]:
    """What `os.reload_environ` (Python 3.14) reads: in a run, what the computer has."""
    builtin: Any = vars(os).get("_create_environ")
    if builtin is None:
        return
    original = copy_of(builtin)

    def create_environ() -> dict[bytes, bytes]:
        answer = _answer()
        return dict(original() if answer is None else answer())

    yield Swap(builtin, create_environ)


CHANGES: Final = (
    Swap(os.putenv, _putenv),
    Swap(os.unsetenv, _unsetenv),
    *_create_environ_swap(),
)

_exchanged: list[tuple[Any, Any]] = []
"""Who has another table for this run, and the one it had."""


def begin_run() -> None:
    """From here on each computer has its own."""
    for each in (os.environ, os.environb):
        if isinstance(each, os._Environ):  # a program may have put something else there
            inner: Any = each
            _exchanged.append((inner, inner._data))
            inner._data = _Asking(inner._data)


def end_run() -> None:
    """The real one again."""
    while _exchanged:
        each, table = _exchanged.pop()
        each._data = table


def real_table() -> dict[bytes, bytes]:
    """A copy of the real environment; while a run is active, what it was when that began."""
    inner: Any = _exchanged[0][1] if _exchanged else getattr(os.environ, "_data", {})
    return dict(inner)
