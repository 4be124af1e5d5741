"""The accounts of `examples/prophecy`: they hold, each planted bug is found at once, and what was
foretold for one call strikes that call alone, whatever lies between it and the database."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI, HTTPException

import foretold
from examples.prophecy import client
from examples.prophecy.machine import Accounts
from examples.prophecy.service import SCHEMA
from foretold.spec.model import check_interference
from tests.helpers import SOAK_FACTOR

RUNS_TO_FIND = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """httpx says each request."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def test_the_accounts_hold() -> None:
    """A short search; every outcome came true. The model only watches."""
    outcome = foretold.explore(Accounts, runs=40, seed=1)
    assert outcome.failure is None, outcome.failure.exception
    felt = {n: f.effect for n, f in outcome.tally.faults.items() if n.startswith("prophecy")}
    assert len(felt) == 4
    assert all(felt.values())
    check_interference(Accounts, seeds=[1])


@pytest.mark.soak
def test_ten_thousand_runs_hold() -> None:
    """The property of the document, with the real server instead of a stub."""
    outcome = foretold.explore(Accounts, runs=10_000 * SOAK_FACTOR, seed=2, workers=2)
    assert outcome.failure is None, outcome.failure.exception


@pytest.mark.parametrize("bug", client.BUGS)
def test_each_bug_is_found_and_told_with_its_prophecy(bug: str) -> None:
    """Within twenty runs, by the mapping alone; the story says what was foretold."""
    settings: dict[str, Any] = {"mutant": bug}
    outcome = foretold.explore(Accounts, runs=RUNS_TO_FIND, seed=1, confirm=False, **settings)
    failure = outcome.failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotRefined)
    assert "as foretold: POST /users of client" in str(failure.story)


def test_lost_after_the_commit_is_told_so() -> None:
    """The story says "after the commit" where something was committed, and only there."""
    told = []

    class Tells(Accounts):
        async def teardown(self) -> None:
            told.append([self.web.failures, len(self.pg.sql("select from account"))])
            await super().teardown()

        @foretold.rule(answer=foretold.Prophecy("answer", ok=None, lost_after="response_lost"))
        async def create_user(self, answer: str) -> None:  # type: ignore[override]  # it needs fewer arguments
            await self.client.create_user("ada", "secret")
            assert answer == "ok", "lost"

        @foretold.refines
        def as_auth(self) -> dict[str, Any]:
            return {}

    class Nothing:
        def state(self) -> dict[str, Any]:
            return {}

    Tells.model = Nothing  # type: ignore[assignment]  # another one for this test
    failure = foretold.explore(Tells, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert "the answer is lost after the commit, as foretold" in str(failure.story)


# ---------------------------------------------------------------- bound across threads and hosts

app = FastAPI()
DATABASE: dict[str, str] = {}


@app.middleware("http")
async def passes_on(request: Any, call_next: Any) -> Any:
    """A middleware of the usual sort, which calls the endpoint in another task."""
    return await call_next(request)


@app.post("/users/{name}")
def create(name: str) -> None:
    """A `def` endpoint: it runs in a worker thread, with a blocking driver."""
    try:
        with psycopg.connect(DATABASE["dsn"]) as connection:
            connection.execute("insert into account (username, password) values (%s, '')", [name])
    except psycopg.errors.QueryCanceled:
        raise HTTPException(503, "cancelled") from None
    except psycopg.errors.UniqueViolation:
        raise HTTPException(409, "exists") from None


class Threads(foretold.Machine):
    """Three actors at once; for each call it is foretold whether its query is cancelled."""

    actors = 3
    steps = 8
    quiet_s = 0.0

    async def setup(self) -> None:
        self.pg = await self.world.postgres(schema=SCHEMA)
        DATABASE["dsn"] = self.pg.dsn
        self.web = await self.world.web(app)
        for actor in self.cast:
            actor.http = self.web.client(actor)

    async def teardown(self) -> None:
        for actor in self.cast:
            await actor.http.aclose()

    @foretold.rule(query=foretold.Prophecy("query", ok=None, cancelled="db_cancelled").on("insert"))
    async def create(self, actor: Any, query: str) -> None:
        answer: httpx.Response = await actor.http.post(f"/users/{actor.name}")
        expected = {"ok": (200, 409), "cancelled": (503,)}[query]
        assert answer.status_code in expected


def test_a_cancelled_query_is_that_of_the_call() -> None:
    """Through a middleware, a worker thread and libpq, with calls that overlap: each call meets its
    own fate. A prophecy that struck somebody else would be a status that nobody expects."""
    outcome = foretold.explore(Threads, runs=25, seed=1)
    assert outcome.failure is None, outcome.failure.exception
    felt = outcome.tally.faults["prophecy query: cancelled"]
    assert felt.effect == felt.injected
    assert felt.injected > 20
