"""Something was done twice, because the answer to the first time was lost.

The first time was committed; whoever asked for it had no answer, or an error, and asked for the
same once more. Nothing overlapped, so there is no pair. What is told here was seen: the statement
whose answer a fault has lost (or the request whose client had an error instead of its answer), and
the same statement with the same values after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from foretold.story.database.statements import Statement, Transaction, Visits
from foretold.trace.events import Event, Request, Visited, Who


@dataclass(frozen=True)
class Again:
    """A write that was kept, and the same one once more."""

    first: Statement
    lost: Statement
    """Whose answer was lost: this statement, or the commit of it."""
    told: str
    """What the client was told instead of the answer; empty if a fault struck the statement."""
    second: Statement

    title = "In the database something was done twice, after an answer was lost:"

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        table = min(self.first.written)
        done = "committed" if self.lost.ends else "done"
        how = f"its client was told {self.told}" if self.told else "a fault lost the answer"
        yield f"{name(self.first)} changed {table}{self.first.where};"
        yield f"that was {done}{self.lost.where}, and {how}."
        yield f"Then {name(self.second)} did the same again{self.second.where}."
        yield (
            f"Look at {self.second.at or 'the second write'}: should a key of the request, or a "
            "unique constraint, show that it was done already?"
        )

    @property
    def evidence(self) -> tuple[Statement, ...]:
        """What is told of it; these are always shown."""
        return self.first, self.lost, self.second

    def among(self, transactions: Sequence[Transaction]) -> list[Transaction]:
        """Those to which the two belong."""
        ours = {self.first.transaction, self.second.transaction}
        return [each for each in transactions if each.statements[0].transaction in ours]


def done_again(
    statements: Sequence[Statement],
    answers: Mapping[Who, str],
    visits: Visits,
    asked: Collection[str],
) -> Again | None:
    """The last such write, of a table that the assertion asks about if that is known."""
    for first in reversed(statements):
        if not _counts_twice(first) or (asked and first.written.isdisjoint(asked)):
            continue
        found = _lost_answer(first, statements, answers)
        if found is None:
            continue
        lost, told = found
        second = next((e for e in statements if _repeats(e, first, lost, visits)), None)
        if second is not None:
            return Again(first, lost, told, second)
    return None


def _counts_twice(each: Statement) -> bool:
    """To do it twice is not the same as to do it once."""
    return bool(each.written) and each.is_kept and (each.word == "INSERT" or each.is_relative)


def _lost_answer(
    first: Statement, statements: Sequence[Statement], answers: Mapping[Who, str]
) -> tuple[Statement, str] | None:
    """The statement whose answer did not come, and what the client was told instead."""
    its = [each for each in statements if each.transaction == first.transaction]
    struck = next((each for each in its if each.struck_by and each.number >= first.number), None)
    if struck is not None:
        return struck, ""
    told = answers.get(first.asked_by, "") if first.asked_by is not None else ""
    return (its[-1], told) if told and not told.isdigit() else None


def _repeats(each: Statement, first: Statement, lost: Statement, visits: Visits) -> bool:
    same = (each.sql, each.values) == (first.sql, first.values)
    return (
        same
        and each.number > lost.number
        and each.is_kept
        and bool(each.written)
        and _is_of_the_same(each, first, visits)
    )


def _is_of_the_same(one: Statement, other: Statement, visits: Visits) -> bool:
    """Whether one task has asked for both; or one client, by the same request."""
    if one.asked_by is None or other.asked_by is None:
        return False
    visit, before = visits.get(one.asked_by), visits.get(other.asked_by)
    if visit is None or before is None:
        return one.asked_by == other.asked_by
    return bool(visit.client) and (visit.client, visit.asks) == (before.client, before.asks)


def answers_of(events: Sequence[Event]) -> dict[Who, str]:
    """Of each request what its client was told: a status code or an exception. Only of those of
    which it is certain which request a task has worked for."""
    sent: dict[int, Request] = {}
    open_for: dict[Who, set[int]] = {}
    answers: dict[int, str] = {}
    for event in events:
        if isinstance(event, Request) and event.answer:
            answers[event.number] = event.answer
        elif isinstance(event, Request):
            sent[event.number] = event
        elif isinstance(event, Visited) and not event.is_after:
            wanted = (event.client, event.asks)
            open_for.setdefault(event.who, set()).update(
                number
                for number, each in sent.items()
                if number not in answers and (each.client, each.asks) == wanted
            )
    certain = {who: min(numbers) for who, numbers in open_for.items() if len(numbers) == 1}
    return {who: answers[number] for who, number in certain.items() if number in answers}
