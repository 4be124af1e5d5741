"""How many runs a question is worth, whatever else the machine is doing.

What a report says must not depend on how busy the machine was. So a question that takes many runs
has a number of them, and no time. Only a program whose runs are long gets fewer: the processor time
of the first few says how many halves less. That is a coarse measure on purpose, so that the same
program gets the same number again. Real time counts only for who has set a limit to it (`time_s`).
"""

from __future__ import annotations

import math
import os
from typing import Final

from foretold.kernel import real

SAMPLES: Final = 5
"""The cheapest of so many runs says what one costs."""
OVERDRAWN: Final = 4
"""So many times the processor time is enough in any case: later runs may take longer than the first
ones."""


_forks_s = 0.0
"""What other processes have worked."""


def reap(pid: int) -> int:
    """Wait until a fork has ended in which a run was made: its status. Its time counts as work, and
    no other child's: a database server may end at any moment, and have worked for an hour."""
    _, status, used = os.wait4(pid, 0)
    note_work(used.ru_utime + used.ru_stime)
    return status


def note_work(cpu_s: float) -> None:
    """Another process has worked for this one."""
    global _forks_s
    _forks_s += cpu_s


def worked_s() -> float:
    """The processor time of this process, and of those in which it had runs made."""
    return real.process_time() + _forks_s


class Allowance:
    """For one question: at most `runs_max` runs, and fewer if they take more than `cpu_s`, or if
    the real time of `until_s` has come."""

    def __init__(self, runs_max: int, cpu_s: float = math.inf, until_s: float = math.inf) -> None:
        self._runs_max = runs_max
        self._cpu_s = cpu_s
        self._until_s = until_s
        self._runs = 0
        self.is_spent = runs_max <= 0 or real.monotonic() >= until_s
        """Whether no further run is allowed."""
        self._began_s = self._last_s = worked_s()
        self._cheapest_s = float("inf")

    def spend(self) -> bool:
        """A run was made. Returns whether another one is allowed."""
        self.is_spent = not self._is_another_allowed()
        return not self.is_spent

    def _is_another_allowed(self) -> bool:
        if real.monotonic() >= self._until_s:
            return False
        self._runs += 1
        now_s = worked_s()
        took_s, self._last_s = now_s - self._last_s, now_s
        if self._runs <= SAMPLES:
            self._cheapest_s = min(self._cheapest_s, took_s)
            return self._runs < self._runs_max and now_s - self._began_s < self._cpu_s
        if now_s - self._began_s > OVERDRAWN * self._cpu_s:
            return False
        return self._runs < self._allowed

    @property
    def _allowed(self) -> int:
        allowed = self._runs_max
        while allowed > SAMPLES and allowed * self._cheapest_s > self._cpu_s:
            allowed //= 2
        return allowed
