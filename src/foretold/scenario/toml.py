"""TOML as a tree whose parts know where they stand.

`tomllib` decides what is TOML and what a scalar means; it gives no places. So a text that it has
accepted is walked through once more, which is easy because nothing in it can be wrong any more.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from foretold.scenario.source import Mark, Node, mark_at, problem, too_deep

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_DIGITS = re.compile(r"[-+]?[0-9][0-9_]{4000,}")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:[^"\\]|\\.)*"|' r"'[^']*'", re.DOTALL
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d[^\s,\]}#]*|[^\s,\]}#]+")


def parse_toml(text: str, file: str) -> Node:
    """The tree of a TOML text."""
    text = text.replace("\r\n", "\n")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        said = _PLACE.sub("", str(error))
        where = Mark(int(found[1]), int(found[2])) if found and found[1] else None
        where = where or mark_at(text, len(text.rstrip()))
        raise problem(file, where, f"this is not TOML: {said}") from None
    except RecursionError:
        raise too_deep(file, Mark(1, 1)) from None
    except ValueError:
        found = _DIGITS.search(text)
        where = mark_at(text, found.start()) if found else Mark(1, 1)
        raise problem(file, where, "this number has too many digits") from None
    return _Walk(text, file).whole()


class _Walk:
    """One way through a text that is TOML."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at = text, file, 0
        self.root = Node({}, Mark(1, 1))

    def whole(self) -> Node:
        table = self.root
        while self._skip():
            if self._takes("[["):
                table = self._opened(self._keys(), is_list=True)
                self._takes("]]")
            elif self._takes("["):
                table = self._opened(self._keys(), is_list=False)
                self._takes("]")
            else:
                self._pair(table)
        return self.root

    def _skip(self) -> bool:
        """Go over blanks and comments. Returns whether anything is left."""
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _takes(self, what: str) -> bool:
        self._skip()
        taken = self.text.startswith(what, self.at)
        self.at += len(what) if taken else 0
        return taken

    def _mark(self) -> Mark:
        self._skip()
        return mark_at(self.text, self.at)

    def _keys(self) -> list[tuple[str, Mark]]:
        keys: list[tuple[str, Mark]] = []
        while not keys or self._takes("."):
            mark = self._mark()
            found = _STRINGS.match(self.text, self.at) or _BARE.match(self.text, self.at)
            assert found is not None, "tomllib has accepted it"
            self.at = found.end()
            quoted = found[0][0] in "\"'"
            keys.append((str(_scalar(found[0])) if quoted else found[0], mark))
        return keys

    def _opened(self, keys: list[tuple[str, Mark]], *, is_list: bool) -> Node:
        table = self._inside(self.root, keys[:-1])
        key, mark = keys[-1]
        if not is_list:
            return self._inside(table, keys[-1:])
        if key not in table.value:
            table.value[key], table.keys[key] = Node([], mark), mark
        made = Node({}, mark)
        table.value[key].value.append(made)
        return made

    def _inside(self, table: Node, keys: list[tuple[str, Mark]]) -> Node:
        for key, mark in keys:
            if key not in table.value:
                table.value[key], table.keys[key] = Node({}, mark), mark
            table = table.value[key]
            if isinstance(table.value, list):
                table = table.value[-1]
        return table

    def _pair(self, table: Node) -> None:
        keys = self._keys()
        self._takes("=")
        table = self._inside(table, keys[:-1])
        key, mark = keys[-1]
        table.value[key], table.keys[key] = self._value(), mark

    def _value(self) -> Node:
        mark = self._mark()
        if self._takes("["):
            items = []
            while not self._takes("]"):
                items.append(self._value())
                self._takes(",")
            return Node(items, mark)
        if self._takes("{"):
            made = Node({}, mark)
            while not self._takes("}"):
                self._pair(made)
                self._takes(",")
            return made
        found = _STRINGS.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
        assert found is not None, "tomllib has accepted it"
        self.at = found.end()
        value = _scalar(found[0])
        if not isinstance(value, str | int | float) or value in (float("inf"), float("-inf")):
            raise problem(self.file, mark, f"{found[0]} has no meaning here: write text or numbers")
        if value != value:
            raise problem(self.file, mark, "nan has no meaning here: write text or numbers")
        return Node(value, mark)


def _scalar(text: str) -> Any:
    return tomllib.loads(f"v = {text}")["v"]
