"""How far a search is: a bar on a terminal, a few plain lines everywhere else.

It goes to the error stream, so that the output proper can be piped on.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from foretold.kernel import real
from foretold.report.terminal import say
from foretold.search.explore import Progress as Standing
from foretold.story.words import count

if TYPE_CHECKING:
    from rich.progress import Progress

FIRST_LINE_RUNS = 1_000
"""The first plain line comes after so many runs, the next whenever they have doubled."""
LINE_EVERY_S = 15.0
"""But nobody shall look at nothing for longer than that: runs may be slow."""
REDRAW_S = 0.1
SLOW = 10
"""Below so many runs a second a tenth matters."""
_STAGES = {
    "searching": "searching",
    "shrinking": "a run failed; looking for the smallest tape that still fails",
    "confirming": "replaying it in a fresh process",
}


def on_terminal() -> bool:
    """Whether someone watches: not in continuous integration, and not in a pipe."""
    return sys.stderr.isatty() and not os.environ.get("CI")


class SearchProgress:
    """Shows where a search stands; give it to `explore` as `on_progress`."""

    def __init__(self, runs_max: int | None, *, bar: bool | None = None) -> None:
        self.last = Standing(0, 0, 0)
        self._stage = "searching"
        self._drawn_s = 0.0
        self._began_s = self._said_s = real.monotonic()
        self._told = ("", 0)
        self._steps = 0
        self._next_line = FIRST_LINE_RUNS
        self._runs_max = runs_max
        self._bar = self._make_bar() if (on_terminal() if bar is None else bar) else None

    def _make_bar(self) -> Progress:
        from rich.console import Console  # takes longer to import than a short search takes
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(
            *columns,
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,  # that would be a thread, and runs may be forked off this process
        )
        self._task = bar.add_task("searching", total=self._runs_max)
        return bar

    def __enter__(self) -> SearchProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, standing: Standing) -> None:
        self.last = standing
        if self._bar is not None:
            self._move(self._bar, standing)
        elif standing.stage != "searching":
            self._show_stage(standing)
        elif standing.runs >= self._next_line or real.monotonic() > self._said_s + LINE_EVERY_S:
            self._next_line *= 2 if standing.runs >= self._next_line else 1
            self._said_s = real.monotonic()
            of = f" of {self._runs_max:,}" if self._runs_max is not None else ""
            say(f"{standing.runs:,}{of} runs, {self._so_far(standing)}")

    def _count_steps(self, standing: Standing) -> int:
        """How many runs this stage of this failure has taken."""
        stage = standing.stage, standing.runs
        self._steps = self._steps + 1 if stage == self._told else 0
        self._told = stage
        return self._steps

    def _show_stage(self, standing: Standing) -> None:
        """Once for each stage of each failure, and how far it is if it takes long."""
        steps, run = self._count_steps(standing), f"run {standing.runs:,}"
        if not steps:
            self._said_s = real.monotonic()
            say(f"{run}: {_STAGES.get(standing.stage, standing.stage)}")
        elif real.monotonic() > self._said_s + LINE_EVERY_S:
            self._said_s = real.monotonic()
            say(f"{run}: still looking, after {count(steps, 'run')}")

    def _so_far(self, standing: Standing) -> str:
        parts = [
            count(standing.failures, "kind") + " of failure" if standing.failures else "all held"
        ]
        if standing.reached:
            rate = standing.runs / max(1e-9, real.monotonic() - self._began_s)
            parts += [
                f"{rate:,.0f} runs/s" if rate >= SLOW else f"{rate:.1f} runs/s",
                f"reached {standing.reached:,}",
            ]
        return ", ".join(parts)

    def _move(self, bar: Progress, standing: Standing) -> None:
        now, steps = real.monotonic(), self._count_steps(standing)
        if standing.stage == self._stage and now < self._drawn_s + REDRAW_S:
            return
        self._stage, self._drawn_s = standing.stage, now
        stage = _STAGES.get(standing.stage, standing.stage)
        if standing.stage == "searching":
            stage = f"{stage}: {self._so_far(standing)}"
        else:
            stage = f"run {standing.runs:,}: {stage}"
            stage += f" ({count(steps, 'run')})" if steps else ""
        bar.update(self._task, completed=standing.runs, description=stage, refresh=True)
