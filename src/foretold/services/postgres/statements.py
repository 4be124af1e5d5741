"""What a session's messages mean: which SQL a group executes.

Prepared statements and portals are known by name; the text came with an earlier message. Only what
is told to people, and what faults choose by, depends on this.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass, field

from foretold.services.postgres.given import (
    AnswerColumn,
    Expected,
    columns_in,
    formats_after,
    given_in,
    types_in,
)
from foretold.services.postgres.protocol import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    PARAMETER_DESCRIPTION,
    PARSE,
    QUERY,
    ROW_DESCRIPTION,
    Group,
)
from foretold.services.postgres.sqltext import every_word, read

SQL_CHARS_MAX = 300
WHOLE_CHARS_MAX = 4_000
_SESSIONS = (
    "pg_stat_activity", "pg_stat_ssl", "pg_stat_gssapi", "pg_stat_database",
    "pg_stat_get_activity", "pg_stat_get_db_numbackends",
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def shown(sql: str, chars_max: int = SQL_CHARS_MAX) -> str:
    """A statement on one line, without end."""
    line = " ".join(sql.split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def whole(sql: str) -> str:
    """The same for stories: what decides (a condition, a lock) often comes last."""
    return shown(sql, WHOLE_CHARS_MAX)


def calls_others(sql: str) -> bool:
    """Whether a statement may end other sessions, or their statements."""
    words = every_word(sql)
    ends = not words.isdisjoint(("pg_terminate_backend", "pg_cancel_backend"))
    return ends or words.issuperset(("drop", "with", "force"))


def looks_at_sessions(sql: str) -> bool:
    """Whether a statement asks the server for its sessions."""
    words = every_word(sql)
    asks = (word.startswith("pg_stat_get_backend_") for word in words)
    return not words.isdisjoint(_SESSIONS) or any(asks)


def makes_settings(sql: str) -> bool:
    """Whether a statement may give a value to a setting that PostgreSQL does not know."""
    words = every_word(sql)
    if not words.isdisjoint(("set_config", "do", "call")):
        return True
    # Looked at word by word only if there may be one: this is asked for each statement of a run.
    return "set" in words and "." in sql and any(each.sets_own_setting for each in read(sql))


def may_commit_inside(sql: str) -> bool:
    """Whether a statement may run a procedure, which may commit on its way."""
    return not every_word(sql).isdisjoint(("call", "do"))


def chains_rollback(sql: str) -> bool:
    """Whether a statement rolls back, and the next transaction begins with it."""
    if not every_word(sql).issuperset(("and", "chain")):
        return False
    return any(
        each.word in ("ROLLBACK", "ABORT") and each.follows("and", "chain") for each in read(sql)
    )


def is_commit(sql: str) -> bool:
    """Whether a statement asks for the end of its transaction, and to keep what it did."""
    if every_word(sql).isdisjoint(("commit", "end")):
        return False
    first = next(iter(read(sql)), None)
    return first is not None and first.word in ("COMMIT", "END") and not first.has("prepared")


def _name(body: bytes, start: int = 5) -> tuple[bytes, int]:
    end = body.index(0, start)
    return body[start:end], end + 1


@dataclass(slots=True)
class Statements:
    prepared: dict[bytes, str] = field(default_factory=dict)
    portals: dict[bytes, str] = field(default_factory=dict)
    keeps_given: bool = False
    """For a story: also which values are given."""
    given: list[tuple[str, ...]] = field(default_factory=list)
    """Those of the statements that were executed last."""
    expected: list[Expected] = field(default_factory=list)
    """And what is known of the rows that they find."""
    _types: dict[bytes, list[int]] = field(default_factory=dict)
    _bound: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    _columns: dict[bytes, tuple[AnswerColumn, ...]] = field(default_factory=dict)
    _portals: dict[bytes, Expected] = field(default_factory=dict)

    def executed_by(self, group: Group) -> list[str]:
        """The SQL that a group executes, in order. Takes note of what it prepares."""
        found: list[str] = []
        self.given, self.expected = [], []
        for message in group.messages:
            try:
                self._follow(message, found)
            except (ValueError, struct.error):
                continue  # the server will complain of it
        return found

    def learn(self, group: Group, answer: list[bytes]) -> None:
        """What types the server says that the values of statements have, and their columns."""
        asked = [m for m in group.messages if m[:1] == DESCRIBE and m[5:6] == b"S"]
        told = [n for n, m in enumerate(answer) if m[:1] == PARAMETER_DESCRIPTION]
        for question, number in zip(asked, told, strict=False):
            name = _name(question, 6)[0]
            self._types[name] = types_in(answer[number], 5)
            described = answer[number + 1] if number + 1 < len(answer) else b""
            if described[:1] == ROW_DESCRIPTION:
                self._columns[name] = columns_in(described)

    def _follow(self, message: bytes, found: list[str]) -> None:
        kind = message[:1]
        if kind == QUERY:
            found.append(message[5:-1].decode("utf-8", "replace"))
            self.given.append(())
            self.expected.append(Expected(None, ()))
        elif kind == PARSE:
            name, after = _name(message)
            sql, after = _name(message, after)
            self.prepared[name] = sql.decode("utf-8", "replace")
            if self.keeps_given:
                self._types[name] = types_in(message, after)
                self._columns.pop(name, None)
        elif kind == BIND:
            portal, after = _name(message)
            statement, after = _name(message, after)
            self.portals[portal] = self.prepared.get(statement, "?")
            if self.keeps_given:
                self._bound[portal] = given_in(message, after, self._types.get(statement, ()))
                columns = self._columns.get(statement)
                self._portals[portal] = Expected(columns, formats_after(message, after))
        elif kind == EXECUTE:
            portal, _ = _name(message)
            found.append(self.portals.get(portal, "?"))
            self.given.append(self._bound.get(portal, ()))
            self.expected.append(self._portals.get(portal, Expected(None, ())))
        elif kind == CLOSE:
            name, _ = _name(message, 6)
            (self.prepared if message[5:6] == b"S" else self.portals).pop(name, None)
