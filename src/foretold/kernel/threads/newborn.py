"""Threads that were just started wait until whoever starts them has nothing more to do.

Two short threads race only while both of them are there. If each runs as soon as it is started, the
first has mostly ended before the second begins. Linux does either, so the tape draws for each run
whether new threads are kept waiting at their first point: all begin together then, and which of
them goes on is the choice of the scheduler behind.
"""

from __future__ import annotations

from typing import Any

from foretold.kernel.schedulers import Scheduler

PATIENCE = (0, 300, 300)
"""For how many picks new threads are kept waiting at most: whoever started them may spin until they
have done something. One of these is drawn for each run."""


class BeginTogether(Scheduler):
    """Another scheduler, to which new threads are handed over late."""

    def __init__(self, behind: Scheduler, patience: int) -> None:
        super().__init__(behind.generator)
        self._behind = behind
        self._patience = patience
        self._waiting: list[Any] = []
        self._picks = 0
        self._picks_max = 0
        self._kept_waiting = 0

    def add(self, handle: Any) -> None:
        self.size += 1
        # Its first step ends where it first could be interrupted.
        if handle.actor.steps == 1 and not handle.is_main:
            if not self._waiting:
                self._picks_max = self._picks + self._patience
            self._waiting.append(handle)
        else:
            self._behind.add(handle)

    def pick(self, callback: Any) -> Any:
        self._picks += 1
        behind = self._behind
        if self._waiting and (not behind.size or self._picks > self._picks_max):
            for handle in self._waiting:
                behind.add(handle)
            self._waiting.clear()
        # Another one goes first although these could: a choice, even if nobody else is there.
        self._kept_waiting += bool(self._waiting)
        chosen = behind.pick(callback)
        self.size = behind.size + len(self._waiting)
        self.decisions = behind.decisions + self._kept_waiting
        return chosen

    def release_held(self) -> bool:
        return self._behind.release_held()
