"""Extension modules, and the libraries that they load, live in the world too.

They read clocks, sleep, draw random bytes, open sockets and start threads in C, past every patch of
Python. But they call the C library through tables of their own. While a session lasts these tables
lead to `hooks.c`, for all libraries of the process but the C library, the interpreter and its
standard library, and those that have a way of their own (libpq, SQLite, OpenSSL).

A hook that a thread of the run calls asks the computer of that thread: `answer("extensions")`, an
object with the methods `now`, `sleep_ns`, `entropy`, `descriptor`, `escaped` and `failed`. All
other threads get the original. There is C above the questions, so none of them ever raises.

Libraries that are loaded during a run count: an extension module is loaded and looked at before it
is initialised, and `dlopen` is itself one of the calls that lead to us.
"""

from __future__ import annotations

import _imp
import contextlib
import ctypes
import errno
import functools
import importlib.machinery
import os
import sys
import sysconfig
from _thread import get_ident
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Final

from foretold.kernel import fence, insist
from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.native import build
from foretold.kernel.swap import Swap, copy_of
from foretold.kernel.threads.baton import strand_of

ELSEWHERE: Final = -(2**63)
_SKIPPED, _FOREIGN, _SYSTEM, _RUNTIME = 0, 2, 3, 4
"""`enum image_kind` of hooks.c."""

_SYSTEM_FILES: Final = (
    "libc.so", "libc-", "ld-linux", "ld-2", "libpthread", "libm.so", "libm-", "libdl.so", "libdl-",
    "librt.so", "librt-", "libutil.so", "libgcc_s", "libpython",
)  # fmt: skip
_OTHER_WAYS: Final = ("libpq", "libsqlite3", "libssl", "libcrypto", "libffi")
"""They are led into the world elsewhere, or are what the interpreter itself calls."""
_OTHER_FOLDERS: Final = ("psycopg2", "psycopg_binary", "psycopg_c", "apsw")


class _Questions(ctypes.Structure):
    """`struct questions` of hooks.c."""

    now = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int)
    sleep = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)
    fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    escaped = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
    descriptor = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )
    _fields_ = [
        ("_now", now),
        ("_sleep", sleep),
        ("_fill", fill),
        ("_escaped", escaped),
        ("_descriptor", descriptor),
    ]


# --- what the hooks ask ------------------------------------------------------------------------


def _answers(computer: Computer | None) -> Any:
    give = None if computer is None else computer.answer("extensions")
    return None if give is None else give()


def _asked(
    elsewhere: int, failed: int, question: Callable[[Any], int], computer: Computer | None
) -> int:
    """Put a question to the computer of this thread. `elsewhere` if it has none: the original is
    called then; `failed` if the answer is an exception, such as the end of the thread."""
    strand = strand_of(get_ident())
    if strand is not None:
        strand.in_c += 1  # what the handler of a signal raises could not pass through C
    answers: Any = None
    try:
        answers = _answers(computer)
        return elsewhere if answers is None else question(answers)
    except BaseException as error:
        if answers is not None:
            note_failure(answers, error)
        return failed
    finally:
        if strand is not None:
            strand.in_c -= 1


def note_failure(answers: Any, error: BaseException) -> None:
    """For the host that answers: what ended a call of C cannot pass through C."""
    try:
        answers.failed(error)
    except BaseException:  # the run is beyond telling; the caller gets an answer at least
        return


def _now(kind: int) -> int:
    return _asked(ELSEWHERE, 0, lambda answers: answers.now(kind), computer_of(get_ident()))


def _sleep(ns: int) -> int:
    def sleep(answers: Any) -> int:
        answers.sleep_ns(ns)
        return 0

    return _asked(-1, errno.EINTR, sleep, computer_of(get_ident()))


def _fill(library: bytes, buffer: int, size: int) -> int:
    def fill(answers: Any) -> int:
        ctypes.memmove(buffer, answers.entropy(library.decode(), size), size)
        return 0

    return _asked(-1, -1, fill, computer_of(get_ident()))


def _escaped(library: bytes, call: bytes, matter: int) -> int:
    def escaped(answers: Any) -> int:
        may_pass = answers.escaped(library.decode(), call.decode(errors="replace"), matter)
        return -1 if may_pass else 0

    return _asked(-1, 0, escaped, fence.fenced_in())


_CALLS: Final = (
    "read", "write", "pread", "pwrite", "lseek", "close", "dup", "fstat", "fsync", "ftruncate",
    "fcntl", "open",
)  # fmt: skip
"""`enum descriptor_call` of hooks.c."""


def _descriptor(call: int, fd: int, data: int | None, size: int, at: int) -> int:
    def ask(answers: Any) -> int:
        try:
            return _on_descriptor(answers.descriptor, _CALLS[call], fd, data or 0, size, at)
        except OSError as error:
            return -(error.errno or errno.EIO)

    return _asked(-errno.EBADF, -errno.EIO, ask, fence.fenced_in())


def _on_descriptor(
    ask: Callable[..., Any], call: str, fd: int, data: int, size: int, at: int
) -> int:
    if call in ("read", "pread"):
        got: bytes = ask(call, fd, size, *((at,) if call == "pread" else ()))
        ctypes.memmove(data, got, len(got))
        return len(got)
    if call in ("write", "pwrite"):
        content = ctypes.string_at(data, size)
        return int(ask(call, fd, content, *((at,) if call == "pwrite" else ())))
    if call == "fstat":
        found = ask(call, fd)
        numbers = (found.st_mode, found.st_ino, found.st_nlink, found.st_size, found.st_mtime_ns)
        told = (ctypes.c_int64 * 6)(*numbers, found.st_dev)
        ctypes.memmove(data, told, ctypes.sizeof(told))
        return 0
    if call == "open":
        return int(ask(call, os.fsdecode(ctypes.string_at(data)), size))
    given = {"lseek": (at, size), "ftruncate": (size,), "fcntl": (size, at)}
    result = ask(call, fd, *given.get(call, ()))
    return result if isinstance(result, int) else 0


# --- the library -------------------------------------------------------------------------------


def _rules() -> Iterator[tuple[str, int, str]]:
    """How the path of a library says what it is; the first that fits."""
    foreign = getattr(sys.modules.get("_ctypes"), "__file__", None)
    for name in {foreign, foreign and os.path.realpath(foreign)} - {None}:
        yield "d", _FOREIGN, str(name)
    yield "b", _FOREIGN, "_cffi_backend"
    version = f"python{sysconfig.get_python_version()}"
    folders = {os.path.join(sys.base_exec_prefix, "lib", version, "lib-dynload")}
    folders |= {os.path.dirname(foreign)} if foreign else set()
    for folder in folders | set(map(os.path.realpath, folders)):
        yield "d", _SKIPPED, folder + os.sep
    for name in _SYSTEM_FILES:
        yield "b", _SYSTEM, name
    yield "b", _RUNTIME, "libstdc++"
    for name in _OTHER_WAYS:
        yield "b", _SKIPPED, name
    for name in _OTHER_FOLDERS:
        yield "p", _SKIPPED, name


@functools.cache
def _library() -> Any:
    """Our C functions; None if they cannot be built here. `missing` says why."""
    global missing
    source = resources.files(__package__).joinpath("hooks.c").read_bytes()
    try:
        found = _load(build.kept_path("hooks", source), build.library("hooks", source))
    except (build.Missing, OSError) as error:
        missing = str(error)
        return None
    of_ctypes = getattr(sys.modules.get("_ctypes"), "__file__", None)
    path = None if of_ctypes is None else os.fsencode(of_ctypes)
    found.foretold_ask(ctypes.byref(_QUESTIONS), path)
    found.foretold_rule(ord("b"), _SKIPPED, b"hooks-")
    for how, kind, text in _rules():
        found.foretold_rule(ord(how), kind, os.fsencode(text))
    return found


def _load(kept: os.PathLike[str], content: bytes) -> Any:
    """From the cache, or past it if that cannot be written to. It lives as long as the process."""
    if os.path.exists(kept):
        return ctypes.PyDLL(os.fspath(kept))
    number = os.memfd_create("hooks-foretold.so")
    try:
        os.write(number, content)
        return ctypes.PyDLL(f"/proc/self/fd/{number}")
    finally:
        os.close(number)


missing = ""
"""Why no library is led to us, if none is."""
_QUESTIONS: Final = _Questions(
    _Questions.now(_now),
    _Questions.sleep(_sleep),
    _Questions.fill(_fill),
    _Questions.escaped(_escaped),
    _Questions.descriptor(_descriptor),
)


class _Tables:
    """The import tables of all libraries, led to us by `apply` and back by `undo`."""

    def apply(self) -> None:
        library = _library()
        if library is not None:
            library.foretold_apply()

    def undo(self) -> None:
        library = _library()
        if library is not None:
            library.foretold_undo()


# --- libraries that are loaded in a run --------------------------------------------------------

_create: Final = copy_of(_imp.create_dynamic)


def _create_dynamic(spec: importlib.machinery.ModuleSpec, *file: Any) -> Any:
    """An extension module is imported. What it does when it is initialised is led to us already."""
    if computer_of(get_ident()) is not None and _library() is not None and spec.origin:
        with contextlib.suppress(OSError):  # the original says it better
            vars(sys.modules["_ctypes"])["dlopen"](spec.origin, sys.getdlopenflags())
        look()
    return _create(spec, *file)


# Python leaves the frames of its import system out of tracebacks; this one belongs to it.
_create_dynamic.__code__ = _create_dynamic.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)

CHANGES: Final = (_Tables(), Swap(_imp.create_dynamic, _create_dynamic))


# --- runs and threads --------------------------------------------------------------------------

_thrown: Final[set[int]] = set()
"""Threads at which something was thrown in this run."""


def bracket(function: int) -> int:
    """For a function of ours that a library calls, by its address: one to call in its place, so
    that what is thrown is not raised in it, and lost. The same one where there is no compiler."""
    library = _library()
    if library is None:
        return function
    library.foretold_bracket.restype = ctypes.c_void_p
    return library.foretold_bracket(ctypes.c_void_p(function)) or function


def throw(error: BaseException) -> None:
    """For who answers a question: raise this when the library has returned to the program. Python
    throws classes, and makes the exception where it is raised."""
    kind: Any = type(error)
    if _library() is None:
        insist.throw(get_ident(), kind)  # at the next line of Python, be it one of ours
        return

    def made(self: BaseException, *args: object) -> None:
        _library().foretold_raised()
        kind.__init__(self, *error.args)

    words = {"__init__": made, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    _thrown.add(get_ident())
    _library().foretold_throw(ctypes.py_object(type(kind.__name__, (kind,), words)))


def begin_run(computer: Computer) -> None:
    """The calling thread is one of the run that begins."""
    library = _library()
    if library is not None:
        library.foretold_begin()
    elif (answers := _answers(computer)) is not None:
        answers.are_not_led(missing)


def end_run() -> None:
    """No thread is in a run."""
    library = _library()
    if library is not None:
        library.foretold_end()
    if _thrown:
        if get_ident() in _thrown:
            _library().foretold_raised()
            insist.relent()
        _thrown.clear()


def join_thread() -> None:
    """The calling thread takes part in the run."""
    library = _library()
    if library is not None:
        library.foretold_join()


def look() -> None:
    """Libraries that were loaded since the session began lead to us, too."""
    library = _library()
    if library is not None:
        library.foretold_look()


def judges(function: int | None) -> bool | None:
    """Whether a call of this C function, by ctypes, is answered or refused by a hook; False if the
    hook lets it pass, None if there is none."""
    library = _library()
    judged = 0 if library is None else library.foretold_judges(ctypes.c_void_p(function))
    return None if not judged else judged > 0


def random_variable(function: int) -> int | None:
    """Where the library that this function lies in keeps the source of OpenSSL's randomness."""
    library = _library()
    if library is None:
        return None
    library.foretold_random_variable.restype = ctypes.c_void_p
    found: int | None = library.foretold_random_variable(ctypes.c_void_p(function))
    return found


@functools.lru_cache(1)
def extension_modules(loaded: int) -> list[str]:
    """The modules with C code that are not the standard library's. They are looked at again only
    if there are more than the `loaded` ones."""
    paths = {name: getattr(each, "__file__", "") or "" for name, each in sys.modules.items()}
    return sorted(n for n, p in paths.items() if p.endswith(".so") and "-packages" in p)
