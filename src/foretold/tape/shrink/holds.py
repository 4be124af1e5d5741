"""Holds: many short ones become one long one, and those not needed go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from foretold.tape.schedule import CALLBACKS, ENDED, Hold, Schedule
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.tape import Tape

LONG_HOLDS_TRIED_MAX = 120
NAMES_TRIED_MAX = 12
_NUMBERED = re.compile(r"(.+?)-\d+")


def drop_holds(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """The fewest holds that still fail."""
    best = tape
    slows = list(tape.schedule.slows.values())

    def fails_with(holds: list[Hold]) -> bool:
        nonlocal best
        candidate = tape.derived(schedule=Schedule.of([*holds, *slows]))
        if still_fails(candidate):
            best = candidate
            return True
        return False

    if tape.schedule.holds:
        smallest_sublist(list(tape.schedule.holds.values()), fails_with)
    return best


def one_long_hold(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
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
    candidates.sort(key=lambda hold: crowd[_kind(hold.actor)] + crowd[_kind(hold.until_actor)])
    for long in candidates[:LONG_HOLDS_TRIED_MAX]:
        candidate = tape.derived(schedule=Schedule.of([long, *slows]))
        if still_fails(candidate):
            return candidate
    return tape


def _overtakers(holds: list[Hold], host: str) -> list[str]:
    named = (hold.until_actor for hold in holds if hold.host == host)
    return [name for name in dict.fromkeys(named) if name != CALLBACKS]


def _kind(actor: str) -> str:
    """Tasks of one coroutine function are of one kind: `worker`, `worker-2`, `worker-3`."""
    numbered = _NUMBERED.fullmatch(actor)
    return numbered[1] if numbered else actor


def _crowd(tape: Tape) -> Counter[str]:
    """How many actors there are of each kind. One of few says more than one of many."""
    named = {hold.actor for hold in tape.schedule.holds.values()}
    return Counter(_kind(name) for name in named.union(*tape.cast.values()))


def until_someone_ended(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """Say holds in better words: not smaller, but the same failure.

    "Until b had ended" says more than "until b had made its 6th step", let alone "until the 3rd
    callback had run"; and `b` says more than `worker-17`.
    """
    crowd = _crowd(tape)
    for key, hold in list(tape.schedule.holds.items()):
        names = [hold.until_actor, *tape.cast.get(hold.host, ())]
        others = [n for n in dict.fromkeys(names) if n not in (CALLBACKS, hold.actor)]
        if hold.until_step == ENDED:
            few = crowd[_kind(hold.until_actor)]
            others = [name for name in others if crowd[_kind(name)] < few]
        others.sort(key=lambda name: crowd[_kind(name)])
        for other in others[:NAMES_TRIED_MAX]:
            named = Hold(hold.host, hold.actor, hold.step, other, ENDED)
            holds = {**tape.schedule.holds, key: named}
            candidate = tape.derived(schedule=Schedule(holds, tape.schedule.slows))
            if still_fails(candidate):
                tape = candidate
                break
    return tape
