"""What `Outcome.raise_failure` raises: the user's exception, as a simulated test would show it.

The story is a note on it, our frames are taken out of its traceback, and the last line says how to
replay it. Importing this module is enough.
"""

from __future__ import annotations

from foretold.pytest_support.tidy import tidy
from foretold.search.explore import RUNS_TO_THE_END
from foretold.search.failures.failure import Failure, raise_as


def _prepared(found: Failure, runs: int) -> BaseException:
    from foretold.report.text import failure_note, replay_arguments

    if found.saved_as is None:
        command = "foretold.replay(main, outcome.failure.tape)  # in Python"
    elif found.target:
        command = f"foretold replay {replay_arguments(found, found.target)}"
    else:
        command = f"foretold.replay(main, {str(found.saved_as)!r})  # in Python"
    runs = found.run if runs == RUNS_TO_THE_END else runs
    note = failure_note(found, runs=runs, command=command)
    if note not in getattr(found.exception, "__notes__", ()):
        found.exception.add_note(note)
    return tidy(found.exception, None)


raise_as(_prepared)
