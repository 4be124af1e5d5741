"""An exception that is raised in a thread from outside, and that no `except:` of the program stops.

`PyThreadState_SetAsyncExc` raises an exception in another thread, at one of its next instructions.
A program that catches everything would go on. So when somebody catches the exception, it sees to it
that it is raised again at each further line of the program, until the thread has left the program.
Library code runs undisturbed meanwhile, so that asyncio can put its own state in order.

Python 3.12 and later tell of lines by `sys.monitoring`. Before, there are trace functions only, and
one that raises is dropped. There a function of the interpreter serves as trace function, which
throws the exception anew and is no Python code in which it would be raised.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel.swap import python_in_c
from foretold.kernel.waiting import is_floor, is_library

_python: Final = python_in_c()
_set: Final = _python.PyThreadState_SetAsyncExc
_ends: Final[dict[int, Callable[[], object]]] = {}
"""By thread: how to end it."""


def throw(ident: int, kind: type[BaseException]) -> None:
    """Raise `kind` in a thread, as soon as that runs Python code."""
    _set(ctypes.c_ulong(ident), ctypes.py_object(kind))


def relent() -> None:
    """In the thread itself: nothing is raised any more."""
    ident = get_ident()
    end, tracing = _ends.pop(ident, None), sys.gettrace()
    if tracing is not None:
        sys.settrace(None)  # see `settle`: lines of the program may be traced besides
    _set(ctypes.c_ulong(ident), None)
    settle()
    if tracing is not None:
        sys.settrace(tracing)
    if end is not None:
        end()


class _Nothing(BaseException):
    """Thrown by a thread at itself."""


def settle() -> None:
    """Python 3.11 keeps in mind that something was thrown at *some* thread until one receives it,
    and a thread that is traced meanwhile never enters a function. So receive something."""
    try:
        throw(get_ident(), _Nothing)
        while True:
            pass
    except _Nothing:
        pass


class Insistent(BaseException):
    """Mixed into exceptions that are thrown: each is made where it is caught, in its thread."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        ident = get_ident()
        if ident not in _ends:
            _ends[ident] = _insist(ident, type(self))


def _insist_by_trace(ident: int, kind: type[BaseException]) -> Callable[[], object]:
    """At each line of what runs in this thread by now, throw it once more."""
    former, again = sys.gettrace(), _thrower(ident, kind)
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not is_library(code.co_filename):
            frame.f_trace = again
        elif is_floor(code):
            break
        frame = frame.f_back
    sys.settrace(_watches_nothing)
    return functools.partial(sys.settrace, former)


def _in_c(name: str, types: list[Any], answer: dict[int, Any]) -> Any:
    """A function of the interpreter as a trace function, without a line of Python: an exception
    would be raised in that as well, and end all tracing."""
    function: Any = _python[name]
    function.argtypes = [*types, *[ctypes.py_object] * 3]  # C ignores what it is given besides
    function.restype = answer.get
    return function


def _thrower(ident: int, kind: type[BaseException]) -> Any:
    answer: dict[int, Any] = {}
    throws = _in_c("PyThreadState_SetAsyncExc", [ctypes.c_ulong, ctypes.py_object], answer)
    answer[1] = functools.partial(throws, ident, kind)  # which traces the lines to come as well
    return answer[1]


_watches_nothing: Final = _in_c("Py_IsInitialized", [], {})
"""For frames that begin meanwhile: they are not traced."""


def _insist_by_monitoring(ident: int, kind: type[BaseException]) -> Callable[[], object]:
    monitoring: Any = vars(sys)["monitoring"]
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)

    def at_line(code: types.CodeType, line: int) -> None:
        if get_ident() == ident and ident in _ends and not is_library(code.co_filename):
            raise kind

    def end() -> None:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)

    monitoring.use_tool_id(tool, "foretold's watchdog")
    monitoring.register_callback(tool, monitoring.events.LINE, at_line)
    monitoring.set_events(tool, monitoring.events.LINE)
    return end


_insist: Final = _insist_by_monitoring if sys.version_info >= (3, 12) else _insist_by_trace
