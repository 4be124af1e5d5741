"""Lines and branches of the user's code, watched: what `preempt="lines"` and `feedback="branches"`
have in common.

Python 3.12 and later have `sys.monitoring`, with a place for several who watch; each of ours takes
one that is free and gives it back. Python 3.11 has one trace function for each thread, which ours
share. One that is there already, a debugger's or that of a measure of coverage, stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

from foretold.errors import UsageError
from foretold.kernel.torn import NOWHERE, torn
from foretold.kernel.waiting import is_library, is_ours

monitoring: Final[Any] = getattr(sys, "monitoring", None)
"""None on Python 3.11."""
_TOOLS = (4, 3, 2, 5)
"""0 and 1 are for debuggers and coverage; of the others, first those that nobody has a name for."""


class Chosen:
    """Which files are meant: those of the modules named, else all that are the user's own."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        self._known: dict[str, bool] = {}
        self._files: set[str] = set()
        """Of the modules named, as far as they were imported when there were so many modules:"""
        self._modules = 0

    def covers(self, file: str) -> bool:
        """Whether a file is meant. Looked up once for each."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = self._is_meant(file)
        return found

    def _is_meant(self, file: str) -> bool:
        if not self.names:
            return not is_library(file)
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            found = [sys.modules[name] for name in list(sys.modules) if self._has(name)]
            self._files = {getattr(module, "__file__", None) or "" for module in found}
        return file in self._files and not is_ours(file)

    def _has(self, module: str) -> bool:
        return any(module == name or module.startswith(f"{name}.") for name in self.names)

    def forget(self) -> None:
        """Look files up anew."""
        self._known.clear()
        self._modules = 0


def names_in(setting: str) -> list[str]:
    """The modules that a setting such as "lines: a, b" names."""
    return [name.strip() for name in setting.partition(":")[2].split(",") if name.strip()]


def is_module_name(name: object) -> bool:
    """Whether a module may be called that."""
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


# By sys.monitoring


def take_tool(name: str, setting: str) -> int:
    """A tool of `sys.monitoring` that was free."""
    tool = next((number for number in _TOOLS if monitoring.get_tool(number) is None), None)
    if tool is None:
        raise UsageError(f"{setting} needs a free tool of sys.monitoring: all are in use")
    monitoring.use_tool_id(tool, name)
    return tool


# By sys.settrace


class Watcher:
    """Is told of lines."""

    tears = False
    """Whether it is told of a line again where that can be torn."""
    covers: Callable[[str], bool]

    def tracer(self, frame: FrameType) -> Traced:
        """What is called for each line of a frame, where nobody else watches."""
        return Traced(frame)

    def at_line(self, code: CodeType, before: int, line: int) -> None:
        """A line is about to be run; `before` was the one before it in the same call."""

    def at_return(self, code: CodeType, before: int) -> None:
        """A call ends, or waits, after this line."""


_watchers: tuple[Watcher, ...] = ()


class Traced:
    """What is called for each line of one frame, from when it begins, or goes on."""

    __slots__ = ("before", "torn")

    def __init__(self, frame: FrameType) -> None:
        self.before = frame.f_lineno
        self.torn = torn(frame.f_code) if any(each.tears for each in _watchers) else NOWHERE

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            code, line = frame.f_code, frame.f_lineno
            if self.torn is not NOWHERE:
                frame.f_trace_opcodes = line in self.torn.lines
            before, self.before = self.before, line
            for watcher in _watchers:
                if watcher.covers(code.co_filename):
                    watcher.at_line(code, before, line)
        elif event == "return":
            code = frame.f_code
            for watcher in _watchers:
                if watcher.covers(code.co_filename):
                    watcher.at_return(code, self.before)
        elif event == "opcode" and frame.f_lasti in self.torn.offsets:
            code = frame.f_code
            for watcher in _watchers:
                if watcher.tears and watcher.covers(code.co_filename):
                    watcher.at_line(code, self.before, self.before)
        return self


def _trace(frame: FrameType, event: str, arg: object) -> Any:
    """`sys.settrace` calls this for each frame that begins, or goes on."""
    file = frame.f_code.co_filename
    for watcher in _watchers:
        if watcher.covers(file):
            return watcher.tracer(frame) if len(_watchers) == 1 else Traced(frame)
    return None


def is_traced_by_another() -> bool:
    """Whether this thread has a trace function that is not ours."""
    return sys.gettrace() not in (None, _trace)


def begin_tracing(watcher: Watcher, frame: FrameType | None) -> None:
    """Tell this one of lines, also of those of `frame` and its callers."""
    global _watchers
    _watchers = (*_watchers, watcher)
    begin_in_thread()
    while frame is not None and sys.gettrace() is _trace:
        if watcher.covers(frame.f_code.co_filename):
            tracer: Any = _trace(frame, "call", None)
            frame.f_trace = tracer
        frame = frame.f_back


def begin_in_thread() -> None:
    """The calling thread is a new one of the run."""
    if _watchers and sys.gettrace() is None:
        sys.settrace(_trace)


def end_tracing(watcher: Watcher) -> None:
    """Tell this one nothing more; the last one clears up."""
    global _watchers
    _watchers = tuple(each for each in _watchers if each is not watcher)
    if not _watchers and sys.gettrace() is _trace:
        sys.settrace(None)
