"""Holds: many short ones become one long one, and those not needed go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from foretold.tape.schedule import CALLBACKS, ENDED, Hold, Key, Schedule, kind_of
from foretold.tape.shrink.choices import lowest
from foretold.tape.shrink.edit import StillFails
from foretold.tape.shrink.minimise import fewest
from foretold.tape.tape import Tape

LONG_HOLDS_TRIED_MAX = 120
NAMES_TRIED_MAX = 12
FEW_HOLDS = 6
FEW = 2
"""Of so many of one kind each can be told from the others."""
ELSEWHERE_NAMES_MAX = 3
STEPS_TRIED_MAX = 6
FIRST_STEPS = 3


def drop_holds(tape: Tape, still_fails: StillFails) -> Tape:
    """The fewest holds that still fail."""
    holds, slows = list(tape.schedule.holds.values()), tape.schedule.slows.values()

    def with_only(kept: list[Hold]) -> Tape:
        return tape.derived(schedule=Schedule.of([*kept, *slows]))

    return fewest(tape, holds, with_only, still_fails)


def one_long_hold(tape: Tape, still_fails: StillFails) -> Tape:
    """Most ordering bugs are one sentence: "hold A there until B has ended". Try those first.

    A random walk writes the same thing as dozens of short holds that no deletion can join.
    """
    holds = list(tape.schedule.holds.values())
    if len(holds) < 2:
        return tape
    slows = list(tape.schedule.slows.values())
    candidates = [
        Hold(hold.host, hold.actor, hold.step, other, ENDED)
        for hold in holds
        for other in _overtakers(holds, hold.host)
        if other != hold.actor
    ]
    crowd = _crowd(tape)
    candidates.sort(key=lambda hold: crowd[kind_of(hold.actor)] + crowd[kind_of(hold.until_actor)])
    many = {kind for kind, size in crowd.items() if size > FEW}
    told = [h for h in candidates if many.isdisjoint((kind_of(h.actor), kind_of(h.until_actor)))]
    elsewhere = [replace(h, step=step) for h in told for step in range(1, FIRST_STEPS + 1)]
    candidates = list(dict.fromkeys([*told, *elsewhere, *candidates]))
    for long in candidates[:LONG_HOLDS_TRIED_MAX]:
        candidate = tape.derived(schedule=Schedule.of([long, *slows]))
        if still_fails(candidate):
            return candidate
    return tape


def two_into_one(tape: Tape, still_fails: StillFails) -> Tape:
    """Two short holds that prepare what one long one does at once, or one where nobody ends."""
    holds = list(tape.schedule.holds.values())
    slows = list(tape.schedule.slows.values())
    if not 2 <= len(holds) <= FEW_HOLDS:
        return tape
    tried = 0
    for long in _long_holds(tape, holds):
        for first, second in combinations(holds, 2):
            rest = [hold for hold in holds if hold not in (first, second)]
            if long.key in {hold.key for hold in rest}:
                continue
            candidate = tape.derived(schedule=Schedule.of([*rest, long, *slows]))
            if still_fails(candidate):
                return candidate
            tried += 1
            if tried >= LONG_HOLDS_TRIED_MAX:
                return tape
    if len(holds) > 2:
        return tape
    shorts = (tape.derived(schedule=Schedule.of([one, *slows])) for one in _short_holds(holds))
    return next((candidate for candidate in shorts if still_fails(candidate)), tape)


def _long_holds(tape: Tape, holds: list[Hold]) -> Iterator[Hold]:
    """Everybody who is held already, before one of its first steps, until another has ended."""
    crowd = _crowd(tape)
    steps = range(1, max(hold.step for hold in holds) + 2)
    for host, actor in dict.fromkeys((hold.host, hold.actor) for hold in holds):
        named = [*_overtakers(holds, host), *tape.cast.get(host, ())]
        others = [name for name in dict.fromkeys(named) if name not in (actor, CALLBACKS)]
        others.sort(key=lambda name: crowd[kind_of(name)])
        for step in steps[:STEPS_TRIED_MAX]:
            for other in others[:ELSEWHERE_NAMES_MAX]:
                yield Hold(host, actor, step, other, ENDED)


def _short_holds(holds: list[Hold]) -> Iterator[Hold]:
    """Where nobody ends, as in a deadlock: those who are held, until one of the first steps of
    another of them."""
    actors = list(dict.fromkeys((hold.host, hold.actor) for hold in holds))
    steps = range(1, max(max(hold.step, hold.until_step) for hold in holds) + 1)[:STEPS_TRIED_MAX]
    for host, actor in actors:
        for other in [name for there, name in actors if there == host and name != actor]:
            for step in steps:
                yield from (Hold(host, actor, step, other, until) for until in steps)


def _overtakers(holds: list[Hold], host: str) -> list[str]:
    named = (hold.until_actor for hold in holds if hold.host == host)
    return [name for name in dict.fromkeys(named) if name != CALLBACKS]


def _crowd(tape: Tape) -> Counter[str]:
    """How many actors there are of each kind. One of few says more than one of many."""
    named = {hold.actor for hold in tape.schedule.holds.values()}
    return Counter(kind_of(name) for name in named.union(*tape.cast.values()))


def until_someone_ended(tape: Tape, still_fails: StillFails) -> Tape:
    """Say holds in better words: not smaller, but the same failure.

    "Until b had ended" says more than "until b had made its 6th step", let alone "until the 3rd
    callback had run"; and `b` says more than `worker-17`. For that it may be held elsewhere: who
    did not start until a crowd had moved on may as well have been held between read and write.
    """
    crowd = _crowd(tape)
    for key, hold in list(tape.schedule.holds.items()):
        for named in _better_words(tape, hold, crowd):
            holds = {k: h for k, h in tape.schedule.holds.items() if k != key}
            if named.key in holds:
                continue
            candidate = tape.derived(
                schedule=Schedule({**holds, named.key: named}, tape.schedule.slows)
            )
            if still_fails(candidate):
                tape = candidate
                break
        else:
            tape = _shorter(tape, key, still_fails)
    return tape


def _shorter(tape: Tape, key: Key, still_fails: StillFails) -> Tape:
    """Until an earlier step of the same one, if nobody's end will do."""
    hold = tape.schedule.holds[key]

    def candidate(until_step: int) -> Tape:
        holds = {**tape.schedule.holds, key: replace(hold, until_step=until_step)}
        return tape.derived(schedule=Schedule(holds, tape.schedule.slows))

    return lowest(tape, hold.until_step, candidate, still_fails)


def _better_words(tape: Tape, hold: Hold, crowd: Counter[str]) -> Iterator[Hold]:
    """Holds that may stand for this one, each of which says more."""
    few = crowd[kind_of(hold.until_actor)]
    names = [hold.until_actor, *tape.cast.get(hold.host, ())]
    others = [n for n in dict.fromkeys(names) if n not in (CALLBACKS, hold.actor)]
    if hold.until_step == ENDED:
        others = [name for name in others if crowd[kind_of(name)] < few]
    others.sort(key=lambda name: crowd[kind_of(name)])
    telling = sum(crowd[kind_of(name)] <= FEW for name in others)
    for other in others[: min(telling, NAMES_TRIED_MAX)]:
        yield Hold(hold.host, hold.actor, hold.step, other, ENDED)
    if hold.until_actor == CALLBACKS or few > FEW:
        for other in others[: min(telling, ELSEWHERE_NAMES_MAX)]:
            for step in range(1, STEPS_TRIED_MAX + 1):
                if step != hold.step:
                    yield Hold(hold.host, hold.actor, step, other, ENDED)
    for other in others[telling:NAMES_TRIED_MAX]:
        yield Hold(hold.host, hold.actor, hold.step, other, ENDED)
