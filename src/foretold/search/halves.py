"""Work that was done in two halves, with somebody looking in between.

Two mistakes look like a race and are none: a request that commits before it is done, so that an
invariant fails until it goes on; and one that is answered before its transaction is committed, so
that its client does not find what it has just made. In both a single request is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from foretold.search.stale import Broken
from foretold.search.statements import ENDS, Statement, Transaction, Who, asked_text
from foretold.search.words import instant, short
from foretold.trace import REQUEST, Event, Place


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


def middle_commit(broken: Broken, requests: Sequence[Transaction]) -> MiddleCommit | None:
    """If the commit that broke it is one: in some function this request stands at an earlier line
    than that from which other requests have committed last."""
    commit = broken.commit
    if commit.place is None:
        return None
    own = [each for each in requests if any(s is commit for s in each.statements)]
    ends = [
        each.statements[-1]
        for each in requests
        if each not in own and each.statements[-1].word in ENDS and each.committed
    ]
    for end in ends:
        if end.place is not None and end.place != commit.place and _is_before(commit, end):
            wrote = {table for each in own for table in each.written}
            return MiddleCommit(commit, end.place, sorted(wrote & set(broken.tables)))
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
    answer: Event
    reader: Statement | None
    """Who has read what it wrote, in between."""

    def sentences(self, start_ns: int, clients: dict[Who, str]) -> Iterator[str]:
        """What is odd, and where to look."""
        told, _, code = self.answer.text.rpartition(" → ")
        answered = instant(self.answer.time_ns - start_ns)
        said = f"{told.partition(': ')[2]} was answered {code} at {answered}."
        commit = self.last.where if self.last.word in ENDS else ""
        later = f" (that is at {self.last.at})" if commit else ""
        if self.reader is None or self.reader.asked_by is None:
            yield (
                f"{said} Its transaction was committed after that{commit}: who asks at once does "
                "not see what it did. Should it commit first, and answer then?"
            )
            return
        table = min(self.reader.tables & self.request.written)
        asked = asked_text(self.reader.asked_by, clients).rpartition(" of ")[0]
        yield (
            f"{said} Its transaction was not committed yet{later} when {asked} read {table} at "
            f"{instant(self.reader.time_ns - start_ns)}{self.reader.where}. "
            "Should it commit first, and answer then?"
        )


def answered_too_soon(
    events: Sequence[Event], requests: Sequence[Transaction], clients: dict[Who, str]
) -> Hasty | None:
    """The last request that wrote something and whose client had its answer before the commit."""
    answered = _answers(events)
    for request in reversed(requests):
        last = request.statements[-1]
        who = last.asked_by
        over = last.word in ENDS
        if who is None or who not in clients or not request.written:
            continue
        task, _, client = asked_text(who, clients).rpartition(" of ")
        number = answered.get(f"{client}: {task}")
        if number is None or (over and not (request.committed and number < last.number)):
            continue
        end = last.number if over else len(events)
        return Hasty(request, last, events[number], _reader(request, requests, number, end))
    return None


def _answers(events: Sequence[Event]) -> dict[str, int]:
    """Of each request the number of its answer; not of those that were sent several times: it is
    not known which of them it was."""
    said = [(number, event.text) for number, event in enumerate(events) if event.kind == REQUEST]
    sent = Counter(text for _, text in said)
    split = [(number, *text.rpartition(" → ")[:2]) for number, text in said]
    return {text: number for number, text, arrow in split if arrow and sent[text] == 1}


def _reader(
    request: Transaction, requests: Sequence[Transaction], begin: int, end: int
) -> Statement | None:
    written = request.written
    found = [
        each
        for other in requests
        if other is not request
        for each in other.statements
        if begin < each.number < end and not each.written and each.tables & written
    ]
    writes = [each for each in request.statements if each.written]
    meant = [r for r in found if any(r.tables & w.written and not r.misses(w) for w in writes)]
    return meant[-1] if meant else None
