"""What each group of statements touches, for a search that tries conflicts the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from foretold.kernel.conflicts import RowAccess, Touch
from foretold.services.postgres.protocol import IDLE
from foretold.services.postgres.rows import Catalogue, rows_of
from foretold.services.postgres.sqltext import Reading, read

if TYPE_CHECKING:
    from foretold.services.postgres.session import Session

_CATALOGUE = Catalogue()


def access_of(session: Session, at_ns: int, times_ns: tuple[int, ...]) -> RowAccess:
    """What a session has just done; `times_ns` are those of which one was chosen for it."""
    host, name = session.sent_by or (session.host, session.name)
    return RowAccess(
        f"{host} {name}",
        at_ns,
        "; ".join(session.executes),
        _touches(session),
        session.state == IDLE,
        session.choices.name,
        tuple(session.waits_ns),
        len(times_ns) - 1,
        sum(times_ns[-1] - each for each in session.waits_ns.values()),
        sum(each - times_ns[0] for each in session.waits_ns.values()),
    )


def _touches(session: Session) -> tuple[Touch, ...]:
    given = session.statements.given
    return tuple(
        touch
        for number, sql in enumerate(session.executes)
        for reading in read(sql)
        for touch in _touched(reading, given[number] if number < len(given) else ())
    )


def _touched(reading: Reading, values: Sequence[str]) -> Iterator[Touch]:
    rows = rows_of(reading, values, None, _CATALOGUE).asked if reading.tables else {}
    inserts = reading.word == "INSERT"
    for name in sorted(reading.tables):
        table, writes = _CATALOGUE.called(name), name in reading.written
        its = {column: frozenset(each) for (of, column), each in rows.items() if of == table}
        is_whole = not (its or inserts or reading.is_narrowed)
        locks = writes or reading.locks_rows
        yield Touch(table, writes, locks, inserts, None if is_whole else its)
