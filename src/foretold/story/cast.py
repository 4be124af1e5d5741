"""The cast of a story: which of a run's tasks are shown, and how the others are summed up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from foretold.kernel.waiting import is_library
from foretold.story.database.statements import asked_text, visits_of
from foretold.story.moments import Moment
from foretold.story.words import count
from foretold.tape import CALLBACKS, Schedule
from foretold.trace import RAISED
from foretold.trace.events import (
    WORLD,
    Called,
    CalledBack,
    Ended,
    Event,
    Made,
    Request,
    Resumed,
    Who,
)
from foretold.world.world import DEFAULT_HOST

ROOM_LINES = 24
"""As long as a story is no longer than this, more of the tasks are shown."""
ALIKE_MAX = 3
"""Of tasks that are more than so many of one kind, none is shown unless it matters."""

CALLS_MAX = 8
"""Of more calls of rules than so many, none is shown unless it matters."""
EXPIRED_MAX = 8
"""If the timeouts of more tasks than so many expire, that alone shows none of them."""
_MAKERS_MAX = 20
_FEW_AND_MET, _FEW, _MET, _NEVER = range(4)
_INTERNAL = (f"{os.sep}asyncio{os.sep}", f"{os.sep}foretold{os.sep}")


class Cast:
    """Who is in the story."""

    def __init__(
        self,
        events: Sequence[Event],
        schedule: Schedule,
        culprit: Who | None,
        *,
        is_conducted: bool = False,
    ) -> None:
        self._places = _places(events)
        self._order = {who: number for number, who in enumerate(self._places)}
        self._kinds = Counter(map(_kind, self._places))
        self._hosts = {event.host for event in events}
        self._visits = visits_of(events)
        self._makers = _makers(events)
        self._calls_by = {event.who: event.call for event in events if isinstance(event, Called)}
        self._is_conducted = is_conducted
        self.main = _main_of(events)
        self.shown: set[Who] = {who for who in (self.main, culprit) if who is not None}
        for hold in schedule.holds.values():
            self.shown |= {(hold.host, hold.actor), (hold.host, hold.until_actor)}
        self.shown |= {(slow.host, slow.actor) for slow in schedule.slows.values()}
        self._held = {(hold.host, hold.actor) for hold in schedule.holds.values()}
        self.shown |= {
            event.who
            for event in events
            if isinstance(event, Ended) and event.outcome.how == RAISED
        }
        expired = {(e.host, e.whose) for e in events if isinstance(e, CalledBack) and e.whose}
        self.shown |= set(filter(self._is_users, expired)) if len(expired) <= EXPIRED_MAX else set()
        self._calls = self._found_calls(events) if is_conducted else set()
        self.shown |= self._calls

    def _found_calls(self, events: Sequence[Event]) -> set[Who]:
        """The tasks of the calls of rules, which the conductor has made. None where requests are
        told: they say more."""
        calls = {who for who, maker in self._makers.items() if maker == self.main}
        are_told = len(calls) <= CALLS_MAX and not any(isinstance(e, Request) for e in events)
        return calls if are_told else set()

    def first_call(self, events: Sequence[Event]) -> int:
        """The index of the first step of a call; what comes before is preparation. 0 of others."""
        steps = (n for n, each in enumerate(events) if each.who in self._calls)
        return next(steps, 0)

    def last_seen(self, events: Sequence[Event]) -> list[int]:
        """The last step of each who matters: where they stood when the story begins."""
        numbers: dict[Who, int] = {}
        for number, event in enumerate(events):
            if isinstance(event, Resumed) and event.who in self.shown:
                numbers[event.who] = number
            elif isinstance(event, Ended):
                numbers.pop(event.who, None)
        return sorted(numbers.values())

    def choose(self, moments: Sequence[Moment], room_lines: int = ROOM_LINES) -> list[Moment]:
        """Admit others while there is room; give back the moments of those who are shown."""
        lines = Counter(self._stands_for(m.who) for m in moments if m.who is not None)
        used = sum(lines[who] for who in self.shown)
        ranked = sorted((self._rank(who), who) for who in set(lines) - self.shown)
        for (rank, _), who in ranked:
            if rank <= _MET and used + lines[who] <= room_lines:
                self.shown.add(who)
                used += lines[who]
        self.shown |= {who for who in self._places if self._stands_for(who) in self.shown}
        world = {
            (host, WORLD) for host in {each.who[0] for each in moments if each.who is not None}
        }
        return [m for m in moments if m.who is None or m.must or m.who in self.shown | world]

    def _stands_for(self, who: Who) -> Who:
        """The request, of a task that goes through the user's lines for it: whoever is told of the
        request has to see them (a middleware has its library run the endpoint in such a task)."""
        return (self._is_users(who) and self._request_of(who)) or who

    def _is_users(self, who: Who) -> bool:
        """Whether it goes through lines of the user's own."""
        return not all(is_library(file) for file, _ in self._functions(who))

    def _rank(self, who: Who) -> tuple[int, int]:
        """Those first who went through the same function as somebody who was held."""
        functions = self._functions(who)
        met = any(functions & self._functions(held) for held in self._held)
        few = self._kinds[_kind(who)] <= ALIKE_MAX
        if self._is_internal(who):
            rank = _NEVER
        elif few:
            rank = _FEW_AND_MET if met else _FEW
        else:
            rank = _MET if met else _NEVER
        return rank, self._order.get(who, 0)

    def _functions(self, who: Who) -> set[tuple[str, str]]:
        return self._places.get(who, set())

    def _is_internal(self, who: Who) -> bool:
        """A task of asyncio's or of ours, of which the user never heard."""
        files = {file for file, _ in self._functions(who)}
        return all(is_library(f) and any(part in f for part in _INTERNAL) for f in files)

    def names(self) -> dict[Who, str]:
        """What each is called: a request by its client, others with the host in front where there
        are several, unless it is the test's own."""
        return {who: self._called(who) for who in {*self._places, *self.shown}}

    def _request_of(self, who: Who) -> Who | None:
        """The request for which a task works: its own, or that of who made it."""
        for _ in range(_MAKERS_MAX):
            if who in self._visits:
                return who if self._visits[who].client else None
            if who not in self._makers:
                return None
            who = self._makers[who]
        return None

    def _called(self, who: Who) -> str:
        if who in self._calls_by:
            return self._calls_by[who]
        request = self._request_of(who)
        if request is not None:
            return asked_text(request, self._visits)
        maker = self._makers.get(who, self.main) if self._is_conducted else self.main
        if maker not in (None, self.main) and who[0] == DEFAULT_HOST:
            # A helper of a rule: the call is what the reader knows, and no `_helper`.
            own = _name(_kind(who))
            return self._called(maker) + ("" if own.startswith("_") else f" ({own})")
        several = len(self._hosts) > 1 and who[0] != DEFAULT_HOST
        return f"{who[0]}/{_name(who)}".rstrip("/") if several else _name(who)

    def others(self, events: Iterable[Event]) -> list[str]:
        """One line about all who are not shown, or none."""
        steps = Counter(event.who for event in events if isinstance(event, Resumed))
        hidden = {
            who: n
            for who, n in steps.items()
            if who not in self.shown
            and not self._is_internal(who)
            and self._request_of(self._makers.get(who, who)) is None
        }
        if not hidden:
            return []
        kinds = Counter(self._calls_by.get(who, _kind(who)[1]) for who in hidden)
        named = [f"{kind} × {n}" if n > 1 else kind for kind, n in kinds.most_common(4)]
        more = ", …" if len(kinds) > len(named) else ""
        tasks, taken = count(len(hidden), "other task"), count(sum(hidden.values()), "step")
        return [f"  Meanwhile {tasks} took {taken} ({', '.join(named)}{more})."]


def _places(events: Iterable[Event]) -> dict[Who, set[tuple[str, str]]]:
    found: dict[Who, set[tuple[str, str]]] = {}
    for event in events:
        if isinstance(event, Resumed):
            functions = found.setdefault(event.who, set())
            if event.place is not None:
                functions.add((event.place.file, event.place.function))
    return found


def _makers(events: Iterable[Event]) -> dict[Who, Who]:
    """Which task has made which."""
    return {event.who: (event.host, event.by) for event in events if isinstance(event, Made)}


def _main_of(events: Sequence[Event]) -> Who | None:
    for event in events:
        if isinstance(event, Resumed):
            return event.who if event.step == 1 else None
    return None


def _kind(who: Who) -> Who:
    """Tasks of one coroutine function are of one kind: `worker`, `worker-2`, `worker-3`."""
    name, dash, number = who[1].rpartition("-")
    return (who[0], name) if dash and name and number.isdigit() else who


def _name(who: Who) -> str:
    """Callbacks have none: what is told of them is about the event loop, and says so."""
    return "" if who[1] == CALLBACKS else who[1]
