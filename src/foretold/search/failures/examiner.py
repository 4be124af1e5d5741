"""What the search for the critical pair asks of runs: how they end, which steps they make, and how
far these come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretold.errors import TimeUp, WorkerDied
from foretold.kernel.waiting import is_library
from foretold.search.planning.allowance import Allowance
from foretold.story.decision import DecidingStep
from foretold.story.signature import Signature, signature_of
from foretold.story.story import end_among
from foretold.tape import CALLBACKS, Tape
from foretold.tape.schedule import Key
from foretold.trace import Place, TaskOutcome, raised
from foretold.trace.events import CalledBack, Ended, Event, Resumed
from foretold.trace.record import Gone, Trace
from foretold.world.run import Run, execute
from foretold.world.settings import Settings


@dataclass(slots=True)
class Seen:
    """What is looked at of a run. Another process may have made it."""

    events: list[Event]
    gone: Gone
    stacks: Mapping[Key, list[Place]]
    signature: Signature | None
    """Of its failure."""
    outcome: TaskOutcome | None
    """How a task ends that raises that."""
    is_timeout: bool
    is_cut: bool
    """The time of the search was up."""
    discarded: bool
    broken_holds: int


def seen_of(done: Run) -> Seen:
    """Of a run that was made in detail."""
    error, trace = done.error, done.trace
    return Seen(
        list(trace.events),
        trace.gone,
        trace.stacks,
        None if error is None else signature_of(error),
        None if error is None else raised(error),
        isinstance(error, TimeoutError),
        isinstance(error, TimeUp),
        bool(done.discarded),
        done.broken_holds,
    )


def look(
    main: Callable[[Any], Any], tape: Tape, settings: Settings, watched: Sequence[Key] = ()
) -> Seen:
    """Run a tape, and keep the stacks of these steps."""
    return seen_of(execute(main, tape, settings, trace=Trace(detail=True, watched=watched)))


Watch = Callable[[Tape, Sequence[Key]], Seen]
"""Runs a tape, and keeps the stacks of these steps."""


class TooLong(Exception):
    """No further run is allowed."""


class Examiner:
    """Runs tapes, and says how they end."""

    def __init__(self, watch: Watch, wanted: Signature, allowance: Allowance) -> None:
        self._watch = watch
        self._wanted = wanted
        self._allowance = allowance
        self.runs = 0

    def run(self, tape: Tape, watched: Sequence[Key] = ()) -> Seen:
        if self._allowance.is_spent:
            raise TooLong
        self.runs += 1
        try:
            done = self._watch(tape, watched)
        except (TimeUp, WorkerDied):
            raise TooLong from None
        self._allowance.spend()
        if done.is_cut:
            raise TooLong
        return done

    def fails(self, tape: Tape) -> bool:
        done = self.run(tape)
        return self.is_failure(done) and not done.broken_holds

    def is_failure(self, done: Seen) -> bool:
        """Whether it is the failure that is looked into."""
        return done.signature == self._wanted

    def holds(self, tape: Tape) -> Seen | None:
        done = self.run(tape)
        return done if self.is_success(done) else None

    @staticmethod
    def is_success(done: Seen) -> bool:
        return done.signature is None and not done.discarded

    def stacks(self, tape: Tape, *keys: Key) -> Mapping[Key, list[Place]]:
        return self.run(tape, keys).stacks


def is_thread(event: Event) -> bool:
    """Whether a thread makes this step, and no task."""
    return isinstance(event, Resumed) and event.is_thread


def step_of(
    event: Event, events: Sequence[Event], stacks: Mapping[Key, list[Place]]
) -> DecidingStep:
    """One of the two as it is told: where it went on, and how far it came."""
    key = event.key
    later = events[next(n for n, each in enumerate(events) if each is event) + 1 :]
    to = _came_to(event, later)
    callback = event if isinstance(event, CalledBack) else None
    is_last = to is None and event.actor != CALLBACKS
    own = (each for each in later if isinstance(each, Resumed) and each.who == event.who)
    leads = next(
        (each.place for each in own if each.place and not is_library(each.place.file)), None
    )
    stack = tuple(stacks.get(key, ()))
    return DecidingStep(key, event.place, stack, to, callback, is_last, leads)


def _came_to(event: Event, later: Iterable[Event]) -> Resumed | Ended | None:
    """What the same actor did next. Steps of a thread in a row at one line, where it takes the
    locks of a library, are one."""
    to = None
    for each in later:
        if isinstance(each, Resumed | Ended) and each.who == event.who:
            to = each
            if not (is_thread(event) and isinstance(each, Resumed) and each.place == event.place):
                break
        elif to is not None and isinstance(each, Resumed):
            break
    return to


def failed_at(failing: Seen) -> int:
    """How many events there are up to the failure."""
    return end_among(failing.events, failing.outcome)[0]


def causes_among(failing: Seen) -> int:
    """How many events there are up to what the failure follows from. Later steps do not decide it:
    the end of the run has cancelled them, or the timeout that the run fails by."""
    events = failing.events
    cut, culprit = end_among(events, failing.outcome)
    cut = cut if culprit is not None else end_of_main(events)
    if failing.is_timeout:
        expired = timeouts(events[:cut])
        cut = events.index(expired[-1]) if expired else cut
    return cut


def end_of_main(events: Sequence[Event]) -> int:
    """Then all others are cancelled."""
    ends = (n for n, each in enumerate(events, 1) if isinstance(each, Ended))
    main = events[0].who if events else None
    return next((n for n in ends if events[n - 1].who == main), len(events))


def timeouts(events: Iterable[Event]) -> list[CalledBack]:
    """Those that have expired."""
    return [event for event in events if isinstance(event, CalledBack) and event.is_timeout]
