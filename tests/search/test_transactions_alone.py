"""What a story says about the database if no two transactions got into each other's way."""

from __future__ import annotations

from dataclasses import replace

from foretold.story.database.transactions import Told
from foretold.trace.events import WORLD, Event, Executed, Fault, Looked, Request
from tests.search.told import (
    READ,
    WRITE,
    asked_by,
    by_client,
    events,
    resumes,
    said,
    settled,
    told_in_order,
    told_of,
)

INSERT = "INSERT INTO item (name) VALUES ('a')"


def test_without_a_pair_it_is_said_where_to_look() -> None:
    """One request alone is to blame, or several one after the other."""
    one = events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT"))
    first = [asked_by("1", "POST /buy"), *one]
    assert "All of this is the work of one task: look at what it does" in told_of(first)[-1]
    assert "All of this is one request" in told_of([by_client("POST /buy", "ann"), *first])[-1]
    assert "each one" in told_of([*first, asked_by("1", "POST /sell"), *one])[-1]


def test_a_request_that_was_answered_as_usual_is_not_suspected() -> None:
    """Something else has failed after it, unless the test asks about what it has written."""
    asked = Request(0, "web", WORLD, number=1, client="ann", asks="POST /buy")
    begun = [
        asked, by_client("POST /buy", "ann"), asked_by("1", "POST /buy"),
        *events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT")),
    ]  # fmt: skip

    def story(*after: Event) -> str:
        return said(told_of(told_in_order(begun, *after)))

    look = "look at what it does by itself"
    assert look not in story(replace(asked, answer="200"))
    assert look in story(replace(asked, answer="500"))
    assert look in story(), "it was not answered"
    looked = Looked(0, "home", "test", sql="select stock from item")
    assert look in story(replace(asked, answer="200"), looked)
    other = Looked(0, "home", "test", sql="select n from other")
    assert look not in story(replace(asked, answer="200"), other)


def test_what_was_locked_and_not_changed_is_a_hint() -> None:
    """An ORM does not see a list that is changed in place; whose row is changed is not asked."""
    vain = "session 1 has locked item, and has changed nothing there before its commit."
    locked, other = f"{READ} FOR NO KEY UPDATE", "UPDATE users SET seen = $1"
    for also, is_told in ((other, True), (WRITE, False)):
        told = events(("1", "BEGIN"), ("1", locked), ("1", also), ("1", "COMMIT"))
        lines = told_of([asked_by("1", "POST /memories"), *told])
        assert (vain in said(lines)) is is_told


def test_without_a_pair_nobody_is_named_because_it_asked_last() -> None:
    """It may be a heartbeat. Who alone has written what the test asks about is named."""
    told = told_in_order(
        asked_by("1", "POST /a"), events(("1", "BEGIN"), ("1", WRITE)), resumes("POST /a", 3),
        events(("1", "COMMIT")), asked_by("2", "beat"),
        events(("2", "BEGIN"), ("2", "UPDATE beats SET n = n + 1"), ("2", "COMMIT")),
    )  # fmt: skip
    nobody = "No two of these got into each other's way: look at what each one did by itself"
    assert said(told_of(told)).endswith(f"{nobody}.")
    looked = Looked(99_000_000, "home", "test", sql="select stock from item")
    assert said(told_of([*told, looked])).endswith(
        f"{nobody}, first session 1: it alone has written item "
        "(app/rows.py:3, from app/routers.py:3), which the test asks about."
    )


def lost_and_again(write: str, asks: str = "") -> list[Event]:
    """A fault has lost the answer to the commit of this; a heartbeat asks last, or the test."""
    book = [("1", "BEGIN"), ("1", write), ("1", "COMMIT")]
    lost = Fault(0, "db", WORLD, text="…", what="lost_after_commit", whom="db session 1")
    look = [Looked(0, "home", "test", sql=f"select count(*) from {asks}")] if asks else []
    told = told_in_order(
        asked_by("1", "book"), events(*book), lost, asked_by("3", "book"),
        events(*(("3", sql) for _, sql in book)),
        asked_by("2", "beat"), events(("2", "UPDATE beats SET n = n + 1")), look,
    )  # fmt: skip
    commit = next(n for n, e in enumerate(told) if isinstance(e, Fault))
    told[commit] = replace(told[commit], time_ns=told[commit - 1].time_ns)
    return told


def test_what_was_done_twice_after_a_lost_answer_is_told() -> None:
    """A fault has lost the answer to a commit, and the task did the same again. The heartbeat that
    asked last is not named; nor is the task, if what it did twice is not what the test asks about,
    or if to do it twice is the same as to do it once."""

    def story(write: str, asks: str = "item") -> list[str]:
        return told_of(lost_and_again(write, asks))

    lines = story(INSERT)
    assert lines[0] == "In the database something was done twice, after an answer was lost:"
    assert "session 1 changed item; that was committed, and a fault lost the answer." in said(lines)
    assert "Then session 3 did the same again." in said(lines)
    assert "beats" not in said(lines)
    assert "done twice" not in said(story(INSERT, "beats"))
    assert Told(settled(lost_and_again(INSERT, "item"))).head(0)[0] == lines[0]
    assert Told(settled(lost_and_again(INSERT))).head(0) == [], "it may be meant so"
    assert "done twice" not in said(story("UPDATE item SET stock = 7"))


def test_a_request_that_its_client_sends_again_is_told() -> None:
    """It was done; its client had an error instead of the answer. Of two clients nobody is."""
    write = [("1", "BEGIN"), ("1", INSERT), ("1", "COMMIT")]

    def request(number: int, client: str, answer: str) -> list[Event]:
        asked = Request(0, "web", WORLD, number=number, client=client, asks="POST /item")
        task = f"POST /item-{number}"
        visit = by_client(task, client, "POST /item")
        return [asked, visit, asked_by("1", task), *events(*write), replace(asked, answer=answer)]

    def story(client: str, answer: str) -> str:
        first, second = request(1, "ann", answer), request(2, client, "201")
        return said(told_of(told_in_order(first, second)))

    again = story("ann", "ReadError")
    assert "that was committed, and its client was told ReadError." in again
    assert "Then request 2 did the same again." in again
    assert "done twice" not in story("bob", "ReadError")
    assert "done twice" not in story("ann", "201")


def test_a_read_before_the_commit_is_told_if_the_test_asks_about_it() -> None:
    """The reader wrote nothing, so there is no pair; the old value may be kept in a cache. Of
    another row, or of several readers, nothing is said."""
    change, unlike = WRITE.replace("$1", "7"), READ.replace("1", "2")

    def story(*reads: str, asks: str = "item") -> str:
        readers = [
            part
            for n, sql in enumerate(reads)
            for part in (asked_by(f"{n + 2}", f"GET /{n}"), *events((f"{n + 2}", sql)))
        ]
        told = told_in_order(
            asked_by("1", "PUT /item"), events(("1", "BEGIN"), ("1", change)), readers,
            events(("1", "COMMIT")), Looked(0, "home", "t", sql=f"select 1 from {asks}"),
        )  # fmt: skip
        return said(told_of(told))

    seen = "session 2 read item after session 1 had changed it, and before that was committed"
    assert seen in story(READ)
    for silent in (story(unlike), story(READ, READ), story(READ, asks="other")):
        assert "before that was committed" not in silent


def test_what_a_pool_sends_to_clean_a_connection_is_not_told() -> None:
    """asyncpg's does so whenever a connection comes back. One of these alone is the program's."""
    reset = "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"
    told = events(("1", "INSERT INTO item VALUES (1)"), ("1", reset), ("1", "CLOSE ALL"))
    lines = told_of(told)
    assert [line for line in lines if "CLOSE ALL" in line] == lines[2:3]
    assert "pg_advisory" not in " ".join(lines)


def test_sessions_of_several_hosts_are_called_after_those() -> None:
    """Each has one task that asks the database: the host says who it is. Of several tasks of one
    host nobody knows which is meant, so it is the session."""

    def story(*tasks: tuple[str, str]) -> str:
        told = [
            Executed(0, "db", f"session {n}", sql=sql, tags=("done",), asked_by=who, sent_by=who)
            for sql in ("BEGIN", READ, WRITE, "COMMIT")
            for n, who in enumerate(tasks, 1)
        ]
        return said(Told(told_in_order(*told)).lines(0))

    apart = story(("n1", "<lambda>"), ("n2", "<lambda>"))
    assert "n2 read item before n1 had changed it" in apart
    assert "session 1 is n1 session 2 is n2" in apart
    assert "session 2 read item" in story(("n1", "a"), ("n1", "b"))
