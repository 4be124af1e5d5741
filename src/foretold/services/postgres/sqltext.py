"""SQL as tokens, and what can be read from them: the one place that looks into statements.

This is not a parser. It knows quoted text, comments, brackets and the clause a word stands in. That
is enough to say what a statement names: the tables that it reads and changes, the rows that a
plain condition picks, locks, functions. What it cannot tell it leaves out; it does not guess.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WORD, QUOTED, TEXT, NUMBER, PARAMETER, SIGN = "word", "quoted", "text", "number", "$", "sign"
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<dollar>\$(?:[A-Za-z_]\w*)?\$)
    |(?P<parameter>\$\d+)
    |(?P<text>[eE]'(?:\\.|''|[^'\\])*(?:'|\Z)|(?:[bBxXnN]|[uU]&)?'(?:''|[^'])*(?:'|\Z))
    |(?P<quoted>(?:[uU]&)?"(?:""|[^"])*(?:"|\Z))
    |(?P<word>[^\W\d][\w$]*)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)
    |(?P<sign>::|<=|>=|<>|!=|->>?|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
_ANY_WORD = re.compile(r"[^\W\d][\w$]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_KINDS = {"text": TEXT, "quoted": QUOTED, "word": WORD, "number": NUMBER, "parameter": PARAMETER}


class Token(NamedTuple):
    """One word, name, value or sign of a statement."""

    kind: str
    value: str
    """A word in lower case; a name or a text without its quotes."""
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, and no quoted name."""
        return self.kind == WORD and self.value in words

    @property
    def is_name(self) -> bool:
        """Whether it may name a table or a column."""
        return self.kind in (WORD, QUOTED)


def tokens_of(sql: str) -> list[Token]:
    """All that is neither space nor comment."""
    found: list[Token] = []
    place = 0
    while place < len(sql):
        match = _TOKEN.match(sql, place)
        assert match is not None, "every character is at least a sign"
        kind, end = match.lastgroup or "", match.end()
        if kind == "comment":
            end = _end_of_comment(sql, end)
        elif kind == "dollar":
            closes = sql.find(match[0], end)
            body = sql[end:] if closes < 0 else sql[end:closes]
            end = len(sql) if closes < 0 else closes + len(match[0])
            found.append(Token(TEXT, body, place, end))
        elif kind != "space":
            found.append(Token(_KINDS.get(kind, SIGN), _bare(kind, match[0]), place, end))
        place = end
    return found


def _end_of_comment(sql: str, place: int) -> int:
    """They may be nested."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(sql, place)
        if edge is None:
            return len(sql)
        depth += 1 if edge[0] == "/*" else -1
        place = edge.end()
    return place


def _bare(kind: str, raw: str) -> str:
    if kind == "word":
        return raw.lower()
    if kind == "quoted":
        return raw[raw.index('"') + 1 :].removesuffix('"').replace('""', '"')
    if kind == "text":
        return raw[raw.index("'") + 1 :].removesuffix("'").replace("''", "'")
    return raw


# What a statement is about

Name = tuple[str, ...]
"""A table as it is written: `("orders",)` or `("shop", "orders")`."""
_QUERIES = ("select", "insert", "update", "delete", "merge", "values", "table", "copy", "truncate")
_ENDS_FROM = (
    "where", "group", "having", "order", "limit", "offset", "fetch", "window", "union", "except",
    "intersect", "set", "returning", "for", "values", "on", "when", "select", "to", "with",
    "restart", "continue", "cascade", "restrict", "default",
)  # fmt: skip
_NO_ALIAS = (
    *_ENDS_FROM, "join", "inner", "left", "right", "full", "cross", "natural", "using", "as",
    "tablesample", "from", "do", "overriding", "then", "and", "or", "not", "lateral", "only",
)  # fmt: skip
_LOCKS = ("update", "share", "no", "key")
_AGGREGATES = ("count", "sum", "min", "max", "avg", "bool_or", "bool_and", "every")
_NO_CALL = (
    "in", "and", "or", "not", "values", "exists", "any", "all", "some", "as", "on", "using",
    "where", "when", "then", "else", "case", "select", "from", "by", "over", "filter", "array",
    "row", "returning", "into", "set", "having", "limit", "union", "with", "key", "conflict",
    "lateral",
)  # fmt: skip


@dataclass(slots=True)
class Condition:
    """`column = value`, or one of several values."""

    table: str
    """As it is written before the column: a name or an alias; empty if there is none."""
    column: str
    values: list[Token]


@dataclass(slots=True)
class Reading:
    """What one statement says."""

    tokens: list[Token]
    word: str = ""
    """Its first word, in capitals."""
    tables: set[Name] = field(default_factory=set)
    """All that it mentions."""
    written: set[Name] = field(default_factory=set)
    """Those whose rows it changes."""
    aliases: dict[str, Name] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    """The functions that it calls."""
    locks_rows: bool = False
    """It asks for rows and locks them: FOR UPDATE and its relatives."""
    sums_up: bool = False
    """What it asks for first is an aggregate: how many, how much."""
    conditions: list[Condition] = field(default_factory=list)
    """Those that all rows must meet."""
    is_narrowed: bool = False
    """It has a condition, whether it is understood or not."""
    is_plain: bool = True
    """All of its conditions are among those, and it reads no table but one."""
    sets: dict[str, list[Token]] = field(default_factory=dict)
    """The columns that an UPDATE gives another value, and what they are set to; empty if that is
    not told for each by itself."""
    inserts: list[list[tuple[str, Token]]] = field(default_factory=list)
    """The rows of an INSERT: column and value, of values that are written down."""
    selects: frozenset[str] | None = None
    """The words between SELECT and FROM; None if all columns are meant."""
    used: frozenset[str] = frozenset()
    """The words that stand behind the first FROM: conditions, order, groups."""

    def has(self, *words: str) -> bool:
        """Whether one of these words stands in it, outside of quotes."""
        return any(token.is_word(*words) for token in self.tokens)

    def follows(self, first: str, *others: str) -> bool:
        """Whether these words stand next to each other somewhere."""
        wanted = (first, *others)
        return any(
            all(
                t.is_word(w) for t, w in zip(self.tokens[n : n + len(wanted)], wanted, strict=False)
            )
            for n in range(len(self.tokens) - len(others))
        )

    @property
    def sets_own_setting(self) -> bool:
        """`SET LOCAL app.user = …`: a setting with a dot belongs to no part of the server."""
        for place, token in enumerate(self.tokens[:-2]):
            if token.is_word("set"):
                name = place + 1 + self.tokens[place + 1].is_word("local", "session")
                if name + 1 < len(self.tokens) and self.tokens[name + 1].value == ".":
                    return True
        return False


@functools.lru_cache(maxsize=2048)
def read(sql: str) -> tuple[Reading, ...]:
    """What each statement of a text says, in order."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(sql):
        if token.kind == SIGN and token.value == ";":
            found.append([])
        else:
            found[-1].append(token)
    return tuple(_Reader(tokens).reading for tokens in found if tokens)


def reading_of(tokens: list[Token]) -> Reading:
    """What one statement says, or a part of one."""
    return _Reader(tokens).reading


@functools.lru_cache(maxsize=2048)
def every_word(sql: str) -> frozenset[str]:
    """All words that stand anywhere in it, as written and in small letters: also in quoted text,
    which may be the body of a function, and in comments."""
    return frozenset(_ANY_WORD.findall(sql)).union(_ANY_WORD.findall(sql.lower()))


def first_word(sql: str) -> str:
    """In capitals; empty if there is none."""
    return next((reading.word for reading in read(sql)), "")


def only_reads(sql: str) -> bool:
    """One plain question, which changes nothing by itself; what it calls may."""
    words = every_word(sql)
    return (
        "select" in words
        and "into" not in words
        and [each.word for each in read(sql)] == ["SELECT"]
    )


def outside_of_brackets(tokens: Sequence[Token]) -> list[int]:
    """Where they stand; the outermost brackets themselves are among them."""
    found: list[int] = []
    depth = 0
    for place, token in enumerate(tokens):
        depth -= token.kind == SIGN and token.value == ")"
        if depth == 0:
            found.append(place)
        depth += token.kind == SIGN and token.value == "("
    return found


def past_type(tokens: Sequence[Token], place: int) -> int:
    """Behind `::timestamp with time zone`, if that stands there; else the place itself."""

    def at(place: int) -> Token:
        return tokens[place] if place < len(tokens) else _NOTHING

    while at(place).value == "::" and at(place).kind == SIGN:
        place += 2
        while at(place).is_word("with", "without", "time", "zone", "varying", "precision"):
            place += 1
        if at(place).value == "(":
            while at(place).value not in (")", ""):
                place += 1
            place += 1
        while at(place).value in ("[", "]"):
            place += 1
    return place


class _Level:
    """One pair of brackets, or the statement itself."""

    def __init__(self, verb: str = "") -> None:
        self.verb = verb
        self.in_from = False


class _Reader:
    """Goes through the tokens of one statement."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.reading = Reading(tokens)
        self._named: set[str] = set()
        """Names of WITH queries, which are no tables."""
        first = next((t for t in tokens if t.kind == WORD), None)
        self.reading.word = first.value.upper() if first is not None else ""
        self._tables()
        self._calls()
        reading = self.reading
        reading.tables -= {
            name for name in reading.tables if name[-1] in self._named and not name[1:]
        }
        self._select_list()
        self._where()
        self._sets()
        self._inserts()

    def at(self, place: int) -> Token:
        return self.tokens[place] if 0 <= place < len(self.tokens) else _NOTHING

    # Tables

    def _tables(self) -> None:
        levels = [_Level()]
        for place, token in enumerate(self.tokens):
            level = levels[-1]
            if token.kind == SIGN:
                if token.value == "(":
                    inner = _Level()
                    inner.in_from = level.in_from and self._is_joined(place)
                    levels.append(inner)
                elif token.value == ")" and len(levels) > 1:
                    levels.pop()
                elif token.value == "," and level.in_from:
                    self._table_at(place + 1, writes=level.verb == "truncate")
            elif token.kind == WORD:
                self._word(place, token.value, level)
            if level.in_from and token.value == "(" and levels[-1].in_from:
                self._table_at(place + 1)

    def _is_joined(self, place: int) -> bool:
        """Whether a bracket in a FROM holds tables: `FROM (a JOIN b …)`."""
        before, inside = self.at(place - 1), self.at(place + 1)
        return before.is_word("from", "join", "lateral") and not inside.is_word(
            "select", "with", "values"
        )

    def _word(self, place: int, word: str, level: _Level) -> None:
        before = self.at(place - 1)
        if before.kind == SIGN and before.value == ".":
            return  # a column of that name
        if word in _QUERIES and self._begins_query(place, word, level):
            level.verb, level.in_from = word, False
            if word in ("update", "truncate", "copy"):
                self._table_at(place + 1, writes=word != "copy" or self._copies_in(place))
                level.in_from = word == "truncate"
        elif word == "from" and level.verb and not self._is_distinct(place):
            level.in_from = True
            if level.verb != "copy":
                self._table_at(place + 1, writes=before.is_word("delete"))
        elif word == "join" or (word == "using" and level.verb in ("delete", "merge")):
            level.in_from = True
            self._table_at(place + 1)
        elif word == "into" and level.verb in ("insert", "merge", "select"):
            self._table_at(place + 1, writes=True)
        elif word == "as" and self._names_query(place):
            self._named.add(self.at(self._before_columns(place)).value)
        elif word == "for" and self.at(place + 1).is_word(*_LOCKS) and level.verb == "select":
            self.reading.locks_rows = True
        elif word in _ENDS_FROM and word not in ("on", "for"):
            level.in_from = False

    def _begins_query(self, place: int, word: str, level: _Level) -> bool:
        before = self.at(place - 1)
        if word == "table":
            return before.value in ("", "(")
        if word == "values":
            return before.value == "(" and not level.verb
        if word == "update":
            return not before.is_word("for", "key", "do", "on", "of", "then")
        if word in ("delete", "insert"):
            return not before.is_word("on", "then", "or", "before", "after")
        return not before.is_word("as") or word == "select"

    def _copies_in(self, place: int) -> bool:
        words = [token.value for token in self.tokens[place:] if token.kind == WORD]
        return "from" in words and ("to" not in words or words.index("from") < words.index("to"))

    def _is_distinct(self, place: int) -> bool:
        """`a IS NOT DISTINCT FROM b`."""
        return self.at(place - 1).is_word("distinct") and self.at(place - 2).is_word("is", "not")

    def _names_query(self, place: int) -> bool:
        """Whether this AS belongs to `WITH name AS (`."""
        inside = place + 1
        while self.at(inside).is_word("not", "materialized"):
            inside += 1
        if self.at(inside).value != "(" or self.at(inside).kind != SIGN:
            return False
        before = self._before_columns(place)
        return self.at(before - 1).is_word("with", "recursive") or self.at(before - 1).value == ","

    def _before_columns(self, place: int) -> int:
        """Where the name stands in `name (a, b) AS`."""
        place -= 1
        if self.at(place).kind == SIGN and self.at(place).value == ")":
            while place > 0 and self.at(place).value != "(":
                place -= 1
            place -= 1
        return place

    def _table_at(self, place: int, *, writes: bool = False) -> None:
        """Take note of the table whose name begins there, if one does."""
        while self.at(place).is_word("only", "lateral", "table"):
            place += 1
        parts: list[str] = []
        while self.at(place).is_name and not (not parts and self.at(place).is_word(*_NO_ALIAS)):
            parts.append(self.at(place).value)
            place += 1
            if self.at(place).kind != SIGN or self.at(place).value != ".":
                break
            place += 1
        following = self.at(place)
        is_call = following.kind == SIGN and following.value == "(" and not writes
        if not parts or is_call:
            return
        name = tuple(parts[-2:])
        self.reading.tables.add(name)
        if writes:
            self.reading.written.add(name)
        if following.is_word("as"):
            following = self.at(place + 1)
        if following.is_name and not following.is_word(*_NO_ALIAS):
            self.reading.aliases[following.value] = name
        self.reading.aliases.setdefault(name[-1], name)

    def _calls(self) -> None:
        tables = {name[-1] for name in self.reading.written} | self._named
        for place, token in enumerate(self.tokens):
            following = self.at(place + 1)
            called = token.is_name and following.kind == SIGN and following.value == "("
            if called and not token.is_word(*_NO_CALL) and token.value not in tables:
                self.reading.calls.add(token.value)

    # Clauses

    def _clause(self, begins: str, *ends: str) -> list[int]:
        """Where the tokens outside of brackets stand between a word and the first of others after
        it."""
        places = outside_of_brackets(self.tokens)
        start = next((n for n, p in enumerate(places) if self.at(p).is_word(begins)), None)
        if start is None:
            return []
        rest = places[start + 1 :]
        stop = next((n for n, p in enumerate(rest) if self.at(p).is_word(*ends)), len(rest))
        return rest[:stop]

    def _select_list(self) -> None:
        reading = self.reading
        listed = self._clause("select", "from", "into")
        if listed:
            reading.sums_up = self._begins_with_aggregate(listed[0])
            last = listed[-1]
            inside = self.tokens[listed[0] : last + 1]
            before = zip([_NOTHING, *inside], inside, strict=False)
            if not any(_is_star(token, left) for left, token in before):
                reading.selects = frozenset(t.value for t in inside if t.is_name)
        start = next((n for n, t in enumerate(self.tokens) if t.is_word("from")), len(self.tokens))
        reading.used = frozenset(t.value for t in self.tokens[start:] if t.is_name)

    def _begins_with_aggregate(self, place: int) -> bool:
        if self.at(place).is_word("coalesce") and self.at(place + 1).value == "(":
            place += 2
        return self.at(place).is_word(*_AGGREGATES) and self.at(place + 1).value == "("

    def _where(self) -> None:
        ends = ("group", "order", "limit", "offset", "fetch", "having", "for", "returning", "union")
        clause = self._clause("where", *ends, "except", "intersect", "window")
        self.reading.is_narrowed = bool(clause)
        self.reading.is_plain = len(self.reading.tables) == 1
        if any(self.at(place).is_word("or") for place in clause):
            self.reading.is_plain = False
            return
        part: list[int] = []
        for place in [*clause, -1]:
            if place < 0 or self.at(place).is_word("and"):
                condition = self._condition(part)
                if condition is not None:
                    self.reading.conditions.append(condition)
                self.reading.is_plain &= condition is not None or not part
                part = []
            else:
                part.append(place)

    def _condition(self, places: Sequence[int]) -> Condition | None:
        """`t.id = $1`, `id IN (1, 2)`, `id = ANY($1)`; None for all else."""
        if not places:
            return None
        place, last = places[0], places[-1]
        parts: list[str] = []
        while self.at(place).is_name and place <= last:
            parts.append(self.at(place).value)
            place += 1
            if self.at(place).value != "." or self.at(place).kind != SIGN:
                break
            place += 1
        place = self._past_cast(place)
        sign = self.at(place)
        if not parts or place > last:
            return None
        table = parts[-2] if len(parts) > 1 else ""
        if sign.is_word("in") or (sign.value == "=" and self.at(place + 1).is_word("any")):
            values = self._listed(place + 1)
        elif sign.kind == SIGN and sign.value == "=":
            values = self._value(place + 1, last)
        else:
            return None
        return Condition(table, parts[-1], values) if values else None

    def _value(self, place: int, last: int) -> list[Token]:
        """The value that stands there, if nothing follows but its type."""
        token = self.at(place)
        if token.kind not in (TEXT, NUMBER, PARAMETER) and not token.is_word("true", "false"):
            return []
        return [token] if self._past_cast(place + 1) > last else []

    def _past_cast(self, place: int) -> int:
        return past_type(self.tokens, place)

    def _listed(self, place: int) -> list[Token]:
        """The values of `(1, 2, 3)`; none if anything else stands in there."""
        found: list[Token] = []
        place += self.at(place).is_word("any")
        if self.at(place).value != "(":
            return []
        place += 1
        while True:
            if self.at(place).kind not in (TEXT, NUMBER, PARAMETER):
                return []
            found.append(self.at(place))
            place = self._past_cast(place + 1)
            if self.at(place).value == ")":
                return found
            if self.at(place).value != ",":
                return []
            place += 1

    def _sets(self) -> None:
        for begins in range(len(self.tokens)):
            if self.at(begins).is_word("set"):
                for part in self._parts(begins + 1):
                    self._set(part)

    def _parts(self, place: int) -> Iterator[list[Token]]:
        """What stands between the commas of a SET, up to its end."""
        depth, part = 0, list[Token]()
        while self.at(place) is not _NOTHING:
            token = self.at(place)
            is_sign = token.kind == SIGN
            depth += (is_sign and token.value == "(") - (is_sign and token.value == ")")
            if depth < 0 or (depth == 0 and token.is_word("where", "from", "returning")):
                break
            if depth == 0 and is_sign and token.value == ",":
                yield part
                part = []
            else:
                part.append(token)
            place += 1
        yield part

    def _set(self, part: list[Token]) -> None:
        """`a = 1` or `(a, b) = (1, 2)`."""
        equals = next((n for n, t in enumerate(part) if t.kind == SIGN and t.value == "="), 0)
        names = [token.value for token in part[:equals] if token.is_name]
        for name in names:
            self.reading.sets[name] = part[equals + 1 :] if len(names) == 1 else []

    def _inserts(self) -> None:
        if not self.reading.written or not self.reading.has("insert"):
            return
        into = next((n for n, t in enumerate(self.tokens) if t.is_word("into")), -2)
        place = into + 1
        while self.at(place).is_name or self.at(place).value == ".":
            place += 1
        columns, place = self._cells(place)
        if columns is None or not self.at(place).is_word("values"):
            return
        names = [cell[0].value if len(cell) == 1 and cell[0].is_name else "" for cell in columns]
        place += 1
        while True:
            cells, place = self._cells(place)
            if cells is None or len(cells) != len(names):
                return
            row = [
                (name, cell[0])
                for name, cell in zip(names, cells, strict=True)
                if len(cell) == 1 and cell[0].kind in (TEXT, NUMBER, PARAMETER) and name
            ]
            self.reading.inserts.append(row)
            if self.at(place).value != ",":
                return
            place += 1

    def _cells(self, place: int) -> tuple[list[list[Token]] | None, int]:
        """What stands in a pair of brackets, between commas, without types; and where that ends."""
        if self.at(place).value != "(":
            return None, place
        cells: list[list[Token]] = [[]]
        depth, place = 1, place + 1
        while depth and self.at(place) is not _NOTHING:
            token = self.at(place)
            if token.kind == SIGN and token.value in ("(", ")"):
                depth += 1 if token.value == "(" else -1
            if depth == 1 and token.kind == SIGN and token.value == ",":
                cells.append([])
            elif depth and not (depth == 1 and self._past_cast(place) > place):
                cells[-1].append(token)
            place = max(place + 1, self._past_cast(place) if depth == 1 else 0)
        return cells, place


def _is_star(token: Token, before: Token) -> bool:
    """All columns: `*`, `t.*`; not `count(*)`, nor `a * b`."""
    is_star = token.kind == SIGN and token.value == "*"
    return is_star and (before.value in ("", ",", ".") or before.is_word("distinct"))


_NOTHING = Token("", "", 0, 0)
