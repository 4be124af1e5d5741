"""SQL as a reader wants it: which tables, which condition, which lock; not forty columns.

What an ORM sends is mostly lists of columns and casts, and what decides (`FOR UPDATE`, the
condition) comes last, where a line would be cut off. So it is shortened from the inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from foretold.services.postgres.sqltext import (
    PARAMETER,
    QUOTED,
    SIGN,
    TEXT,
    Token,
    outside_of_brackets,
    past_type,
    read,
    tokens_of,
)

SQL_CHARS_MAX = 96
VALUE_CHARS_MAX = 28
ANSWER_CHARS_MAX = 72
ROWS_MAX = 4
"""Of an answer with more of them no value is told."""
_LIST_CHARS_MAX = 36
_TAIL_CHARS = 36
_COUNTED = ("SELECT", "UPDATE", "DELETE", "MERGE", "COPY")
_MORE = "…"


class _Piece(NamedTuple):
    token: Token
    text: str
    is_spaced: bool
    """Something stood between it and the one before."""


def shortened(sql: str, values: Sequence[str] = (), chars: int = SQL_CHARS_MAX) -> str:
    """On one line, with what decides: `SELECT … FROM dwellers WHERE id = 7 FOR UPDATE`. `values`
    are those for `$1`, `$2`, …"""
    pieces = _pieces(sql, values)
    shorter: tuple[Callable[[list[_Piece]], list[_Piece]], ...] = (
        _without_returning, _without_sets, _without_queries,
    )  # fmt: skip
    pieces = _without_columns(pieces)
    if len(_text(pieces)) > chars:
        pieces = _without_values(pieces)
    for shorten in shorter:
        if _length(pieces) <= chars:
            break
        pieces = shorten(pieces)
    return _text(pieces if _length(pieces) <= chars else _without_middle(pieces, chars))


def _pieces(sql: str, values: Sequence[str]) -> list[_Piece]:
    """Without types, without labels of columns, without the name of the only table."""
    tokens = tokens_of(sql)
    tables = {name for reading in read(sql) for name in reading.tables}
    alone = next(iter(tables)) if len(tables) == 1 else ()
    found: list[_Piece] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        after = past_type(tokens, place)
        if after > place or _is_label(tokens, place):
            place = max(after, place + 2 * _is_label(tokens, place))
            continue
        behind = _past_table(tokens, place, alone)
        if behind > place:
            spaced = _is_spaced(tokens, place)
            place = behind
            if place < len(tokens):
                found.append(_piece(sql, tokens[place], values, spaced))
        else:
            found.append(_piece(sql, token, values, _is_spaced(tokens, place)))
        place += 1
    return found


def _past_table(tokens: Sequence[Token], place: int, table: Sequence[str]) -> int:
    """Behind `shop.item.` or `item.`, if a column of this table follows; else the place itself."""
    if not table or _is_sign(tokens, place - 1, "."):
        return place
    short = table[-1:] if table[0] != table[-1] else ()
    for name in filter(None, (table, short)):
        end = place + 2 * len(name)
        written = [token.value for token in tokens[place:end:2]]
        dots = all(_is_sign(tokens, dot, ".") for dot in range(place + 1, end, 2))
        if written == list(name) and dots:
            return end
    return place


def _piece(sql: str, token: Token, values: Sequence[str], is_spaced: bool) -> _Piece:
    text = sql[token.start : token.end]
    if token.kind == PARAMETER and 0 < int(token.value[1:]) <= len(values):
        text = values[int(token.value[1:]) - 1]
    elif token.kind in (TEXT, QUOTED):
        text = " ".join(text.split())
    return _Piece(token, text, is_spaced)


def _is_spaced(tokens: Sequence[Token], place: int) -> bool:
    return place > 0 and tokens[place - 1].end < tokens[place].start


def _is_sign(tokens: Sequence[Token], place: int, sign: str) -> bool:
    return 0 <= place < len(tokens) and tokens[place].kind == SIGN and tokens[place].value == sign


def _is_label(tokens: Sequence[Token], place: int) -> bool:
    """`count(*) AS count_1`: what SQLAlchemy calls a column that nobody has named."""
    if not tokens[place].is_word("as") or not _is_sign(tokens, place - 1, ")"):
        return False
    name = tokens[place + 1].value if place + 1 < len(tokens) else ""
    return name.rpartition("_")[2].isdigit() and "_" in name


def _text(pieces: Sequence[_Piece]) -> str:
    return "".join(f" {p.text}" if p.is_spaced else p.text for p in pieces).strip()


def _length(pieces: Sequence[_Piece]) -> int:
    """How long the text is without the values that were given: those are what a reader looks for,
    and nothing is cut to make room for them."""
    return sum(min(len(p.text), p.token.end - p.token.start) + p.is_spaced for p in pieces)


def _listed(pieces: Sequence[_Piece]) -> list[_Piece]:
    """As many of a list as there is room for."""
    if _length(pieces) <= _LIST_CHARS_MAX:
        return list(pieces)
    outside = outside_of_brackets([piece.token for piece in pieces])
    commas = [n for n in outside if pieces[n].token.kind == SIGN and pieces[n].token.value == ","]
    room = [n for n in commas if _length(pieces[:n]) <= _LIST_CHARS_MAX]
    if not room:
        return [pieces[0]._replace(text=_MORE)]
    comma = pieces[room[-1]]
    return [*pieces[: room[-1] + 1], comma._replace(text=_MORE, is_spaced=True)]


def _between(pieces: Sequence[_Piece], begins: str, *ends: str) -> tuple[int, int] | None:
    """From where to where a clause outside of brackets goes."""
    outside = outside_of_brackets([piece.token for piece in pieces])
    start = next((n for n in outside if pieces[n].token.is_word(begins)), None)
    if start is None:
        return None
    later = (n for n in outside if n > start and pieces[n].token.is_word(*ends))
    return start + 1, next(later, len(pieces))


def _without_columns(pieces: list[_Piece]) -> list[_Piece]:
    """`SELECT … FROM`, where the columns are many."""
    found = (
        _between(pieces, "select", "from") if pieces and pieces[0].token.is_word("select") else None
    )
    if found is None or found[1] == len(pieces):
        return pieces
    start, end = found
    if _length(pieces[start:end]) <= _LIST_CHARS_MAX:
        return pieces
    return [*pieces[:start], pieces[start]._replace(text=_MORE, is_spaced=True), *pieces[end:]]


def _without_returning(pieces: list[_Piece]) -> list[_Piece]:
    found = _between(pieces, "returning")
    return pieces if found is None else pieces[: found[0] - 1]


def _without_values(pieces: list[_Piece]) -> list[_Piece]:
    """`INSERT INTO item (a, b, …)`."""
    found = _between(pieces, "values", "on", "returning")
    if found is None or not any(piece.token.is_word("insert") for piece in pieces[: found[0]]):
        return pieces
    begin = next((n for n, p in enumerate(pieces) if p.token.value == "("), found[0] - 1)
    columns = pieces[begin + 1 : found[0] - 2]
    listed = _listed(columns) if columns else []
    return [
        *pieces[: begin + 1],
        *listed,
        *pieces[found[0] - 2 : found[0] - 1],
        *pieces[found[1] :],
    ]


def _without_sets(pieces: list[_Piece]) -> list[_Piece]:
    found = _between(pieces, "set", "where", "from")
    if found is None:
        return pieces
    return [*pieces[: found[0]], *_listed(pieces[found[0] : found[1]]), *pieces[found[1] :]]


def _without_queries(pieces: list[_Piece]) -> list[_Piece]:
    """What is asked inside of brackets is left out: `id = (SELECT …)`."""
    found: list[_Piece] = []
    depth, hidden_from = 0, 0
    for n, piece in enumerate(pieces):
        is_sign = piece.token.kind == SIGN
        if is_sign and piece.token.value == ")":
            depth -= 1
            hidden_from = 0 if depth < hidden_from else hidden_from
        if not hidden_from:
            found.append(piece)
        if is_sign and piece.token.value == "(":
            depth += 1
            first = pieces[n + 1] if n + 1 < len(pieces) else piece
            if not hidden_from and first.token.is_word("select", "insert", "update", "delete"):
                found += [first, first._replace(text=_MORE, is_spaced=True)]
                hidden_from = depth
    return found


def _without_middle(pieces: list[_Piece], chars: int) -> list[_Piece]:
    """Cut between words."""
    edges = [n for n, piece in enumerate(pieces) if piece.is_spaced]
    heads = [n for n in edges if _length(pieces[:n]) <= chars - _TAIL_CHARS - 3]
    tails = [n for n in edges if _length(pieces[n:]) <= _TAIL_CHARS]
    head, tail = max(heads, default=0), min(tails, default=len(pieces))
    return [*pieces[:head], pieces[head]._replace(text=_MORE, is_spaced=True), *pieces[tail:]]


def value_text(value: str) -> str:
    """A value that has room on a line; an id is never cut."""
    if not value.startswith(("'", '"')) or len(value) <= VALUE_CHARS_MAX:
        return value
    return f"{value[: VALUE_CHARS_MAX - 2]}{_MORE}{value[0]}"


def rows_changed(tag: str) -> int | None:
    """How many rows a statement has found or changed, by what the server says: `INSERT 0 1`."""
    word, _, number = tag.rpartition(" ")
    is_counted = word in (*_COUNTED, "INSERT 0") and number.isdigit()
    return int(number) if is_counted else None


def outcome_text(tags: Sequence[str], error: str = "") -> str:
    """What the server said, as a person would: `1 row` for `INSERT 0 1`."""
    if error:
        return ", ".join([*tags, f"error {error}"])
    rows = rows_changed(tags[0]) if len(set(tags)) == 1 else None
    if rows is None:
        return ", ".join(tags)
    return "1 row" if rows == 1 else f"{rows} rows"


def answer_text(columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    """What a query has found: `100`, `balance 100, version 0`, `2 rows: id 1, 2`. Of each column
    the name, which may be empty, and its values. Empty if there is too much to tell."""
    rows = max((len(values) for _, values in columns), default=0)
    if not 0 < rows <= ROWS_MAX or any(_MORE in values for _, values in columns):
        return ""
    told = [f"{name} {', '.join(values)}".strip() for name, values in columns]
    text = ", ".join(told) if rows == 1 else f"{rows} rows: {'; '.join(told)}"
    return text if len(text) <= ANSWER_CHARS_MAX else ""
