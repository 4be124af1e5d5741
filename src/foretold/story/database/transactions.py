"""What a database did in a failing run: the two transactions that got into each other's way.

A run has hundreds of statements. What a reader looks for is nearly always a pair of transactions
that overlap, one of which reads what the other one writes; so the statements of that pair are shown
in their order, with the request and the line of code that each comes from, and a sentence says what
is odd about it and where to look. Without such a pair: the last statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from foretold.services.postgres.rows import Catalogue
from foretold.services.postgres.sqltext import read
from foretold.story.database.again import Again, answers_of, done_again
from foretold.story.database.early import Early, read_early
from foretold.story.database.halves import PROMISES, Hasty, answered_too_soon, middle_commit
from foretold.story.database.stale import (
    NOTHING_ASKED,
    Asked,
    Stale,
    critical_pair,
    outdated,
)
from foretold.story.database.statements import (
    Statement,
    Transaction,
    Visits,
    asked_text,
    by_client,
    by_request,
    statements_of,
    transactions_of,
    visits_of,
)
from foretold.story.tale import Side
from foretold.story.words import aligned, count, instant, short, wrapped
from foretold.trace.events import Broke, Event, Executed, Looked, Who
from foretold.world.world import DEFAULT_HOST

STATEMENTS_MAX = 24
LAST_MAX = 14


class Told:
    """What is to be said about the database of a run."""

    def __init__(self, events: Sequence[Event], catalogue: Catalogue | None = None) -> None:
        catalogue = catalogue or Catalogue()
        self._visits = visits_of(events)
        self._statements = statements_of(events, catalogue)
        found = [each for each in transactions_of(self._statements) if each.does_something]
        self._asked = asked = _asked(events, self._statements, catalogue)
        self._is_broken = asked.commit is not None
        requests = by_request(found)
        self._middle = middle_commit(asked, requests)
        self._hasty = hasty = answered_too_soon(events, requests, self._visits)
        self._pair = None if self._middle is not None else critical_pair(requests, asked)
        self._answers = answers_of(events)
        self._unpaired: Again | Early | None = None
        if self._pair is None and self._middle is None and not self._is_broken:
            self._pair = outdated(by_client(requests, self._visits), requests, asked)
        if self._pair is None and hasty is None and not self._is_broken:
            statements, visits = self._statements, self._visits
            again = done_again(statements, self._answers, visits, asked.tables)
            self._unpaired = again or read_early(requests, asked)
        if not self._is_broken and hasty is not None and hasty.reader is not None:
            self._pair, kept = None, _with_reader(hasty, requests)
        elif self._pair is not None:
            kept = [self._pair.reader, self._pair.writer]
        elif self._unpaired is not None:
            kept = self._unpaired.among(found)
        else:
            broken = [each for each in requests if asked.is_by(each)]
            lost = [each for each in requests if broken and each.lost_an_answer]
            kept = [*broken, *lost] or found
        self._show(kept)

    def _show(self, kept: Sequence[Transaction]) -> None:
        ours = {id(each) for transaction in kept for each in transaction.statements}
        shown = [each for each in self._statements if id(each) in ours]
        self._all = len(shown)
        pair = self._pair
        last = shown if self._unpaired is not None else shown[-LAST_MAX:]
        self._shown = pair.of_these(shown) if pair is not None else last
        matter = {column for each in self._shown for column in each.sets}
        for each in self._shown:
            each.matter = matter
        apart = isinstance(pair, Stale) and pair.is_in_one_request
        self._names = _Names(self._shown, self._visits, by_session=apart)

    def tasks(self) -> set[Who]:
        """Those whose statements are shown."""
        return {each.asked_by for each in self._shown if each.asked_by is not None}

    @property
    def says_where_to_look(self) -> bool:
        """Whether it ends with a sentence about that."""
        return self._pair is not None or any(self._alone(0))

    @property
    def pair(self) -> tuple[Side, Side] | None:
        """Who is accused."""
        return None if self._pair is None else self._pair.sides(self._names.of)

    @property
    def _is_clear(self) -> bool:
        """Whether somebody is to blame; else there is only something to look at."""
        found = (self._pair, self._middle, self._asked.commit)
        misled = self._hasty is not None and self._hasty.reader is not None
        # What was done twice may be meant so, unless the test asks about it.
        doubled = isinstance(self._unpaired, Again) and bool(self._asked.tables)
        return misled or doubled or any(each is not None for each in found)

    def head(self, start_ns: int, called: Callable[[str], str] = str) -> list[str]:
        """What is told first: who is to blame, and where to look. Nothing if that is not known."""
        if not self._shown or not self._is_clear:
            return []
        return [self._title, *self._said(start_ns, called)]

    def rest(self, start_ns: int, called: Callable[[str], str] = str) -> list[str]:
        """And what else there is to tell: the statements."""
        if not self._shown or not self._is_clear:
            return self.lines(start_ns, called)
        return ["The statements of that:", *self._table(start_ns, called)]

    def lines(self, start_ns: int, called: Callable[[str], str] = str) -> list[str]:
        """All of it; nothing if there is no database in the run."""
        if not self._shown:
            return []
        table = self._table(start_ns, called)
        return [self._title, *table, *self._said(start_ns, called)]

    def _table(self, start_ns: int, called: Callable[[str], str]) -> list[str]:
        names = self._names
        statements = _lines(self._shown, names, start_ns, called, self._evidence)
        return [*names.lines(), *statements, *self._left_out()]

    @property
    def _evidence(self) -> list[Statement]:
        """What must be shown, however many there are: what is told, and how those ended."""
        told = self._pair or self._unpaired
        ours = told.evidence if told is not None else ()
        numbers = {each.transaction for each in ours}
        ends = [each for each in self._shown if each.is_mark and each.transaction in numbers]
        return [*ours, *ends, *(each for each in self._shown if each.remark)]

    def _said(self, start_ns: int, called: Callable[[str], str]) -> list[str]:
        pair = self._pair
        said = self._alone(start_ns) if pair is None else pair.sentences(self._names.of)
        return [line for each in said for line in wrapped(called(each), "  ")]

    @property
    def _title(self) -> str:
        if self._pair is not None:
            return self._pair.title(self._visits)
        if not self._is_broken and self._hasty is not None and self._hasty.reader is not None:
            return "In the database, a request that was answered too soon, and who looked then:"
        if self._unpaired is not None:
            return self._unpaired.title
        if not self._is_broken:
            return "The last statements of the database:"
        return "In the database, the request whose commit has broken the invariant:"

    def _left_out(self) -> Iterator[str]:
        others = self._all - len(self._shown)
        if self._pair is not None and others:
            yield f"  (and {count(others, 'statement')} of theirs about something else)"

    def _alone(self, start_ns: int) -> Iterator[str]:
        """Where to look if there is no pair."""
        if self._middle is not None:
            yield from self._middle.sentences(self._names.of)
            return
        if self._asked.commit is not None:
            yield from self._last_transaction(self._asked.commit)
            return
        if self._unpaired is not None:
            yield from self._unpaired.sentences(self._names.of)
            return
        if self._hasty is not None:
            yield from self._hasty.sentences(start_ns, self._visits)
            return
        behind = {each.asked_by for each in self._shown if each.asked_by is not None}
        if len(behind) == 1:
            yield from self._by_one(min(behind))
            yield from self._locked_in_vain()
        elif len(behind) > 1:
            yield (
                "No two of these got into each other's way: look at what each one did by itself"
                f"{self._only_writer()}."
            )

    def _by_one(self, who: Who) -> Iterator[str]:
        """Nothing is said against a request that was answered as usual, unless it has written what
        the assertion asks about: then something else may have failed."""
        is_well = self._answers.get(who, "")[:1] in PROMISES
        written = {table for each in self._statements if each.is_kept for table in each.written}
        if not is_well or written & set(self._asked.tables):
            what = "one request" if who in self._visits else "the work of one task"
            yield f"All of this is {what}: look at what it does by itself, up to its end."

    def _locked_in_vain(self) -> Iterator[str]:
        """What is locked is mostly meant to be changed; an ORM may not have seen the change."""
        its = [each for each in self._statements if each.asked_by == self._shown[-1].asked_by]
        written = {table for each in its for table in each.written}
        for each in its:
            locks = each.reading.locks_rows and each.reading.has("update")
            if locks and each.tables and written.isdisjoint(each.tables):
                yield (
                    f"{self._names.of(each)} has locked {min(each.tables)}{each.where}, and has "
                    "changed nothing there before its commit. Was something meant to be written?"
                )
                return

    def _only_writer(self) -> str:
        """Who alone has written what the assertion asks about, if one has."""
        wrote = [e for e in self._statements if e.is_kept and e.written & set(self._asked.tables)]
        if len({each.asked_by for each in wrote}) != 1 or wrote[-1] not in self._shown:
            return ""
        last = wrote[-1]
        table = min(last.written & set(self._asked.tables))
        return (
            f", first {self._names.of(last)}: it alone has written {table}{last.where}, which the "
            "test asks about"
        )

    def _last_transaction(self, commit: Statement) -> Iterator[str]:
        """It alone has broken the invariant, which held before it."""
        last = commit.transaction
        wrote = [each for each in self._shown if each.transaction == last and each.written]
        wrote = [each for each in wrote if each.written & set(self._asked.tables)] or wrote
        lines = list(dict.fromkeys(each.at for each in wrote if each.place is not None))
        where = f" ({'; '.join(lines)})" if lines else ""
        yield (
            f"Before the last transaction of {self._names.of(commit)} the invariant held, and "
            f"nobody got in its way: look at what it has written{where}, what it has not, and what "
            "it leaves to a later one."
        )


def _asked(events: Sequence[Event], statements: Sequence[Statement], catalogue: Catalogue) -> Asked:
    """What the assertion is about: an invariant that a commit has broken (that gets a remark), or
    what the test has looked at after the last statement of the program."""
    broke = next((event for event in reversed(events) if isinstance(event, Broke)), None)
    if broke is None:
        last = max((n for n, e in enumerate(events) if isinstance(e, Executed)), default=0)
        looks = [event.sql for event in events[last:] if isinstance(event, Looked)]
        return _about(looks, catalogue) if looks else NOTHING_ASKED
    names = (broke.actor, f"{broke.host} {broke.actor}")
    its = [each for each in statements if each.session in names]
    if not its:
        return NOTHING_ASKED
    its[-1].remark = "  (after this the invariant fails)"
    return _about([broke.sql], catalogue, its[-1])


def _about(queries: Sequence[str], catalogue: Catalogue, commit: Statement | None = None) -> Asked:
    readings = [reading for query in queries for reading in read(query)]
    tables = {catalogue.called(name) for reading in readings for name in reading.tables}
    return Asked(tables, any("count" in reading.calls for reading in readings), commit)


def _with_reader(hasty: Hasty, requests: Sequence[Transaction]) -> list[Transaction]:
    readers = [r for r in requests if any(each is hasty.reader for each in r.statements)]
    return [hasty.request, *readers]


class _Names:
    """How a story calls who stands behind the statements: by the client, if it has sent one of
    these requests; `request 1`, if it has sent several; a task of the test by its own name; the
    only task of another host by that. By the session, if no more is known."""

    def __init__(
        self, shown: Sequence[Statement], visits: Visits, *, by_session: bool = False
    ) -> None:
        self._shown, self._visits = shown, visits
        self._found: dict[Who, str] = {}
        if by_session:
            return
        askers = dict.fromkeys(each.asked_by for each in shown if each.asked_by is not None)
        clients = {who: visits[who].client for who in askers if who in visits}
        clients = {who: client for who, client in clients.items() if client}
        times = Counter(clients.values())
        several = [who for who, client in clients.items() if times[client] > 1]
        self._found = {
            who: f"request {several.index(who) + 1}" if who in several else client
            for who, client in clients.items()
        }
        self._found |= {who: who[1] for who in askers if who[0] == DEFAULT_HOST}
        unnamed = [who for who in askers if who not in self._found]
        hosts = {host for host, _ in askers}
        if len(hosts) > 1 and len({host for host, _ in unnamed}) == len(unnamed):
            self._found |= {who: who[0] for who in unnamed}

    def of(self, statement: Statement) -> str:
        """Who sent it."""
        who = statement.asked_by
        return self._found.get(who, statement.session) if who is not None else statement.session

    def lines(self) -> list[str]:
        """Who is who, and in which session; nothing if it is not known."""
        found: dict[str, list[Statement]] = {}
        for each in self._shown:
            if each.asked_by is not None:
                found.setdefault(self.of(each), []).append(each)
        return [self._line(name, its) for name, its in found.items()]

    def _line(self, name: str, its: Sequence[Statement]) -> str:
        sessions = ", then ".join(dict.fromkeys(each.session for each in its))
        askers = dict.fromkeys(each.asked_by for each in its if each.asked_by is not None)
        texts = [self._text(who, name) for who in askers]
        if name == sessions or name in texts:
            return f"  {sessions} is {', then '.join(dict.fromkeys(texts))}"
        return f"  {name}: {', '.join(dict.fromkeys(texts))}, in {sessions}"

    def _text(self, who: Who, name: str) -> str:
        """What it asks for; and for whom, unless that is its name."""
        visit = self._visits.get(who)
        if name == who[0]:
            return name
        is_named = visit is not None and visit.client == name and not visit.is_after
        return visit.asks if visit is not None and is_named else asked_text(who, self._visits)


# Lines


def _lines(
    shown: Sequence[Statement],
    names: _Names,
    start_ns: int,
    called: Callable[[str], str],
    evidence: Sequence[Statement],
) -> Iterator[str]:
    """One after the other; what is said again and again is one line. Of many those are left out
    that are farthest from what is told."""
    joined = list(_joined(shown, called))
    rows = [
        (instant(first.time_ns - start_ns), names.of(first), short(first.place), text)
        for (first, *_), text in joined
    ]
    lines = aligned([tuple(map(called, row)) for row in rows])
    needed = {id(each) for each in evidence}
    places = [n for n, (its, _) in enumerate(joined) if any(id(each) in needed for each in its)]
    kept = _nearest(len(lines), places or [0, len(lines) - 1])
    for is_kept, those in groupby(range(len(lines)), key=kept.__contains__):
        numbers = list(those)
        yield from [lines[n] for n in numbers] if is_kept else [f"  … {len(numbers)} more"]


def _nearest(count: int, places: Sequence[int]) -> set[int]:
    """As many of so many lines as there is room for."""
    by_distance = sorted(range(count), key=lambda n: min(abs(n - place) for place in places))
    return set(by_distance[:STATEMENTS_MAX])


def _joined(
    shown: Sequence[Statement], called: Callable[[str], str]
) -> Iterator[tuple[list[Statement], str]]:
    for (_, text, _), alike in groupby(
        shown, key=lambda each: (each.session, each.text(called), each.at)
    ):
        its = list(alike)
        yield its, f"{text}  ({len(its)} times)" if len(its) > 1 else text
