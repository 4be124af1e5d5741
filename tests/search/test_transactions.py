"""What a story says about the database: the pair of transactions that matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretold.story.database.transactions import Told
from foretold.story.wording import Wording
from foretold.trace import Place
from foretold.trace.events import (
    WORLD,
    Cells,
    Event,
    Executed,
    Fault,
    LockWait,
    Looked,
    Request,
    Resumed,
)
from tests.search.told import (
    READ,
    WRITE,
    asked_by,
    broke,
    by_client,
    events,
    given,
    resumes,
    said,
    settled,
    told_in_order,
    told_of,
)


def test_the_two_that_overlap_are_shown() -> None:
    """And no other statement, however many there are."""
    noise = [(str(n), "SELECT 1 FROM other") for n in range(10, 60)]
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    lines = told_of(events(*noise, *pair, *noise))
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
    lines = told_of(events(*told))
    assert lines[0] == "The last statements of the database:"


def test_one_after_the_other() -> None:
    """Transactions that do not overlap are no pair."""
    one = [("1", "BEGIN"), ("1", READ), ("1", WRITE), ("1", "COMMIT")]
    lines = told_of(events(*one, *((who.replace("1", "2"), sql) for who, sql in one)))
    assert lines[0] == "The last statements of the database:"


def test_what_drivers_ask_is_left_out() -> None:
    """Their questions about types and settings explain nothing."""
    assert told_of(events(("1", "select pg_catalog.version()"), ("1", "SHOW x"))) == []


def test_no_database() -> None:
    """Then there is nothing to say."""
    assert told_of([Resumed(0, "main", "task", 1)]) == []


def test_requests_and_lines_of_code_are_named() -> None:
    """Who stands behind each session, from which line each statement came, and of the two that
    matter from which caller."""
    visit = by_client("POST /buy-2", "bob", "POST /buy")
    told = [visit, asked_by("1", "POST /buy"), asked_by("2", "POST /buy-2")]
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    for number, (who, sql) in enumerate(pair):
        task = "POST /buy" if who == "1" else "POST /buy-2"
        told += [*events((who, sql)), resumes(task, number)]
    told = [replace(event, time_ns=n * 1_000_000) for n, event in enumerate(told)]
    lines = told_of(told)
    assert lines[1:3] == ["  session 1 is web/POST /buy", "  bob: POST /buy, in session 2"]
    assert [f"app/rows.py:{n}" in line for n, line in enumerate(lines[5:10], 2)] == [True] * 5
    assert lines[11:14] == [
        "  bob read item (app/rows.py:3, from app/routers.py:3)",
        "  before session 1 had changed it (app/rows.py:4, from app/routers.py:4),",
        "  and then wrote item (app/rows.py:6).",
    ]
    assert lines[14].startswith("  Look at app/rows.py:3, from app/routers.py:3: should it have")


def test_the_one_that_overwrites_is_accused() -> None:
    """Both have read before the other's write; who wrote after the other's commit is to blame."""
    waits = LockWait(4_500_000, "db", "session 1", sql=WRITE, blockers=("session 2",))
    told = events(
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("2", WRITE), ("2", "COMMIT"),
        ("1", WRITE), ("1", "COMMIT"),
    )  # fmt: skip
    lines = told_of([*told[:5], waits, *told[5:]])
    assert lines[-5].strip() == "session 1 read item"
    assert any(line.endswith("waits for a lock") for line in lines)


def test_what_is_said_again_is_one_line() -> None:
    """And a transaction in which nothing was asked is none."""
    told = events(
        ("1", "BEGIN"), ("1", "ROLLBACK"), ("1", "BEGIN"), ("1", WRITE), ("1", WRITE),
        ("1", "COMMIT"),
    )  # fmt: skip
    lines = told_of(told)
    assert [line.split("session 1  ")[1] for line in lines[1:]] == [
        "BEGIN → done",
        f"{WRITE} → done  (2 times)",
        "COMMIT → done",
    ]


def test_pairs_of_long_ago_are_no_explanation() -> None:
    """In a run that was not shrunk, many get into each other's way in vain."""
    pair = [
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
        ("2", WRITE), ("2", "COMMIT"),
    ]  # fmt: skip
    lines = told_of(events(*pair, *((str(n), WRITE) for n in range(10, 40))))
    assert lines[0] == "The last statements of the database:"


def test_what_a_request_read_in_an_earlier_transaction_counts() -> None:
    """Locked or not: the lock ended with that transaction. Of many statements, those about the
    same table are shown."""
    noise = [("1", f"SELECT a FROM other WHERE id = {n}") for n in range(30)]
    one = [asked_by("1", "POST /a"), *events(("1", "BEGIN"), ("1", f"{READ} FOR UPDATE"))]
    one += events(*noise, ("1", "COMMIT"))
    other = [asked_by("2", "POST /b"), *events(("2", "BEGIN"), ("2", WRITE), ("2", "COMMIT"))]
    told = [*one, *other, *events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT"))]
    told = [replace(event, time_ns=n * 1_000_000) for n, event in enumerate(told)]
    lines = told_of(told)
    assert lines[0] == "In the database the work of two tasks overlapped:"
    requests = [by_client("POST /a", ""), by_client("POST /b", "")]
    assert told_of([*requests, *told])[0].endswith("the work of two requests overlapped:")
    assert told_of([requests[0], *told])[0].endswith("the work of two tasks overlapped:")
    assert lines[-5].strip() == "session 1 read item"
    assert lines[-6] == "  (and 30 statements of theirs about something else)"
    assert sum("FROM other" in line for line in lines) == 0


def test_of_reads_before_its_transaction_the_last_is_told() -> None:
    """Each statement is a transaction of its own: what it wrote by is what it read last. The same
    text from two lines is listed twice."""
    told = [
        replace(event, time_ns=n * 1_000_000, place=Place("job.py", line, "work"))
        for n, (line, event) in enumerate(
            zip(
                (21, 24, 21, 24, 26, 26),
                events(*[(who, READ) for who in "1122"], ("1", WRITE), ("2", WRITE)),
                strict=True,
            )
        )
    ]
    lines = told_of([asked_by("1", "one"), asked_by("2", "two"), *told])
    assert lines[0] == "In the database the work of two tasks overlapped:"
    assert any("read item (job.py:24)" in line for line in lines)
    assert sum(READ in line for line in lines) == 4


def test_of_many_statements_those_of_the_accused_are_shown() -> None:
    """Two pollers: what they did is in the middle of the run, which ends with empty polls."""
    poll = [("1", "BEGIN"), ("1", "SELECT stock FROM item WHERE id = 9"), ("1", "COMMIT")]
    polls = [(who, f"{sql} ") for _ in range(9) for who in "12" for _, sql in poll]
    pair = [(event.actor[-1], event.sql) for event in PAIR]
    told = [asked_by("1", "one"), asked_by("2", "two"), *events(*polls, *pair, *polls)]
    lines = told_of(told)
    begin = next(n for n, line in enumerate(lines) if READ in line) - 2
    assert [line.split()[4] for line in lines[begin : begin + 8]] == [
        sql.split()[0] for _, sql in pair
    ]
    assert [line.strip()[0] for line in lines].count("…") == 2, "before and after"


# Who is accused, by what is known besides


PAIR = events(
    ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", WRITE), ("1", "COMMIT"),
    ("2", WRITE), ("2", "COMMIT"),
)  # fmt: skip
ID = "00000004-0000-4000-8000-000000000001"
OTHER_ID = "00000004-0000-4000-8000-000000000002"


def test_requests_are_called_by_their_clients() -> None:
    """`actor1` says more than `session 1`; which session it was is said once."""
    told = told_in_order(
        by_client("POST /buy", "actor1"), by_client("POST /buy-2", "actor2", "POST /buy"),
        asked_by("1", "POST /buy"), asked_by("2", "POST /buy-2"), PAIR,
    )  # fmt: skip
    lines = told_of(told)
    assert lines[1:3] == ["  actor1: POST /buy, in session 1", "  actor2: POST /buy, in session 2"]
    assert lines[11:13] == ["  actor2 read item", "  before actor1 had changed it,"]


def test_two_requests_of_one_client_are_told_apart() -> None:
    """And an id at the end of a path is no number of a task."""
    told = told_in_order(
        by_client(f"POST /buy/{ID}", "actor1"),
        by_client(f"POST /buy/{ID}-2", "actor1", f"POST /buy/{ID}"),
        asked_by("1", f"POST /buy/{ID}"), asked_by("2", f"POST /buy/{ID}-2"), PAIR,
    )  # fmt: skip
    lines = told_of(told)
    assert lines[1:3] == [
        f"  request 1: POST /buy/{ID} of actor1, in session 1",
        f"  request 2: POST /buy/{ID} of actor1, in session 2",
    ]
    assert lines[11] == "  request 2 read item"


def test_values_are_shown() -> None:
    """What was read and written: `$1` tells nobody anything."""
    told = told_in_order(given("1", "UPDATE item SET stock = $1 WHERE id = $2", "3", ID))
    assert f"UPDATE item SET stock = 3 WHERE id = {ID} → done" in told_of(told)[1]
    listed = told_in_order(given("1", "UPDATE item SET fans = $1", f'\'["{ID}", "{ID}"]\''))
    called = Wording({ID: "me"})
    assert """SET fans = '["me", "me"]' →""" in Told(settled(listed)).lines(0, called)[1], (
        "named, then cut"
    )


def test_who_has_read_about_something_else_is_not_accused() -> None:
    """Both put a row into `likes`, each its own; but the counter of the item is lost."""
    likes, item = "SELECT id FROM likes WHERE who = $1", "SELECT n FROM item WHERE id = $1"
    like, update = "INSERT INTO likes (who) VALUES ($1)", "UPDATE item SET n = $1 WHERE id = $2"
    told = told_in_order(
        *(given(who, "BEGIN") for who in "12"),
        given("1", likes, ID, outcome="SELECT 0"), given("2", likes, OTHER_ID, outcome="SELECT 0"),
        given("1", item, "7"), given("2", item, "7"),
        given("1", like, ID), given("1", update, "1", "7"), given("1", "COMMIT"),
        given("2", like, OTHER_ID), given("2", update, "1", "7"), given("2", "COMMIT"),
    )  # fmt: skip
    assert "  session 2 read item" in told_of(told)


def test_the_accused_is_who_broke_the_invariant_and_by_what_it_asks() -> None:
    """Everybody touches `keys`; the invariant counts comments, which were made though nothing was
    found under the idempotency key of either."""
    find = ("SELECT 1 FROM keys", "SELECT 1 FROM sent WHERE key = 1")
    make = ("UPDATE keys SET used = 1", "INSERT INTO comments (a) VALUES (1)")
    told = told_in_order(
        given("1", "BEGIN"), given("2", "BEGIN"), *(given(who, find[0]) for who in "12"),
        *(given(who, find[1], outcome="SELECT 0") for who in "12"),
        given("1", make[0]), given("1", make[1]), given("1", "INSERT INTO sent (key) VALUES (1)"),
        given("1", "COMMIT"), given("2", make[0]), given("2", make[1]), given("2", "COMMIT"),
        broke("2", "select text from comments group by text having count(*) > 1"),
    )  # fmt: skip
    lines = told_of(told)
    begin = lines.index("  session 2 read sent")
    assert lines[begin + 1 : begin + 3] == [
        "  before session 1 had changed it,",
        "  and then wrote comments.",
    ]
    assert (
        sum(line.endswith("COMMIT → done  (after this the invariant fails)") for line in lines) == 1
    )


def test_what_was_read_again_under_a_lock_is_not_stale() -> None:
    """The first look only finds out what to lock."""
    told = events(
        ("1", "BEGIN"), ("2", "BEGIN"), ("1", READ), ("2", READ), ("1", f"{READ} FOR UPDATE"),
        ("1", WRITE), ("1", "COMMIT"), ("2", f"{READ} FOR UPDATE"), ("2", WRITE), ("2", "COMMIT"),
    )  # fmt: skip
    lines = told_of(told)
    assert lines[0] == "The last statements of the database:"


def test_who_alone_has_broken_an_invariant_is_told_alone() -> None:
    """What others did meanwhile explains nothing; the sentence names what was written."""
    told = told_in_order(
        by_client("GET /", "actor2"), by_client("POST /buy", "actor1"),
        asked_by("2", "GET /"), events(("2", "BEGIN"), ("2", READ), ("2", "COMMIT")),
        asked_by("1", "POST /buy"), events(("1", "BEGIN"), ("1", WRITE)),
        resumes("POST /buy", 7), events(("1", "COMMIT")), broke("1", "select 1 from item"),
    )  # fmt: skip
    lines = told_of(told)
    assert lines[:2] == [
        "In the database, the request whose commit has broken the invariant:",
        "  actor1: POST /buy, in session 1",
    ]
    assert not any("actor2" in line for line in lines)
    assert "look at what it has written (app/rows.py:7, from app/db.py:1)" in said(lines)


def test_the_advice_suits_what_was_read() -> None:
    """A count cannot be locked, nor what is not there; a constraint sees no value that was computed
    elsewhere, and a unique one no sum; a commit in between ends all locks."""

    def advice(read: str, write: str, outcome: str = "SELECT 1") -> str:
        told = told_in_order(
            given("1", "BEGIN"), given("2", "BEGIN"), given("1", read, outcome=outcome),
            given("2", read, outcome=outcome), given("1", write), given("1", "COMMIT"),
            given("2", write), given("2", "COMMIT"),
        )  # fmt: skip
        text = said(told_of(told))
        return text[text.index("Look at the read:") :]

    insert = "INSERT INTO item (a) VALUES (1)"
    assert "should it have locked what it reads (FOR UPDATE)?" in advice(READ, WRITE)
    assert "Should a condition in the write have refused the second?" in advice(READ, WRITE)
    less = "UPDATE item SET stock = stock - 1 WHERE id = 1"
    assert "Should a constraint, or a condition in the write, have" in advice(READ, less)
    assert "a count cannot be locked" in advice("SELECT count(*) FROM item", insert)
    assert "constraint" not in advice("SELECT count(*) FROM item", insert)
    assert "a row that is not there yet cannot be locked" in advice("SELECT a FROM item", insert)
    assert "Should a unique constraint refuse the second?" in advice(READ, insert, "SELECT 0")
    assert "a row that is not there cannot be locked" in advice(READ, insert, "SELECT 0")


def test_one_transaction_is_advised_where_it_helps() -> None:
    """It makes a lock last until the write. Without a lock it changes nothing: that has to come
    first. And where it is one already, that one is told, though it was read before it as well."""

    def advice(read: str, *again: tuple[str, str]) -> str:
        apart = told_in_order(
            asked_by("1", "POST /a"), events(("1", "BEGIN"), ("1", read), ("1", "COMMIT")),
            events(("1", "BEGIN"), *again),
            asked_by("2", "POST /b"), events(("2", "BEGIN"), ("2", WRITE), ("2", "COMMIT")),
            events(("1", WRITE), ("1", "COMMIT")),
        )  # fmt: skip
        text = said(told_of(apart))
        return text[text.index("Look at the read: ") :]

    assert "it had committed before it wrote" in advice(READ)
    assert "(FOR UPDATE), and read and write in one transaction?" in advice(READ)
    summed = advice("SELECT sum(stock) FROM item WHERE id = 1")
    assert "A sum over rows cannot be locked (FOR UPDATE)." in summed
    assert "Should both first lock the row that it belongs to, and read and write in" in summed
    assert advice(f"{READ} FOR UPDATE").endswith("Should it do both in one transaction?")
    assert "one transaction" not in advice(READ, ("1", READ))


def test_a_lock_that_was_given_up_before_the_read_is_mentioned() -> None:
    """A commit in the middle of a request: what it had locked does not keep others away. What the
    other one does not lock never did, so nothing is said about that."""
    locks = "UPDATE users SET a = 1 WHERE id = 7"

    def told_with(other: str) -> str:
        told = told_in_order(
            asked_by("1", "POST /a"), asked_by("2", "POST /b"),
            events(("1", "BEGIN"), ("1", locks), ("1", "COMMIT"), ("2", "BEGIN"), ("2", other)),
            events(("1", "BEGIN"), ("1", READ), ("2", WRITE), ("2", "COMMIT"), ("1", WRITE)),
            events(("1", "COMMIT")),
        )  # fmt: skip
        return said(told_of(told))

    free_again = "(What it had locked before its commit was free again.)"
    assert told_with(locks).endswith(free_again)
    assert told_with("SELECT a FROM users WHERE id = 7 FOR UPDATE").endswith(free_again)
    assert free_again not in told_with("UPDATE users SET a = 1 WHERE id = 8")
    assert free_again not in told_with("SELECT 1")


def test_an_answer_before_the_commit_is_told() -> None:
    """The client asks at once, and does not find what it was told."""

    def request(asks: str, answer: str = "") -> Event:
        return Request(0, "web", WORLD, number=1, client="actor1", asks=asks, answer=answer)

    begun = [
        request("POST /item"), by_client("POST /item", "actor1"),
        asked_by("1", "POST /item"), *events(("1", "BEGIN"), ("1", WRITE)),
    ]  # fmt: skip
    answer, commit = request("POST /item", "201"), events(("1", "COMMIT"))
    look = [
        request("GET /item"), by_client("GET /item", "actor1"),
        asked_by("2", "GET /item"), *events(("2", "BEGIN"), ("2", READ), ("2", "COMMIT")),
    ]  # fmt: skip
    hasty = told_of(told_in_order(begun, answer, look, commit))
    assert hasty[0].endswith("a request that was answered too soon, and who looked then:")
    assert said(hasty).endswith(
        "POST /item was answered 201 at 0.005000 s. Its transaction was not committed yet when "
        "GET /item read item at 0.010000 s. Should it commit first, and answer then?"
    )
    raced = told_in_order(
        asked_by("3", "PUT /item"), events(("3", "BEGIN"), ("3", READ)), begun, answer, look,
        commit, events(("3", WRITE), ("3", "COMMIT")),
    )  # fmt: skip
    assert "was answered 201" in said(told_of(raced)), "whoever else is about"
    never = told_of(told_in_order(begun, answer, look))
    assert "Its transaction was not committed yet when" in said(never), (
        "the run ended before it was"
    )
    unseen = told_of(told_in_order(begun, answer, commit))
    assert "Its transaction was committed after that" in said(unseen)
    proper = told_of(told_in_order(begun, commit, answer, look))
    assert "was answered" not in said(proper)
    failed = told_of(told_in_order(begun, request("POST /item", "503"), look, commit))
    assert "was answered" not in said(failed), "nobody was promised anything"


def test_a_name_with_of_in_it_is_a_name() -> None:
    """What a client is called is data, and not a part of a sentence that is cut at a word."""
    asked = Request(0, "web", WORLD, number=1, client="queen of hearts", asks="POST /item")
    told = told_in_order(
        asked, by_client("POST /item", "queen of hearts"), asked_by("1", "POST /item"),
        events(("1", "BEGIN"), ("1", WRITE)), replace(asked, answer="201"),
        by_client("GET /item", "king of clubs"), asked_by("2", "GET /item"),
        events(("2", "BEGIN"), ("2", READ), ("2", "COMMIT"), ("1", "COMMIT")),
    )  # fmt: skip
    lines = told_of(told)
    assert "  queen of hearts: POST /item, in session 1" in lines
    assert "when GET /item read item at" in said(lines)


def test_a_commit_in_the_middle_is_told() -> None:
    """Other requests commit at a later line of the function from which this one was called; the
    invariant fails because the second half is missing. Who commits where all do is no such one."""

    def commits(who: str, task: str, line: int, file: str) -> list[Event]:
        outer = (Place("app/route.py", line, "answer"), Place("app/serve.py", 9, "call"))
        told = [asked_by(who, task), *events((who, "BEGIN"), (who, WRITE))]
        at = Executed(0, "db", f"session {who}", 0, Place(file, 107, "make_world"), outer,
                      sql="COMMIT", tags=("COMMIT",))  # fmt: skip
        return [*told, at]

    broken = broke("2", "select 1 from item")
    usual = commits("1", "POST /a", 54, "app/db.py")
    middle = told_of(told_in_order(usual, commits("2", "POST /b", 45, "app/rules.py"), broken))
    assert (
        "session 2 has committed before it was done (app/rules.py:107, in make_world): its change "
        "of item can be seen by all, and what it writes from there on is another transaction, "
        "which ends where those of other requests do (app/db.py:107)."
    ) in said(middle)
    for proper in (commits("2", "POST /b", 54, "app/db.py"), commits("2", "POST /b", 60, "x.py")):
        lines = told_of(told_in_order(usual, proper, broken))
        assert "before it was done" not in said(lines)


def test_who_never_goes_on_has_the_line_that_sent_it() -> None:
    """After the commit that broke an invariant the run ends: nobody waits for it any more."""
    sent = Executed(0, "db", "session 1", 0, Place("a.py", 7, "f"), sql="COMMIT", tags=("COMMIT",))
    told = told_in_order(asked_by("1", "POST /a"), events(("1", "BEGIN"), ("1", WRITE)), sent)
    assert "a.py:7" in told_of(told)[4]


def test_what_the_commit_sends_is_told_with_what_was_before() -> None:
    """The line that commits is the same for all requests, and its caller is a middleware."""
    told: list[Event | Sequence[Event]] = [asked_by("1", "POST /a"), asked_by("2", "POST /b")]
    for event in PAIR:
        line = 4 if event.sql == READ else 68
        told += [event, resumes("POST /a" if event.actor[-1] == "1" else "POST /b", line)]
    text = said(told_of(told_in_order(*told)))
    assert "wrote item (flushed by the commit at app/rows.py:68, after app/routers.py:4)" in text
    own = told_in_order(*told[:2], events(("1", "BEGIN"), ("1", READ)), resumes("POST /a", 4),
                        events(("1", WRITE)), resumes("POST /a", 83), events(("1", "COMMIT")),
                        resumes("POST /a", 83), broke("1", "select 1 from item"))  # fmt: skip
    assert "flushed by" not in said(told_of(own)), "where it alone commits, that is telling"


def test_a_commit_whose_answer_was_lost_is_told_beside_the_one_that_broke_it() -> None:
    """It was stored, and its client sent it again: that the two of them are two is the mistake."""
    first = events(("1", "BEGIN"), ("1", WRITE), ("1", "COMMIT"))
    lost = Fault(2_000_000, "db", WORLD, text="…", what="lost_after_commit", whom="db session 1")
    again = [replace(each, time_ns=each.time_ns + 9_000_000, actor="session 2") for each in first]
    told = [*first, lost, *again, replace(broke("2", "select 1 from item"), time_ns=12_000_000)]
    lines = told_of(told)
    assert sum("(committed; a fault: the answer is lost)" in line for line in lines) == 1
    assert sum("session 1" in line for line in lines) == 3
    others = told_of([each for each in told if each is not lost])
    assert not any("session 1" in line for line in others)


def test_a_read_of_other_rows_is_not_stale() -> None:
    """Both look for the name that they will take, which differ, and both count: it is the count
    that is too low. Of equal names it is, too, if the invariant is about how many there are."""
    name, total = "SELECT id FROM item WHERE name = $1", "SELECT count(*) FROM item"
    insert = "INSERT INTO item (name, n) VALUES ($1::VARCHAR, $2)"

    def accused(one: str, other: str) -> str:
        told = told_in_order(
            given("1", "BEGIN"), given("2", "BEGIN"),
            *(given(who, name, n, outcome="SELECT 0") for who, n in (("1", one), ("2", other))),
            given("1", total), given("2", total), given("1", insert, one, "1"),
            given("1", "COMMIT"), given("2", insert, other, "1"), given("2", "COMMIT"),
            broke("2", "select count(*) from item having count(*) > 3"),
        )  # fmt: skip
        return said(told_of(told))

    assert "a count cannot be locked" in accused("'a'", "'b'")
    assert "a count cannot be locked" in accused("'a'", "'a'")


def test_what_all_of_a_request_is_called_from_says_nothing() -> None:
    """A middleware is above every line; what is named is the line that makes a difference."""
    middleware = Place("app/middleware.py", 34, "call")

    def goes_on(task: str, file: str, *callers: Place) -> Event:
        return Resumed(0, "web", task, 1, Place(file, 1, "f"), (*callers, middleware))

    told: list[Event | Sequence[Event]] = [asked_by("1", "POST /a"), asked_by("2", "POST /b")]
    for event in PAIR:
        number = event.actor[-1]
        router = Place(f"app/router{number}.py", 5, "handler")
        is_read = event.sql == READ
        file, callers = ("app/rows.py", [router]) if is_read else ("app/db.py", [])
        task = "POST /a" if number == "1" else "POST /b"
        told += [event, goes_on(task, file, *callers)]
    lines = told_of(told_in_order(*told))
    said = lines[lines.index("  session 2 read item (app/rows.py:1, from app/router2.py:5)") + 1]
    assert said.startswith("  before session 1 had changed it (flushed by the commit at")
    assert not any("middleware" in line for line in lines)


def test_a_write_completes_an_accusation_only_if_it_may_depend_on_the_read() -> None:
    """What the request had written before it read does not; nor does a note in another table, in a
    transaction of its own, unless the test asks about that table or a value went there."""
    read, note = "SELECT n FROM item WHERE id = 1", "INSERT INTO views (path) VALUES ($1)"

    def story(*parts: Event | Sequence[Event], asks: str = "") -> str:
        look = [Looked(0, "home", "test", sql=f"select 1 from {asks}")] if asks else []
        return said(told_of(told_in_order(asked_by("1", "GET /a"), *parts, look)))

    noted = given("2", note, "'abcd'")
    alone: list[Event] = [asked_by("2", "GET /a"), *noted, asked_by("3", "PUT /a")]
    change = given("3", "UPDATE item SET n = 5 WHERE id = 1")
    begin, commit = given("3", "BEGIN"), given("3", "COMMIT")
    cells = Cells(columns=((0, 0),), rows=(("'abcd'",),))
    found = [replace(each, cells=cells) for each in given("1", read)]
    before = story(alone, begin, change, given("2", note, "'x'"), given("1", read), commit)
    assert "overlapped" not in before
    after: list[Sequence[Event]] = [given("1", read), begin, change, commit, alone]
    assert "overlapped" not in story(alone, *after)
    assert "overlapped" not in story(alone, *after, asks="item")
    assert "and then wrote views" in story(alone, *after, asks="views")
    assert "and then wrote views" in story(alone, found, *after[1:]), "the value that it had read"
    same = [given("2", "UPDATE item SET n = 6 WHERE id = 1")]
    assert "and then wrote item" in story(alone, begin, *after, asked_by("2", "GET /a"), *same)
