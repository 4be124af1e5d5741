"""Work that was done in two halves, with somebody looking in between.

Two mistakes look like a race and are none: a request that commits before it is done, so that an
invariant fails until it goes on; and one that is answered before its transaction is committed, so
that its client does not find what it has just made. In both a single request is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from foretold.story.database.stale import Asked
from foretold.story.database.statements import Statement, Transaction, Visits
from foretold.story.words import instant, short
from foretold.trace import Place
from foretold.trace.events import Event, Request, Visited

PROMISES = ("2", "3")
"""How the codes of answers begin on which a client may rely."""


@dataclass(frozen=True)
class MiddleCommit:
    """A request has committed on the way to where requests commit at their end."""

    commit: Statement
    at_the_end: Place
    """Where the others do."""
    wrote: Sequence[str]
    """What it had written by then of the tables that the invariant asks about."""

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        place = self.commit.place
        assert place is not None, "else it is not known to be in the middle"
        where = f"{short(place)}, in {place.function.rpartition('.')[2]}"
        tables = f"its change of {' and '.join(self.wrote)}" if self.wrote else "what it wrote"
        yield (
            f"{name(self.commit)} has committed before it was done ({where}): {tables} can be seen "
            "by all, and what it writes from there on is another transaction, which ends where "
            f"those of other requests do ({short(self.at_the_end)}). The invariant failed in "
            "between. Look at that COMMIT: should both be one transaction?"
        )


def middle_commit(asked: Asked, requests: Sequence[Transaction]) -> MiddleCommit | None:
    """If the commit that broke it is one: in some function this request stands at an earlier line
    than that from which other requests have committed last."""
    commit = asked.commit
    if commit is None or commit.place is None:
        return None
    own = [each for each in requests if any(s is commit for s in each.statements)]
    ends = [
        each.statements[-1]
        for each in requests
        if each not in own and each.statements[-1].ends and each.committed
    ]
    for end in ends:
        if end.place is not None and end.place != commit.place and _is_before(commit, end):
            wrote = {table for each in own for table in each.written}
            return MiddleCommit(commit, end.place, sorted(wrote & set(asked.tables)))
    return None


def _is_before(commit: Statement, end: Statement) -> bool:
    lines = {_function(place): place.line for place in _stack(end)}
    return any(place.line < lines.get(_function(place), 0) for place in _stack(commit)[1:])


def _stack(statement: Statement) -> list[Place]:
    return [place for place in (statement.place, *statement.callers) if place is not None]


def _function(place: Place) -> tuple[str, str]:
    return place.file, place.function


@dataclass(frozen=True)
class Hasty:
    """A request was answered before its transaction was committed."""

    request: Transaction
    last: Statement
    """Its last: the commit, or what came before it, if the run was over by then."""
    answer: Request
    reader: Statement | None
    """Who has read what it wrote, in between."""

    def sentences(self, start_ns: int, visits: Visits) -> Iterator[str]:
        """What is odd, and where to look."""
        answered = instant(self.answer.time_ns - start_ns)
        said = f"{self.answer.asks} was answered {self.answer.answer} at {answered}."
        commit = self.last.where if self.last.ends else ""
        later = f" (that is at {self.last.at})" if commit else ""
        if self.reader is None or self.reader.asked_by is None:
            yield (
                f"{said} Its transaction was committed after that{commit}: who asks at once does "
                "not see what it did. Should it commit first, and answer then?"
            )
            return
        written = {table for each in self.request.statements for table in each.written}
        table = min(self.reader.tables & written)
        visit = visits.get(self.reader.asked_by)
        asked = visit.asks if visit is not None else self.reader.asked_by[1]
        yield (
            f"{said} Its transaction was not committed yet{later} when {asked} read {table} at "
            f"{instant(self.reader.time_ns - start_ns)}{self.reader.where}. "
            "Should it commit first, and answer then?"
        )


def answered_too_soon(
    events: Sequence[Event], requests: Sequence[Transaction], visits: Visits
) -> Hasty | None:
    """The last request that wrote something and whose client had its answer before the commit. Only
    who came after that answer can have relied on it."""
    answered = _answers(events, visits)
    for request in reversed(requests):
        last = _last_of_what_it_wrote(request)
        visit = (
            visits.get(last.asked_by) if last is not None and last.asked_by is not None else None
        )
        if last is None or visit is None or visit.is_after:
            continue
        answer = answered.get((visit.client, visit.asks))
        if answer is None or (last.ends and not (last.is_kept and answer[0] < last.number)):
            continue
        number, end = answer[0], last.number if last.ends else len(events)
        informed = {event.who for event in events[number:end] if isinstance(event, Visited)}
        reader = _reader(request, [r for r in requests if r.asked_by in informed], number, end)
        return Hasty(request, last, answer[1], reader)
    return None


def _last_of_what_it_wrote(request: Transaction) -> Statement | None:
    """The end of the last transaction in which it wrote something, or how far that has come. What
    it only read afterwards is no promise; nor is a statement that is a transaction by itself."""
    wrote = next((each for each in reversed(request.statements) if each.written), None)
    if wrote is None:
        return None
    its = [each for each in request.statements if each.transaction == wrote.transaction]
    return its[-1] if its[-1].ends or its[0].begins else None


def _answers(events: Sequence[Event], visits: Visits) -> dict[tuple[str, str], tuple[int, Request]]:
    """Of each request its answer, with the number of that event. Not of those that were sent or
    delivered several times: it is not known which of them was answered. Nor of those that failed:
    a 503 may come from a proxy, and promises nothing."""
    told = [(n, event) for n, event in enumerate(events) if isinstance(event, Request)]
    kept = [(n, event) for n, event in told if event.answer[:1] in PROMISES]
    sent = Counter((event.client, event.asks) for _, event in told if not event.answer)
    arrived = Counter((each.client, each.asks) for each in visits.values() if not each.is_after)
    return {
        key: (number, event)
        for number, event in kept
        if sent[key := (event.client, event.asks)] == 1 and arrived[key] <= 1
    }


def _reader(
    request: Transaction, requests: Sequence[Transaction], begin: int, end: int
) -> Statement | None:
    written = {table for each in request.statements for table in each.written}
    found = [
        each
        for other in requests
        if other is not request
        for each in other.statements
        if begin < each.number < end and not each.written and each.tables & written
    ]
    writes = [each for each in request.statements if each.written]
    meant = [each for each in found if any(each.met(write) is not False for write in writes)]
    return meant[-1] if meant else None
