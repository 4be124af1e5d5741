"""The small words of a story: numbers, places, durations, how something ended.

Paths are shown as a person would write them: relative to where they are, and of a library only
what stands behind `site-packages`. So a story reads the same on every machine.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
import textwrap
from collections.abc import Mapping, Sequence

from foretold.kernel.numbers import STREAM
from foretold.kernel.pace import READ_NS, STEP_NS
from foretold.tape import CALLBACKS, ENDED, Choice, Hold
from foretold.trace import CANCELLED, RAISED, Place, TaskOutcome
from foretold.trace.events import CalledBack, Fault, Late, Uncaught

SOURCE_CHARS_MAX = 60
WIDTH_CHARS = 100
_PATHS = sysconfig.get_paths()
# site-packages lies inside the folder of the standard library: the longer one first.
_LIBRARIES = tuple(f"{_PATHS[name]}{os.sep}" for name in ("purelib", "platlib", "stdlib"))

# asyncio's own callbacks, by what they mean to somebody who never saw its source.
_CALLBACKS = {
    "_set_result_unless_cancelled": "a sleep was over",
    "_release_waiter": "wait_for had seen its task end",
    "gather.<locals>._done_callback": "gather had seen one of its tasks end",
    "_wait.<locals>._on_completion": "wait had seen one of its tasks end",
    "TaskGroup._on_task_done": "the task group had seen one of its tasks end",
    "_run_until_complete_cb": "the run was told to end",
    # Of ours and of drivers.
    "IoHandle._fire": "a message had arrived",
    "BaseProtocol._on_waiter_completed": "the driver of the database had its answer",
}


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    if 10 <= n % 100 <= 20:
        return f"{n}th"
    return f"{n}{({1: 'st', 2: 'nd', 3: 'rd'}).get(n % 10, 'th')}"


def count(n: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def fault_in_words(fault: Fault) -> str:
    """`fault: kill db`, `restart db`."""
    return fault.text if fault.is_over else f"fault: {fault.text}"


def duration(ns: int) -> str:
    """A length of time in the unit that suits it."""
    if ns >= 999_500_000:
        return f"{ns / 1e9:,.3f}".rstrip("0").rstrip(".") + " s"
    if ns >= 999_500:
        return f"{ns / 1e6:.3g} ms"
    return f"{ns / 1e3:.3g} µs" if ns >= 1_000 else f"{ns} ns"


def short(place: Place | None) -> str:
    """A place as a person writes it: `bank.py:12`, `asyncio/queues.py:158`."""
    return f"{short_path(place.file)}:{place.line}" if place is not None else ""


def short_path(file: str) -> str:
    """A path relative to where we are; a library's from its package on."""
    for folder in _LIBRARIES:
        if file.startswith(folder):
            return file[len(folder) :]
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def source_line(place: Place | None) -> str:
    """The text of a line, cut off where it gets long."""
    if place is None:
        return ""
    text = linecache.getline(place.file, place.line).strip()
    if text.startswith("@"):  # where a decorated function begins, for Python
        line = place.line
        while text.startswith("@"):
            line += 1
            text = linecache.getline(place.file, line).strip()
    return text if len(text) <= SOURCE_CHARS_MAX else f"{text[: SOURCE_CHARS_MAX - 1].rstrip()}…"


def until_of(hold: Hold, callback: CalledBack | None = None) -> str:
    """What ended a hold. `callback` is what it waited for, if it was a callback."""
    if hold.until_actor == CALLBACKS:
        return callback_in_words(callback, hold.until_step)
    if hold.until_step == ENDED:
        return f"{hold.until_actor} had ended"
    if hold.until_step == 1:
        return f"{hold.until_actor} had started"
    return f"{hold.until_actor} had made its {ordinal(hold.until_step)} step"


def callback_in_words(event: CalledBack | None, number: int) -> str:
    """What it means that a host's callback number so and so has run."""
    name = event.name if event is not None else ""
    if event is not None and event.is_timeout:
        return f"a timeout of {event.whose} had expired" if event.whose else "a timeout had expired"
    named = f" ({name})" if name else ""
    return _CALLBACKS.get(name) or f"the {ordinal(number)} callback{named} had run"


def ended_how(outcome: TaskOutcome) -> str:
    """How a task ended."""
    if outcome.how == CANCELLED:
        return "is cancelled"
    if outcome.how == RAISED:
        told = outcome.arguments
        return f"raises {outcome.said}" + (f"({told})" if told is not None else "")
    value = outcome.said
    # The trace spells containers and objects in a way of its own that would only puzzle here.
    plain = value != "None" and value[0] not in "[{<" and len(value) <= SOURCE_CHARS_MAX
    return f"returns {value}" if plain else "runs to its end"


def uncaught_in_words(event: Uncaught) -> str:
    """`a callback raises KeyError('x'), which is not caught`."""
    what = "a callback " if event.actor == CALLBACKS else ""
    if event.is_of_task:
        what = "a task that nothing awaits "
    return f"{what}{ended_how(event.error)}, which is not caught"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines in columns: the first to the right (it is the time), an empty one left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        shown = [cell for cell, width in zip(cells, widths, strict=True) if width]
        lines.append(f"  {'  '.join(shown)}".rstrip())
    return lines


def wrapped(text: str, indent: str = "") -> list[str]:
    """Prose as lines that are easy to read."""
    return textwrap.wrap(
        text,
        WIDTH_CHARS,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def instant(ns: int) -> str:
    """When something was, in seconds since the run began."""
    return f"{ns / 1e9:.6f} s"


def late_in_words(event: Late, verb: str) -> str:
    """`a message from web to db took 214 ms instead of 1 ms`."""
    is_own = event.source == event.target
    way = "to itself" if is_own else f"from {event.source} to {event.target}"
    took, usual = duration(event.took_ns), duration(event.usual_ns)
    return f"a message {way} {verb} {took} instead of {usual}"


def pace_sentences(choices: Mapping[str, Sequence[Choice]]) -> list[str]:
    """What a tape says about the cost of steps and about sets, where that is not the calm one."""
    costs = {
        "cost of a step": ("each step", STEP_NS),
        "cost of reading a clock": ("each look at a clock", READ_NS),
    }
    said = []
    for name, entries in sorted(choices.items()):
        for choice in entries if name.startswith("pace/") else ():
            if choice.value and choice.label in costs:
                what, options = costs[choice.label]
                cost = options[min(choice.value, len(options) - 1)]
                said.append(f"{what} took {duration(cost)} instead of {duration(options[0])}")
        if name.startswith(f"{STREAM}/") and any(choice.value for choice in entries):
            said.append("sets of tasks were not in the order in which their members were made")
    return said
