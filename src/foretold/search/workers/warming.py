"""The first run of a process is not like the others: caches fill, modules are imported, an engine
at module level connects. So it does not count.

Before the first run of a search, and before each replay, the same tape is run once without counting
it. What counts is therefore always a run in a process that has made this run before, here and in
every fresh process that confirms it. The warm-up changes no figure. What it prints is not shown and
nobody is asked anything (`breakpoint()` returns at once). That it differs is noted and no more. If
it fails where the run that counts does not, that is a failure of the program like any other, such
as a race for an object that is made once.

A tape whose settings say `cold` is replayed without a warm-up. It was made by a search with
`isolation="fork"`, where each run begins in a process that has run nothing before, or it is the
tape of a first run that failed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.session import alone
from foretold.kernel.watchdog import watchdog
from foretold.search.planning.deadline import is_time_up
from foretold.search.workers.brief import Brief, brief_of
from foretold.story.signature import Signature, text_of
from foretold.tape import Tape
from foretold.world.run import Run, execute
from foretold.world.settings import Settings

_warnings: Final[Any] = warnings  # whose private parts the standard library's own helpers use


@dataclass(slots=True)
class Warmth:
    """Whether this process has made a run of the program. Forks inherit it, as they should."""

    there: bool = False


def warm_up(main: Callable[[Any], Any], tape: Tape, settings: Settings) -> Brief | None:
    """Make the run that does not count. None if there is none to make."""
    done = _first_run(main, tape, settings)
    return None if done is None else _first_of(done)


def _first_run(
    main: Callable[[Any], Any], tape: Tape, settings: Settings, **how: Any
) -> Run | None:
    if settings.cold or tape.origin == "enumerated":  # such a tape is a place in a loop, read once
        return None
    tape = tape.fresh()
    tape.log = None
    with in_silence():
        return execute(main, tape, settings, **how)


def _first_of(done: Run) -> Brief:
    """All that its exception says: nobody makes a first run again to see."""
    brief = brief_of(done)
    if done.error is not None:
        brief.message = text_of(done.error)
    return brief


def failed_alone(first: Brief | None, counted: Signature | None) -> bool:
    """Whether the first run has failed in a way of its own, and that tells of the program. The time
    of a search says nothing about it, nor does real time: a first run imports modules."""
    if first is None or first.signature is None or first.signature == counted:
        return False
    return not (first.in_real_time or is_time_up(first.signature))


def cold(tape: Tape) -> Tape:
    """The same tape, for a process that has run nothing before."""
    return tape.derived(settings={**tape.settings, "cold": True})


def run_warm(main: Callable[[Any], Any], tape: Tape, settings: Settings, **how: Any) -> Run:
    """Replay a tape: once to warm up, and once more, which counts. If only the first of them fails,
    that one counts."""
    first = _first_run(main, tape, settings, **how)
    done = execute(main, tape, settings, **how)
    if first is None or done.error is not None or not failed_alone(_first_of(first), None):
        return done
    assert first.error is not None, "it failed"
    first.first_only = True
    first.error.add_note(ONLY_FIRST)
    return first


ONLY_FIRST: Final = (
    "Only the first run of the tape in this process failed. The second run of the same tape held."
)


@contextlib.contextmanager
def in_silence() -> Iterator[None]:
    """Inside, nothing is printed, warned of or asked.

    The descriptors are led away, not `sys.stdout`: a logger that is made in here keeps that one.
    They belong to the whole process, so no other thread begins a run meanwhile.
    """
    hook, show, ours = sys.breakpointhook, _warnings._showwarnmsg_impl, _Dropped()
    with alone(), _led_away():
        # Not `catch_warnings`: that would also undo the filters of modules that are imported here.
        sys.breakpointhook = _warnings._showwarnmsg_impl = ours
        try:
            yield
        finally:
            if sys.breakpointhook is ours:
                sys.breakpointhook = hook
            if _warnings._showwarnmsg_impl is ours:
                _warnings._showwarnmsg_impl = show
            _warnings._filters_mutated()  # else what was dropped would not be shown again


class _Dropped:
    """Instead of a function whose effect is not wanted."""

    def __call__(self, *args: object, **names: object) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _led_away() -> Iterator[None]:
    saved: list[tuple[int, int]] = []
    said_to = watchdog.said_to
    _flush()
    try:
        for number in _descriptors():
            # Whoever searches inside a run is told so by the run; the descriptors are real.
            with fence.passage(), contextlib.suppress(OSError):  # closed: then nobody reads it
                saved.append((number, os.dup(number)))
                if number == said_to:
                    watchdog.said_to = saved[-1][1]  # a run that never returns is told all the same
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, number)
                os.close(nowhere)
        yield
    finally:
        _flush()
        watchdog.said_to = said_to
        with fence.passage():
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)


def _descriptors() -> list[int]:
    """The usual three, and those that `sys.stdout` and `sys.stderr` write to if they are others:
    pytest has files of its own for them."""
    found = [0, 1, 2]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # some are in memory
            found.append(stream.fileno())
    return list(dict.fromkeys(found))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there may be none
            stream.flush()
