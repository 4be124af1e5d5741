"""Which two transactions are to blame, and what to do about it.

One read something, another changed it and committed, and the first wrote by what it knew. Of all
such pairs the likeliest is told: if an invariant failed after a commit, then whoever committed is
one of the two, and what the invariant asks about is what was written wrongly. Rows are compared: a
transaction that has read other rows is not accused. If the rows of a read are not known, it is
accused only if there is no better suspect, and the story says that they are not known. A write
that notes nothing but an instant (`last_used_at`) is accused only if the failed assertion asks
about its table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from foretold.services.postgres.rows import meets
from foretold.story.database.statements import Statement, Transaction
from foretold.story.tale import Side
from foretold.story.words import short
from foretold.trace.events import Who

FEW = 8
"""Of more statements than that, those of a pair that have nothing to do with it are left out."""
RECENT = 16
UNKNOWN_ROWS = "Whether these were the same rows is not known: the statements do not tell."


@dataclass(frozen=True)
class Asked:
    """What the failed assertion is about, as far as it is known."""

    tables: Collection[str]
    """Those that the invariant, or the test, has asked about."""
    counts: bool = False
    """It is about how many there are."""
    commit: Statement | None = None
    """After this one an invariant did not hold."""

    def is_by(self, request: Transaction) -> bool:
        """Whether it was this one's commit."""
        return any(each is self.commit for each in request.statements)


NOTHING_ASKED = Asked(())


@dataclass
class Stale:
    """One read what another one changed and committed meanwhile, and then wrote by what it knew."""

    reader: Transaction
    writer: Transaction
    read: Statement
    write: Statement
    """That of the writer."""
    later: Statement
    """That of the reader."""
    asked: Asked = NOTHING_ASKED

    @property
    def tables(self) -> set[str]:
        """What the one had read and the other changed."""
        return self.read.tables & self.write.written

    @property
    def is_in_one_request(self) -> bool:
        """Two tasks of it were at work."""
        return self.reader.asked_by is not None and self.reader.asked_by == self.writer.asked_by

    @property
    def is_known(self) -> bool:
        """Whether the one has read the very rows that the other changed."""
        return self.read.met(self.write) is True

    @property
    def is_idle(self) -> bool:
        """Whether it is about when something was, and nobody has asked for that."""
        is_touch = self.write.is_touch or self.later.is_touch
        return is_touch and self.tables.isdisjoint(self.asked.tables)

    @property
    def rank(self) -> tuple[bool | int, ...]:
        """The smaller the better: whose commit broke something; the rows are known to be the same;
        it is about more than when something was; it wrote where it was broken; after the other's
        commit; it wrote the sum that it had read; in the same table; it had counted, if too many
        is what is wrong; it had found nothing, and both put something there; it did not take what
        was there when it wrote. Of several pairs the last; one transaction before two; and of its
        statements the first, but of those before its transaction the last."""
        asked, broke = set(self.asked.tables), self.asked.commit is not None
        return (
            broke and not self.asked.is_by(self.reader),
            not self.is_known,
            self.write.is_touch or self.later.is_touch,
            bool(asked) and not self.later.written & asked,
            self.later.time_ns < self.write.ends_ns,
            bool(asked) and not self.tables & asked,
            not self._stores_sum,
            not self.later.written & self.tables,
            self.asked.counts and not self._sums_up,
            not self.is_double,
            self.later.is_relative,
            -self.reader.last_ns,
            self.is_apart,
            -self.read.time_ns if self.is_apart else self.read.time_ns,
            self.later.time_ns,
        )

    @property
    def _sums_up(self) -> bool:
        return self.read.sums_up(self.tables)

    @property
    def _stores_sum(self) -> bool:
        """What it wrote is how many, or how much, it had read."""
        stored = self.later.rows.to.values()
        return self._sums_up and not self.read.given_back.isdisjoint(stored)

    @property
    def is_apart(self) -> bool:
        """It wrote in another transaction than it read in."""
        return self.read.transaction != self.later.transaction

    @property
    def is_double(self) -> bool:
        """It found nothing, and both put it there."""
        return self.read.found_nothing and self.write.word == "INSERT"

    def of_these(self, statements: list[Statement]) -> list[Statement]:
        """Those that matter, if they are too many: about the same table, beginnings and ends."""
        if len(statements) <= FEW:
            return statements
        ours = {id(each) for each in self.evidence}
        table = self.tables | (self.later.written if len(self.later.written) == 1 else set())
        locks = {id(e) for e in statements if self._locks_instead(e)}
        wrong = {id(e) for e in statements if e.written & set(self.asked.tables)}
        kept = ours | locks | wrong
        return [e for e in statements if id(e) in kept or e.is_mark or e.tables & table]

    @property
    def evidence(self) -> tuple[Statement, ...]:
        """What is told of it; these are always shown."""
        return self.read, self.write, self.later

    def title(self, requests: Collection[Who]) -> str:
        """What has met. Who is none of these `requests` is a task, or a session of nobody."""
        askers = [each.asked_by for each in (self.reader, self.writer)]
        are_requests = all(who in requests for who in askers)
        if self.is_in_one_request:
            one = "request" if are_requests else "task"
            what = "the work of two tasks" if self.is_apart else "two transactions"
            return f"In the database {what} of one {one} overlapped:"
        if not (self.reader.is_several or self.writer.is_several):
            return "In the database two transactions overlapped:"
        two = "requests" if are_requests else "sessions" if None in askers else "tasks"
        whose = "the work" if self.is_apart else "the transactions"
        return f"In the database {whose} of two {two} overlapped:"

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        table = min(self.tables)
        wrote = _words(self.later.written & {table} or self.later.written)
        reader, writer = name(self.read), name(self.write)
        if self.is_double and self.later.word == "INSERT" and table in self.later.written:
            yield f"{reader} looked for a row in {table} and found none{self.read.where}:"
            yield f"{writer} had not inserted it yet{self.write.where}."
            yield f"Then {reader} inserted one, too{self.later.where}."
        else:
            yield f"{reader} read {table}{self.read.where}"
            yield f"before {writer} {self._had_changed}{self.write.where},"
            yield f"and then wrote {wrote}{self.later.where}."
        if not self.is_known:
            yield UNKNOWN_ROWS
        yield f"{self._advice()}{self._let_go()}"

    @property
    def _had_changed(self) -> str:
        """It may have changed it when the other one read: that shows only when it has committed."""
        is_later = self.write.time_ns > self.read.time_ns
        return "had changed it" if is_later else "had committed its change of it"

    def sides(self, name: Callable[[Statement], str]) -> tuple[Side, Side]:
        """The two as data."""
        table = min(self.tables)
        read = Side(name(self.read), f"read {table}", short(self.read.place))
        return read, Side(name(self.write), f"changed {table}", short(self.write.place))

    def _advice(self) -> str:
        """Nothing but what makes the second wait for the first, or refuses it."""
        look = f"Look at {self.read.at or 'the read'}:"
        one = each = ""
        commit, unlockable = self._commit_between, self._unlockable
        if commit is not None:
            over = "it had committed" if commit.is_kept else "its transaction was over"
            look += (
                f" {over}{commit.where} before it wrote; what it knew, and any lock that it held, "
                "ended there."
            )
            if self.read.reading.locks_rows and unlockable is None:
                return f"{look} Should it do both in one transaction?"
            one, each = ", and read and write in one transaction", ", each in one transaction"
        if unlockable is not None:
            what = unlockable.capitalize() if one else unlockable
            refused = " Should a unique constraint refuse the second?" if self.is_double else ""
            said = (
                f"{what} cannot be locked (FOR UPDATE). Should both first lock the row that it "
                f"belongs to{one}?{refused}"
            )
        else:
            should = "Should" if one else "should"
            said = f"{should} it have locked what it reads (FOR UPDATE){one}?{self._other_lock()}"
            said += self._refusal()
        return f"{look} {said} Or should both be SERIALIZABLE{each}?"

    @property
    def _unlockable(self) -> str | None:
        """What it has read, if no lock on that would have kept the other one away."""
        if self.read.found_nothing:
            return "a row that is not there"
        if self._sums_up:
            return "a count" if "count" in self.read.reading.calls else "a sum over rows"
        is_new = self.write.word == "INSERT" and not self.write.reading.has("conflict")
        return "a row that is not there yet" if is_new else None

    def _refusal(self) -> str:
        """A condition can refuse a change of a row, and a constraint only what is computed or put
        there when it is written."""
        could = ["a constraint"] if self.later.word == "INSERT" or self.later.is_relative else []
        could += [] if self.later.word == "INSERT" else ["a condition in the write"]
        return f" Should {', or '.join(could)}{',' * (len(could) > 1)} have refused the second?"

    def _other_lock(self) -> str:
        """What it has locked instead, in the transaction in which it read."""
        lock = next((e for e in self.reader.statements if self._locks_instead(e)), None)
        if lock is None:
            return ""
        return f" It has locked {_words(lock.tables)} instead{lock.where}."

    def _locks_instead(self, each: Statement) -> bool:
        locks = each.reading.locks_rows and not each.waits and not each.error
        return (
            locks and each.transaction == self.read.transaction and each.time_ns < self.read.time_ns
        )

    def _let_go(self) -> str:
        """What it had locked in a transaction before that in which it read, if the other one has
        locked the same: it would have had to wait."""
        before = [e for e in self.reader.statements if e.transaction < self.read.transaction]
        held = any(_excludes(one, other) for one in before for other in self.writer.statements)
        if not held or self._commit_between is not None:
            return ""
        return f" (What it had locked before its commit{before[-1].where} was free again.)"

    @property
    def _commit_between(self) -> Statement | None:
        """If it read in one transaction and wrote in another: where the first ended."""
        if self.read.transaction == self.later.transaction:
            return None
        its = [e for e in self.reader.statements if e.transaction == self.read.transaction]
        return its[-1]


class Outdated(Stale):
    """A client has read something in one request, and written it in a later one; another one has
    changed it in between."""

    def title(self, requests: Collection[Who]) -> str:
        """What has met."""
        return "In the database a client wrote what it had read in an earlier request:"

    @property
    def is_certain(self) -> bool:
        """Whether all three are about one row, and the client did not look again."""
        alike = self.read.met(self.later) is True and self.later.written & self.tables
        known = bool(alike) and self.is_known and not (self.is_idle or self.later.is_relative)
        after = self.write.ends_ns <= self.later.time_ns and self._is_later_request
        return known and after and not any(map(self._looks_again, self.reader.statements))

    @property
    def _is_later_request(self) -> bool:
        """It was sent when the first one was over."""
        first = [e.time_ns for e in self.reader.statements if e.asked_by == self.read.asked_by]
        then = [e.time_ns for e in self.reader.statements if e.asked_by == self.later.asked_by]
        return max(first) < min(then)

    def _looks_again(self, each: Statement) -> bool:
        is_between = self.write.ends_ns < each.time_ns < self.later.time_ns
        return (
            is_between and each.asked_by != self.later.asked_by and bool(each.tables & self.tables)
        )

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        table = min(self.tables)
        yield f"{name(self.read)} read {table}{self.read.where}"
        yield f"before {name(self.write)} {self._had_changed}{self.write.where};"
        yield f"then {name(self.later)} of the same client wrote {table}{self.later.where}."
        yield (
            f"Look at {self.later.at or 'the last write'}: should it be refused when the row has "
            "changed since the client read it (a version in the condition, If-Match)?"
        )


@dataclass
class Skew:
    """One transaction has read twice, and another one was committed between: it has seen the state
    before that, and the state after it."""

    reader: Transaction
    writer: Transaction
    before: Statement
    after: Statement
    write: Statement
    """What changed that which it read first."""
    other: Statement
    """What changed that which it read then."""

    @property
    def evidence(self) -> tuple[Statement, ...]:
        """What is told of it; these are always shown."""
        return self.before, self.after, self.write, self.other

    def title(self, requests: Collection[Who]) -> str:
        """What has met."""
        return "In the database a transaction has seen two states:"

    def sides(self, name: Callable[[Statement], str]) -> tuple[Side, Side]:
        """The two as data."""
        table = min(self.before.tables & self.write.written)
        read = Side(name(self.before), f"read {table}", short(self.before.place))
        return read, Side(name(self.write), f"changed {table}", short(self.write.place))

    def of_these(self, statements: list[Statement]) -> list[Statement]:
        """Those that matter, if they are too many."""
        if len(statements) <= FEW:
            return statements
        ours = {id(each) for each in self.evidence}
        return [each for each in statements if id(each) in ours or each.is_mark]

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        first, second = (
            min(self.before.tables & self.write.written),
            min(self.after.tables & self.other.written),
        )
        reader, writer = name(self.before), name(self.write)
        places = dict.fromkeys(filter(None, (self.write.at, self.other.at)))
        where = f" ({'; '.join(places)})" if places else ""
        what = _words({first, second})
        yield f"{reader} read {first}{self.before.where}"
        yield f"before {writer} had changed {what}{where} and committed,"
        yield f"and read {second} after that{self.after.where}: the two do not belong together."
        if not (self.before.met(self.write) and self.after.met(self.other)):
            yield UNKNOWN_ROWS
        yield (
            f"Look at {self.before.at or 'the first read'}: should one statement read both? Or "
            "should the transaction be REPEATABLE READ, so that it sees one state?"
        )


def outdated(
    clients: Sequence[Transaction], requests: Sequence[Transaction], asked: Asked
) -> Outdated | None:
    """The last such write, if no two transactions have got into each other's way. `clients`: all
    that one client has asked for, as one."""
    found = [
        Outdated(**vars(stale))
        for reader in clients
        for writer in requests[-RECENT:]
        if writer.committed and writer.asked_by not in {e.asked_by for e in reader.statements}
        for stale in _stale_reads(reader, writer, asked)
        if stale.read.asked_by != stale.later.asked_by
    ]
    certain = [each for each in found if each.is_certain]
    return min(certain, key=lambda each: each.rank, default=None)


def critical_pair(
    transactions: Sequence[Transaction], asked: Asked = NOTHING_ASKED
) -> Stale | Skew | None:
    """Two that overlap, one of which acted on what the other one changed meanwhile; among the last,
    because in a run that was not shrunk many do so in vain. If nobody acted: who has read two
    states."""
    writing = [each for each in transactions if each.written][-RECENT:]
    found = [
        stale
        for one, other in combinations(writing, 2)
        if one.committed and other.committed and one.overlaps(other)
        for reader, writer in ((one, other), (other, one))
        for stale in _stale_reads(reader, writer, asked)
        if not stale.is_idle
    ]
    best = min(found, key=lambda stale: stale.rank, default=None)
    if best is not None and best.is_known:
        return best
    recent = transactions[-RECENT:]
    return _skew(recent, writing) or best or _skew(recent, writing, is_known=False)


def _stale_reads(reader: Transaction, writer: Transaction, asked: Asked) -> Iterator[Stale]:
    """`reader` read a table, `writer` changed it and committed, `reader` went on to write."""
    for read in reader.statements:
        if read.written or read.waits or read.error:
            continue
        is_locked = read.reading.locks_rows  # to the end of its transaction
        for write in writer.statements:
            if not (write.is_kept and read.tables & write.written and read.time_ns < write.ends_ns):
                continue
            if read.met(write) is False:
                continue
            for later in reader.statements:
                safe = is_locked and later.transaction == read.transaction
                safe = safe or _is_read_again(reader, read, write, later)
                acts = later.written and later.is_kept and later.time_ns > write.time_ns
                if acts and not safe and _may_follow(read, write, later, asked):
                    yield Stale(reader, writer, read, write, later, asked)


def _may_follow(read: Statement, write: Statement, later: Statement, asked: Asked) -> bool:
    """Whether what was written may depend on what was read: it came after that; and if in another
    transaction, it is about the same table, or about what the assertion asks about, or a value was
    written that had been read. Else it is something that the program notes besides."""
    if later.number < read.number:
        return False
    is_about = later.written & (read.tables & write.written | set(asked.tables))
    if later.transaction == read.transaction or is_about:
        return True
    return not asked.tables and not later.given.isdisjoint(read.given_back)


def _is_read_again(
    reader: Transaction, read: Statement, write: Statement, later: Statement
) -> bool:
    """Under a lock, after the other had committed: what was known from before does not matter."""
    return any(
        each.reading.locks_rows
        and not each.waits
        and each.transaction == later.transaction
        and write.ends_ns < each.time_ns < later.time_ns
        and read.tables & write.written & each.tables
        for each in reader.statements
    )


def _skew(
    readers: Sequence[Transaction], writers: Sequence[Transaction], *, is_known: bool = True
) -> Skew | None:
    """The last one of which it is known that the rows are the same; or not known that they are
    others."""
    for reader in reversed(readers):
        reads = [e for e in reader.statements if e.tables and not (e.written or e.waits or e.error)]
        for before, after in combinations(reads, 2):
            if not _may_differ(before, after):
                continue
            for writer in writers:
                if writer is reader or not writer.committed:
                    continue
                first = _changed(writer, before, before.time_ns, after.time_ns, is_known=is_known)
                second = _changed(writer, after, before.time_ns, after.time_ns, is_known=is_known)
                if first is not None and second is not None:
                    return Skew(reader, writer, before, after, first, second)
    return None


def _may_differ(before: Statement, after: Statement) -> bool:
    """Whether two reads of one transaction may see two states, and are not meant to: a lock makes
    both safe, a higher level of isolation, too; and who asks the same again wants the new state."""
    again = (before.sql, before.values) == (after.sql, after.values)
    locks = before.reading.locks_rows or after.reading.locks_rows
    return before.transaction == after.transaction and not (again or locks or before.is_isolated)


def _changed(
    writer: Transaction, read: Statement, since: int, until: int, *, is_known: bool
) -> Statement | None:
    """What of the writer's was committed in between, and is what this one reads."""
    its = (each for each in writer.statements if each.is_kept and since < each.ends_ns < until)
    its = (each for each in its if each.written & read.tables and not each.is_touch)
    return next((e for e in its if (met := read.met(e)) or (met is None and not is_known)), None)


def _excludes(one: Statement, other: Statement) -> bool:
    """Whether both lock one row, as far as that is known."""
    tables = _locked(one) & _locked(other)
    return any(meets(one.rows, other.rows, table) is not False for table in tables)


def _locked(statement: Statement) -> set[str]:
    """The tables of which it has locked rows."""
    if statement.is_touch or statement.error:
        return set()
    return statement.tables if statement.reading.locks_rows else statement.written


def _words(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "something"
