"""`PgModel`: what PostgreSQL does with rows, snapshots and row locks, as a model.

One table of keys and values is enough to show every anomaly. The model has row versions, snapshots
of statements and of transactions, own writes, row locks with those who wait for them, first updater
wins, re-evaluation after a lock wait, deadlocks with either victim, unique keys whose second insert
waits, savepoints, and the four ways to lock rows. It says `either` where the server decides: which
of several waiters goes first, who is the victim, whether SERIALIZABLE aborts.

Held to the real server by `foretold.conform` (`models/realpg.py`), in every order of many small
programs. What it leaves out: several tables, foreign keys, predicate locks as such (SERIALIZABLE is
modelled by what it promises: some serial order, or an abort), statements that change keys.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from foretold.errors import UsageError
from foretold.models.serializable import Committed, is_serializable
from foretold.models.statements import Change, Where
from foretold.spec.checkers.either import either
from foretold.spec.conform import WAITS, Answer

READ_COMMITTED, REPEATABLE_READ = "read committed", "repeatable read"
SERIALIZABLE, READ_UNCOMMITTED = "serializable", "read uncommitted"
LEVELS: Final = (READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE)
SERIALIZATION, DEADLOCK, UNIQUE = "40001", "40P01", "23505"
NOT_AVAILABLE, IN_FAILED, NO_SAVEPOINT = "55P03", "25P02", "3B001"
NO_TRANSACTION = "25P01"
SHARE, NO_KEY_UPDATE, UPDATE = "share", "no key update", "update"
WAIT, NOWAIT, SKIP_LOCKED = "", "nowait", "skip locked"
MODES, POLICIES = (SHARE, NO_KEY_UPDATE, UPDATE), (WAIT, NOWAIT, SKIP_LOCKED)
BEGUN: Final = Answer("BEGIN")
NEW: Final = -1
"""In place of the number of a row that is not there yet."""

Key = Hashable


class _Gone:
    """In place of the value of a row that was deleted."""

    def __repr__(self) -> str:
        return "gone"

    def __deepcopy__(self, memo: object) -> _Gone:
        return self


GONE: Final = _Gone()


class Version(NamedTuple):
    """A version of a row: what it holds, which commit made it, and where it lies."""

    value: Any
    commit: int
    place: int
    row: int
    """Which row it is a version of: one that is inserted where another was deleted is a new row."""


class Write(NamedTuple):
    """The same, while nobody else sees it."""

    value: Any
    place: int
    row: int


class HeldLock(NamedTuple):
    """What somebody holds of a row."""

    mode: str
    number: int
    """Of the transaction, or of its savepoint: who waits for several waits in this order."""


@dataclass(slots=True)
class RunningStatement:
    """A statement that goes through rows, as far as it has come."""

    sort: str
    mode: str
    """How it locks rows; empty: it does not."""
    where: Where
    snapshot: int
    todo: tuple[tuple[Key, int], ...]
    """The rows that are left: their keys, and which row of that key it is."""
    change: Change | None = None
    policy: str = WAIT
    found: tuple[tuple[Key, Any], ...] = ()
    insert: Any = GONE
    """The value of a new row."""
    behind: tuple[str, ...] = ()
    """Whom it waits for, one after the other."""


@dataclass(slots=True)
class OpenTransaction:
    """What an actor's transaction has done so far."""

    implicit: bool = False
    """One statement without BEGIN."""
    snapshot: int | None = None
    """Of the whole transaction, from its first statement on."""
    writes: dict[Key, Write] = field(default_factory=dict)
    savepoints: tuple[tuple[str, dict[Key, Write], dict[Key, HeldLock]], ...] = ()
    failed: bool = False
    reads: tuple[Where, ...] = ()
    numbers: tuple[int, ...] = ()
    """Of the transaction and of its savepoints: each has one from its first lock on."""
    met: bool = False
    """Another one was open at the same time."""

    def __deepcopy__(self, memo: object) -> OpenTransaction:
        return replace(self, writes=dict(self.writes))


class PgModel:
    """PostgreSQL at one isolation level. Every method is a statement of one actor's session."""

    def __init__(
        self, isolation: str = READ_COMMITTED, rows: Mapping[Any, Any] | None = None
    ) -> None:
        if isolation not in (*LEVELS, READ_UNCOMMITTED):
            raise UsageError(
                f"PgModel({isolation!r}): there is no such level; there are {', '.join(LEVELS)}, "
                f"and {READ_UNCOMMITTED}, which PostgreSQL treats as {READ_COMMITTED}"
            )
        self.level = READ_COMMITTED if isolation == READ_UNCOMMITTED else isolation
        given = dict(rows or {})
        self.rows: dict[Key, tuple[Version, ...]] = {
            key: (Version(value, 0, place, place),)
            for place, (key, value) in enumerate(given.items())
        }
        """The committed versions of each row, the oldest first."""
        self.commits = 0
        self.place = len(given)
        self.open: dict[str, OpenTransaction] = {}
        self.locks: dict[Key, dict[str, HeldLock]] = {}
        self.numbers = 0
        self.waiting: dict[str, RunningStatement] = {}
        """Who waits, in the order in which they began to."""
        self.history: tuple[Committed, ...] = ()
        """What was committed, for SERIALIZABLE."""
        self._went_on: dict[str, Any] = {}

    def __deepcopy__(self, memo: object) -> PgModel:
        new = copy.copy(self)
        new.rows, new.waiting = dict(self.rows), {k: replace(s) for k, s in self.waiting.items()}
        new.open = {actor: copy.deepcopy(each) for actor, each in self.open.items()}
        new.locks = {key: dict(held) for key, held in self.locks.items()}
        new._went_on = {}
        return new

    def state(self) -> dict[Any, Any]:
        """What is committed."""
        return {k: v[-1].value for k, v in sorted(self.rows.items()) if v[-1].value is not GONE}

    # --- transactions ----------------------------------------------------------------------------

    def begin(self, actor: str) -> Answer:
        mine = self.open.get(actor) or self._open(actor)
        return Answer(IN_FAILED) if mine.failed else BEGUN

    def commit(self, actor: str) -> Answer:
        if actor not in self.open:
            return Answer("COMMIT")  # the server warns, and that is all
        return self._answer(actor, self._end(actor))

    def rollback(self, actor: str) -> Answer:
        if self.open.pop(actor, None) is not None:
            self._release(actor)
        return self._answer(actor, "ROLLBACK")

    def savepoint(self, name: str, *, actor: str) -> Answer:
        mine = self.open.get(actor)
        if mine is None:
            return Answer(NO_TRANSACTION)
        if mine.failed:
            return Answer(IN_FAILED)
        mine.savepoints = (*mine.savepoints, (name, dict(mine.writes), self._locks_of(actor)))
        return Answer("SAVEPOINT")

    def rollback_to(self, name: str, *, actor: str) -> Answer:
        mine, place = self.open.get(actor), self._place_of(name, actor)
        if mine is None:
            return Answer(NO_TRANSACTION)
        if place is None:
            return self._answer(actor, self._fail(actor, NO_SAVEPOINT))
        mine.savepoints = mine.savepoints[: place + 1]
        mine.numbers = mine.numbers[: place + 1]
        mine.failed = False
        self._back_to(actor, place)
        return self._answer(actor, "ROLLBACK")

    def release(self, name: str, *, actor: str) -> Answer:
        mine, place = self.open.get(actor), self._place_of(name, actor)
        if mine is None:
            return Answer(NO_TRANSACTION)
        if mine.failed:
            return Answer(IN_FAILED)
        if place is None:
            return self._answer(actor, self._fail(actor, NO_SAVEPOINT))
        mine.savepoints = mine.savepoints[:place]
        mine.numbers = mine.numbers[: place + 1]
        return Answer("RELEASE")

    def _place_of(self, savepoint: str, actor: str) -> int | None:
        mine = self.open.get(actor)
        names = [name for name, _, _ in mine.savepoints] if mine is not None else []
        return max((n for n, name in enumerate(names) if name == savepoint), default=None)

    def disconnect(self, *, actor: str) -> Answer:
        """The session is gone, whatever it was doing: what it has not committed never happened."""
        self.waiting.pop(actor, None)
        self.open.pop(actor, None)
        self._release(actor)
        return self._answer(actor, "disconnected")

    # --- statements ------------------------------------------------------------------------------

    def select(self, where: Where, *, actor: str) -> Answer:
        return self._say(actor, "select", where, "")

    def lock(self, where: Where, mode: str = UPDATE, policy: str = WAIT, *, actor: str) -> Answer:
        """`SELECT … FOR UPDATE`, or FOR SHARE; with NOWAIT or SKIP LOCKED."""
        if mode not in MODES or policy not in POLICIES:
            known = " or ".join(map(repr, MODES))
            raise UsageError(
                f"lock(…, {mode!r}, {policy!r}): the model has the modes {known}, and the policies "
                f"{', '.join(map(repr, POLICIES))}.\n  right: lock(at('x'), 'share', 'nowait')"
            )
        return self._say(actor, "select", where, mode, None, policy)

    def update(self, where: Where, change: Change, *, actor: str) -> Answer:
        return self._say(actor, "update", where, NO_KEY_UPDATE, change)

    def delete(self, where: Where, *, actor: str) -> Answer:
        return self._say(actor, "delete", where, UPDATE)

    def insert(self, key: Any, value: Any, *, actor: str) -> Answer:
        where = Where(f"id = {key!r}", lambda its, _: its == key)
        mine = self.open.get(actor) or self._open(actor, implicit=True)
        if mine.failed:
            return Answer(IN_FAILED)
        statement = RunningStatement(
            "insert", UPDATE, where, self._snapshot(mine), ((key, NEW),), insert=value
        )
        return self._answer(actor, self._go_on(actor, statement))

    def _say(
        self,
        actor: str,
        sort: str,
        where: Where,
        mode: str,
        change: Change | None = None,
        policy: str = WAIT,
    ) -> Answer:
        mine = self.open.get(actor) or self._open(actor, implicit=True)
        if mine.failed:
            return Answer(IN_FAILED)
        snapshot = self._snapshot(mine)
        if self.level == SERIALIZABLE:
            mine.reads = (*mine.reads, where)
        rows = self._candidates(actor, where, snapshot, sort)
        if mode:
            todo = tuple([(key, version.row) for key, version in rows])
            statement = RunningStatement(sort, mode, where, snapshot, todo, change, policy)
        else:  # a read waits for nobody: it has read what it has found
            read = tuple([(key, version.value) for key, version in rows])
            statement = RunningStatement(sort, mode, where, snapshot, (), found=read)
        return self._answer(actor, self._go_on(actor, statement))

    def _open(self, actor: str, *, implicit: bool = False) -> OpenTransaction:
        mine = self.open[actor] = OpenTransaction(implicit)
        if len(self.open) > 1:
            for each in self.open.values():
                each.met = True
        return mine

    def _snapshot(self, mine: OpenTransaction) -> int:
        """Of each statement its own; from REPEATABLE READ on, that of the first one."""
        if self.level == READ_COMMITTED:
            return self.commits
        if mine.snapshot is None:
            mine.snapshot = self.commits
        return mine.snapshot

    # --- what is seen ----------------------------------------------------------------------------

    def _seen(self, actor: str, key: Key, snapshot: int) -> Version | None:
        """The version of a row that a snapshot shows, own writes before all others."""
        own = self.open[actor].writes.get(key)
        if own is None:
            return self._committed_at(key, snapshot)
        return None if own.value is GONE else Version(own.value, self.commits, *own[1:])

    def _committed_at(self, key: Key, snapshot: int) -> Version | None:
        for version in reversed(self.rows.get(key, ())):
            if version.commit <= snapshot:
                return None if version.value is GONE else version
        return None

    def _replaced(self, actor: str, key: Key, snapshot: int) -> Version | None:
        """The row that another transaction has deleted since the snapshot, if this one has inserted
        its key again: the snapshot shows both."""
        own = self.open[actor].writes.get(key)
        old = None if own is None else self._committed_at(key, snapshot)
        if own is None or old is None or old.row == own.row:
            return None
        return old if self.rows[key][-1].value is GONE else None

    def _candidates(
        self, actor: str, where: Where, snapshot: int, sort: str
    ) -> list[tuple[Key, Version]]:
        """The rows that a statement finds: what reads is sorted by key, what writes goes through
        the table from its beginning to its end."""
        writes, keys = self.open[actor].writes, where.keys
        if keys and len(keys) == 1 and keys[0] not in writes:  # most statements
            only = self._seen(actor, keys[0], snapshot)
            fits = only is not None and where.holds(keys[0], only.value)
            return [(keys[0], only)] if only is not None and fits else []
        keys = keys or tuple(dict.fromkeys([*self.rows, *writes]))
        found = [
            (key, version)
            for key in keys
            for version in (self._replaced(actor, key, snapshot), self._seen(actor, key, snapshot))
            if version is not None and where(key, version.value)
        ]
        if sort == "select":
            found.sort(key=lambda each: repr(each[0]))
        else:
            found.sort(key=lambda each: each[1].place)
        return found

    # --- going through rows ----------------------------------------------------------------------

    def _go_on(self, actor: str, statement: RunningStatement) -> Any:
        """Go through the rows that are left. Returns the outcome, or WAITS."""
        if self._aborts(actor):
            return self._fail(actor, SERIALIZATION)
        while statement.todo:
            key, row = statement.todo[0]
            if self.level != READ_COMMITTED and self._is_stale(actor, key, row, statement):
                return self._fail(actor, SERIALIZATION)
            if self._blockers(actor, statement):
                if statement.policy == WAIT:
                    return self._wait(actor, statement)
                if statement.policy == NOWAIT:
                    return self._fail(actor, NOT_AVAILABLE)
            elif failed := self._do(actor, key, row, statement):
                return self._fail(actor, failed)
            statement.todo = statement.todo[1:]
        return self._done(actor, statement)

    def _is_stale(self, actor: str, key: Key, row: int, statement: RunningStatement) -> bool:
        """Whether somebody has changed and committed the row that the snapshot shows."""
        own = self.open[actor].writes.get(key)
        if statement.sort == "insert" or (own is not None and own.row == row):
            return False
        return self.rows[key][-1].commit > statement.snapshot

    def _blockers(self, actor: str, statement: RunningStatement) -> list[str]:
        """Who holds a lock that this statement has to wait for, in the order of their numbers."""
        key, _ = statement.todo[0]
        held = self.locks.get(key)
        if held is None or (len(held) == 1 and actor in held):
            return []  # nearly always
        others = sorted(held.keys() - {actor}, key=lambda who: held[who].number)
        if statement.sort == "insert":  # waits for who writes the row, not for who locks it
            return [who for who in others if key in self.open[who].writes]
        conflicts = [who for who in others if self._conflict(held[who].mode, statement.mode)]
        return [who for who in conflicts if not self._is_new(who, key)]

    def _conflict(self, one: str, other: str) -> bool:
        return not one == other == SHARE

    def _is_new(self, who: str, key: Key) -> bool:
        """Whether the row is one that somebody has inserted and not committed: nobody sees it."""
        versions = self.rows.get(key, ())
        return key in self.open[who].writes and (not versions or versions[-1].value is GONE)

    def _do(self, actor: str, key: Key, row: int, statement: RunningStatement) -> str:
        """One row, which nobody else holds. Returns the code of an error, or nothing."""
        if statement.sort == "insert":
            return self._insert(actor, key, statement)
        own = self.open[actor].writes.get(key)
        if own is not None and own.row == row:
            value, is_newer = own.value, False
        else:
            latest = self.rows[key][-1]
            if latest.value is GONE or latest.row != row:
                return ""  # somebody else has deleted it meanwhile
            value, is_newer = latest.value, latest.commit > statement.snapshot
        self._hold(actor, key, statement.mode)
        if is_newer and not statement.where(key, value):
            return ""  # it is not one of ours any more; its lock stays all the same
        statement.found = (*statement.found, (key, value))
        if statement.sort != "select":
            self._write(actor, key, statement.change(value) if statement.change else GONE, row)
        return ""

    def _insert(self, actor: str, key: Key, statement: RunningStatement) -> str:
        own = self.open[actor].writes.get(key)
        versions = self.rows.get(key, ())
        last = own or (versions[-1] if versions else None)
        exists = last is not None and last.value is not GONE
        if exists:
            return UNIQUE
        self._hold(actor, key, statement.mode)
        self._write(actor, key, statement.insert, self.place)
        statement.found = ((key, statement.insert),)
        return ""

    def _write(self, actor: str, key: Key, value: Any, row: int) -> None:
        self.open[actor].writes[key] = Write(value, self.place, row)
        self.place += 1

    def _done(self, actor: str, statement: RunningStatement) -> Any:
        number = len(statement.found)
        if self.open[actor].implicit:
            ended = self._end(actor)
            if ended != "COMMIT":
                return ended
        if statement.sort == "select":
            return statement.found
        return "INSERT 0 1" if statement.sort == "insert" else f"{statement.sort.upper()} {number}"

    # --- locks -----------------------------------------------------------------------------------

    def _hold(self, actor: str, key: Key, mode: str) -> None:
        mine, held = self.open[actor], self.locks.setdefault(key, {})
        while len(mine.numbers) <= len(mine.savepoints):
            self.numbers += 1
            mine.numbers = (*mine.numbers, self.numbers)
        known = held.get(actor)
        if known is None:
            held[actor] = HeldLock(mode, mine.numbers[-1])
        elif MODES.index(mode) > MODES.index(known.mode):
            held[actor] = HeldLock(mode, known.number)

    def _locks_of(self, actor: str) -> dict[Key, HeldLock]:
        return {key: held[actor] for key, held in self.locks.items() if actor in held}

    def _wait(self, actor: str, statement: RunningStatement) -> Any:
        statement.behind = tuple(self._blockers(actor, statement))
        self.waiting[actor] = statement
        self._wake()
        return self._went_on.pop(actor, WAITS)

    def _circle(self) -> list[str]:
        """Those who wait for each other in a circle, the one who closed it first."""
        for actor in reversed(self.waiting):
            path = [actor]
            while (other := self._waits_for(path[-1])) is not None and other not in path:
                path.append(other)
            if other == actor:
                return path
        return []

    def _waits_for(self, actor: str) -> str | None:
        """Who holds a row alone is waited for; of several who share it, one after the other."""
        statement = self.waiting.get(actor)
        if statement is None:
            return None
        blockers = self._blockers(actor, statement)
        return next((who for who in (*statement.behind, *blockers) if who in blockers), None)

    def _release(self, actor: str, keep: Mapping[Key, HeldLock] | None = None) -> None:
        """Give up locks, and let go on who waited for them."""
        kept = keep or {}
        for key, held in list(self.locks.items()):
            if actor in held and key not in kept:
                del held[actor]
            elif actor in held:
                held[actor] = kept[key]
            if not held:
                del self.locks[key]
        self._wake()

    def _wake(self) -> None:
        """Whoever waits for nobody any more goes on; of those in a circle, one fails."""
        while self.waiting:
            if free := self._free():
                actor = either(*free) if len(free) > 1 else free[0]
                outcome = self._go_on(actor, self.waiting.pop(actor))
            elif circle := self._circle():
                actor = either(*circle)
                del self.waiting[actor]
                outcome = self._fail(actor, DEADLOCK)
            else:
                return
            if outcome is not WAITS:
                self._went_on[actor] = outcome

    def _free(self) -> list[str]:
        """Who waits for nobody any more. Of those who do not get into each other's way, one."""
        found = [
            actor
            for actor, statement in self.waiting.items()
            if not self._blockers(actor, statement)
        ]
        if len(found) < 2:
            return found
        rows = [{*self._locks_of(actor), *dict(self.waiting[actor].todo)} for actor in found]
        return found[:1] if len(set().union(*rows)) == sum(map(len, rows)) else found

    # --- ends ------------------------------------------------------------------------------------

    def _aborts(self, actor: str) -> bool:
        """SERIALIZABLE may abort whoever has met another one: that is permitted, never demanded."""
        return self.level == SERIALIZABLE and self.open[actor].met and either(False, True)

    def _fail(self, actor: str, code: str) -> str:
        """An error: what was done since the last savepoint never happened."""
        mine = self.open[actor]
        if mine.implicit:
            del self.open[actor]
            self._release(actor)
            return code
        mine.failed = True
        self._back_to(actor, len(mine.savepoints) - 1)
        return code

    def _back_to(self, actor: str, savepoint: int) -> None:
        mine = self.open[actor]
        if savepoint < 0:
            mine.writes = {}
            self._release(actor)
            return
        _, writes, locks = mine.savepoints[savepoint]
        mine.writes = dict(writes)
        self._release(actor, locks)

    def _end(self, actor: str) -> str:
        """COMMIT: of a transaction that has failed it is a rollback."""
        mine = self.open[actor]
        outcome = "ROLLBACK" if mine.failed else "COMMIT"
        if not mine.failed and self.level == SERIALIZABLE and not self._may_commit(actor):
            outcome = SERIALIZATION
        del self.open[actor]
        if outcome == "COMMIT":
            self._apply(mine)
        self._release(actor)
        return outcome

    def _may_commit(self, actor: str) -> bool:
        mine = self.open[actor]
        if not is_serializable((*self.history, self._committed(mine))):
            return False
        return not self._aborts(actor)

    def _apply(self, mine: OpenTransaction) -> None:
        if self.level == SERIALIZABLE:
            self.history = (*self.history, self._committed(mine))
        self.commits += bool(mine.writes)
        for key, (value, place, row) in mine.writes.items():
            self.rows[key] = (*self.rows.get(key, ()), Version(value, self.commits, place, row))

    def _committed(self, mine: OpenTransaction) -> Committed:
        def before(key: Key) -> Any:
            versions = self.rows.get(key, ())
            return versions[-1].value if versions else GONE

        changed = tuple((key, before(key), own.value) for key, own in mine.writes.items())
        snapshot = self.commits if mine.snapshot is None else mine.snapshot
        return Committed(snapshot, self.commits + bool(changed), mine.reads, changed)

    def _answer(self, actor: str, outcome: Any) -> Answer:
        if not self._went_on:
            return Answer(outcome)
        went_on, self._went_on = self._went_on, {}
        outcome = went_on.pop(actor, outcome)
        return Answer(outcome, tuple(sorted(went_on.items())))
