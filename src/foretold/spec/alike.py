"""Do two ways end alike? What calls gave and what a database holds, but for ids and times.

Ids that the system makes (uuids, numbers of sequences) differ from order to order, so they are
renamed: an id is known by where it stands, not by its value. Each gets a colour from the rows that
it stands in, with the colours of the other ids in them, three times over (Weisfeiler and Leman).
Two states that differ in ids alone have the same colours, so that this never accuses anybody
wrongly; times are not compared at all. Both states are coloured at once, so that a colour is a
number that means the same in both. What else a program invents (keys, hashes of keys) cannot be
told by looking at it: `invented` compares two endings that differ in randomness alone, and
`renamed` makes ids of what has changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from foretold.trace.content import without_addresses

ROUNDS: Final = 3
TIME: Final = "<time>"
ID: Final = "<id>"
ANY: Final = "<differs>"
TIMES: Final = ("timestamp", "timestamptz", "date", "time", "timetz", "interval")
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?"
)
_SPAN: Final = re.compile(
    r"(.*[._])?(elapsed|took|uptime|latency|(process(ing)?|response|query)_?time)"
    r"(_?(s|ms|us|ns|secs?|seconds|millis))?$",
    re.IGNORECASE,
)
"""How long something took: longer where it had to wait, in each order another number."""
_IDS: Final = (".id", "_id", "ids", ".number")
"""How numbers are called that are ids."""
ROWS_SHOWN: Final = 6
RESULT_CHARS_MAX: Final = 200
ELSE: Final = "and what is the same in all orders"


class MadeId(NamedTuple):
    domain: str
    value: str


Cell = Any
"""Text, a number, or a tuple of text and tokens."""
Row = tuple[Cell, ...]
Label = tuple[str, str]
"""A table and a column; or nothing, and the name of a value in what a call gave."""
Made = Mapping[Label, Collection[str] | None]
"""The fields whose values are invented, with those values that are not; None: it depends on the
instant, so that two may be the same by chance, and none is compared."""
MADE: Final = "made"
_IS: Final = " = "


class Ending(NamedTuple):
    """How some calls have ended."""

    results: tuple[Row, ...]
    """One for each call: what became of it, and what it gave."""
    tables: Mapping[str, tuple[Row, ...]]
    """Those of databases; and pages that were read, whose rows are like results."""
    columns: Mapping[str, tuple[str, ...]]
    """Of the tables of databases."""

    def labels(self, table: str, row: Row) -> Sequence[Label | None]:
        """Where the values of a row stand."""
        if table in self.columns:
            return [(table, column) for column in self.columns[table]]
        return _names_in(row)

    def rows(self) -> list[tuple[str, Row]]:
        """All that there is, as rows of something."""
        calls = [(f"call {n}", row) for n, row in enumerate(self.results, 1)]
        return calls + [(name, row) for name, its in self.tables.items() for row in its]


Outline = tuple[int, tuple[MadeId, ...]]
"""A row: the number of all that is no id in it, and its ids."""
Colours = dict[MadeId, int]


class _Numbers(dict[Any, int]):
    """A number for whatever is asked for, the same for the same."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def alike(one: Ending, other: Ending) -> bool:
    """Whether they differ in ids alone."""
    numbers = _Numbers()
    mine, theirs = (_outlines(each, numbers) for each in (one, other))
    if Counter(number for number, _ in mine) != Counter(number for number, _ in theirs):
        return False
    return _coloured(mine, numbers) == _coloured(theirs, numbers)


def _outlines(ending: Ending, numbers: _Numbers) -> list[Outline]:
    found = []
    for name, row in ending.rows():
        tokens = tuple(_tokens(row))
        rest = tuple(map(_without_ids, row)) if tokens else row
        found.append((numbers[name, rest], tokens))
    return found


def _without_ids(cell: Cell) -> Cell:
    if not isinstance(cell, tuple):
        return cell
    return tuple((part.domain,) if isinstance(part, MadeId) else part for part in cell)


def _colours(rows: Sequence[Outline], numbers: _Numbers) -> Colours:
    """For each id a number that tells where it stands."""
    colours: Colours = {}
    for _ in range(ROUNDS):
        near: dict[MadeId, list[tuple[int, int]]] = {}
        for rest, tokens in rows:
            row = numbers[rest, tuple(map(colours.get, tokens))] if tokens else 0
            for place, token in enumerate(tokens):
                near.setdefault(token, []).append((row, place))
        colours = {token: numbers[tuple(sorted(seen))] for token, seen in near.items()}
    return colours


def _coloured(rows: Sequence[Outline], numbers: _Numbers) -> Counter[Any]:
    colours = _colours(rows, numbers)
    return Counter((rest, tuple(map(colours.get, tokens))) for rest, tokens in rows)


def ending_of(
    results: Sequence[Any],
    databases: Sequence[Any],
    ignore: Collection[str] = (),
    pages: Mapping[str, Any] = MappingProxyType({}),
) -> Ending:
    """`databases` have `tables()`; `ignore` names columns, as `updated_at` or `account.version`,
    and keys in what calls give. `pages`: what reading them has given, by their names."""
    tables: dict[str, tuple[Row, ...]] = {}
    columns: dict[str, tuple[str, ...]] = {}
    for number, database in enumerate(databases):
        for table in database.tables():
            other = f" of database {number + 1}" if number else ""
            name = table.name.removeprefix("public.") + other
            kept = [
                place
                for place, column in enumerate(table.columns)
                if not {column.name, f"{name}.{column.name}"} & set(ignore)
            ]
            columns[name] = tuple(table.columns[place].name for place in kept)
            tables[name] = tuple(
                tuple(_cell(row[place], table.columns[place]) for place in kept)
                for row in table.rows
            )
    tables |= {page: tuple(_page(given, ignore)) for page, given in pages.items()}
    return Ending(tuple(_result(each, ignore) for each in results), tables, columns)


# ---------------------------------------------------------------- what a program invents


def invented(
    pairs: Iterable[tuple[Ending, Ending]],
) -> dict[Label, frozenset[str]] | None:
    """The two of each pair should be the same, but for what was invented: which fields have other
    values in the one than in the other, and the values in both. None if more differs than that."""
    made: dict[Label, frozenset[str]] = {}
    pairs = list(pairs)
    for pair in pairs:
        mine, theirs = map(_values, pair)
        for label in mine.keys() & theirs.keys():
            if mine[label] != theirs[label]:
                kept = frozenset(mine[label]) & frozenset(theirs[label])
                made[label] = made.get(label, kept) & kept
    same = all(alike(renamed(one, made), renamed(other, made)) for one, other in pairs)
    return made if same else None


def dependent(pairs: Iterable[tuple[Ending, Ending]]) -> dict[Label, None]:
    """The fields that have other values in the one than in the other; none if more differs."""
    pairs = list(pairs)
    values = [tuple(map(_values, pair)) for pair in pairs]
    found = {k: None for one, other in values for k in one if k in other and one[k] != other[k]}
    same = all(alike(renamed(one, found), renamed(other, found)) for one, other in pairs)
    return found if same else {}


def _values(ending: Ending) -> dict[Label, Counter[str]]:
    found: dict[Label, Counter[str]] = {}
    for labels, row in _labelled(ending):
        for label, cell in zip(labels, row, strict=True):
            if label is not None:
                found.setdefault(label, Counter())[_plain(cell, label)] += 1
    return found


def renamed(ending: Ending, made: Made) -> Ending:
    """An ending in which the values of these fields are ids, but for those that are known."""

    def read(labels: Sequence[Label | None], row: Row) -> Row:
        return tuple(_renamed(c, label, made) for label, c in zip(labels, row, strict=True))

    tables = {
        name: tuple(read(ending.labels(name, row), row) for row in rows)
        for name, rows in ending.tables.items()
    }
    results = tuple(read(_names_in(row), row) for row in ending.results)
    return ending._replace(tables=tables, results=results)


def _renamed(cell: Cell, label: Label | None, made: Made) -> Cell:
    if label is None or label not in made or cell is None:
        return cell
    known, text = made[label], _plain(cell, label)
    if known is None:
        return f"{_before(label)}{ANY}"
    return cell if text in known else (_before(label), MadeId(MADE, text))


def _before(label: Label) -> str:
    return "" if label[0] else f"{label[1]}{_IS}"


def _labelled(ending: Ending) -> Iterator[tuple[Sequence[Label | None], Row]]:
    for name, rows in ending.tables.items():
        yield from ((ending.labels(name, row), row) for row in rows)
    yield from ((_names_in(row), row) for row in ending.results)


def _names_in(row: Row) -> list[Label | None]:
    """How the values are called that a call gave; None where there is only a word. A call that was
    refused gives no value: why it was refused is always compared."""
    is_given = bool(row) and row[0] == "gave"
    cells = [_with(cell, lambda token: token.domain) if is_given else "" for cell in row]
    return [("", text.partition(_IS)[0]) if _IS in text else None for text in cells]


def _plain(cell: Cell, label: Label) -> str:
    """A value by itself, as text."""
    text = _with(cell, lambda token: token.domain)
    return text if label[0] else text.partition(_IS)[2]


def timeless(*endings: Ending) -> list[Ending]:
    """The same without the columns that have times in one of them: nor does it matter then whether
    there is a time at all."""
    times = {
        (table, place)
        for each in endings
        for table, rows in each.tables.items()
        for row in rows
        for place, cell in enumerate(row)
        if cell == TIME
    }
    return [each._replace(tables=_without_columns(each.tables, times)) for each in endings]


def _without_columns(
    tables: Mapping[str, tuple[Row, ...]], left_out: Collection[tuple[str, int]]
) -> dict[str, tuple[Row, ...]]:
    return {
        table: tuple(
            tuple(None if (table, n) in left_out else cell for n, cell in enumerate(row))
            for row in rows
        )
        for table, rows in tables.items()
    }


# ---------------------------------------------------------------- reading an ending


def _cell(value: str | None, column: Any) -> Cell:
    if value is None:
        return None
    if column.kind in TIMES:
        return TIME
    if column.counts:
        return (MadeId(column.counts, value),)
    return _text(value)


def timed(text: str) -> str:
    """Text in which no instant can be told from another."""
    return _INSTANT.sub(TIME, without_addresses(text))


def plain_result(given: Any, ignore: Collection[str]) -> tuple[str, ...]:
    """What became of a call and what it gave, but for times and ids."""
    return _painted(_result(given, ignore), {})


def _text(text: str) -> Cell:
    """Text with the ids in it as tokens, and without times."""
    text = timed(text)
    parts: list[Any] = []
    end = 0
    for found in _UUID.finditer(text):
        parts += [text[end : found.start()], MadeId("uuid", found.group().lower())]
        end = found.end()
    return (*parts, text[end:]) if parts else text


def _result(given: Any, ignore: Collection[str]) -> Row:
    """What became of a call (`gave`, `raised`, `refused`), and what it gave."""
    if given is None:
        return ("was not made",)
    word, value = given
    return (word,) if value is None else (word, *_leaves("", value, ignore))


def _leaves(name: str, value: Any, ignore: Collection[str]) -> Iterator[Cell]:
    """A result as a row: each value with its name. Numbers that are called an id are not compared:
    nobody knows which table they count."""
    if hasattr(value, "status_code") and callable(getattr(value, "json", None)):
        yield f"{name} status {value.status_code}"
        value = _body(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif callable(getattr(value, "model_dump", None)):
        value = value.model_dump()
    if isinstance(value, Mapping):
        number = _number_of(value)
        for key in sorted(value, key=str):
            if key in ignore:
                continue
            if number and isinstance(value[key], str) and number.fullmatch(value[key]):
                yield f"{name}.{key} = {ID}"  # ORD-0007, of what has the id 7
            else:
                yield from _leaves(f"{name}.{key}", value[key], ignore)
    elif isinstance(value, list | tuple):
        yield f"{name} has {len(value)}"
        for each in value:
            yield from _leaves(name, each, ignore)
    elif isinstance(value, int | float) and _SPAN.match(name):
        yield f"{name} = {TIME}"
    elif value is None or isinstance(value, bool | float):
        yield f"{name} = {value!r}"
    elif isinstance(value, int):
        is_id = name.lower().endswith(_IDS)
        yield f"{name} = {ID if is_id else value}"
    else:
        text = _text(str(value))
        yield f"{name} = {text}" if isinstance(text, str) else (f"{name} = ", *text)


def _number_of(value: Mapping[Any, Any]) -> re.Pattern[str] | None:
    """What a text looks like that is the id of this thing with letters before it, or zeros."""
    ids = (
        v
        for k, v in value.items()
        if isinstance(v, int) and not isinstance(v, bool) and f".{k}".lower().endswith(_IDS)
    )
    found = "|".join(map(str, ids))
    return re.compile(rf"(?:[A-Za-z0-9/_#-]*[/_#-]0*|0+)(?:{found})") if found else None


def _page(given: Any, ignore: Collection[str]) -> Iterator[Row]:
    """What reading a page gave. What stands in a list is a row of its own: its order is seldom
    promised."""
    word, value = given
    if word == "gave":
        yield from ((word, *cells) for cells in _page_rows("", value, ignore))
    else:
        yield _result(given, ignore)


def _page_rows(name: str, value: Any, ignore: Collection[str]) -> Iterator[Row]:
    if isinstance(value, list):
        yield (f"{name} has {len(value)}",)
        for each in value:
            yield from _page_rows(name, each, ignore)
    elif isinstance(value, Mapping):
        lists = {k: v for k, v in value.items() if isinstance(v, list)}
        yield tuple(_leaves(name, {k: v for k, v in value.items() if k not in lists}, ignore))
        for key in sorted(lists.keys() - set(ignore), key=str):
            yield from _page_rows(f"{name}.{key}", lists[key], ignore)
    else:
        yield tuple(_leaves(name, value, ignore))


def _body(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text


def _tokens(row: Row) -> Iterator[MadeId]:
    for cell in row:
        if isinstance(cell, tuple):
            yield from (part for part in cell if isinstance(part, MadeId))


def _painted(row: Row, colours: Colours) -> tuple[str, ...]:
    return tuple(_with(cell, lambda token: str(colours.get(token, token.domain))) for cell in row)


def _with(cell: Cell, name: Callable[[MadeId], str]) -> str:
    if not isinstance(cell, tuple):
        return "null" if cell is None else str(cell)
    return "".join(name(part) if isinstance(part, MadeId) else part for part in cell)


# ---------------------------------------------------------------- words


def shown_result(row: Row) -> str:
    """What a call gave, on a line."""
    cells = [_with(cell, lambda token: ID).strip().removeprefix("= ") for cell in row]
    text = f"{cells[0]} {', '.join(cells[1:])}".strip() if cells else "does not matter"
    return text if len(text) <= RESULT_CHARS_MAX else f"{text[: RESULT_CHARS_MAX - 1]}…"


def shown_results(endings: Sequence[Ending]) -> list[list[str]]:
    """For each ending, what each call gave. Of a long answer only that is shown which differs."""
    shown: list[list[str]] = [[] for _ in endings]
    for rows in zip(*(each.results for each in endings), strict=True):
        is_long = any(sum(map(len, map(str, row))) > RESULT_CHARS_MAX for row in rows)
        same = set.intersection(*({_known_as(cell) for cell in row[1:]} for row in rows))
        for row, text in zip(rows, shown, strict=True):
            left = [cell for cell in row[1:] if not is_long or _known_as(cell) not in same]
            more = [ELSE] if len(left) < len(row) - 1 else []
            text.append(shown_result((*row[:1], *left, *more)))
    return shown


def _known_as(cell: Cell) -> str:
    return _with(cell, lambda token: ID)


def differences(one: Ending, other: Ending, names: tuple[str, str]) -> Iterator[str]:
    """The rows that only one of them has; if they differ in ids alone, with what the ids mean."""
    if plain := list(_only_in(one, other, names, {}, {})):
        yield from plain
        return
    numbers = _Numbers()
    mine, theirs = (_colours(_outlines(each, numbers), numbers) for each in (one, other))
    yield from _only_in(one, other, names, mine, theirs)


def _only_in(
    one: Ending,
    other: Ending,
    names: tuple[str, str],
    mine: Colours,
    theirs: Colours,
) -> Iterator[str]:
    for table in one.tables:
        here, there = _counted(one, table, mine), _counted(other, table, theirs)
        for side, ending, left, colours in (
            (names[0], one, here - there, mine),
            (names[1], other, there - here, theirs),
        ):
            for number, row in enumerate(_rows_of(ending, table, left, colours)):
                if number < ROWS_SHOWN:
                    yield f"{side} has {table}: {row}"


def _counted(ending: Ending, table: str, colours: Colours) -> Counter[tuple[str, ...]]:
    return Counter(_painted(row, colours) for row in ending.tables.get(table, ()))


def _rows_of(
    ending: Ending, table: str, wanted: Counter[tuple[str, ...]], colours: Colours
) -> Iterator[str]:
    """The rows whose painted forms these are, as a person reads them."""
    left = Counter(wanted)
    for row in ending.tables.get(table, ()):
        key = _painted(row, colours)
        if left[key] > 0:
            left[key] -= 1
            if table not in ending.columns:
                yield shown_result(row)
                continue
            cells = (_with(cell, lambda token: ID) for cell in row)
            told = zip(ending.columns[table], cells, strict=True)
            yield ", ".join(f"{column} {cell}" for column, cell in told)
