"""Small programs of two or three sessions: what PostgreSQL is asked to show what it does.

A transaction's BEGIN is sent together with its first statement, where it makes no difference: it
takes no snapshot. One program shows that it takes none.
"""

from __future__ import annotations

from typing import Any

from foretold.models import ALL, above, at, plus, to

X, Y, Z = at("x"), at("y"), at("z")
BEGIN, COMMIT, ROLLBACK = ("begin",), ("commit",), ("rollback",)
ROWS = {"x": 100, "y": 100}


def select(where: Any) -> tuple[Any, ...]:
    """A plain read."""
    return ("select", where)


def lock(where: Any, mode: str = "update", policy: str = "") -> tuple[Any, ...]:
    """`SELECT … FOR …`."""
    return ("lock", where, mode, policy) if policy else ("lock", where, mode)


def add(where: Any, number: int) -> tuple[Any, ...]:
    """So much more."""
    return ("update", where, plus(number))


def put(where: Any, number: int) -> tuple[Any, ...]:
    """This value."""
    return ("update", where, to(number))


def insert(key: str, value: int) -> tuple[Any, ...]:
    """A new row."""
    return ("insert", key, value)


def delete(where: Any) -> tuple[Any, ...]:
    """No row any more."""
    return ("delete", where)


def transaction(*statements: Any, end: Any = COMMIT) -> list[Any]:
    """BEGIN with the first statement, the others, and an end."""
    return [[BEGIN, statements[0]], *statements[1:], end]


def both(*statements: Any) -> dict[str, Any]:
    """Two sessions that do the same."""
    return {"a": transaction(*statements), "b": transaction(*statements)}


def two(a: list[Any], b: list[Any]) -> dict[str, Any]:
    """Two sessions."""
    return {"a": a, "b": b}


T = transaction
UNDO = ROLLBACK
SP, BACK, RELEASE = ("savepoint", "s"), ("rollback_to", "s"), ("release", "s")

PROGRAMS: dict[str, dict[str, Any]] = {
    # reads
    "the experiment": two(T(put(X, 7)), T(select(X), select(X))),
    "begin takes no snapshot": two([add(X, 1)], [BEGIN, select(X), COMMIT]),
    "a write that is undone": two(T(add(X, 5), end=UNDO), T(select(X), select(X))),
    "own writes are seen": two(T(add(X, 5), select(X)), T(select(X))),
    "own deletes are seen": two(T(delete(X), select(ALL)), T(select(ALL))),
    "read skew": two(T(add(X, -50), add(Y, 50)), T(select(X), select(Y))),
    "phantom": two([insert("z", 100)], T(select(above(50)), select(above(50)))),
    "vanishing rows": two([delete(Y)], T(select(above(50)), select(above(50)))),
    "a row leaves the condition": two([put(X, 1)], T(select(above(50)), select(above(50)))),
    # writes of one row
    "lost update": both(select(X), put(X, 40)),
    "withdrawals": both(select(X), add(X, -60)),
    "blind writes": both(add(X, 1)),
    "writes without begin": two([add(X, 1), add(X, 1)], [add(X, 10)]),
    "a write waits for an undo": two(T(add(X, 5), end=UNDO), T(add(X, 1))),
    "a write waits for a delete": two(T(delete(X)), T(add(X, 1), select(ALL))),
    "a delete waits for a write": two(T(add(X, 1)), T(delete(X), select(ALL))),
    "both delete": both(delete(X)),
    "write, then delete": two(T(add(X, 1), delete(X)), T(add(X, 10))),
    # more rows
    "crossed writes": two(T(add(X, 1), add(Y, 1)), T(add(Y, 2), add(X, 2))),
    "write skew": two(T(select(ALL), add(X, -60)), T(select(ALL), add(Y, -60))),
    "write skew, by keys": two(T(select(X), add(Y, -1)), T(select(Y), add(X, -1))),
    "all rows": two(T(add(ALL, 1)), T(add(ALL, 10))),
    "a condition that stops to hold": two(T(put(X, 1)), T(add(above(50), 10))),
    "a condition that begins to hold": two(T(put(X, 1), put(X, 200)), T(add(above(150), 10))),
    "a lock is kept though nothing was changed": {
        "a": T(put(X, 1)),
        "b": T(add(above(50), 10), select(ALL)),
        "c": [add(X, 1000)],
    },
    "sums": two(T(select(ALL), insert("a1", 200)), T(select(ALL), insert("b1", 200))),
    # locks
    "for update": both(lock(X), add(X, -60)),
    "for update, of a condition": two(T(lock(above(50)), add(X, -60)), T(put(X, 10))),
    "for share together": both(lock(X, "share"), select(X)),
    "for share, then write": both(lock(X, "share"), add(X, 1)),
    "for share stops writers": two(T(lock(X, "share"), select(X)), T(add(X, 1))),
    "nowait": two(T(add(X, 1)), T(lock(X, "update", "nowait"), select(X))),
    "nowait, for share": two(T(lock(X, "share")), T(lock(X, "share", "nowait"), add(Y, 1))),
    "skip locked": two(T(add(X, 1)), T(lock(ALL, "update", "skip locked"), select(ALL))),
    "two workers": both(lock(above(50), "update", "skip locked"), put(X, 0)),
    "crossed locks": two(T(lock(X), lock(Y)), T(lock(Y), lock(X))),
    "a lock that is only a lock": two(T(lock(X)), T(select(X), add(X, 1))),
    # unique keys
    "both insert": both(insert("z", 1)),
    "insert after an undo": two(T(insert("z", 1), end=UNDO), T(insert("z", 2))),
    "look, then insert": both(select(Z), insert("z", 1)),
    "insert what is deleted": two(T(delete(X)), T(insert("x", 1))),
    "insert what is written": two(T(add(X, 1)), [insert("x", 1)]),
    "insert what is locked": two(T(lock(X)), [insert("x", 1)]),
    "delete, then insert": two(T(delete(X), insert("x", 5)), T(add(X, 1))),
    "crossed inserts": two(T(insert("z", 1), insert("w", 1)), T(insert("w", 2), insert("z", 2))),
    "insert what somebody else has deleted": two(
        [delete(X)], T(select(Y), insert("x", 7), select(ALL))
    ),
    "delete it again": two([delete(X)], T(select(Y), insert("x", 7), delete(X))),
    # savepoints and failed transactions
    "back to a savepoint": two(T(add(X, 1), SP, add(Y, 1), BACK), T(add(Y, 10))),
    "a savepoint keeps what was before": two(T(add(X, 1), SP, add(Y, 1), BACK), T(add(X, 10))),
    "released": two(T(add(X, 1), SP, add(Y, 1), RELEASE), T(add(Y, 10))),
    "insert or update": two(T(SP, insert("z", 1), BACK, add(Z, 1)), [insert("z", 5)]),
    "statements out of place": two(
        [COMMIT, ROLLBACK, SP, RELEASE, BACK], [BEGIN, add(X, 1), BEGIN, ROLLBACK]
    ),
    "begin in a failed transaction": two(
        [[BEGIN, insert("x", 1)], BEGIN, SP, COMMIT, COMMIT], [add(X, 1)]
    ),
    "a failed transaction": two(T(add(Y, 1), insert("x", 1), select(X)), T(add(Y, 10))),
    # three sessions
    "three writers": {"a": [add(X, 1)], "b": T(add(X, 10)), "c": T(add(X, 100))},
    "a successor that is locked": {
        "a": [[BEGIN, add(X, 1)], COMMIT],
        "b": [add(X, 10)],
        "c": T(select(Y), add(X, 100)),
    },
    "more than one row to wait for": {
        "a": [[BEGIN, add(ALL, 1)], UNDO],
        "b": [[BEGIN, add(Y, 2)], UNDO],
        "c": [add(ALL, 3)],
    },
    "behind one whose row is gone": {
        "a": [[BEGIN, add(X, 1), delete(X)], COMMIT],
        "b": [[BEGIN, delete(X)], UNDO],
        "c": [lock(above(50), "no key update")],
    },
    "several who share are waited for one by one": {
        "a": [[BEGIN, add(Y, 1)], add(X, 1)],
        "b": [[BEGIN, lock(X, "share")], COMMIT],
        "c": [[BEGIN, lock(X, "share")], add(Y, 3)],
    },
    "three in a circle": {
        "a": T(add(X, 1), add(Y, 1)),
        "b": T(add(Y, 2), add(X, 2)),
        "c": [select(ALL)],
    },
}

QUICK = (
    "the experiment",
    "lost update",
    "write skew, by keys",
    "crossed locks",
    "both insert",
    "back to a savepoint",
    "a lock is kept though nothing was changed",
    "behind one whose row is gone",
)
"""What the default suite runs."""
