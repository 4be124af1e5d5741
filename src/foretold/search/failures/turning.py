"""The instant at which a run turns from failure to success, and the two steps that change places
there.

One step comes later, or takes less long, until the run holds. A bisection down to a nanosecond
gives two runs that are the same up to two steps, which stand side by side and come the other way
round. If more differs than that, nobody is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from foretold.kernel.waiting import is_library
from foretold.search.failures.examiner import (
    Examiner,
    Seen,
    TooLong,
    causes_among,
    is_thread,
    step_of,
)
from foretold.story.decision import Pair
from foretold.story.places import with_telling_places
from foretold.tape import Schedule, Tape
from foretold.tape.schedule import Key
from foretold.trace.events import CalledBack, Event, Executed, Resumed, Stalled, Who

DELAYS_TRIED_MAX, LAST_TRIED_MAX, NEIGHBOURS, BEHIND_NS = 100, 20, 12, 2_000
"""So many delays are tried: each step comes just behind one of so many that follow it."""


# A step that comes later


def by_delay(judge: Examiner, tape: Tape, failing: Seen) -> Pair | None:
    """By the smallest delay that helps. Of a database the statements say better who has met, of a
    blocked loop what has blocked it; and threads have an order of their own."""
    events = failing.events
    is_other = any(isinstance(event, Executed | Stalled) or is_thread(event) for event in events)
    if is_other or not tape.scheduled_by_key or len(tape.schedule) or failing.gone.steps:
        return None
    pair = None
    with suppress(TooLong):
        couples = sorted(_couples(failing), key=lambda both: both[1].time_ns - both[0].time_ns)
        pair = _first_that_turns(judge, tape, failing, couples[:DELAYS_TRIED_MAX])
        if pair is not None:  # that it began too early says less than what it did at last
            two = {step.key[:2] for step in (pair.first, pair.second)}
            theirs = [both for both in couples if {each.who for each in both} == two]
            theirs.sort(key=lambda both: (both[1].time_ns, both[0].time_ns), reverse=True)
            pair = _first_that_turns(judge, tape, failing, theirs[:LAST_TRIED_MAX]) or pair
    return pair


def _couples(failing: Seen) -> list[tuple[Resumed, Resumed]]:
    """Steps of two tasks that are near to each other; those in packages alone are no one's race."""
    events = failing.events
    made, leads = list[Resumed](), set[Who]()
    for event in reversed(events[: causes_among(failing)]):
        if isinstance(event, Resumed):
            is_own = event.place is not None and not is_library(event.place.file)
            if is_own or event.who in leads:
                made.append(event)
            (leads.add if is_own else leads.discard)(event.who)
    made.reverse()
    return [
        (early, late)
        for number, early in enumerate(made)
        for late in made[number + 1 : number + 1 + NEIGHBOURS]
        if early.host == late.host and early.actor != late.actor
    ]


def _first_that_turns(
    judge: Examiner, tape: Tape, failing: Seen, couples: Iterable[tuple[Resumed, Resumed]]
) -> Pair | None:
    """The earlier step is made to come after the later one."""
    calm = tape.derived(settings={**tape.settings, "order": "any", "strategy": "fifo"})
    for early, late in couples:

        def later(ns: int, key: Key = early.key) -> Tape:
            delayed = calm.derived()
            delayed.delayed = key, ns
            return delayed

        long_ns = late.time_ns - early.time_ns + BEHIND_NS
        both = _where_it_turns(judge, later, 0, long_ns)
        found = both and change_places(*both)
        if found and (pair := pair_of(judge, tape, failing, *found)) is not None:
            return pair
    return None


def _where_it_turns(
    judge: Examiner, tape_of: Callable[[int], Tape], fails_at: int, holds_at: int
) -> tuple[Seen, Seen] | None:
    """Two runs that differ by a nanosecond, the one that fails and the one that holds."""
    fails, holds = None, judge.run(tape_of(holds_at))
    while judge.is_success(holds) and abs(fails_at - holds_at) > 1:
        middle = (fails_at + holds_at) // 2
        done = judge.run(tape_of(middle))
        if judge.is_success(done):
            holds_at, holds = middle, done
        elif judge.is_failure(done):
            fails_at, fails = middle, done
        else:
            return None
    return None if fails is None else (fails, holds)


_Sight = tuple[str, str, int, bool]
"""A step, or the timeout of a task: the how-manieth of it."""


def _users(events: Iterable[Event]) -> set[Who]:
    """Tasks that go through lines of the user's own."""
    places = ((event.who, event.place) for event in events if isinstance(event, Resumed))
    return {who for who, place in places if place is not None and not is_library(place.file)}


def _told_apart(events: Iterable[Event], users: Collection[Who]) -> dict[_Sight, Event]:
    """The steps of these tasks, and their timeouts."""
    found: dict[_Sight, Event] = {}
    times = Counter[Who]()
    for event in events:
        if isinstance(event, Resumed) and event.who in users:
            found[*event.key, False] = event
        elif isinstance(event, CalledBack) and (who := (event.host, event.whose)) in users:
            times[who] += 1
            found[*who, times[who], True] = event
    return found


def change_places(fails: Seen, holds: Seen) -> tuple[_Sight, _Sight] | None:
    """The two that do, side by side, if all is the same before them. A thread may make several
    steps in a row, which are told as one."""
    runs = fails.events, holds.events
    users = set().union(*map(_users, runs))  # a task that is refused may end in a package
    here, there = (list(_told_apart(events, users)) for events in runs)
    both = enumerate(zip(here, there, strict=False))
    at = next((number for number, (one, other) in both if one != other), None)
    if at is None or there[at] not in here:
        return None
    passed = here[at : here.index(there[at])]
    is_one = len(passed) == 1 or len({(sight[:2], sight[3]) for sight in passed}) == 1
    return (passed[0], there[at]) if is_one and passed[0] in there else None


def pair_of(
    judge: Examiner, tape: Tape, failing: Seen, first: _Sight, second: _Sight
) -> Pair | None:
    """The same two in the run that is told, if they come in this order there."""
    events = with_telling_places(failing.events)
    known = _told_apart(events, _users(events))
    order = [sight for sight in known if sight in (first, second)]
    if order != [first, second]:
        return None
    both = [known[sight] for sight in order]
    stacks = judge.stacks(tape, *(each.key for each in both))
    early, late = (step_of(each, events, stacks) for each in both)
    return Pair(early, late)


def nearer(judge: Examiner, fails: Tape, holds: Tape) -> tuple[Seen, Seen] | None:
    """If the two tapes differ in how long one step takes: as near as can be."""
    changed = [slow for slow in fails.schedule.slows.values() if slow not in holds.schedule]
    if len(changed) != 1:
        return None
    (slow,) = changed
    others = [each for each in fails.schedule if each != slow]
    shorter = holds.schedule.slows.get(slow.key)

    def with_slow(ns: int) -> Tape:
        return fails.derived(schedule=Schedule.of([*others, replace(slow, ns=ns)]))

    return _where_it_turns(judge, with_slow, slow.ns, 0 if shorter is None else shorter.ns)
