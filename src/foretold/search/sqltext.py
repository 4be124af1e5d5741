"""SQL as a reader wants it: which tables, which condition, which lock; not forty columns.

What an ORM sends is mostly lists of columns and casts, and what decides (`FOR UPDATE`, the
condition) comes last, where a line would be cut off. So it is shortened from the inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SQL_CHARS_MAX = 96
VALUE_CHARS_MAX = 28
_LIST_CHARS_MAX = 36
_TAIL_CHARS = 36
_SPACES = re.compile(r"\s+")
_CAST = re.compile(r"::\w+(?:\([\d, ]*\))?(?:\[\])*(?: with(?:out)? time zone)?", re.IGNORECASE)
_TABLE = re.compile(r'\b(?:from|join|into|update)\s+(?:only\s+)?"?(\w+)"?', re.IGNORECASE)
_WRITTEN = re.compile(
    r"(?<!for )(?<!key )(?<!do )\b(?:insert\s+into|update|delete\s+from|merge\s+into|copy)\s+"
    r'(?:only\s+)?"?(\w+)"?',
    re.IGNORECASE,
)
_RETURNING = re.compile(r"\breturning\b.*", re.IGNORECASE)
_VALUES = re.compile(r"(\binsert into \S+ \()([^()]*)\) values \(.*?\)(?= on conflict|$| …)", re.I)
_SET = re.compile(r"(\bset )(.*?)(?= where |$)", re.IGNORECASE)
_QUERY = re.compile(r"\((select|insert|update|delete)\b(?! …\))[^()]*(?:\([^()]*\)[^()]*)*\)", re.I)
_PARAMETER = re.compile(r"\$(\d+)\b")
_LABEL = re.compile(r"(?<=\)) AS \w+_\d+\b")
"""What SQLAlchemy calls a column that nobody has named."""
_ROWS = re.compile(r"(?:SELECT|UPDATE|DELETE|MERGE|INSERT 0|COPY) (\d+)")
_EITHER = re.compile(r"\([^()]*\bor\b[^()]*\)", re.IGNORECASE)
_SETS = re.compile(r"\bset\b(.*?)(?=\bwhere\b|\bfrom\b|\breturning\b|$)", re.I | re.S)
_SET_COLUMN = re.compile(r'"?(\w+)"?\s*=')
_IS = re.compile(r'(?:"?(\w+)"?\.)?"?(\w+)"?\s*=\s*\$(\d+)\b')
_INSERT = re.compile(r'\binsert\s+into\s+"?(\w+)"?\s*\(([^()]*)\)\s*values\s*\(', re.IGNORECASE)
LOCKS = re.compile(r"\bfor\s+(?:no\s+key\s+)?(?:update|share)\b", re.IGNORECASE)


def tables_of(sql: str) -> set[str]:
    """All that it mentions."""
    return {name.lower() for name in _TABLE.findall(sql)} - {"set", "of", "nowait", "skip"}


def written_by(sql: str) -> set[str]:
    """The tables that it changes."""
    if LOCKS.search(sql) and sql.lstrip()[:6].lower() == "select":
        return set()
    return {name.lower() for name in _WRITTEN.findall(sql)} - {"set"}


Rows = dict[tuple[str, str], set[str]]
"""Of (table, column) the values that rows must have."""


def rows_meant(sql: str, values: Sequence[str]) -> Rows:
    """Which rows it is about, as far as `column = $1` tells, and those that it inserts. What is
    not known is left out: empty, if there are alternatives."""
    text = _CAST.sub("", _SPACES.sub(" ", sql))
    found = _inserted(text, values)
    text = _EITHER.sub(" ", _SETS.sub(" ", text))
    if re.search(r"\bor\b", text, re.IGNORECASE):
        return found
    tables = tables_of(text)
    alone = next(iter(tables)) if len(tables) == 1 else ""
    for table, column, number in _IS.findall(text):
        key = ((table or alone).lower(), column.lower())
        if key[0] in tables and 0 < int(number) <= len(values):
            found.setdefault(key, set()).add(values[int(number) - 1])
    return found


def _inserted(text: str, values: Sequence[str]) -> Rows:
    """The first row, if it is made of nothing but values."""
    insert = _INSERT.search(text)
    if insert is None:
        return {}
    table, columns = insert[1].lower(), [name.strip(' "').lower() for name in insert[2].split(",")]
    given = text[insert.end() :].partition(")")
    cells = [cell.strip() for cell in given[0].split(",")]
    if len(cells) != len(columns) or given[2].lstrip().startswith(","):
        return {}
    numbers = [int(cell[1:]) if _PARAMETER.fullmatch(cell) else 0 for cell in cells]
    return {
        (table, column): {values[number - 1]}
        for column, number in zip(columns, numbers, strict=True)
        if 0 < number <= len(values)
    }


def columns_set(sql: str) -> set[str]:
    """Those that an UPDATE gives another value."""
    return {name.lower() for part in _SETS.findall(sql) for name in _SET_COLUMN.findall(part)}


def shortened(sql: str, chars: int = SQL_CHARS_MAX) -> str:
    """On one line, with what decides: `SELECT … FROM dwellers WHERE id = $1 FOR UPDATE`."""
    text = _LABEL.sub("", _CAST.sub("", _SPACES.sub(" ", sql).strip()))
    tables = tables_of(text)
    if len(tables) == 1:
        text = re.sub(rf"\b{next(iter(tables))}\.", "", text, flags=re.IGNORECASE)
    text = _RETURNING.sub("", text).rstrip() if len(text) > chars else text
    text = _without_columns(text)
    text = _VALUES.sub(lambda found: f"{found[1]}{_listed(found[2])})", text)
    if len(text) > chars:
        text = _SET.sub(lambda found: found[1] + _listed(found[2]), text)
    if len(text) > chars:
        text = _without_queries(text)
    if len(text) > chars:
        text = _without_middle(text, chars)
    return text


def _without_queries(text: str) -> str:
    """What is asked inside of brackets is left out, the innermost first: `id = (SELECT …)`."""
    former = ""
    while former != text:
        former, text = text, _QUERY.sub(lambda found: f"({found[1]} …)", text)
    return text


def _without_middle(text: str, chars: int) -> str:
    """Cut between words."""
    head = text[: chars - _TAIL_CHARS - 3].rpartition(" ")[0]
    return f"{head} … {text[-_TAIL_CHARS:].partition(' ')[2]}"


def with_values(text: str, values: Sequence[str]) -> str:
    """With what was given in place of `$1`, `$2`, …"""

    def value(found: re.Match[str]) -> str:
        number = int(found[1])
        return values[number - 1] if 0 < number <= len(values) else found[0]

    return _PARAMETER.sub(value, text)


def value_text(value: str) -> str:
    """A value that has room on a line; an id is never cut."""
    if not value.startswith(("'", '"')) or len(value) <= VALUE_CHARS_MAX:
        return value
    return f"{value[: VALUE_CHARS_MAX - 2]}…{value[0]}"


def _listed(items: str) -> str:
    """As many of a list as there is room for."""
    if len(items) <= _LIST_CHARS_MAX:
        return items
    kept = items[:_LIST_CHARS_MAX].rpartition(", ")[0] or items[:_LIST_CHARS_MAX]
    return f"{kept}, …"


def _without_columns(text: str) -> str:
    """`SELECT … FROM`, where the columns are many."""
    if text[:7].lower() != "select ":
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and text[place : place + 6].lower() == " from ":
            columns = text[7:place]
            short = columns if len(columns) <= _LIST_CHARS_MAX else "…"
            return f"{text[:7]}{short}{text[place:]}"
    return text


def outcome_text(outcome: str) -> str:
    """What the server said, as a person would: `1 row` for `INSERT 0 1`."""
    several = outcome.split(", ")  # of several statements that were sent together
    found = _ROWS.fullmatch(several[0] if len(set(several)) == 1 else outcome)
    if found is None:
        return outcome
    return "1 row" if found[1] == "1" else f"{found[1]} rows"
