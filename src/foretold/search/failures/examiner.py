"""What the search for the critical pair asks of runs: how they end, which steps they make, and how
far these come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foretold.errors import TimeUp
from foretold.kernel.waiting import is_library
from foretold.search.planning.allowance import Allowance
from foretold.story.decision import DecidingStep
from foretold.story.signature import Signature, signature_of
from foretold.story.story import failure_among
from foretold.tape import CALLBACKS, Tape
from foretold.tape.schedule import Key
from foretold.trace import Place
from foretold.trace.events import CalledBack, Ended, Event, Resumed
from foretold.trace.record import Trace
from foretold.world.run import Run

Watch = Callable[[Tape, Trace], Run]
"""Runs a tape with a trace."""


class TooLong(Exception):
    """No further run is allowed."""


class Examiner:
    """Runs tapes, and says how they end."""

    def __init__(self, watch: Watch, wanted: Signature, allowance: Allowance) -> None:
        self._watch = watch
        self._wanted = wanted
        self._allowance = allowance
        self.runs = 0
        self.error: BaseException | None = None

    def failed_at(self, events: Sequence[Event]) -> int:
        """How many events there are up to the failure."""
        return failure_among(events, self.error)[0]

    def run(self, tape: Tape, watched: Sequence[Key] = ()) -> Run:
        if self._allowance.is_spent:
            raise TooLong
        self.runs += 1
        done = self._watch(tape, Trace(detail=True, watched=watched))
        self._allowance.spend()
        if isinstance(done.error, TimeUp):
            raise TooLong
        return done

    def fails(self, tape: Tape) -> bool:
        done = self.run(tape)
        return self.is_failure(done) and not done.broken_holds

    def is_failure(self, done: Run) -> bool:
        """Whether it is the failure that is looked into."""
        return done.error is not None and signature_of(done.error) == self._wanted

    def holds(self, tape: Tape) -> Run | None:
        done = self.run(tape)
        return done if self.is_success(done) else None

    @staticmethod
    def is_success(done: Run) -> bool:
        return done.error is None and not done.discarded

    def stacks(self, tape: Tape, *keys: Key) -> dict[Key, list[Place]]:
        return self.run(tape, keys).trace.stacks


def is_thread(event: Event) -> bool:
    """Whether a thread makes this step, and no task."""
    return isinstance(event, Resumed) and event.is_thread


def step_of(event: Event, events: Sequence[Event], stacks: dict[Key, list[Place]]) -> DecidingStep:
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


def causes_among(events: Sequence[Event], error: BaseException | None) -> int:
    """How many events there are up to what the failure follows from. Later steps do not decide it:
    the end of the run has cancelled them, or the timeout that the run fails by."""
    cut, culprit = failure_among(events, error)
    cut = cut if culprit is not None else end_of_main(events)
    if isinstance(error, TimeoutError):
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
