"""What a story says about the database: the pair of transactions that matters."""

from __future__ import annotations

from foretold.search.transactions import Told
from foretold.trace import ASKED_BY, Event, Place

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
    lines = Told(events(*noise, *pair, *noise)).lines(0)
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
    lines = Told(events(*told)).lines(0)
    assert lines[0] == "The last statements of the database:"


def test_one_after_the_other() -> None:
    """Transactions that do not overlap are no pair."""
    one = [("1", "BEGIN"), ("1", READ), ("1", WRITE), ("1", "COMMIT")]
    lines = Told(events(*one, *((who.replace("1", "2"), sql) for who, sql in one))).lines(0)
    assert lines[0] == "The last statements of the database:"


def test_what_drivers_ask_is_left_out() -> None:
    """Their questions about types and settings explain nothing."""
    assert Told(events(("1", "select pg_catalog.version()"), ("1", "SHOW x"))).lines(0) == []


def test_no_database() -> None:
    """Then there is nothing to say."""
    assert Told([Event(0, "main", "task", 1, "executes", "x → y", None)]).lines(0) == []


def asked_by(session: str, task: str) -> Event:
    """The session works for this task from now on."""
    return Event(0, "db", f"session {session}", 0, ASKED_BY, f"web/{task}", None)


def resumes(task: str, line: int) -> Event:
    """The task goes on at this line; who reads or writes first is called from a line of its own,
    and all else from where the transaction was opened."""
    caller = (
        Place("app/routers.py", line, "handler") if line in (3, 4) else Place("app/db.py", 1, "")
    )
    return Event(0, "web", task, 1, "resumes", "", Place("app/rows.py", line, "get"), (caller,))


def test_requests_and_lines_of_code_are_named() -> None:
    """Who stands behind each session, from which line each statement came, and of the two that
    matter from which caller."""
    visit = Event(0, "web", "POST /buy-2", 1, ASKED_BY, "bob", None)
    told = [visit, asked_by("1", "POST /buy"), asked_by("2", "POST /buy-2")]
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    for number, (who, sql) in enumerate(pair):
        task = "POST /buy" if who == "1" else "POST /buy-2"
        told += [*events((who, sql)), resumes(task, number)]
    told = [event._replace(time_ns=n * 1_000_000) for n, event in enumerate(told)]
    lines = Told(told).lines(0)
    assert lines[1:3] == ["  session 1 is web/POST /buy", "  session 2 is POST /buy of bob"]
    assert [line.split()[4] for line in lines[5:10]] == [
        f"app/rows.py:{n}" for n in (2, 3, 4, 5, 6)
    ]
    assert lines[-5:-2] == [
        "  session 2 read item (app/rows.py:3, from app/routers.py:3)",
        "  before session 1 had changed it (app/rows.py:4, from app/routers.py:4),",
        "  and then wrote item (app/rows.py:6).",
    ]


def test_the_one_that_overwrites_is_accused() -> None:
    """Both have read before the other's write; who wrote after the other's commit is to blame."""
    waits = Event(
        4_500_000, "db", "session 1", 0, "waits for a lock", f"of session 2: {WRITE}", None
    )
    told = events(
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("2", WRITE), ("2", "COMMIT"),
        ("1", WRITE), ("1", "COMMIT"),
    )  # fmt: skip
    lines = Told([*told[:5], waits, *told[5:]]).lines(0)
    assert lines[-5].strip() == "session 1 read item"
    assert any(line.endswith("waits for a lock") for line in lines)


def test_what_is_said_again_is_one_line() -> None:
    """And a transaction in which nothing was asked is none."""
    told = events(
        ("1", "BEGIN"), ("1", "ROLLBACK"), ("1", "BEGIN"), ("1", WRITE), ("1", WRITE),
        ("1", "COMMIT"),
    )  # fmt: skip
    lines = Told(told).lines(0)
    assert [line.split("session 1  ")[1] for line in lines[1:]] == [
        "BEGIN → done",
        f"{WRITE} → done  (2 times)",
        "COMMIT → done",
    ]


def test_without_a_pair_it_is_said_where_to_look() -> None:
    """One request alone is to blame, or several one after the other."""
    one = events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT"))
    first = [asked_by("1", "POST /buy"), *one]
    assert "one request" in Told(first).lines(0)[-1]
    assert "each one" in Told([*first, asked_by("1", "POST /sell"), *one]).lines(0)[-1]


def test_pairs_of_long_ago_are_no_explanation() -> None:
    """In a run that was not shrunk, many get into each other's way in vain."""
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    lines = Told(events(*pair, *((str(n), WRITE) for n in range(10, 40)))).lines(0)
    assert lines[0] == "The last statements of the database:"


def test_what_a_request_read_in_an_earlier_transaction_counts() -> None:
    """Locked or not: the lock ended with that transaction. Of many statements, those about the
    same table are shown."""
    noise = [("1", f"SELECT a FROM other WHERE id = {n}") for n in range(30)]
    one = [asked_by("1", "POST /a"), *events(("1", "BEGIN"), ("1", f"{READ} FOR UPDATE"))]
    one += events(*noise, ("1", "COMMIT"))
    other = [asked_by("2", "POST /b"), *events(("2", "BEGIN"), ("2", WRITE), ("2", "COMMIT"))]
    told = [*one, *other, *events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT"))]
    told = [event._replace(time_ns=n * 1_000_000) for n, event in enumerate(told)]
    lines = Told(told).lines(0)
    assert lines[0] == "In the database the transactions of two requests overlapped:"
    assert lines[-5].strip() == "session 1 read item"
    assert lines[-6] == "  (and 30 statements of theirs about something else)"
    assert sum("FROM other" in line for line in lines) == 0
