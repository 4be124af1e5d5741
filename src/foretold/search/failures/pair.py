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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

from foretold.kernel.waiting import is_library
from foretold.search.failures.examiner import (
    Examiner,
    Seen,
    TooLong,
    Watch,
    causes_among,
    end_of_main,
    failed_at,
    is_thread,
    step_of,
    timeouts,
)
from foretold.search.failures.turning import by_delay, change_places, nearer, pair_of
from foretold.search.planning.allowance import Allowance
from foretold.story.decision import DecidingStep, Decision, Pair
from foretold.story.places import with_telling_places
from foretold.story.signature import Signature
from foretold.tape import ENDED, WORKLOAD, Hold, Schedule, Slow, Tape
from foretold.tape.schedule import Key
from foretold.tape.shrink.edit import departures, with_values
from foretold.trace.events import CalledBack, Chose, Event, Late, Resumed, SlowStep

T = TypeVar("T")
HOLDS_TRIED_MAX = 4
CHOICES_TRIED_MAX = 6
ORDERS_TRIED_MAX = 40
STEPS_TRIED_MAX = 3
SWAPS_AMONG = 100
"""So many steps from the first difference on are looked at."""
_TIMES = ("net", "pace")
_FAULTS = "fault"


def what_decides(
    watch: Watch,
    tape: Tape,
    wanted: Signature,
    allowance: Allowance,
    failing: Seen | None = None,
) -> Decision | None:
    """Look for the critical pair of the run on this tape, which fails. `failing` is that run, if it
    has been made in detail already.

    None if that takes longer than it may, or if there is nothing to say.
    """
    judge = Examiner(watch, wanted, allowance)
    try:
        failing = failing or judge.run(tape)
        return _decision(judge, tape, failing) if judge.is_failure(failing) else None
    except TooLong:
        return None


def _decision(judge: Examiner, tape: Tape, failing: Seen) -> Decision | None:
    if not departs(tape):
        pair, orders = _by_new_hold(judge, tape)
        pair = pair or by_delay(judge, tape, failing)
        if pair is None and not orders:
            return None  # nobody has changed places
        return Decision(pair, runs=judge.runs, orders_tried=0 if pair else orders)
    failing = replace(failing, events=with_telling_places(failing.events))
    holds = list(tape.schedule.holds.values())[:HOLDS_TRIED_MAX]
    found = [Decision(pair) for hold in holds if (pair := _by_hold(judge, tape, hold, failing))]
    if tape.schedule.slows or not found:
        timed = _by_times(judge, tape, failing)
        found += [timed] if timed is not None and (timed.pair or not found) else []
    if found:
        # What comes last is nearest to the failure: without it, all that is before does no harm.
        places = {event.key: number for number, event in enumerate(failing.events)}
        last = max(found, key=lambda each: max((places.get(k, -1) for k in each.steps), default=-1))
        if last.pair is not None:
            return replace(last, runs=judge.runs)
    times, expired = (found[0].times, found[0].expired) if found else (None, None)
    values = _by_value(judge, tape, failing.events) if times is None else None
    needs_faults = _needs_faults(judge, tape)
    if times is None and not needs_faults and (pair := by_delay(judge, tape, failing)) is not None:
        return Decision(pair, runs=judge.runs)
    return Decision(None, values, times, expired, needs_faults, runs=judge.runs)


def departs(tape: Tape) -> bool:
    """False for the calm run."""
    return bool(len(tape.schedule) or departures(tape))


# One hold


def _by_hold(judge: Examiner, tape: Tape, hold: Hold, failing: Seen) -> Pair | None:
    events = failing.events
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
    before = events[: failed_at(failing)]
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
    threads = {event.actor for event in events if is_thread(event)}
    for event in events:
        if event.host != hold.host or not isinstance(event, Resumed | CalledBack):
            continue
        if event.actor == hold.actor:
            if event.step >= hold.step:
                break
            passed = []
        elif is_thread(event) == (hold.actor in threads):
            passed.append(event)
    return passed


# A hold that helps


def _by_new_hold(judge: Examiner, tape: Tape) -> tuple[Pair | None, int]:
    """The calm run fails: is there somebody who need only wait for another? If not: in how many
    other orders it fails in the same way; no more than seems so, if one holds."""
    calm = tape.derived(settings={**tape.settings, "order": "any", "strategy": "fifo"})
    failing = judge.run(calm)
    if failing.signature is None:
        return None, 0
    events = with_telling_places(failing.events)
    orders, every = {_order(events)}, True
    for hold in list(_helpful_holds(events))[:ORDERS_TRIED_MAX]:
        done = judge.run(calm.derived(schedule=Schedule.of([hold])))
        if judge.is_success(done):
            every = False
            pair = _narrowed(judge, calm, hold, events, done.events)
            if pair is not None:
                return pair, 0
        every = every and judge.is_failure(done)
        orders.add(_order(done.events))
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
    judge: Examiner, calm: Tape, hold: Hold, fails: Sequence[Event], holds: Sequence[Event]
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


def _by_times(judge: Examiner, tape: Tape, failing: Seen) -> Decision | None:
    for nearest in _nearest_in_time(tape):
        done = judge.holds(nearest)
        if done is None:
            continue
        pair = None
        both = nearer(judge, tape, nearest)
        if both is not None and (found := change_places(*both)) is not None:
            pair = pair_of(judge, tape, failing, *found)
        if pair is not None and both is not None:
            done = both[1]
        else:
            pair = _by_time(judge, tape, failing, nearest, done)
        ran = (failing, done)
        lengths = [_lengths([*each.gone.unusual, *each.events]) for each in ran]
        differing = _first_differing(*lengths)
        times = None if differing is None else (differing[0][1], differing[1][1])
        return Decision(pair, times=times, expired=_expired_besides(failing.events, done.events))
    return None


def _by_time(judge: Examiner, tape: Tape, failing: Seen, nearest: Tape, done: Seen) -> Pair | None:
    if failing.gone.steps or done.gone.steps:
        return None  # what came first is not known
    events, holding = failing.events, done.events
    causes = events[: causes_among(failing)]
    found = _first_swap(causes, holding[: end_of_main(holding)])
    if found is None:
        return None
    first, second = found
    stacks = judge.stacks(tape, first.key, second.key)
    early, late = (step_of(each, events, stacks) for each in found)
    return Pair(early, late, nearest, tape)


def _expired_besides(failing: Iterable[Event], holding: Iterable[Event]) -> CalledBack | None:
    """The first timeout in the run that fails of a task that has none in the other."""
    also = {(event.host, event.whose) for event in timeouts(holding)}
    ours = (event for event in timeouts(failing) if event.whose)
    return next((event for event in ours if (event.host, event.whose) not in also), None)


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


def _needs_faults(judge: Examiner, tape: Tape) -> bool:
    drawn = [spot for spot in departures(tape) if spot[0].partition("/")[0] == _FAULTS]
    return bool(drawn) and judge.holds(with_values(tape, dict.fromkeys(drawn, 0))) is not None


# A value


def _by_value(judge: Examiner, tape: Tape, events: Sequence[Event]) -> tuple[str, str] | None:
    """The value that decides, and the next smaller one, on which the run holds."""
    spots = [spot for spot in departures(tape) if spot[0] == WORKLOAD]
    for name, position in reversed(spots[-CHOICES_TRIED_MAX:]):
        value = tape.choices[name][position].value
        done = judge.holds(with_values(tape, {(name, position): value - 1}))
        if done is not None:
            differing = _first_differing(_chosen(events), _chosen(done.events))
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
