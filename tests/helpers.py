"""What several folders of tests share: runs that do not raise, and how often to repeat things."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from foretold.tape import Tape
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings

SOAK_FACTOR = int(os.environ.get("FORETOLD_SOAK_FACTOR", "1"))
"""By how much `make soak` multiplies the counts of tests that are marked so."""


def soak(*values: Any) -> Any:
    """Arguments of a test that only `make soak` tries: a smoke of it is left in the suite."""
    return pytest.param(*values, marks=pytest.mark.soak)


STRATEGIES = ("fifo", "random", "pct", "delays", "pos", "surw")
PLANS = (("asyncio", "fifo"), *(("any", strategy) for strategy in STRATEGIES))
"""Every way in which a run can be scheduled: (order, strategy)."""


def run_of(
    main: Callable[..., Any], seed: int = 0, *, recording: bool = False, **changes: Any
) -> Run:
    """A run on a seeded tape, whatever comes of it: the error is in `Run.error`, not raised."""
    settings = Settings().with_changes(**changes)
    tape = Tape.seeded(seed, settings.on_tape())
    return execute(bind_main(main), tape, settings, recording=recording)


def again(main: Callable[..., Any], tape: Tape, **how: Any) -> Run:
    """A run on a tape that exists already; `how` goes to `execute`."""
    return execute(bind_main(main), tape, Settings.from_tape(tape.settings), **how)


def outcome(done: Run) -> tuple[str, str, str]:
    """What must be equal in two runs of one tape."""
    return done.trace.digest, repr(done.value), repr(done.error)
