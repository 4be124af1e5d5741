"""What must hold in the database, looked at after every commit: `@foretold.invariant(sql=…)`.

All queries whose tables a transaction may have touched go to the server in one round trip, at the
instant of the commit, before anybody else acts; each of them must find nothing. Each is planned
once, which takes longer than to run it. `tables.py` says which tables a transaction may have
touched.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from foretold.errors import PostgresError, UsageError
from foretold.spec.machine.invariants import COMMIT, Invariant
from foretold.spec.machine.printing import call_text
from foretold.trace.events import Broke

if TYPE_CHECKING:
    from foretold.spec.machine.course import Course
    from foretold.spec.machine.mirrors import Mirror

ROWS_SHOWN_MAX = 5
STATEMENTS_SHOWN_MAX = 12
SQL_CHARS_MAX = 160


def watch(course: Course) -> None:
    """Look after every commit from now on, and once at what is there already."""
    invariants = course.blueprint.at(COMMIT)
    if not invariants:
        return
    servers = course.world.services.get("postgres", [])
    by_server: defaultdict[int, list[Invariant]] = defaultdict(list)
    for each in invariants:
        by_server[server_of(each, servers)].append(each)
    for number, its in by_server.items():
        CommitWatch(course, servers[number], its).begin()


def server_of(each: Invariant | Mirror, servers: list[Any]) -> int:
    """Which of the servers an invariant or a mirror asks."""
    names = [server.host.name for server in servers]
    if not servers:
        raise UsageError(
            f"{each.spoken} queries the database after every commit, but this run has none. Start "
            "it in setup:\n"
            "    async def setup(self): self.pg = await self.world.postgres(schema=SCHEMA)"
        )
    if each.host in names:
        return names.index(each.host)
    if each.host or len(servers) > 1:
        raise UsageError(
            f"{each.spoken} must say which server it queries: "
            f"{each.written}(sql=…, host={names[0]!r}); there are {', '.join(names)}"
        )
    return 0


class CommitWatch:
    def __init__(self, course: Course, server: Any, invariants: list[Invariant]) -> None:
        self._course = course
        self._server = server
        self._invariants = invariants
        self._tables = course.checks.tables_of(server)

    def begin(self) -> None:
        """All queries at once, also those that do not apply yet; only if PostgreSQL refuses that,
        each by itself."""
        others = [each for each in self._invariants if not self._course.holds(each)]
        try:
            self._look_at(self._invariants)
            if others:
                self._server.look_at_all(_queries(others))
        except PostgresError:
            self._refuse()
            raise
        self._server.telling.at_each_commit(self._committed)

    def _refuse(self) -> None:
        """A query has a mistake: say which."""
        for each in self._invariants:
            try:
                self._server.look_at_all(_queries([each]))
            except PostgresError as error:
                wrong = "\n  ".join(filter(None, (each.sql, each.over)))
                raise UsageError(
                    f"PostgreSQL refuses the query of the invariant {each.name}: "
                    f"{error.message}\n  {wrong}"
                ) from None

    # --- after a commit --------------------------------------------------------------------------

    def _committed(self, commit: Any) -> None:
        course = self._course
        if course.failure is not None:
            return
        touched = self._tables.touched(commit.statements)
        asked = [each for each in self._invariants if self._tables.concerns(each.sql, touched)]
        try:
            self._look_at(asked, commit)
        except Exception as error:
            # Not raised: it is the server who acts here, and no task of the program.
            course.world.fail(error, at=self._server.host)
            course.fail(error)

    def _look_at(self, asked: list[Invariant], commit: Any = None) -> None:
        tally = self._course.tally
        asked = [each for each in asked if self._course.holds(each)]
        if not asked:
            return
        found = self._server.look_at_all(_queries(asked))
        counts = iter(found[len(asked) :])
        for each in asked:
            tally.invariant(each.name, over=int(next(counts)[0][0]) if each.over else None)
        for each, rows in zip(asked, found, strict=False):
            if rows:
                self._keep_for_story(each, commit)
                raise self._violated(each, commit)

    def _keep_for_story(self, each: Invariant, commit: Any) -> None:
        trace, host = self._course.world.trace, self._server.host
        if commit is not None and trace.detail:
            now_ns = host.kernel.clock.ns
            trace.keep(Broke(now_ns, host.name, commit.session, place=each.place, sql=each.sql))

    def _violated(self, each: Invariant, commit: Any) -> BaseException:
        course = self._course
        rows = self._server.rows(each.sql)
        seen = f"the invariant {each.name} failed {_when(commit)}"
        said = seen if commit is None else f"{seen}{_transaction_text(course, commit)}"
        try:
            told = each.function(course.machine, rows)
        except AssertionError as error:
            course.fail(error, said, seen)
            return error
        shown = [f"  {_row_text(row)}" for row in rows[:ROWS_SHOWN_MAX]]
        if len(rows) > ROWS_SHOWN_MAX:
            shown.append(f"  … and {len(rows) - ROWS_SHOWN_MAX} more")
        text = (
            str(told)
            if isinstance(told, str)
            else f"{each.words.rstrip('.')}; these rows say otherwise"
        )
        violated = each.violated("\n".join([text, *shown]))
        course.fail(violated, said, seen)
        return violated


def _queries(asked: list[Invariant]) -> list[str]:
    """One for each of them, then one for each that says over how many things it ranges. One row is
    enough to know that something was found; which there are is asked then."""
    wrong = [f"select from (\n{each.sql}\n) q limit 1" for each in asked]
    return wrong + [f"select coalesce((\n{each.over}\n)::bigint, 0)" for each in asked if each.over]


def _row_text(row: Any) -> str:
    pairs = zip(row.columns, row, strict=True)
    return ", ".join(f"{name} = {_value_text(value)}" for name, value in pairs)


def _value_text(value: Any) -> str:
    return str(value) if isinstance(value, UUID) else repr(value)


def _when(commit: Any) -> str:
    if commit is None:
        return "when the machine was set up"
    return f"after transaction {commit.number} of {commit.session}"


def _transaction_text(course: Course, commit: Any) -> str:
    """More about that transaction: its host, who was at work then, and its statements."""
    busy = " and ".join(call_text(course, call) for call in course.busy)
    during = f", during {busy}" if busy else ""
    shown = [" ".join(sql.split()) for sql in commit.statements]
    shown = [sql if len(sql) <= SQL_CHARS_MAX else f"{sql[:SQL_CHARS_MAX]}…" for sql in shown]
    if len(shown) > STATEMENTS_SHOWN_MAX:
        left_out = len(shown) - STATEMENTS_SHOWN_MAX
        shown[2 : 2 + left_out] = [f"… {left_out} statements left out"]
    lines = "".join(f"\n  {sql}" for sql in shown)
    return f", from host {commit.host}{during}:{lines}"
