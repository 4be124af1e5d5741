"""When a search has to be over, with all that it does after it has found something.

`time_s` is the time for searching. What is found then has a few seconds to be worked out, and each
part knows when it must be done, so that the whole is back `AFTER_S` after the limit at the latest:
first what makes the failure smaller, then the run that is told, then the one that confirms. A run
that is not over by then is broken off (`TimeUp`) and says nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from foretold.errors import TimeUp
from foretold.kernel import real
from foretold.kernel.watchdog import watchdog
from foretold.story.signature import Signature

AFTER_S = 15.0
RUNS_S = 5.0
"""After the limit: until then a run of the search may end."""
SMALLER_S = 8.0
"""Until then a failure is made smaller, and tried in stock order."""
TOLD_S = 11.0
"""Until then it is told."""
CONFIRMED_S = 13.0
"""Until then it is confirmed elsewhere."""
SHARE_S_MIN = 3.0
"""What each of several failures gets at least."""


class OutOfTime(Exception):
    """No further run is allowed: go on with what is known."""


class Deadline:
    """The end of a search, as instants of `real.monotonic`."""

    def __init__(self, time_s: float | None = None) -> None:
        self.limit_s = math.inf if time_s is None else real.monotonic() + time_s

    def left_s(self, after_s: float) -> float:
        """How long it is until so many seconds after the limit; infinite without a limit."""
        return self.limit_s + after_s - real.monotonic()

    def end_s(self, after_s: float) -> float | None:
        """That instant itself; None without a limit."""
        return None if self.limit_s == math.inf else self.limit_s + after_s

    @contextlib.contextmanager
    def runs_until(self, after_s: float) -> Iterator[None]:
        """Inside, a run that goes on for longer is broken off."""
        with watchdog.until(self.limit_s + after_s):
            yield

    def check(self, after_s: float, seen: Signature | None = None) -> None:
        """Raise `OutOfTime` if that instant has passed, or if `seen` is of a run that was broken
        off."""
        if is_time_up(seen) or self.left_s(after_s) <= 0:
            raise OutOfTime


_TIME_UP = f"{TimeUp.__module__}.{TimeUp.__qualname__}"


def is_time_up(seen: Signature | None) -> bool:
    """Whether a run was broken off."""
    return seen is not None and seen.kind == _TIME_UP


class Shares:
    """How long each of several failures may be shrunk. A search that has a time to keep shall not
    take several times as long because it found much: several failures share that time once more.
    What one leaves over is the others'."""

    def __init__(self, time_s: float | None, failures: int) -> None:
        alone = failures == 1
        self._until_s = None if time_s is None or alone else real.monotonic() + time_s
        self._left = failures

    def next_until_s(self) -> float:
        """When the time of the next failure ends."""
        left, self._left = self._left, self._left - 1
        if self._until_s is None:
            return math.inf
        now_s = real.monotonic()
        return now_s + max(SHARE_S_MIN, (self._until_s - now_s) / left)
