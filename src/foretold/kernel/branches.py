"""`feedback="branches"`: which branches a run takes in the user's own code.

A bug behind three nested `if`s is found sooner if a run that comes as far as the second of them
counts as something new. A branch is a place in the bytecode and where it went from there
(`sys.monitoring`); on Python 3.11, which has no such thing, two lines of which one followed the
other in a call (`sys.settrace`).

What a run took must not depend on the runs before it in the same process: then the number of
workers would matter. So a branch is watched in each run, however often it was seen, until both its
ways have been told so often that nobody would listen any more (`told_max`; the same number of times
for which `search/planning/feedback.py` counts). From there on it costs nothing. One of which only
one way was ever seen is watched for ever, since the event that says so is one and the same for
both ways.

Everything is taken away after the run, or after the search (`installed`).
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from foretold.kernel.computer import running
from foretold.kernel.monitoring import (
    Chosen,
    Watcher,
    begin_tracing,
    end_tracing,
    is_traced_by_another,
    monitoring,
    take_tool,
)
from foretold.kernel.reach import Feature

BRANCH = "branch"
TRACED = (
    'feedback="branches" had no effect: a debugger or a measure of coverage traces this thread, '
    "and Python 3.11 has one trace function only. Run without it, or on Python 3.12 or later"
)
_WAYS = 2
"""A branch has that many: to jump or not to jump, to go round once more or to leave."""


class _Code:
    """What is known of a code object, which may be gone before the search is."""

    __slots__ = ("done", "features", "name", "told", "weak")

    def __init__(self, code: CodeType, forget: Any) -> None:
        self.weak = weakref.ref(code, forget)
        self.name = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
        self.features: dict[tuple[int, int], Feature] = {}
        self.told: set[Feature] = set()
        """Those that were told so often that nobody would listen any more."""
        self.done: set[int] = set()
        """Where that is so of both ways."""

    def feature(self, start: int, end: int) -> Feature:
        """How it is told: the same words in each process."""
        found = self.features.get((start, end))
        if found is None:
            found = self.features[start, end] = (BRANCH, self.name, str(start), str(end))
        return found

    def is_told(self, start: int, feature: Feature) -> None:
        self.told.add(feature)
        if sum(each[2] == str(start) for each in self.told) == _WAYS:
            self.done.add(start)


class Branches(Watcher):
    def __init__(self, names: Sequence[str] = (), told_max: int | None = None) -> None:
        self.features: set[Feature] = set()
        """Of the last run. What was told `told_max` times may be left out."""
        self._chosen = Chosen(names)
        self.covers = self._chosen.covers
        self._told_max = told_max
        self._times: dict[Feature, int] = {}
        self._codes: dict[int, _Code] = {}
        """By id: to hash a code object takes longer than all the rest."""
        self._taken: set[tuple[int, int, int]] | None = None
        """In this run; None between runs."""
        self._held: dict[int, CodeType] = {}
        """Whose ids stand in there: another object of the same id would be taken for it."""
        self._tool: int | None = None
        self._depth = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make ready once for many runs. May be nested."""
        self._depth += 1
        try:
            if self._depth == 1:
                self._begin()
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._end()

    @contextmanager
    def watching(self, notes: dict[str, None]) -> Iterator[None]:
        """While a run goes on; then `features` are its branches. What is to be said, to `notes`."""
        self.features = set()
        with self.installed():
            self._taken = set()
            if monitoring is None:
                if is_traced_by_another():
                    notes[TRACED] = None
                else:
                    begin_tracing(self, None)
            try:
                yield
            finally:
                if monitoring is None:
                    end_tracing(self)
                taken, self._taken = self._taken, None
                self.features = {self._told(*branch) for branch in taken}
                self._held.clear()

    def _told(self, ident: int, start: int, end: int) -> Feature:
        code = self._codes[ident]
        feature = code.feature(start, end)
        self._times[feature] = times = self._times.get(feature, 0) + 1
        if self._told_max is not None and times >= self._told_max and feature not in code.told:
            code.is_told(start, feature)
        return feature

    def _know(self, code: CodeType) -> _Code:
        ident = id(code)
        known = self._codes.get(ident)
        if known is None:
            codes = self._codes
            known = codes[ident] = _Code(code, lambda _: codes.pop(ident, None))
        return known

    # By sys.monitoring

    def _begin(self) -> None:
        if monitoring is None:
            return
        self._tool = tool = take_tool("foretold branches", 'feedback="branches"')
        events = monitoring.events
        monitoring.register_callback(tool, events.BRANCH, self._at_branch)
        for event in (events.PY_START, events.PY_RESUME):
            monitoring.register_callback(tool, event, self._at_start)
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME)
        # Where somebody before us has seen enough of these events with the same tool.
        monitoring.restart_events()

    def _end(self) -> None:
        tool, self._tool = self._tool, None
        codes, self._codes = self._codes, {}
        if tool is None:
            return
        for known in codes.values():
            code = known.weak()
            if code is not None:
                monitoring.set_local_events(tool, code, 0)
        monitoring.set_events(tool, 0)
        events = monitoring.events
        for event in (events.BRANCH, events.PY_START, events.PY_RESUME):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def _at_start(self, code: CodeType, offset: int) -> Any:
        """A function begins, or goes on: from here on its branches are told, if it is meant."""
        if id(code) not in self._codes and self.covers(code.co_filename):
            self._know(code)
            monitoring.set_local_events(self._tool, code, monitoring.events.BRANCH)
        return monitoring.DISABLE

    def _at_branch(self, code: CodeType, offset: int, destination: int) -> Any:
        branch = (id(code), offset, destination)
        taken = self._taken
        if taken is None or branch in taken or get_ident() not in running:
            return None
        if offset in self._know(code).done:
            return monitoring.DISABLE
        taken.add(branch)
        self._held[id(code)] = code
        return None

    # By sys.settrace

    def at_line(self, code: CodeType, before: int, line: int) -> None:
        """One line after another."""
        branch = (id(code), before, line)
        taken = self._taken
        if taken is not None and branch not in taken and get_ident() in running:
            self._know(code)
            taken.add(branch)
            self._held[id(code)] = code

    def at_return(self, code: CodeType, before: int) -> None:
        """A line, and then no more: an `if` at the end that was not true."""
        self.at_line(code, before, 0)
