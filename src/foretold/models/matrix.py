"""Which anomalies PostgreSQL shows at which isolation level: not told, but tried.

For each anomaly there is a small program and a question about what its sessions saw. Every order of
it is run on the real server, at each level, and compared with `PgModel` on the way. `foretold
anomalies` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from foretold.models.pgmodel import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    REPEATABLE_READ,
    SERIALIZABLE,
    PgModel,
)
from foretold.models.realpg import ROWS, server
from foretold.models.statements import ALL, above, at, plus, to
from foretold.spec.conform import Answer, PlayedCall, conform

LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE)
FOOTNOTES: Final = {
    (READ_UNCOMMITTED, "dirty read"): "The SQL standard allows it here. PostgreSQL never does it.",
    (REPEATABLE_READ, "phantom"): "The SQL standard allows it here. PostgreSQL never does it.",
}


class Anomaly(NamedTuple):
    """A program, and what of it is an anomaly."""

    name: str
    program: dict[str, Any]
    is_shown: Callable[[SeenByActors], bool]


class SeenByActors:
    """What the sessions of one schedule saw."""

    def __init__(self, steps: list[PlayedCall]) -> None:
        self._outcomes: dict[str, list[tuple[str, Any]]] = {}
        waiting: dict[str, int] = {}
        for step in steps:
            answer = step.result if isinstance(step.result, Answer) else Answer(step.result)
            own = self._outcomes.setdefault(step.actor, [])
            waiting[step.actor] = len(own)
            own.append((str(step.call[0]), answer.outcome))
            for other, outcome in answer.went_on:
                name, _ = self._outcomes[other][waiting[other]]
                self._outcomes[other][waiting[other]] = name, outcome

    def reads(self, actor: str) -> list[dict[str, int]]:
        """What each of its selects has given."""
        own = self._outcomes.get(actor, ())
        return [dict(o) for name, o in own if name == "select" and isinstance(o, tuple)]

    def has_committed(self, *actors: str) -> bool:
        return all(("commit", "COMMIT") in self._outcomes.get(actor, ()) for actor in actors)


def _transaction(*statements: Any, end: str = "commit") -> list[Any]:
    return [[("begin",), statements[0]], *statements[1:], (end,)]


def _read_both(seen: SeenByActors) -> bool:
    """Both saw what was there before either of them, and both are committed."""
    reads = [each for actor in ("a", "b") for each in seen.reads(actor)]
    as_before = all(v == ROWS[k] for read in reads for k, v in read.items())
    return seen.has_committed("a", "b") and as_before


X, Y, T = at("x"), at("y"), _transaction
ANOMALIES: Final = (
    Anomaly(
        "dirty read",
        {"a": T(("update", X, to(7)), end="rollback"), "b": T(("select", X), ("select", X))},
        lambda seen: any(read["x"] == 7 for read in seen.reads("b")),
    ),
    Anomaly(
        "non-repeatable read",
        {"a": [("update", X, to(7))], "b": T(("select", X), ("select", X))},
        lambda seen: len({read["x"] for read in seen.reads("b")}) > 1,
    ),
    Anomaly(
        "phantom",
        {"a": [("insert", "z", 100)], "b": T(("select", above(50)), ("select", above(50)))},
        lambda seen: len({tuple(read) for read in seen.reads("b")}) > 1,
    ),
    Anomaly(
        "lost update",
        {
            "a": T(("select", X), ("update", X, to(101))),
            "b": T(("select", X), ("update", X, to(110))),
        },
        _read_both,
    ),
    Anomaly(
        "read skew",
        {
            "a": T(("update", X, plus(-50)), ("update", Y, plus(50))),
            "b": T(("select", X), ("select", Y)),
        },
        lambda seen: (
            len(seen.reads("b")) == 2
            and sum(v for read in seen.reads("b") for v in read.values()) != sum(ROWS.values())
        ),
    ),
    Anomaly(
        "write skew",
        {
            "a": T(("select", ALL), ("update", X, plus(-150))),
            "b": T(("select", ALL), ("update", Y, plus(-150))),
        },
        _read_both,
    ),
)


@dataclass
class Matrix:
    """In how many schedules each anomaly was seen at each level."""

    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    schedules: dict[tuple[str, str], int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        names = [each.name for each in ANOMALIES]
        notes: list[str] = []
        yield "  ".join([" " * 16, *names])
        for level in LEVELS:
            cells = []
            for name in names:
                shown, of = self.seen[level, name], self.schedules[level, name]
                mark = ""
                if not shown and (note := FOOTNOTES.get((level, name))):
                    notes.append(f"{'*' * (len(notes) + 1)} {note}")
                    mark = notes[-1].partition(" ")[0]
                cell = f"{shown} of {of}" if shown else f"never{mark}"
                cells.append(f"{cell:{len(name)}}")
            yield "  ".join([f"{level:16}", *cells]).rstrip()
        yield from notes


def anomalies() -> Matrix:
    """Run every order of each anomaly's program on the real server, at each level."""
    found = Matrix()
    for level in LEVELS:
        for each in ANOMALIES:
            here = (level, each.name)
            found.seen[here] = found.schedules[here] = 0

            def told(
                _: str, steps: list[PlayedCall], here: Any = here, each: Anomaly = each
            ) -> None:
                found.schedules[here] += 1
                found.seen[here] += each.is_shown(SeenByActors(steps))

            done = conform(
                server(level), PgModel(level, ROWS), {each.name: each.program}, on_schedule=told
            )
            if done.contradiction is not None:
                raise done.contradiction
            assert done, f"{each.name}: {done}"  # "never" is said of every order, or not at all
    return found
