"""What a request changes in the databases of the world: all rows of all tables, before and after.

A page shows what its author thought of; a table shows the rest. A difference is blamed on the
request only if that is certain: while it was under way transactions of its own were committed, and
no others. Whose transaction it is follows from the request's context, which foretold takes along
through the application to each statement. If another task has committed meanwhile, nothing is
judged.

Not compared: columns of times, columns whose name says that they change by themselves
(`updated_at`, `version`), and tables whose name says that they only keep a record (`audit_log`,
`login_attempts`). `Machine.ignore` names more: `"account.visits"`, or `"visits.*"` for a table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from foretold.spec.alike import TIMES
from foretold.world.omens import BOUND, Bound

VOLATILE: Final = re.compile(
    r"(.*_)?(at|on|time|date|timestamp|updated|modified|seen|version|revs?|revisions?|etag|nonce"
    r"|views|(elapsed|took|uptime)(_(s|ms|us|ns|seconds))?)$|last_.*",
    re.IGNORECASE,
)
"""Fields and columns that change by themselves."""
_RECORDS: Final = re.compile(
    r"(.*_)?(audits?|logs?|history|revisions|versions|attempts?|hits?|rate_?limits?|metrics?|outbox)"
    r"(_.*)?$",
    re.IGNORECASE,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
ROWS_SHOWN: Final = 2
ROW_CHARS_MAX: Final = 160


def is_volatile(name: str) -> bool:
    """Whether what has this name changes by itself, be it `updated_at` or `updatedAt`."""
    return VOLATILE.fullmatch(_HUMP.sub("_", name)) is not None


def is_record(name: str) -> bool:
    """Whether a table, page or field of this name only keeps a record of what was done."""
    return _RECORDS.fullmatch(_HUMP.sub("_", name).replace("-", "_")) is not None


State = dict[str, Counter[tuple[str, ...]]]


class RowsAround:
    """The databases of one world around one request."""

    def __init__(self, world: Any, ignore: Collection[str]) -> None:
        self._databases = list(getattr(world, "services", {}).get("postgres", ()))
        self._ignore = set(ignore)
        self._party = ""
        self._by_request = self._by_others = 0
        self._before: State = {}

    def __bool__(self) -> bool:
        return bool(self._databases)

    @contextmanager
    def watched(self, name: str) -> Iterator[None]:
        """What is sent inside is the request, which has its time inside to commit; `name` is unique
        in the run."""
        self._party, self._before = name, self._state()
        token = BOUND.set(Bound(frozenset(), party=name))
        for each in self._databases:
            each.telling.at_each_commit(self._committed)
        try:
            yield
        finally:
            BOUND.reset(token)
            for each in self._databases:
                each.telling.on_commit.remove(self._committed)

    def difference(self) -> str:
        """What the request has changed; empty if it has not, or if others may have."""
        if not self._by_request or self._by_others:
            return ""
        after = self._state()
        lines = [
            f"table {table} {line}"
            for table in sorted({*self._before, *after})
            for line in _lines(self._before.get(table, Counter()), after.get(table, Counter()))
        ]
        return "; ".join(lines)

    def _committed(self, commit: Any) -> None:
        if commit.party == self._party:
            self._by_request += 1
        else:
            self._by_others += 1

    def _state(self) -> State:
        found: State = {}
        for number, database in enumerate(self._databases):
            for table in database.tables():
                name = table.name.removeprefix("public.")
                if is_record(name) or f"{name}.*" in self._ignore:
                    continue
                kept = [n for n, column in enumerate(table.columns) if self._counts(name, column)]
                names = [table.columns[n].name for n in kept]
                other = f" of database {number + 1}" if number else ""
                found[name + other] = Counter(
                    tuple(f"{names[i]} {row[n]}" for i, n in enumerate(kept)) for row in table.rows
                )
        return found

    def _counts(self, table: str, column: Any) -> bool:
        if column.kind in TIMES or is_volatile(column.name):
            return False
        return not {column.name, f"{table}.{column.name}"} & self._ignore


def _lines(before: Counter[tuple[str, ...]], after: Counter[tuple[str, ...]]) -> Iterator[str]:
    for word, rows in (("lost", before - after), ("got", after - before)):
        for row in sorted(rows)[:ROWS_SHOWN]:
            text = ", ".join(row)
            short = text if len(text) <= ROW_CHARS_MAX else f"{text[: ROW_CHARS_MAX - 1]}…"
            yield f"{word} {short}"
