"""For `exhaustive`: calm order with named holds, and a log of what was picked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from foretold.kernel.actors import Register, Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.tape import CALLBACKS, Hold


class Pick(NamedTuple):
    host: str
    actor: str
    step: int
    alone: bool
    """There was nobody else."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.host, self.actor, self.step


@dataclass(slots=True)
class ScheduleLog:
    """What the schedulers of one run did."""

    held_picks_max: int
    picks: list[Pick] = field(default_factory=list)
    cut: bool = False
    """A hold was ended because it had lasted too long."""
    threads: bool = False
    """There were threads, whose order no task's scheduler decides."""

    def scheduler(
        self, host: str, holds: dict[tuple[str, int], Hold], register: Register, callbacks: Stepper
    ) -> LoggedScheduler:
        return LoggedScheduler(self, host, holds, register, callbacks)


class LoggedScheduler(KeyedScheduler):
    """Holds that end when they have lasted for too many picks, and a log."""

    def __init__(
        self,
        log: ScheduleLog,
        host: str,
        holds: dict[tuple[str, int], Hold],
        register: Register,
        callbacks: Stepper,
    ) -> None:
        super().__init__(holds, register, callbacks)
        self._log = log
        self._host = host

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        alone = self.size + (callback is not None) == 1
        handle = super().pick(callback)
        if handle is not None:
            actor = self._callbacks if self._last_picked == CALLBACKS else handle.actor
            pick = Pick(self._host, self._last_picked, actor.steps + 1, alone)
            self._log.picks.append(pick)
        return handle

    def _release_what_is_over(self) -> None:
        super()._release_what_is_over()
        for arrival, (_, _, since) in list(self._held.items()):
            if self._picks - since > self._log.held_picks_max:
                self._log.cut = True
                self.broken_holds += 1
                self._release(arrival)
