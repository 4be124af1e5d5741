"""What no honest client sends to Deep Sci-Fi, and what the database has never said yet."""

from __future__ import annotations

import base64
import json
from typing import Any

import asyncpg
import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

import foretold
from examples.deep_sci_fi.app import failures
from examples.deep_sci_fi.app.models import Feedback
from examples.deep_sci_fi.app.routers import feedback as feedback_router
from tests.examples import deep_sci_fi as dsf
from tests.examples.deep_sci_fi import Platform, on_platform


async def sent(agent: dsf.Agent, path: str, body: str) -> httpx.Response:
    """The answer to a body that is sent as it is written."""
    headers = {"content-type": "application/json", "x-api-key": agent.key or ""}
    return await agent.client.post(f"/api/{path}", content=body, headers=headers)


def cursor(text: str) -> str:
    """A place in the feed, whatever it says."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


UNREADABLE = {
    "not a number": ("heartbeat", '{"expected_cycle_hours": NaN}'),
    "endless": ("heartbeat", '{"expected_cycle_hours": Infinity}'),
    "too large for a float": ("heartbeat/maintenance", '{"hours": 1e400}'),
    "half a character": ("feedback", json.dumps(dsf.feedback("\ud800aaaaaa"))),
    "half a character for a word": ("feedback", json.dumps(dsf.feedback(category="\ud800"))),
    "half a character as a name": ("feedback", json.dumps({**dsf.feedback(), "\ud800": 1})),
    "a NUL in a URL": ("auth/agent", '{"name": "B", "username": "b", "callback_url": "\\u0000"}'),
    "a NUL in a token": (
        "auth/agent",
        '{"name": "B", "username": "b", "callback_token": "\\u0000"}',
    ),
}


@on_platform
async def test_what_cannot_be_written_is_refused(platform: Platform) -> None:
    """NaN, half a surrogate pair, NUL: 422, in JSON that says where, though not what was sent."""
    ada = await platform.agent()
    for why, (path, body) in UNREADABLE.items():
        answer = await sent(ada, path, body)
        assert answer.status_code == 422, (why, answer.status_code, answer.text)
        assert all(wrong["loc"] and wrong["msg"] for wrong in answer.json()["detail"]), why
    assert (await sent(ada, "proposals", "[" * 100_000)).status_code == 400
    assert (await sent(ada, "heartbeat/maintenance", f'{{"hours": 1{"0" * 5000}}}')).is_client_error


@on_platform
async def test_what_is_no_cursor_is_refused(platform: Platform) -> None:
    """Too deep, without an offset, or in a year that is none in UTC: 422 or 400, never more."""
    moments = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00", 1)
    places = [json.dumps([moment, "0" * 32]) for moment in moments]
    for place in ("[" * 20_000, "[" * 100, "[1, 2, 3]", "{}", *places):
        answer = await platform.public.send("GET", f"feed?cursor={cursor(place)}")
        assert answer.status_code in (400, 422), (place[:60], answer.status_code, answer.text)
    good = json.dumps(["2026-01-01T00:00:00+14:00", "0" * 32])
    assert (await platform.public.send("GET", f"feed?cursor={cursor(good)}")).status_code == 200


@on_platform
async def test_a_username_that_grows_in_lower_case_fits(platform: Platform) -> None:
    """Of İ, lower() makes two characters: fifty of them would be too long for the column."""
    made = await platform.public.post("auth/agent", {"name": "I", "username": "İ" * 50})
    assert len(made["agent"]["username"]) <= 50


# --- what the database says ----------------------------------------------------------------------

PASSING = ("08006", "40001", "40P01", "53300", "55P03", "57014", "57P01", "57P03", "25006")
MISTAKES = ("42601", "42703", "22001", "22P02", "0A000", "25P02", "XX000")


def said(sqlstate: str) -> DBAPIError:
    """What SQLAlchemy raises for it."""
    orig = asyncpg.PostgresError("no")
    orig.sqlstate = sqlstate
    return DBAPIError("SELECT 1", {}, orig)


def test_only_what_may_pass_is_worth_a_retry() -> None:
    """By SQLSTATE, wrapped or not; a word of the driver without one is about the connection."""
    assert all(failures.is_passing(said(state)) for state in PASSING)
    assert not any(failures.is_passing(said(state)) for state in MISTAKES)
    assert failures.is_passing(asyncpg.TooManyConnectionsError("full"))
    assert not failures.is_passing(asyncpg.UndefinedTableError("none"))
    assert failures.is_passing(asyncpg.InterfaceError("connection is closed"))
    assert failures.is_passing(ConnectionResetError())


WRONG = {
    "a column that is none": "SELECT nothing FROM feedback",
    "a number that is none": "SELECT 'x'::text::int",
    "no value where there must be one": "UPDATE users SET name = NULL",
    "a word that is none": "UPDATE users SET type = 'robot'",
}


@pytest.mark.parametrize("sql", WRONG.values(), ids=WRONG.keys())
def test_a_mistake_in_sql_is_seen(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a 500, which every test of an API looks for; "please try again" would hide it."""

    async def mistaken(db: Any, kind: Any, key: Any, **_: Any) -> Any:
        await db.execute(text(sql))

    async def main(world: foretold.World) -> None:
        platform = await dsf.start(world)
        async with platform.client:
            ada = await platform.agent()
            path = f"feedback/{(await ada.post('feedback', dsf.feedback()))['id']}/upvote"
            with monkeypatch.context() as patched:
                patched.setattr(feedback_router, "locked", mistaken)
                assert await ada.code(path) == 500
            assert await (await platform.agent()).code(path) == 200
            assert platform.pg.sql(f"SELECT count(*) FROM {Feedback.__tablename__}")[0][0] == 1

    foretold.run(main, seed=0)
