"""PgModel against the real PostgreSQL: every order of many small programs, at three levels; and
models that are wrong in one point each are refuted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import foretold
from foretold.cli.verbs import app
from foretold.models import LEVELS, PgModel, Where, at, server, to
from foretold.models.pgmodel import GONE, SHARE, UPDATE, OpenTransaction, RunningStatement
from tests.models.pg_programs import PROGRAMS, QUICK, ROWS

LONG = {name: program for name, program in PROGRAMS.items() if name not in QUICK}
COMMITTED, REPEATABLE, SERIALIZABLE = LEVELS


@pytest.mark.parametrize("level", LEVELS)
def test_the_model_conforms(level: str) -> None:
    """Some programs, in every order: each outcome of the real server is one that the model allows,
    and so are the rows in the end. But for SERIALIZABLE, which may abort at any time and seldom
    does, the model allows nothing that was not seen."""
    programs = {name: PROGRAMS[name] for name in QUICK}
    found = foretold.conform(server(level), PgModel(level, ROWS), programs)
    assert found, str(found)
    assert found.schedules > 60
    if level != SERIALIZABLE:
        assert found.never_seen == []


@pytest.mark.soak
@pytest.mark.parametrize("level", [*LEVELS, "read uncommitted"])
def test_the_model_conforms_in_all_programs(level: str) -> None:
    """All others: more than forty programs, and every order of each."""
    assert len(PROGRAMS) >= 40
    found = foretold.conform(server(level), PgModel(level, ROWS), LONG)
    assert found, str(found)


# ---------------------------------------------------------------- the experiment


def test_the_experiment_of_the_document() -> None:
    """One row, one writer, one reader that reads twice. At READ COMMITTED two reads may differ, and
    the model allows exactly that; from REPEATABLE READ on they never do."""

    def differ(level: str) -> set[bool]:
        seen = set()

        def told(_: str, steps: list[Any]) -> None:
            reads = [step.result.outcome for step in steps if step.call[0] == "select"]
            seen.add(reads[0] != reads[1])

        programs = {"p": PROGRAMS["the experiment"]}
        found = foretold.conform(server(level), PgModel(level, ROWS), programs, on_schedule=told)
        assert found, str(found)
        assert found.is_tight
        return seen

    assert differ(COMMITTED) == {True, False}
    assert differ(REPEATABLE) == {False}


def test_the_mistakes_of_the_document() -> None:
    """The document's model takes no notice of what its own transaction has written (the writer is
    marked as not dirty), and chooses freely between before and after the commit. The first is
    refuted by a program in which the writer reads; the second allows more than was ever seen."""

    class NotDirty(PgModel):
        def _seen(self, actor: str, key: Any, snapshot: int) -> Any:
            versions = [v for v in self.rows.get(key, ()) if v.commit <= snapshot]
            return versions[-1] if versions else None

    class EitherState(PgModel):
        def _snapshot(self, mine: OpenTransaction) -> int:
            return foretold.either(self.commits, 0)

    own = {"own": PROGRAMS["own writes are seen"]}
    refuted = foretold.conform(server(COMMITTED), NotDirty(COMMITTED, ROWS), own)
    assert refuted.word == "violated"
    after = {"after": {"a": [("update", at("x"), to(7)), ("select", at("x"))]}}
    permissive = foretold.conform(server(COMMITTED), EitherState(COMMITTED, ROWS), after)
    assert permissive.word == "ok"
    assert permissive.never_seen == ["after: a select(id = 'x') → (('x', 100),)"]
    assert foretold.conform(server(COMMITTED), PgModel(COMMITTED, ROWS), after).is_tight


# ---------------------------------------------------------------- wrong models


class DirtyReads(PgModel):
    """Reads see what others have not committed."""

    def _seen(self, actor: str, key: Any, snapshot: int) -> Any:
        for each in self.open.values():
            if key in each.writes:
                own = each.writes[key]
                return (
                    None
                    if own.value is GONE
                    else super()._seen(actor, key, snapshot)
                    and (self.rows[key][-1]._replace(value=own.value) if key in self.rows else None)
                )
        return super()._seen(actor, key, snapshot)


class NoReread(PgModel):
    """After a lock wait a statement goes on with what it saw before."""

    def _do(self, actor: str, key: Any, row: int, statement: RunningStatement) -> str:
        kept = self.rows
        if statement.change is not None and key in self.rows:
            seen = self._seen(actor, key, statement.snapshot)
            self.rows = {**self.rows, key: (seen,)} if seen is not None else self.rows
        failed = super()._do(actor, key, row, statement)
        self.rows = kept
        return failed


class StatementSnapshots(PgModel):
    """A snapshot for each statement, at every level."""

    def _snapshot(self, mine: OpenTransaction) -> int:
        mine.snapshot = self.commits
        return self.commits


class TransactionSnapshots(PgModel):
    """A snapshot for each transaction, at every level."""

    def _snapshot(self, mine: OpenTransaction) -> int:
        if mine.snapshot is None:
            mine.snapshot = self.commits
        return mine.snapshot


class LastUpdaterWins(PgModel):
    """No serialization failure where a row has changed since the snapshot."""

    def _do(self, actor: str, key: Any, row: int, statement: RunningStatement) -> str:
        level, self.level = self.level, COMMITTED
        failed = super()._do(actor, key, row, statement)
        self.level = level
        return failed

    def _is_stale(self, *about: Any) -> bool:
        return False


class StaleRowsWait(PgModel):
    """Whoever holds the row as it is now is waited for, also by those who have lost already."""

    def _is_stale(self, actor: str, key: Any, row: int, statement: RunningStatement) -> bool:
        is_stale = super()._is_stale(actor, key, row, statement)
        return is_stale and not self._blockers(actor, statement)


class OneRowOfEachKey(PgModel):
    """Who inserts a key again does not see the row that somebody else has deleted meanwhile."""

    def _replaced(self, *about: Any) -> None:
        return None


class WaitsForAllAtOnce(PgModel):
    """Who waits for several who share a row waits for all of them at the same time."""

    def _waits_for(self, actor: str) -> str | None:
        statement = self.waiting.get(actor)
        blockers = [] if statement is None else self._blockers(actor, statement)
        waiting = [who for who in blockers if who in self.waiting]
        return next(iter(waiting or blockers), None)


class TheFirstRowAlone(PgModel):
    """Of two who go on at different rows it does not matter who is the first."""

    def _free(self) -> list[str]:
        found = super()._free()
        return found[:1] if len({self.waiting[who].todo[0] for who in found}) > 1 else found


class SharesConflict(PgModel):
    """FOR SHARE keeps FOR SHARE away."""

    def _conflict(self, one: str, other: str) -> bool:
        return True


class SharesNeverConflict(PgModel):
    """FOR SHARE keeps nobody away."""

    def _conflict(self, one: str, other: str) -> bool:
        return SHARE not in (one, other)


class InsertsDoNotWait(PgModel):
    """A key that somebody is about to insert counts as inserted."""

    def _blockers(self, actor: str, statement: RunningStatement) -> list[str]:
        return [] if statement.sort == "insert" else super()._blockers(actor, statement)

    def _insert(self, actor: str, key: Any, statement: RunningStatement) -> str:
        taken = any(key in each.writes for who, each in self.open.items() if who != actor)
        return "23505" if taken else super()._insert(actor, key, statement)


class SavepointsKeepLocks(PgModel):
    """What was locked after a savepoint stays locked when it is rolled back."""

    def _release(self, actor: str, keep: Any = None) -> None:
        super()._release(actor, self._locks_of(actor) if keep is not None else None)


class LocksGoWithTheCondition(PgModel):
    """A row that does not fit any more after a wait is let go of."""

    def _do(self, actor: str, key: Any, row: int, statement: RunningStatement) -> str:
        before, found = dict(self.locks.get(key, {})), statement.found
        failed = super()._do(actor, key, row, statement)
        if not failed and statement.mode and statement.found == found:
            self.locks[key] = before
        return failed


class NoDeadlocks(PgModel):
    """Nobody notices a circle."""

    def _circle(self) -> list[str]:
        return []


class FailedTransactionsCommit(PgModel):
    """COMMIT commits, whatever has failed before."""

    def _fail(self, actor: str, code: str) -> str:
        mine = self.open[actor]
        writes = dict(mine.writes)
        failed = super()._fail(actor, code)
        if actor in self.open:
            self.open[actor].writes, self.open[actor].failed = writes, False
        return failed


class NeverAborts(PgModel):
    """SERIALIZABLE without aborts: whatever happens is serializable somehow."""

    def _aborts(self, actor: str) -> bool:
        return False

    def _may_commit(self, actor: str) -> bool:
        return True


class DeletesAreUpdates(PgModel):
    """A row that is inserted again is the old one."""

    def _write(self, actor: str, key: Any, value: Any, row: int) -> None:
        super()._write(actor, key, value, 0)


WRONG: list[tuple[type[PgModel], str, str]] = [
    (DirtyReads, COMMITTED, "the experiment"),
    (NoReread, COMMITTED, "blind writes"),
    (StatementSnapshots, REPEATABLE, "the experiment"),
    (TransactionSnapshots, COMMITTED, "the experiment"),
    (LastUpdaterWins, REPEATABLE, "blind writes"),
    (SharesConflict, COMMITTED, "for share together"),
    (SharesNeverConflict, COMMITTED, "for share stops writers"),
    (InsertsDoNotWait, COMMITTED, "both insert"),
    (SavepointsKeepLocks, COMMITTED, "back to a savepoint"),
    (LocksGoWithTheCondition, COMMITTED, "a lock is kept though nothing was changed"),
    (NoDeadlocks, COMMITTED, "crossed locks"),
    (FailedTransactionsCommit, COMMITTED, "a failed transaction"),
    (NeverAborts, SERIALIZABLE, "write skew, by keys"),
    (DeletesAreUpdates, COMMITTED, "delete, then insert"),
    (StaleRowsWait, REPEATABLE, "a successor that is locked"),
    (OneRowOfEachKey, REPEATABLE, "insert what somebody else has deleted"),
    (WaitsForAllAtOnce, COMMITTED, "several who share are waited for one by one"),
    (TheFirstRowAlone, COMMITTED, "more than one row to wait for"),
]


@pytest.mark.parametrize(
    ("model", "level", "program"), WRONG, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_wrong_model_is_refuted(model: type[PgModel], level: str, program: str) -> None:
    """Each is wrong in one point, which some order of a small program shows; the right model
    conforms there (the other tests)."""
    found = foretold.conform(server(level), model(level, ROWS), {program: PROGRAMS[program]})
    assert found.word == "violated", str(found)
    assert found.contradiction is not None


# ---------------------------------------------------------------- levels and the matrix


def test_an_unknown_level_is_told() -> None:
    """The four levels of the standard are known; a fifth is a mistake."""
    assert PgModel("read uncommitted").level == COMMITTED
    with pytest.raises(foretold.UsageError, match="there is no such level"):
        PgModel("snapshot")


TABLE_13_1 = """
Isolation Level  | Dirty Read             | Nonrepeatable Read | Phantom Read           | Serialization Anomaly
Read uncommitted | Allowed, but not in PG | Possible           | Possible               | Possible
Read committed   | Not possible           | Possible           | Possible               | Possible
Repeatable read  | Not possible           | Not possible       | Allowed, but not in PG | Possible
Serializable     | Not possible           | Not possible       | Not possible           | Not possible
"""  # noqa: E501  # as PostgreSQL's documentation has it
COLUMNS = {
    "Dirty Read": ["dirty read"],
    "Nonrepeatable Read": ["non-repeatable read"],
    "Phantom Read": ["phantom"],
    "Serialization Anomaly": ["lost update", "read skew", "write skew"],
}
"""The last column of that table has many forms; these three are tried."""


def documented() -> dict[tuple[str, str], str]:
    """The table of the documentation: level and column, and what it says."""
    head, *lines = (
        [each.strip() for each in line.split("|")] for line in TABLE_13_1.strip().split("\n")
    )
    return {
        (level.lower(), name): said
        for level, *cells in lines
        for name, said in zip(head[1:], cells, strict=True)
    }


def printed(text: str) -> dict[tuple[str, str], str]:
    """The table that the command prints."""
    head, *lines = (re.split(r"  +", line.strip()) for line in text.split("\n"))
    return {
        (level, name): cell
        for level, *cells in lines
        if cells
        for name, cell in zip(head, cells, strict=True)
    }


def test_the_matrix_is_that_of_the_documentation() -> None:
    """What `foretold anomalies` prints, against table 13.1 of PostgreSQL's documentation, cell by
    cell. It marks what the standard allows and PostgreSQL does not do; and our own documentation
    shows what it prints."""
    result = CliRunner().invoke(app, ["anomalies"], prog_name="foretold")
    assert result.exit_code == 0, result.output
    text = result.output.strip("\n")
    found = printed(text)
    for (level, name), said in documented().items():
        cells = [found[level, each] for each in COLUMNS[name]]
        if said == "Possible":
            assert any(re.fullmatch(r"[1-9]\d* of \d+", cell) for cell in cells), (level, name)
        else:
            marks = r"never\*+" if said == "Allowed, but not in PG" else "never"
            assert all(re.fullmatch(marks, cell) for cell in cells), (level, name)
    assert text.count("The SQL standard allows it here. PostgreSQL never does it.") == 2
    page = Path(__file__).parents[2] / "docs" / "models.md"
    assert text in page.read_text(encoding="utf-8")


def test_a_condition_of_ones_own() -> None:
    """Conditions are SQL and a function of key and value; both have to say the same."""
    odd = Where("v % 2 = 1", lambda key, value: value % 2 == 1)
    rows = {"x": 1, "y": 2, "z": 3}
    program: Any = {"a": [("select", odd), ("lock", odd, UPDATE)], "b": [("delete", odd)]}
    found = foretold.conform(server(COMMITTED, rows), PgModel(COMMITTED, rows), [program])
    assert found, str(found)
    wrong = Where("v % 2 = 1", lambda key, value: value % 2 == 0)
    program = {"a": [("select", wrong)]}
    assert not foretold.conform(server(COMMITTED, rows), PgModel(COMMITTED, rows), [program])
