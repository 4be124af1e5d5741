"""`preempt="lines"`: a thread may be interrupted between any two lines of the modules named.

CPython switches between threads at almost any bytecode, so code without locks races between its
lines. To look at each of them as a possible switch is expensive, and most are harmless: therefore
it is asked for, and for some modules only. How many lines lie between two looks is drawn for each
run; at each of them the tape may let another thread go on, as it may at a lock.

By `sys.monitoring` where there is one, else (Python 3.11) by `sys.settrace`. Both are in place only
while threads are there. A line is more than what CPython does without interruption: what one line
does is never torn here.
"""

from __future__ import annotations

import sys
import zlib
from _thread import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import UsageError
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.waiting import is_library
from foretold.tape.streams import TapeRandom

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew
    from foretold.kernel.threads.strand import Strand

GAPS = (1, 2, 6, 20)
"""Mean number of lines between two looks; one of them is drawn for each run."""
DENSE = 50
"""The first looks of a thread come at every line: what is short would be missed by larger gaps,
and what is long meets its race more than once."""
LINES = "lines"
_ALONE = 64
"""So many lines until the next look where nobody else could run."""
_TOOLS = (4, 3, 2, 5)
_monitoring: Final[Any] = getattr(sys, "monitoring", None)


def preempt_text(wanted: Any) -> str:
    """The setting as a tape keeps it: "lines" (all code that is no library), or "lines: a, b"."""
    if wanted is None or wanted == "" or wanted == LINES:
        return wanted or ""
    if isinstance(wanted, str) and wanted.startswith(f"{LINES}:"):
        return wanted
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names or not all(map(_is_module_name, names)):
        raise UsageError(
            f'preempt names modules, such as preempt=["shop.stock"], or is "lines" for all of your '
            f"own code; got {wanted!r}"
        )
    return f"{LINES}: {', '.join(names)}"


def _is_module_name(name: object) -> bool:
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


class _Lines:
    """What is in place while threads are there."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.inside: set[str] = set()
        """Files whose lines count."""
        self.outside: set[str] = set()
        self._files: set[str] = set()
        """Of the modules named, as far as they were imported when there were so many modules:"""
        self._modules = 0
        self.codes: set[CodeType] = set()
        self.gap = 1
        self.gap_is_drawn = False
        self.seed = 0
        self.tool: int | None = None

    def covers(self, file: str) -> bool:
        """Whether a file is of the modules that were named. Looked up once for each."""
        if file not in self.inside and file not in self.outside:
            (self.inside if self._is_named(file) else self.outside).add(file)
        return file in self.inside

    def _is_named(self, file: str) -> bool:
        if not self.names:
            return not is_library(file)
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            found = [sys.modules[name] for name in list(sys.modules) if self._has(name)]
            self._files = {getattr(module, "__file__", None) or "" for module in found}
        return file in self._files

    def _has(self, module: str) -> bool:
        return any(module == name or module.startswith(f"{name}.") for name in self.names)

    def forget(self) -> None:
        """The run is over."""
        self.inside.clear()
        self.outside.clear()
        self._modules = 0
        self.gap_is_drawn = False


_lines: Final = _Lines()


def _at_line(code: CodeType, line: int) -> None:
    """`sys.monitoring` calls this before each line of the code in question."""
    strand = strand_of(get_ident())
    if strand is not None:
        strand.lines = left = strand.lines - 1
        if left <= 0:
            _look(strand)


def _at_start(code: CodeType, offset: int) -> Any:
    """A function begins, or goes on: from here on its lines are told, if it is one in question."""
    if _lines.covers(code.co_filename) and code not in _lines.codes:
        _lines.codes.add(code)
        _monitoring.set_local_events(_lines.tool, code, _monitoring.events.LINE)
    return _monitoring.DISABLE


def _trace(frame: FrameType, event: str, arg: object) -> Any:
    """`sys.settrace` calls this for each frame and, if it returns itself, before each line."""
    if not _lines.covers(frame.f_code.co_filename):
        return None
    if event == "line":
        strand = strand_of(get_ident())
        if strand is not None:
            strand.lines = left = strand.lines - 1
            if left <= 0:
                _look(strand)
    return _trace


def _look(strand: Strand) -> None:
    """Here the tape may let another thread go on."""
    crew = strand.crew
    if not crew.pool.rivals:
        # Nothing to choose, and nothing to draw. Now and then it is a point all the same: a thread
        # that spins without a lock would keep the host's loop out for ever.
        strand.lines = _ALONE
    else:
        strand.looks += 1
        strand.lines = 1 if strand.looks < DENSE else _gap_of(strand)
    crew.point(strand)


def _gap_of(strand: Strand) -> int:
    if strand.gaps is None:
        name = strand.actor.name.encode("utf-8", "surrogatepass")
        strand.gaps = TapeRandom(_lines.seed ^ zlib.crc32(name)).random
    return 1 + int(strand.gaps() * (2 * _lines.gap - 1))


def install(crew: Crew) -> None:
    """The first thread starts: from here on lines are points, if the run asks for it."""
    setting, tape = crew.kernel.preempt, crew.kernel.tape
    if not setting or _lines.gap_is_drawn:
        return
    drawn = tape.stream("threads", "lines")
    _lines.gap = drawn.pick(GAPS, "lines between two looks")
    _lines.seed = drawn.choose(1 << 32, "seed of the gaps between looks")
    _lines.names = [n.strip() for n in setting.partition(":")[2].split(",") if n.strip()]
    _lines.gap_is_drawn = True
    if _monitoring is not None:
        _begin_monitoring()
    else:
        _begin_tracing(sys._getframe(1))


def _begin_monitoring() -> None:
    tool = next((n for n in _TOOLS if _monitoring.get_tool(n) is None), None)
    if tool is None:
        raise UsageError('preempt="lines" needs a free tool of sys.monitoring: all are in use')
    _lines.tool, events = tool, _monitoring.events
    _monitoring.use_tool_id(tool, "foretold")
    _monitoring.register_callback(tool, events.LINE, _at_line)
    for event in (events.PY_START, events.PY_RESUME):
        _monitoring.register_callback(tool, event, _at_start)
    _monitoring.set_events(tool, events.PY_START | events.PY_RESUME)
    _monitoring.restart_events()
    for frame in sys._current_frames().values():  # what is in the middle of something
        inner: FrameType | None = frame
        while inner is not None:
            _at_start(inner.f_code, 0)
            inner = inner.f_back


def _end_monitoring(tool: int) -> None:
    for code in _lines.codes:
        _monitoring.set_local_events(tool, code, 0)
    _lines.codes.clear()
    _monitoring.set_events(tool, 0)
    events = _monitoring.events
    for event in (events.LINE, events.PY_START, events.PY_RESUME):
        _monitoring.register_callback(tool, event, None)
    _monitoring.free_tool_id(tool)


def _begin_tracing(frame: FrameType | None) -> None:
    """In the thread that starts the first other one. (A debugger that is there already stays.)"""
    if sys.gettrace() is not None:
        return
    sys.settrace(_trace)
    while frame is not None:
        if _lines.covers(frame.f_code.co_filename):
            frame.f_trace = _trace
        frame = frame.f_back


def begin_in_thread() -> None:
    """The calling thread is a new one of the run."""
    if _lines.gap_is_drawn and _monitoring is None and sys.gettrace() is None:
        sys.settrace(_trace)


def remove() -> None:
    """The run is over."""
    if _lines.tool is not None:
        _end_monitoring(_lines.tool)
        _lines.tool = None
    elif sys.gettrace() is _trace:
        sys.settrace(None)
    _lines.forget()
