"""Which machine is this? Names and versions are those of a simulated computer, the same everywhere.

The functions of `platform` tell the real machine: its name, its kernel, its processor. Programs
write them into logs and ids; so a run would differ from machine to machine. `platform` even starts
processes to find out, which no run may.

What is asked here is answered by the computer of the run (`Computer.answer`), or, if it has no
answer, by the real machine. The functions of `platform` are Python's own, and are imported by name
like all others: so their code is exchanged, not the names that lead to them. They see this module
only by importing it, since they keep the globals of `platform`.
"""

from __future__ import annotations

import platform
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from foretold.kernel.computer import computer_of


def _answer(call: str) -> Callable[..., Any] | None:
    computer = computer_of(get_ident())
    return None if computer is None else computer.answer(call)


# --- platform --------------------------------------------------------------------------------

_LIBC = ("glibc", "2.36")
_ARCHITECTURE = ("64bit", "ELF")


def uname() -> Any:
    """`platform.uname()`, which else remembers the first answer for ever."""
    asked = _answer("os.uname")
    if asked is None:
        return real_uname()
    found = platform.uname_result(*asked())
    vars(found)["processor"] = found.machine  # else a process is started when it is asked for
    return found


def libc_ver(executable: Any, *more: Any) -> Any:
    """`platform.libc_ver()`."""
    known = executable is None and _answer("os.uname") is not None
    return _LIBC if known else real_libc_ver(executable, *more)


def architecture(*args: Any) -> Any:
    """`platform.architecture()`, which else starts the program `file`."""
    return real_architecture(*args) if _answer("os.uname") is None else _ARCHITECTURE


def whole_text(*args: Any) -> Any:
    """`platform.platform()`, which is made of the others and remembered by them."""
    if _answer("os.uname") is None:
        return real_platform(*args)
    cache: dict[Any, str] = vars(platform)["_platform_cache"]
    before = dict(cache)
    cache.clear()
    try:
        return real_platform(*args)
    finally:
        cache.clear()
        cache.update(before)


def os_release(*args: Any) -> Any:
    """`platform.freedesktop_os_release()`, which else remembers the first file that it read."""
    if _answer("os.uname") is None:
        return real_os_release(*args)
    names = vars(platform)
    before, names["_os_release_cache"] = names.get("_os_release_cache"), None
    try:
        return real_os_release(*args)
    finally:
        names["_os_release_cache"] = before


# Only the code of these is used. Signatures are those of the originals, whose defaults they get.


def _uname() -> Any:
    from foretold.kernel import machine_patches

    return machine_patches.uname()


def _libc_ver(executable: Any, lib: Any, version: Any, chunksize: Any) -> Any:
    from foretold.kernel import machine_patches

    return machine_patches.libc_ver(executable, lib, version, chunksize)


def _architecture(executable: Any, bits: Any, linkage: Any) -> Any:
    from foretold.kernel import machine_patches

    return machine_patches.architecture(executable, bits, linkage)


def _platform(aliased: Any, terse: Any) -> Any:
    from foretold.kernel import machine_patches

    return machine_patches.whole_text(aliased, terse)


def _os_release() -> Any:
    from foretold.kernel import machine_patches

    return machine_patches.os_release()


def _copy(function: Any) -> Any:
    """The same function, for when its own code is exchanged."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__defaults__ = function.__defaults__
    return copy


real_uname: Final = _copy(platform.uname)
real_libc_ver: Final = _copy(platform.libc_ver)
real_architecture: Final = _copy(platform.architecture)
real_platform: Final = _copy(platform.platform)
real_os_release: Final = _copy(platform.freedesktop_os_release)


class NewCode:
    """One Python function that can be made to do something else, for all who hold it."""

    def __init__(self, function: Any, replacement: Any) -> None:
        self._function = function
        self._code: CodeType = replacement.__code__
        self._before: CodeType | None = None

    def apply(self) -> None:
        self._before, self._function.__code__ = self._function.__code__, self._code

    def undo(self) -> None:
        if self._before is not None:
            self._function.__code__, self._before = self._before, None


CHANGES: Final[tuple[NewCode, ...]] = (
    NewCode(platform.uname, _uname),
    NewCode(platform.libc_ver, _libc_ver),
    NewCode(platform.architecture, _architecture),
    NewCode(platform.platform, _platform),
    NewCode(platform.freedesktop_os_release, _os_release),
)
