"""The queries that stand in brackets: `WITH taken AS (SELECT …)`, `(SELECT count(*) FROM …)`.

A statement is read as a whole. A condition inside of brackets holds for the rows of one of its
tables only, and so does an aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretold.services.postgres.sqltext import SIGN, Name, Reading, Token, reading_of


def queries_of(reading: Reading) -> dict[Name, Reading]:
    """By table, the query in brackets that reads it and nothing else, if only that one does."""
    spans = _spans(reading.tokens)
    if not spans:
        return {}
    inside = {place for start, end in spans for place in range(start, end)}
    around = reading_of([t for place, t in enumerate(reading.tokens) if place not in inside])
    queries = [reading_of(reading.tokens[start:end]) for start, end in spans]
    found: dict[Name, Reading] = {}
    for query in queries:
        others = [each.tables for each in (around, *queries) if each is not query]
        its = {next(iter(query.tables)): query} if len(query.tables) == 1 else queries_of(query)
        found |= {name: each for name, each in its.items() if not any(name in o for o in others)}
    return found


def _spans(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """From where to where such queries go, without their brackets; the outermost ones."""
    found: list[tuple[int, int]] = []
    for place, token in enumerate(tokens[:-1]):
        is_inside = bool(found) and place < found[-1][1]
        opens = token.kind == SIGN and token.value == "("
        if opens and not is_inside and tokens[place + 1].is_word("select"):
            found.append((place + 1, _closing(tokens, place)))
    return found


def _closing(tokens: Sequence[Token], place: int) -> int:
    """Where the bracket that opens there is closed."""
    depth = 0
    for end in range(place, len(tokens)):
        if tokens[end].kind == SIGN:
            depth += (tokens[end].value == "(") - (tokens[end].value == ")")
        if depth == 0:
            return end
    return len(tokens)
