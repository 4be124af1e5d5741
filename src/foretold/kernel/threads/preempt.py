"""`preempt="lines"`: a thread may be interrupted between any two lines of the modules named.

CPython switches between threads at almost any bytecode, so code without locks races between its
lines. To look at each of them as a possible switch is expensive, and most are harmless: therefore
it is asked for, and for some modules only. How many lines lie between two looks is drawn for each
run; at each of them the tape may let another thread go on, as it may at a lock.

By `sys.monitoring` where there is one, else (Python 3.11) by `sys.settrace`. Both are in place only
while threads are there. Within a line it is looked after calls as well, where the line reads and
writes something shared (`torn.py`).
"""

from __future__ import annotations

import sys
import zlib
from _thread import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import UsageError
from foretold.kernel import real
from foretold.kernel.monitoring import (
    Chosen,
    Traced,
    Watcher,
    begin_tracing,
    end_tracing,
    is_module_name,
    is_traced_by_another,
    monitoring,
    names_in,
    take_tool,
)
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.torn import NOWHERE, torn
from foretold.tape.streams import TapeRandom

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew
    from foretold.kernel.threads.strand import Strand

GAPS = (1, 2, 6, 20)
"""Mean number of lines between two looks; one of them is drawn for each run."""
DENSE = 50
"""The first looks of a thread come at every line: what is short would be missed by larger gaps,
and what is long meets its race more than once."""
SPARSE = 2_000
"""After so many looks of a thread, each further so many double the gap: a thread that computes for
a million lines is not a million times slower."""
LINES = "lines"
LOCKS = "locks"
_ALONE = 64
"""So many lines until the next look where nobody else could run."""


def preempt_text(wanted: Any) -> str:
    """The setting as a tape keeps it: "lines" (all code that is no library), "lines: a, b", "locks"
    (none at all), or nothing, if it is left open."""
    if wanted is None or wanted in ("", LINES, LOCKS):
        return wanted or ""
    if isinstance(wanted, str) and wanted.startswith(f"{LINES}:"):
        return wanted
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names or not all(map(is_module_name, names)):
        raise UsageError(
            f'preempt names modules, such as preempt=["shop.stock"], or is "lines" for all of your '
            f'own code, or "locks" for none of it; got {wanted!r}'
        )
    return f"{LINES}: {', '.join(names)}"


def can_interrupt() -> bool:
    """Whether lines can be told here: Python 3.11 has one trace function, which a debugger or a
    measure of coverage may hold. A tape with "lines" that was made there would not repeat."""
    return monitoring is not None or not is_traced_by_another()


def preempt_of_search(wanted: str) -> str:
    """What holds for all runs of a search; nothing, if that is left to each of them."""
    return wanted or ("" if can_interrupt() else LOCKS)


class _Lines(Watcher):
    """What is in place while threads are there."""

    tears = True

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.chosen = Chosen()
        self.covers = self.chosen.covers
        self.gap = 1
        self.gap_is_drawn = False
        self.seed = 0
        self.tool: int | None = None

    def tracer(self, frame: FrameType) -> Traced:
        return _Traced(frame)

    def at_line(self, code: CodeType, before: int, line: int) -> None:
        """`sys.settrace` has seen a line, and somebody else watches lines too."""
        _at_line(code, line)

    def forget(self) -> None:
        """The run is over."""
        self.chosen.forget()
        self.gap_is_drawn = False


_lines: Final = _Lines()


class _Traced(Traced):
    """Where nobody else watches: one call in Python for each line."""

    __slots__ = ()

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            if self.torn is not NOWHERE:
                frame.f_trace_opcodes = frame.f_lineno in self.torn.lines
        elif event != "opcode" or frame.f_lasti not in self.torn.offsets:
            return self
        strand = strand_of(get_ident())
        if strand is not None:
            strand.lines = left = strand.lines - 1
            if left <= 0:
                _look(strand)
        return self


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
        events = monitoring.events
        wanted = events.LINE | events.INSTRUCTION if torn(code).lines else events.LINE
        monitoring.set_local_events(_lines.tool, code, wanted)
    return monitoring.DISABLE


def _at_instruction(code: CodeType, offset: int) -> Any:
    """The same before each instruction of code with a line that can be torn; once, for others."""
    if offset not in torn(code).offsets:
        return monitoring.DISABLE
    _at_line(code, 0)
    return None


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
    gap = _lines.gap << min(strand.looks // SPARSE, 40)
    return 1 + int(strand.gaps() * (2 * gap - 1))


def install(crew: Crew) -> None:
    """The first thread starts: from here on lines are points, if the run asks for it."""
    setting, tape = crew.kernel.preempt, crew.kernel.tape
    if setting in ("", LOCKS) or _lines.gap_is_drawn:
        return
    drawn = tape.stream("threads", "lines")
    _lines.gap = drawn.pick(GAPS, "lines between two looks")
    _lines.seed = drawn.choose(1 << 32, "seed of the gaps between looks")
    _lines.chosen.names = names_in(setting)
    _lines.gap_is_drawn = True
    tape.configuration["threads interrupted"] = "between lines"
    if monitoring is not None:
        _begin_monitoring()
    else:
        begin_tracing(_lines, sys._getframe(1))


def _begin_monitoring() -> None:
    _lines.tool = tool = take_tool("foretold", 'preempt="lines"')
    events = monitoring.events
    monitoring.register_callback(tool, events.LINE, _at_line)
    monitoring.register_callback(tool, events.INSTRUCTION, _at_instruction)
    for event in (events.PY_START, events.PY_RESUME):
        monitoring.register_callback(tool, event, _at_start)
    monitoring.set_events(tool, events.PY_START | events.PY_RESUME)
    monitoring.restart_events()
    for frame in real.current_frames().values():  # what is in the middle of something
        inner: FrameType | None = frame
        while inner is not None:
            _at_start(inner.f_code, 0)
            inner = inner.f_back


def _end_monitoring(tool: int) -> None:
    for code in _lines.codes:
        monitoring.set_local_events(tool, code, 0)
    _lines.codes.clear()
    monitoring.set_events(tool, 0)
    events = monitoring.events
    for event in (events.LINE, events.INSTRUCTION, events.PY_START, events.PY_RESUME):
        monitoring.register_callback(tool, event, None)
    monitoring.free_tool_id(tool)


def remove() -> None:
    """The run is over."""
    if _lines.tool is not None:
        _end_monitoring(_lines.tool)
        _lines.tool = None
    elif monitoring is None:
        end_tracing(_lines)
    _lines.forget()
