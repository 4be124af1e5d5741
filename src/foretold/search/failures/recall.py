"""What decides a saved failure: known from its tape file, told by its run.

Finding it took many runs. Their result stands in the file as two steps, a value or a length of
time. It is true of the run that the file notes the digest of: if a replay is another run, nothing
is told. The lines of the two steps come from the replay itself, and from one run more for the
stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foretold.search.failures.examiner import step_of
from foretold.search.workers.warming import in_silence
from foretold.story.decision import DecidingStep, Decision, Pair
from foretold.story.places import with_telling_places
from foretold.tape import TapeFile
from foretold.tape.schedule import Key
from foretold.trace.events import CalledBack, Event, Resumed
from foretold.trace.record import Trace
from foretold.world.run import Run, execute
from foretold.world.settings import Settings


def recalled(
    file: TapeFile, done: Run, main: Callable[[Any], Any], settings: Settings
) -> Decision | None:
    """What the file says decides this run of `main`, which was made with `detail=True`."""
    note = file.decided
    if note is None or done.error is None or not file.digest or done.digest != file.digest:
        return None
    events = with_telling_places(list(done.trace.events))

    def again(trace: Trace) -> Run:
        with in_silence():
            return execute(main, file.tape, settings, trace=trace)

    pair = None if note.pair is None else _pair(events, note.pair, done.digest, again)
    expired = None if note.expired is None else _timeout_of(events, note.expired)
    return Decision(pair, note.values, note.times, expired, note.needs_faults, note.orders_tried)


def _pair(
    events: Sequence[Event], keys: tuple[Key, Key], digest: str, again: Callable[[Trace], Run]
) -> Pair | None:
    """None if the run does not make these steps in this order."""
    steps = (event for event in events if isinstance(event, Resumed | CalledBack))
    at = {event.key: event for event in steps if event.key in keys}
    if keys[0] not in at or next(iter(at)) != keys[0]:
        return None
    seen = again(Trace(detail=True, watched=keys))
    stacks = seen.trace.stacks if seen.digest == digest else {}
    first, second = (
        # Who is held to the very end never makes its step in this run.
        step_of(at[key], events, stacks) if key in at else DecidingStep(key, None, (), None)
        for key in keys
    )
    return Pair(first, second)


def _timeout_of(events: Sequence[Event], who: tuple[str, str]) -> CalledBack | None:
    expired = (each for each in events if isinstance(each, CalledBack) and each.is_timeout)
    return next((each for each in expired if (each.host, each.whose) == who), None)
