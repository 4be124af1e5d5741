"""The critical pair: the two steps whose swap turns the failure into success.

A failing run and a run that holds, as near to each other as two runs can be. For a hold the nearest
one is found by bisection: who was overtaken by thirty steps may be let go one step earlier, and one
earlier still, until the run holds. Between the two lies a single step, and those two swapped is
all that differs. Where no order but a moment is to blame (a late message, a slow step), the run
with the next smaller delay takes that part, and the first two steps that change places are named.
Where that is not known either, a step is looked for that need only come later, and bisection finds
the instant at which the run turns: two steps change places there, and nothing before them.

Nothing is concluded: every tape that is spoken of was run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

from foretold.errors import TimeUp
from foretold.kernel.waiting import is_library
from foretold.search.planning.allowance import Allowance
from foretold.story.decision import DecidingStep, Decision, Pair
from foretold.story.places import with_telling_places
from foretold.story.signature import Signature, signature_of
from foretold.story.story import failure_among
from foretold.tape import CALLBACKS, ENDED, WORKLOAD, Hold, Schedule, Slow, Tape
from foretold.tape.schedule import Key
from foretold.tape.shrink.edit import departures, with_values
from foretold.trace import Place
from foretold.trace.events import (
    CalledBack,
    Chose,
    Ended,
    Event,
    Executed,
    Late,
    Resumed,
    SlowStep,
    Stalled,
    Who,
)
from foretold.trace.record import Trace
from foretold.world.run import Run

T = TypeVar("T")
HOLDS_TRIED_MAX = 4
CHOICES_TRIED_MAX = 6
ORDERS_TRIED_MAX = 40
STEPS_TRIED_MAX = 3
DELAYS_TRIED_MAX, LAST_TRIED_MAX, NEIGHBOURS, BEHIND_NS = 100, 20, 12, 2_000
"""So many delays are tried: each step comes just behind one of so many that follow it."""
SWAPS_AMONG = 100
"""So many steps from the first difference on are looked at."""
_TIMES = ("net", "pace")
_FAULTS = "fault"

Watch = Callable[[Tape, Trace], Run]
"""Runs a tape with a trace."""


def what_decides(
    watch: Watch, failing: Run, wanted: Signature, allowance: Allowance
) -> Decision | None:
    """Look for the critical pair of a failing run that was made with `detail=True`.

    None if that takes longer than it may, or if there is nothing to say.
    """
    try:
        return _decision(_Judge(watch, wanted, allowance), failing)
    except _TooLong:
        return None


def _decision(judge: _Judge, failing: Run) -> Decision | None:
    tape = failing.tape
    if not departs(tape):
        pair, orders = _by_new_hold(judge, tape)
        pair = pair or _by_delay(judge, failing)
        if pair is None and not orders:
            return None  # nobody has changed places
        return Decision(pair, runs=judge.runs, orders_tried=0 if pair else orders)
    events = with_telling_places(list(failing.trace.events))
    pair, judge.error = None, failing.error
    for hold in list(tape.schedule.holds.values())[:HOLDS_TRIED_MAX]:
        pair = pair or _by_hold(judge, tape, hold, events)
    times = expired = None
    for nearest in _nearest_in_time(tape) if pair is None else ():
        done = judge.holds(nearest)
        if done is not None:
            pair = _by_time(judge, failing, done, events)
            lengths = (
                _lengths([*each.gone.unusual, *each.events]) for each in (failing.trace, done.trace)
            )
            differing = _first_differing(*lengths)
            times = None if differing is None else (differing[0][1], differing[1][1])
            expired = _expired_besides(events, done.trace.events)
            break
    if pair is not None:
        return Decision(pair, times=times, expired=expired, runs=judge.runs)
    values = _by_value(judge, tape, events) if times is None else None
    needs_faults = _needs_faults(judge, tape)
    if times is None and not needs_faults and (pair := _by_delay(judge, failing)) is not None:
        return Decision(pair, runs=judge.runs)
    return Decision(None, values, times, expired, needs_faults, runs=judge.runs)


def departs(tape: Tape) -> bool:
    """False for the calm run."""
    return bool(len(tape.schedule) or departures(tape))


class _TooLong(Exception):
    """No further run is allowed."""


class _Judge:
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
            raise _TooLong
        self.runs += 1
        done = self._watch(tape, Trace(detail=True, watched=watched))
        self._allowance.spend()
        if isinstance(done.error, TimeUp):
            raise _TooLong
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


# One hold


def _by_hold(judge: _Judge, tape: Tape, hold: Hold, events: Sequence[Event]) -> Pair | None:
    passed = _overtakers(hold, events)

    def until(number: int) -> Tape:
        """Let it go after so many of those that overtook it."""
        others = [each for each in tape.schedule if each.key != hold.key or isinstance(each, Slow)]
        if number:
            last = passed[number - 1]
            others.append(Hold(hold.host, hold.actor, hold.step, last.actor, last.step))
        return tape.derived(schedule=Schedule.of(others))

    low, high = 0, len(passed)
    if not high or judge.fails(until(low)) or not judge.fails(until(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge.fails(until(middle)) else (middle, high)
    # Who goes on only after the failure, goes on because the run ends.
    before = events[: judge.failed_at(events)]
    held = [event for event in before if isinstance(event, Resumed) and event.key == hold.key]
    swapped = until(low)
    if judge.holds(swapped) is None:
        return None  # it fails otherwise: no success to compare with
    first = passed[high - 1]
    stacks = judge.stacks(tape, first.key, hold.key)
    if held:
        second = step_of(held[0], events, stacks)
    else:  # held to the very end: only the other run shows where it would go on
        second = DecidingStep(
            hold.key, None, tuple(judge.stacks(swapped, hold.key).get(hold.key, ())), None
        )
    return Pair(step_of(first, events, stacks), second, swapped, until(high))


def _overtakers(hold: Hold, events: Sequence[Event]) -> list[Event]:
    """The steps between the last one of who was held and the one it was held before."""
    passed: list[Event] = []
    threads = {event.actor for event in events if _is_thread(event)}
    for event in events:
        if event.host != hold.host or not isinstance(event, Resumed | CalledBack):
            continue
        if event.actor == hold.actor:
            if event.step >= hold.step:
                break
            passed = []
        elif _is_thread(event) == (hold.actor in threads):
            passed.append(event)
    return passed


def _is_thread(event: Event) -> bool:
    return isinstance(event, Resumed) and event.is_thread


def step_of(event: Event, events: Sequence[Event], stacks: dict[Key, list[Place]]) -> DecidingStep:
    """One of the two as it is told: where it went on, and how far it came."""
    key = event.key
    later = events[next(n for n, each in enumerate(events) if each is event) + 1 :]
    to = next(
        (each for each in later if isinstance(each, Resumed | Ended) and each.who == event.who),
        None,
    )
    callback = event if isinstance(event, CalledBack) else None
    is_last = to is None and event.actor != CALLBACKS
    own = (each for each in later if isinstance(each, Resumed) and each.who == event.who)
    leads = next(
        (each.place for each in own if each.place and not is_library(each.place.file)), None
    )
    stack = tuple(stacks.get(key, ()))
    return DecidingStep(key, event.place, stack, to, callback, is_last, leads)


# A hold that helps


def _by_new_hold(judge: _Judge, tape: Tape) -> tuple[Pair | None, int]:
    """The calm run fails: is there somebody who need only wait for another? If not: in how many
    other orders it fails in the same way; no more than seems so, if one holds."""
    calm = tape.derived(settings={**tape.settings, "order": "any", "strategy": "fifo"})
    failing = judge.run(calm)
    if failing.error is None:
        return None, 0
    events = with_telling_places(list(failing.trace.events))
    orders, every = {_order(events)}, True
    for hold in list(_helpful_holds(events))[:ORDERS_TRIED_MAX]:
        done = judge.run(calm.derived(schedule=Schedule.of([hold])))
        if judge.is_success(done):
            every = False
            pair = _narrowed(judge, calm, hold, events, list(done.trace.events))
            if pair is not None:
                return pair, 0
        every = every and judge.is_failure(done)
        orders.add(_order(done.trace.events))
    return None, len(orders) - 1 if every else 0


def _order(events: Iterable[Event]) -> tuple[Key, ...]:
    """Who made which step when. A hold may change nothing: whoever was held alone goes on."""
    return tuple(event.key for event in events if isinstance(event, Resumed))


def _helpful_holds(events: Sequence[Event]) -> Iterator[Hold]:
    """Most of all: who comes second does not start until who came first has ended."""
    steps: dict[tuple[str, str], int] = {}
    for event in events:
        if isinstance(event, Resumed):
            steps[event.who] = event.step
    actors = list(steps)[1:]  # the first one is main
    for step in range(1, STEPS_TRIED_MAX + 1):
        for host, late in actors:
            for there, first in actors:
                if host == there and late != first and step <= steps[host, late]:
                    yield Hold(host, late, step, first, ENDED)


def _narrowed(
    judge: _Judge, calm: Tape, hold: Hold, fails: Sequence[Event], holds: Sequence[Event]
) -> Pair | None:
    """How far it has to wait: until one step of those which it lets pass."""
    passed = _overtakers(hold, holds)

    def until(number: int) -> Tape:
        last = passed[number - 1]
        waits = Hold(hold.host, hold.actor, hold.step, last.actor, last.step)
        return calm.derived(schedule=Schedule.of([waits] * bool(number)))

    low, high = 0, len(passed)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if judge.fails(until(middle)) else (low, middle)
    done = judge.holds(until(high)) if high else None
    if done is None or done.broken_holds or not judge.fails(until(low)):
        return None
    both = hold.key, passed[high - 1].key
    stacks = judge.stacks(calm, *both)
    at = {event.key: event for event in fails if isinstance(event, Resumed | CalledBack)}
    if any(key not in at for key in both):
        return None
    early, late = (step_of(at[key], fails, stacks) for key in both)
    return Pair(early, late, until(high), until(low))


# A step that comes later


def _by_delay(judge: _Judge, failing: Run) -> Pair | None:
    """By the smallest delay that helps. Of a database the statements say better who has met, of a
    blocked loop what has blocked it; and threads have an order of their own."""
    events = failing.trace.events
    is_other = any(isinstance(event, Executed | Stalled) or _is_thread(event) for event in events)
    if is_other or len(failing.tape.schedule) or failing.trace.gone.steps:
        return None
    pair = None
    with suppress(_TooLong):
        couples = sorted(_couples(failing), key=lambda both: both[1].time_ns - both[0].time_ns)
        pair = _first_that_turns(judge, failing, couples[:DELAYS_TRIED_MAX])
        if pair is not None:  # that it began too early says less than what it did at last
            two = {step.key[:2] for step in (pair.first, pair.second)}
            theirs = [both for both in couples if {each.who for each in both} == two]
            theirs.sort(key=lambda both: (both[1].time_ns, both[0].time_ns), reverse=True)
            pair = _first_that_turns(judge, failing, theirs[:LAST_TRIED_MAX]) or pair
    return pair


def _couples(failing: Run) -> list[tuple[Resumed, Resumed]]:
    """Steps of two tasks that are near to each other."""
    events = list(failing.trace.events)
    told = _told_apart(events[: causes_among(events, failing.error)]).values()
    made = [event for event in told if isinstance(event, Resumed)]
    return [
        (early, late)
        for number, early in enumerate(made)
        for late in made[number + 1 : number + 1 + NEIGHBOURS]
        if early.host == late.host and early.actor != late.actor
    ]


def _first_that_turns(
    judge: _Judge, failing: Run, couples: Iterable[tuple[Resumed, Resumed]]
) -> Pair | None:
    """The earlier step is made to come after the later one."""
    calm = {**failing.tape.settings, "order": "any", "strategy": "fifo"}
    tape = failing.tape.derived(settings=calm)
    for early, late in couples:
        delay_ns = late.time_ns - early.time_ns + BEHIND_NS
        both = _where_it_turns(judge, tape, early.key, delay_ns)
        found = both and _change_places(*both)
        if found and (pair := _pair_of(judge, failing, *found)) is not None:
            return pair
    return None


def _where_it_turns(judge: _Judge, tape: Tape, key: Key, delay_ns: int) -> tuple[Run, Run] | None:
    """Two runs that differ by a nanosecond of delay, the one that fails and the one that holds."""

    def made(ns: int) -> Run:
        later = tape.derived()
        later.delayed = key, ns
        return judge.run(later)

    low, high, fails, holds = 0, delay_ns, None, made(delay_ns)
    while judge.is_success(holds) and high - low > 1:
        middle = (low + high) // 2
        done = made(middle)
        if judge.is_success(done):
            high, holds = middle, done
        elif judge.is_failure(done):
            low, fails = middle, done
        else:
            return None
    return None if fails is None else (fails, holds)


_Sight = tuple[str, str, int, bool]
"""A step, or the timeout of a task: the how-manieth of it."""


def _told_apart(events: Iterable[Event]) -> dict[_Sight, Event]:
    """The steps of tasks that go through lines of the user's own, and their timeouts."""
    every = [event for event in events if isinstance(event, Resumed | CalledBack)]
    places = ((event.who, event.place) for event in every)
    users = {who for who, place in places if place is not None and not is_library(place.file)}
    found: dict[_Sight, Event] = {}
    times = Counter[Who]()
    for event in every:
        if isinstance(event, Resumed) and event.who in users:
            found[*event.key, False] = event
        elif isinstance(event, CalledBack) and (who := (event.host, event.whose)) in users:
            times[who] += 1
            found[*who, times[who], True] = event
    return found


def _change_places(fails: Run, holds: Run) -> tuple[_Sight, _Sight] | None:
    """The two that do, side by side, if all is the same before them."""
    here, there = (list(_told_apart(done.trace.events)) for done in (fails, holds))
    pairs = enumerate(zip(here, there, strict=False))
    at = next((number for number, (one, other) in pairs if one != other), len(here))
    first, second = here[at : at + 2], there[at : at + 2]
    return (first[0], first[1]) if first == second[::-1] and len(first) == 2 else None


def _pair_of(judge: _Judge, failing: Run, first: _Sight, second: _Sight) -> Pair | None:
    """The same two in the run that is told, if they come in this order there."""
    events = with_telling_places(list(failing.trace.events))
    known = _told_apart(events)
    order = [sight for sight in known if sight in (first, second)]
    if order != [first, second]:
        return None
    both = [known[sight] for sight in order]
    stacks = judge.stacks(failing.tape, *(each.key for each in both))
    early, late = (step_of(each, events, stacks) for each in both)
    return Pair(early, late)


# A moment


def _nearest_in_time(tape: Tape) -> Iterator[Tape]:
    """Tapes on which something takes a little less long."""
    for slow in list(tape.schedule.slows.values())[:CHOICES_TRIED_MAX]:
        others = [each for each in tape.schedule if each != slow]
        shorter = replace(slow, ns=slow.ns * 15 // 16)
        yield tape.derived(schedule=Schedule.of([*others, shorter]))
        yield tape.derived(schedule=Schedule.of(others))
    timed = [spot for spot in departures(tape) if spot[0].partition("/")[0] in _TIMES]
    for name, position in timed[:CHOICES_TRIED_MAX]:
        value = tape.choices[name][position].value
        yield with_values(tape, {(name, position): value - 1})


def _by_time(judge: _Judge, failing: Run, done: Run, events: Sequence[Event]) -> Pair | None:
    if failing.trace.gone.steps or done.trace.gone.steps:
        return None  # what came first is not known
    tape, holding = failing.tape, list(done.trace.events)
    causes = events[: causes_among(events, failing.error)]
    found = _first_swap(causes, holding[: _end_of_main(holding)])
    if found is None:
        return None
    first, second = found
    stacks = judge.stacks(tape, first.key, second.key)
    early, late = (step_of(each, events, stacks) for each in found)
    return Pair(early, late, done.tape, tape)


def causes_among(events: Sequence[Event], error: BaseException | None) -> int:
    """How many events there are up to what the failure follows from. Later steps do not decide it:
    the end of the run has cancelled them, or the timeout that the run fails by."""
    cut, culprit = failure_among(events, error)
    cut = cut if culprit is not None else _end_of_main(events)
    if isinstance(error, TimeoutError):
        expired = _timeouts(events[:cut])
        cut = events.index(expired[-1]) if expired else cut
    return cut


def _end_of_main(events: Sequence[Event]) -> int:
    """Then all others are cancelled."""
    ends = (n for n, each in enumerate(events, 1) if isinstance(each, Ended))
    main = events[0].who if events else None
    return next((n for n in ends if events[n - 1].who == main), len(events))


def _expired_besides(failing: Iterable[Event], holding: Iterable[Event]) -> CalledBack | None:
    """The first timeout in the run that fails of a task that has none in the other."""
    also = {(event.host, event.whose) for event in _timeouts(holding)}
    ours = (event for event in _timeouts(failing) if event.whose)
    return next((event for event in ours if (event.host, event.whose) not in also), None)


def _timeouts(events: Iterable[Event]) -> list[CalledBack]:
    return [event for event in events if isinstance(event, CalledBack) and event.is_timeout]


def _first_swap(failing: Sequence[Event], holding: Sequence[Event]) -> tuple[Event, Event] | None:
    """Two steps of one host that come in this order here, and in the other one there.

    The first of them; but those are better that stand in one function, as two requests do.
    """
    found: list[tuple[Event, Event]] = []
    for host in dict.fromkeys(event.host for event in failing):
        here, there = _steps_on(host, failing), _steps_on(host, holding)
        order = {event.key: n for n, event in enumerate(there)}
        common = [event for event in here if event.key in order]
        same = sum(
            1
            for _ in takewhile(
                lambda both: both[0].key == both[1].key, zip(common, there, strict=False)
            )
        )
        window = common[same : same + SWAPS_AMONG]
        found += [
            (mine, other)
            for number, mine in enumerate(window)
            for other in window[number + 1 :]
            if order[mine.key] > order[other.key]
        ]
    alike = (both for both in found if _function(both[0]) == _function(both[1]) is not None)
    return next(alike, None) or next(iter(found), None)


def _function(event: Event) -> tuple[str, str] | None:
    return (event.place.file, event.place.function) if event.place is not None else None


def _steps_on(host: str, events: Sequence[Event]) -> list[Event]:
    """The steps of the user's tasks and threads. Callbacks are numbered through, and tell nothing
    apart; and of asyncio's own tasks nobody knows what their order means."""
    return [
        event
        for event in events
        if event.host == host
        and isinstance(event, Resumed)
        and (event.place is None or not is_library(event.place.file))
    ]


# A fault


def _needs_faults(judge: _Judge, tape: Tape) -> bool:
    drawn = [spot for spot in departures(tape) if spot[0].partition("/")[0] == _FAULTS]
    return bool(drawn) and judge.holds(with_values(tape, dict.fromkeys(drawn, 0))) is not None


# A value


def _by_value(judge: _Judge, tape: Tape, events: Sequence[Event]) -> tuple[str, str] | None:
    """The value that decides, and the next smaller one, on which the run holds."""
    spots = [spot for spot in departures(tape) if spot[0] == WORKLOAD]
    for name, position in reversed(spots[-CHOICES_TRIED_MAX:]):
        value = tape.choices[name][position].value
        done = judge.holds(with_values(tape, {(name, position): value - 1}))
        if done is not None:
            differing = _first_differing(_chosen(events), _chosen(done.trace.events))
            if differing is not None:
                return differing
    return None


def _lengths(events: Iterable[Event]) -> list[tuple[tuple[str, str], int]]:
    """How long things took that the tape made long, and what it was."""
    return [
        ((event.source, event.target), event.took_ns)
        if isinstance(event, Late)
        else (event.who, event.ns)
        for event in events
        if isinstance(event, Late | SlowStep)
    ]


def _chosen(events: Iterable[Event]) -> list[str]:
    return [str(event) for event in events if isinstance(event, Chose)]


def _first_differing(here: list[T], there: list[T]) -> tuple[T, T] | None:
    pairs = zip(here, there, strict=False)
    return next(((a, b) for a, b in pairs if a != b), None)
