"""`foretold.Mirror`: what answers tell about a thing stays true until something changes it."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import httpx
import pytest

import foretold
from foretold.spec.machine.known import same
from tests.spec.machine.board import Board, Remembered, Stored


def lying(board: type[Board], lie: str, faults: Any = None) -> type[Board]:
    """The machine of a board that tells this lie."""
    return type(board.__name__, (board,), {"lie": lie, "faults": faults})


def found(board: type[Board], lie: str, faults: Any = None, runs: int = 5) -> str:
    """What is said about the lie."""
    machine = lying(board, lie, faults)
    outcome = foretold.explore(machine, runs=runs, seed=1, shrink=False, confirm=False)
    assert outcome.failure is not None, f"{lie} was not found in {runs} runs"
    assert isinstance(outcome.failure.exception, foretold.PropertyViolated)
    return str(outcome.failure.exception)


def silent(board: type[Board], faults: Any, runs: int) -> foretold.Outcome:
    """A board that tells the truth."""
    machine = lying(board, "", faults)
    outcome = foretold.explore(machine, runs=runs, seed=7, shrink=False, confirm=False)
    assert outcome.failure is None, outcome.failure.story
    return outcome


# ---------------------------------------------------------------- rows


def test_an_answer_that_was_not_stored_is_found() -> None:
    """The answer tells of one turn more; the row stays as it is."""
    said = found(Stored, "turn")
    assert "what was told about tasks" in said
    assert "told: turns = 1\n  the row, from the request to its answer: turns = 0" in said


def test_a_page_that_shows_something_else_is_found() -> None:
    """The page says open, the row says done."""
    said = found(Stored, "show")
    assert "told: status = 'open'\n  the row" in said
    assert "status = 'done'" in said


def test_a_thing_that_was_made_must_exist() -> None:
    """The answer tells of a new task, and there is no row."""
    assert "tasks 99 is not so: it was made, and there is no row" in found(Stored, "make")


def test_what_was_sent_and_not_stored_is_found() -> None:
    """The answer tells the truth: the price is what it was, and not what was sent."""
    said = found(Stored, "price")
    assert "what was sent for tasks" in said
    assert re.search(r"is not so\n  sent: price = '(1.25|2.5)'\n  the row, .*: price = 1.5$", said)


def test_what_is_set_once_and_changes_is_found() -> None:
    """Whoever turns a task is told, truly, that it was made just now."""
    assert re.search(r"^tasks \d: made_at is set once; it was '", found(Stored, "made_at"))


def test_rows_raise_no_false_alarm() -> None:
    """Others change the same task at the same time, answers are lost, requests are delivered twice
    and late: an answer agrees with the row at one instant of its request."""
    assert silent(Stored, None, 8).tally.invariants["tasks"].ranged > 100
    outcome = silent(Stored, foretold.faults.web + foretold.faults.postgres, 25)
    assert outcome.tally.faults["late_duplicate"].injected
    assert outcome.tally.faults["response_lost"].injected


def test_a_row_that_the_test_itself_changes_is_no_contradiction() -> None:
    """`pg.sql` is not a transaction of the program: the mirror looks again before it accuses."""

    class Meddling(Stored):
        @foretold.rule()
        def meddle(self) -> None:
            self.pg.sql("update tasks set turns = turns + 10")

    assert silent(Meddling, None, 6).tally.rules["meddle"].succeeded


# ---------------------------------------------------------------- answers alone


def test_two_answers_that_contradict_each_other_are_found() -> None:
    """There is no database: a call has told of a turn, and the page knows nothing of it."""
    said = found(Remembered, "turn")
    assert "told now: " in said
    assert "no call has changed it since" in said


def test_an_answer_that_is_not_what_was_sent_is_found() -> None:
    """Also without a database: the answer to a new price tells the old one."""
    said = found(Remembered, "price")
    assert re.search(r"tasks \d is not so\n  sent: price = '.*'\n  told: price = '1.50'$", said)


def test_answers_raise_no_false_alarm() -> None:
    """Several calls that change one task at once, lost answers, late duplicates: nothing is known
    then, until the task is read again."""
    outcome = silent(Remembered, foretold.faults.web, 60)
    assert outcome.tally.faults["late_duplicate"].injected
    assert outcome.tally.faults["response_lost"].injected
    assert silent(Remembered, None, 10).tally.invariants["tasks"].ranged > 20


def test_a_lost_answer_leaves_the_mirror_without_an_opinion() -> None:
    """The outcome is unknown, so no page contradicts it; when no late copy can come any more, a
    reading makes the thing known again, and the next one is compared."""
    said: list[str] = []

    class Losing(foretold.Machine):
        steps = 1
        tasks = foretold.Mirror(settle_s=10)

        def say(self, status: str) -> None:
            with self.tasks.asking() as told:
                told({"id": 1, "status": status})
            said.append(status)

        @foretold.rule()
        async def go(self) -> None:
            self.say("open")
            with pytest.raises(TimeoutError), self.tasks.changing(1):
                raise TimeoutError
            self.say("done")
            self.say("open")
            await self.world.clock.advance(11)
            self.say("done")
            self.say("open")

    with pytest.raises(foretold.PropertyViolated, match="told before: status = 'done'"):
        foretold.run(Losing)
    assert said[-4:] == ["open", "done", "open", "done"]


def test_a_refusal_leaves_what_was_known() -> None:
    """A call that was refused has changed nothing: what was told before it still holds."""

    class Refusing(foretold.Machine):
        steps = 1
        tasks = foretold.Mirror()

        @foretold.rule()
        async def go(self) -> None:
            with self.tasks.asking() as told:
                told({"id": 1, "status": "open"})
            with pytest.raises(foretold.Refused), self.tasks.changing(1):
                raise foretold.Refused("not now")
            with self.tasks.asking() as told:
                told({"id": 1, "status": "done"})

    with pytest.raises(foretold.PropertyViolated, match="told now: status = 'done'"):
        foretold.run(Refusing)


# ---------------------------------------------------------------- details


def test_a_mirror_that_compares_nothing_is_vacuous() -> None:
    """It stands among the invariants, so that a search which never compared anything says so."""

    class Idle(Stored):
        tasks = foretold.Mirror(sql="select id, status from tasks")

        @foretold.rule()
        async def nothing(self) -> None: ...

    weights = dict.fromkeys(("turn", "read", "reprice", "make", "read_all"), 0)
    outcome = foretold.explore(Idle, runs=2, weights=weights)
    assert not outcome.tally.invariants["tasks"].checks


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [
        ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00Z", True),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", True),
        ("2026-01-01T00:00:01+00:00", "2026-01-01T00:00:00Z", False),
        ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z", True),
        ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00", True),
        ("2026-01-01T00:00:00.123456+00:00", "2026-01-01T00:00:00.123Z", True),
        ("2026-01-01T00:00:00.123456+00:00", "2026-01-01T00:00:00Z", True),
        ("2026-01-01T00:00:00.123456+00:00", "2026-01-01T00:00:00.124Z", False),
        ("2026-01-01T00:00:00.123+00:00", "2026-01-01T00:00:00.123456Z", False),
        (1.5, "1.50", True),
        (1.5, "1.51", False),
        ([1, {"a": 2}], [1.0, {"a": "2"}], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"b": 1}, False),
        (None, "", False),
        (1, "x", False),
    ],
)
def test_values_are_compared_as_json(known: Any, told: Any, expected: bool) -> None:
    """The database and the application write instants and numbers in different ways."""
    assert same(known, told) is expected


class Told(foretold.Machine):
    """One call that tells a mirror of a task, with whatever is given here."""

    steps = 1
    query = "select id, status, turns from tasks"
    tasks: Any = foretold.Mirror(sql=query)

    async def setup(self) -> None:
        """Task 1 is open, task 2 is done; each was turned as often as its number says."""
        self.pg = await self.world.postgres(
            schema="create table tasks (id int, status text, turns int);"
            "insert into tasks values (1, 'open', 1), (2, 'done', 2)"
        )

    def tell(self, told: Any) -> None:
        """What the rule does."""

    @foretold.rule()
    async def say(self) -> None:
        """Tell."""
        with self.tasks.changing() as told:
            self.tell(told)


def telling(tell: Any, **more: Any) -> None:
    """One run in which this is told."""
    foretold.run(type("Telling", (Told,), {"tell": lambda _, told: tell(told), **more}), seed=1)


def test_a_thing_of_another_kind_inside_a_thing_is_no_contradiction() -> None:
    """An order tells of its owner, who has the number of another order by chance. A thing of the
    same kind is compared, however deep it lies."""
    owner = {"id": 2, "status": "retired", "name": "ann"}
    telling(lambda told: told([{"id": 1, "status": "open", "turns": 1, "owners": [owner]}]))
    other = {"id": 2, "status": "open", "turns": 2}
    with pytest.raises(foretold.PropertyViolated, match="about tasks 2 is not so"):
        telling(lambda told: told({"id": 1, "status": "open", "turns": 1, "next": [other]}))
    with pytest.raises(foretold.PropertyViolated, match="about tasks 2 is not so"):
        telling(lambda told: told({"id": 7, "title": "all", "tasks": [other]}))


def test_what_is_told_must_be_json() -> None:
    """A response that was not read, or a text in place of a body, would compare nothing."""
    response = httpx.Response(200, json={"id": 1, "status": "done"})
    with pytest.raises(foretold.UsageError, match=r"such as told\(answer\.json\(\)\); got <Resp"):
        telling(lambda told: told(response))
    with pytest.raises(foretold.UsageError, match="what a request has sent as an object"):
        telling(lambda told: told.sent("status=done", {"id": 1}))


def test_one_thing_has_one_row() -> None:
    """A join that gives a thing twice would be a contradiction of its own: it is refused, in the
    beginning or as soon as a commit makes it so."""
    joined = "select 1 as id, status, turns from tasks"
    with pytest.raises(foretold.UsageError, match="several rows with id = '1': one thing has one"):
        telling(lambda told: None, tasks=foretold.Mirror(sql=joined))

    class Later(Told):
        @foretold.rule()
        async def say(self) -> None:
            connection = await asyncpg.connect(self.pg.dsn)
            await connection.execute("insert into tasks values (2, 'open', 7)")
            await connection.close()

    with pytest.raises(foretold.UsageError, match="several rows with id = '2'"):
        foretold.run(Later, seed=1)


def test_a_page_may_be_read_by_a_plain_method() -> None:
    """As rules may."""

    class Pages(Told):
        tasks = foretold.Mirror(sql=Told.query)

        @foretold.rule()
        async def say(self) -> None:
            with self.tasks.changing(1) as told:
                told({"id": 1, "status": "open"})

        @tasks.page
        def page(self, actor: foretold.Actor, key: str) -> Any:
            return {"id": int(key), "status": "done"}

    with pytest.raises(foretold.PropertyViolated, match="told: status = 'done'"):
        foretold.run(Pages, seed=1)


def test_mistakes_are_told_early() -> None:
    """A query that is not one, a host without a query, a query that PostgreSQL refuses, a run
    without a database."""
    with pytest.raises(foretold.UsageError, match="is a query for all rows"):
        foretold.Mirror(sql="")
    with pytest.raises(foretold.UsageError, match="host= belongs to sql="):
        foretold.Mirror(host="db")
    with pytest.raises(foretold.UsageError, match="once= belongs to sql="):
        foretold.Mirror(once=["owner"])

    class Wrong(Stored):
        tasks = foretold.Mirror(sql="select id from nowhere")

    with pytest.raises(foretold.UsageError, match="refuses the query of the mirror tasks"):
        foretold.run(Wrong)

    class Listed(foretold.Machine):
        steps = 1
        tasks = foretold.Mirror()

        @foretold.rule()
        def say(self) -> None:
            with self.tasks.asking() as told:
                told.sent({}, [1])

    with pytest.raises(foretold.UsageError, match=r"not an object with the field 'id': \[1\]"):
        foretold.run(Listed)

    class Misspelt(Stored):
        tasks = foretold.Mirror(sql="select id, status from tasks", once=["owner"])

    with pytest.raises(foretold.UsageError, match="once= of the mirror tasks names owner, which"):
        foretold.run(Misspelt)

    class Without(Remembered):
        tasks = foretold.Mirror(sql="select id from tasks")

    with pytest.raises(foretold.UsageError, match="the mirror tasks queries the database"):
        foretold.run(Without)
