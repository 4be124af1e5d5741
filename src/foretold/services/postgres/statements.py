"""What a session's messages mean: which SQL a group executes.

Prepared statements and portals are known by name; the text came with an earlier message. Only what
is told to people, and what faults choose by, depends on this.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass, field

from foretold.services.postgres.given import given_in, types_in
from foretold.services.postgres.protocol import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    PARAMETER_DESCRIPTION,
    PARSE,
    QUERY,
    Group,
)

SQL_CHARS_MAX = 300
WHOLE_CHARS_MAX = 4_000
_OWN_SETTINGS = re.compile(
    r"\bset_config\b|\bset\s+(?:local\s+|session\s+)?\"?\w+\"?\.\w+|\bdo\b|\bcall\b", re.IGNORECASE
)
_SPACE = re.compile(r"\s+")
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_CALLS = re.compile(r"\bpg_(?:terminate|cancel)_backend\b|\bwith\s*\(\s*force", re.IGNORECASE)
_ENDS_TRANSACTION = re.compile(r"^(?:commit|end)\b(?!\s+prepared)", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def shown(sql: str, chars_max: int = SQL_CHARS_MAX) -> str:
    """A statement on one line, without end."""
    line = _SPACE.sub(" ", sql).strip()
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def whole(sql: str) -> str:
    """The same for stories: what decides (a condition, a lock) often comes last."""
    return shown(sql, WHOLE_CHARS_MAX)


@functools.lru_cache(maxsize=1024)
def calls_others(sql: str) -> bool:
    """Whether a statement may end other sessions, or their statements."""
    return _CALLS.search(sql) is not None


@functools.lru_cache(maxsize=1024)
def makes_settings(sql: str) -> bool:
    """Whether a statement may give a value to a setting that PostgreSQL does not know."""
    return _OWN_SETTINGS.search(sql) is not None


@functools.lru_cache(maxsize=1024)
def is_commit(sql: str) -> bool:
    """Whether a statement asks for the end of its transaction, and to keep what it did."""
    return _ENDS_TRANSACTION.match(_COMMENT.sub(" ", sql).strip()) is not None


def _name(body: bytes, start: int = 5) -> tuple[bytes, int]:
    end = body.index(0, start)
    return body[start:end], end + 1


@dataclass(slots=True)
class Statements:
    """The prepared statements and portals of one session."""

    prepared: dict[bytes, str] = field(default_factory=dict)
    portals: dict[bytes, str] = field(default_factory=dict)
    keeps_given: bool = False
    """For a story: also which values are given."""
    given: list[tuple[str, ...]] = field(default_factory=list)
    """Those of the statements that were executed last."""
    _types: dict[bytes, list[int]] = field(default_factory=dict)
    _bound: dict[bytes, tuple[str, ...]] = field(default_factory=dict)

    def executed_by(self, group: Group) -> list[str]:
        """The SQL that a group executes, in order. Takes note of what it prepares."""
        found: list[str] = []
        self.given = []
        for message in group.messages:
            try:
                self._follow(message, found)
            except (ValueError, struct.error):
                continue  # the server will complain of it
        return found

    def learn(self, group: Group, answer: list[bytes]) -> None:
        """What types the server says that the values of statements have."""
        asked = [m for m in group.messages if m[:1] == DESCRIBE and m[5:6] == b"S"]
        told = [m for m in answer if m[:1] == PARAMETER_DESCRIPTION]
        for question, types in zip(asked, told, strict=False):
            self._types[_name(question, 6)[0]] = types_in(types, 5)

    def _follow(self, message: bytes, found: list[str]) -> None:
        kind = message[:1]
        if kind == QUERY:
            found.append(message[5:-1].decode("utf-8", "replace"))
            self.given.append(())
        elif kind == PARSE:
            name, after = _name(message)
            sql, after = _name(message, after)
            self.prepared[name] = sql.decode("utf-8", "replace")
            if self.keeps_given:
                self._types[name] = types_in(message, after)
        elif kind == BIND:
            portal, after = _name(message)
            statement, after = _name(message, after)
            self.portals[portal] = self.prepared.get(statement, "?")
            if self.keeps_given:
                self._bound[portal] = given_in(message, after, self._types.get(statement, ()))
        elif kind == EXECUTE:
            portal, _ = _name(message)
            found.append(self.portals.get(portal, "?"))
            self.given.append(self._bound.get(portal, ()))
        elif kind == CLOSE:
            name, _ = _name(message, 6)
            (self.prepared if message[5:6] == b"S" else self.portals).pop(name, None)
