"""What a story says about the database: the pair of transactions that matters."""

from __future__ import annotations

from foretold.search.transactions import tell_transactions
from foretold.trace import Event

READ = "SELECT stock FROM item WHERE id = 1"
WRITE = "UPDATE item SET stock = $1 WHERE id = 1"


def events(*told: tuple[str, str]) -> list[Event]:
    """Statements, one millisecond apart: (session, SQL)."""
    return [
        Event(n * 1_000_000, "db", f"session {who}", n, "executes", f"{sql} → done", None)
        for n, (who, sql) in enumerate(told)
    ]


def test_the_two_that_overlap_are_shown() -> None:
    """And no other statement, however many there are."""
    noise = [(str(n), "SELECT 1 FROM other") for n in range(10, 60)]
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    lines = tell_transactions(events(*noise, *pair, *noise), 0)
    assert lines[0] == "In the database two transactions overlapped:"
    assert [line.split()[2:4] for line in lines[1:-5]] == [["session", who] for who, _ in pair]
    assert " ".join(line.strip() for line in lines[-5:-2]) == (
        "session 2 read item before session 1 had changed it, and then wrote item."
    )
    assert "FOR UPDATE" in lines[-2], "where to look"


def test_a_lock_makes_the_read_safe() -> None:
    """FOR UPDATE: no pair is accused; the last statements are shown."""
    locked = f"{READ} FOR UPDATE"
    told = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", locked), ("1", WRITE), ("1", "COMMIT"),
        ("2", locked), ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    lines = tell_transactions(events(*told), 0)
    assert lines[0] == "The last statements of the database:"


def test_one_after_the_other() -> None:
    """Transactions that do not overlap are no pair."""
    one = [("1", "BEGIN"), ("1", READ), ("1", WRITE), ("1", "COMMIT")]
    lines = tell_transactions(events(*one, *((who.replace("1", "2"), sql) for who, sql in one)), 0)
    assert lines[0] == "The last statements of the database:"


def test_what_drivers_ask_is_left_out() -> None:
    """Their questions about types and settings explain nothing."""
    assert tell_transactions(events(("1", "select pg_catalog.version()"), ("1", "SHOW x")), 0) == []


def test_no_database() -> None:
    """Then there is nothing to say."""
    assert tell_transactions([Event(0, "main", "task", 1, "executes", "x → y", None)], 0) == []
