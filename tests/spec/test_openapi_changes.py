"""Requests that must change nothing are judged by all rows of the database, and by pages that the
tape draws, the nearest ones first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Annotated, Any

import asyncpg
import pytest
from fastapi import FastAPI, Header, HTTPException, Request
from pydantic import BaseModel

import foretold
from foretold.errors import PropertyViolated
from foretold.spec.openapi.document import read_document
from foretold.spec.openapi.pages import drawn_pages, nearest_first, path_within
from foretold.spec.openapi.requests import ApiRequest as Asked
from foretold.spec.openapi.rows import is_volatile
from foretold.world.world import World

SCHEMA = """
    create table note (name text primary key, text text, updated_at timestamptz default now());
    create table badge (id serial primary key, name text);
    create table audit_log (id serial primary key, line text);
"""


class Note(BaseModel):
    """What is stored under a name."""

    text: str


def application(dsn: str, mistake: str) -> FastAPI:
    """No page shows badges. `mistake`: when the application gives one all the same."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = asyncio.Queue()
        task = asyncio.create_task(work())
        yield
        task.cancel()

    async def work() -> None:
        while True:
            name = await app.state.queue.get()
            await run("insert into badge (name) values ($1)", name)

    app = FastAPI(lifespan=lifespan)

    async def run(sql: str, *values: Any) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(sql, *values)
        finally:
            await connection.close()

    @app.put("/notes/{name}", openapi_extra={"security": [{"HTTPBearer": []}]})
    async def write(
        name: str, note: Note, request: Request, authorization: Annotated[str, Header()] = ""
    ) -> Note:
        await run("insert into audit_log (line) values ($1)", request.url.path)
        if mistake == "before the check" and not authorization:
            await run("insert into badge (name) values ($1)", name)
        if not authorization:
            raise HTTPException(401)
        await run(
            "insert into note values ($1, $2) on conflict (name) do update set text = $2,"
            " updated_at = now()",
            name,
            note.text,
        )
        if mistake == "each time":
            await run("insert into badge (name) values ($1)", name)
        if mistake == "by another task":
            app.state.queue.put_nowait(name)
        return note

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {}

    return app


DOCUMENT = application("", "").openapi()
DOCUMENT["components"]["securitySchemes"] = {"HTTPBearer": {"type": "http", "scheme": "bearer"}}


def machine(mistake: str, **members: Any) -> type[foretold.Machine]:
    """A machine for the application with this mistake."""

    async def serve(self: Any) -> Any:
        pg = await self.world.postgres(schema=SCHEMA)
        return application(pg.dsn, mistake)

    made = foretold.openapi(
        DOCUMENT, steps=12, actors=2, credentials=lambda actor: {"authorization": actor.name}
    )
    return type("Notes", (made,), {"serve": serve, **members})


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("each time", "sent once more by"),
        ("before the check", "without credentials changed something: table badge got"),
    ],
)
def test_rows_that_no_page_shows_are_found(mistake: str, said: str) -> None:
    """The page of the API is the same before and after; the table is not."""
    found = foretold.explore(machine(mistake), runs=20, seed=1, confirm=False, shrink=False)
    assert found.failure is not None
    assert isinstance(found.failure.exception, PropertyViolated)
    assert said in str(found.failure.exception)
    assert "table badge got id " in str(found.failure.exception)


@pytest.mark.parametrize(
    ("mistake", "members"),
    [("", {}), ("each time", {"ignore": ("badge.*",)}), ("by another task", {})],
)
def test_what_is_not_certain_is_not_blamed(mistake: str, members: dict[str, Any]) -> None:
    """Records and times may change, and what the test ignores. What another task commits is not
    blamed on the request."""
    found = foretold.explore(machine(mistake, **members), runs=12, seed=1, confirm=False)
    assert found.failure is None
    checks = found.tally.invariants["duplicates_are_refused_or_change_nothing"]
    assert checks.ranged


PATHS: dict[str, Any] = {
    "/health": {"get": {}},
    "/orders": {"get": {}, "post": {}},
    "/orders/{order_id}": {"get": {}, "put": {}},
    "/orders/{order_id}/items": {"get": {}},
    "/orders/{order_id}/items/{item_id}": {"get": {}},
    "/users": {"get": {}},
}


def operations() -> dict[str, Any]:
    """By method and path."""
    paths: dict[str, Any] = {}
    for path, methods in PATHS.items():
        names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True} for name in names]
        paths[path] = {
            method: {"parameters": parameters, "responses": {"200": {}}} for method in methods
        }
    document = read_document({"openapi": "3.1.0", "info": {}, "paths": paths})
    assert document is not None
    return {str(each): each for each in document.operations()}


def test_pages_around_a_request() -> None:
    """A page takes the ids of the request; the nearest is the one that shares most of the path."""
    known = operations()
    put = Asked(known["PUT /orders/{order_id}"], "/orders/7")
    pages = [each for each in known.values() if each.method == "GET"]
    paths = {str(page): path_within(page, put) for page in pages}
    assert paths == {
        "GET /health": "/health",
        "GET /orders": "/orders",
        "GET /orders/{order_id}": "/orders/7",
        "GET /orders/{order_id}/items": "/orders/7/items",
        "GET /orders/{order_id}/items/{item_id}": None,
        "GET /users": "/users",
    }
    asked = [Asked(page, path) for page in pages if (path := paths[str(page)]) is not None]
    assert [each.path for each in nearest_first(put, asked)] == [
        "/orders/7",
        "/orders/7/items",
        "/orders",
        "/health",
        "/users",
    ]


def test_every_page_is_drawn_by_some_tape() -> None:
    """The calm tape takes the nearest; no page is left out by all tapes."""
    known = operations()
    put = Asked(known["PUT /orders/{order_id}"], "/orders/7")

    named: dict[str, Any] = {name: (each, {}) for name, each in known.items()}

    def drawn(seed: int) -> list[str]:
        async def main(world: World) -> list[str]:
            stub: Any = SimpleNamespace(operations=named, sent=[], world=world)
            return [page.path for page in drawn_pages(stub, put, None)]

        found: list[str] = foretold.run(main, seed=seed).value
        return found

    seen = [drawn(seed) for seed in range(12)]
    assert all(len(each) == 3 for each in seen)
    assert {path for each in seen for path in each} == {
        "/orders/7",
        "/orders/7/items",
        "/orders",
        "/health",
        "/users",
    }
    first = [each[0] for each in seen]
    assert first.count("/orders/7") == max(map(first.count, first))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("updated_at", True),
        ("last_used", True),
        ("row_version", True),
        ("updatedAt", True),
        ("lastSeen", True),
        ("isActive", False),
        ("status", False),
        ("is_active", False),
        ("format", False),
        ("blast_radius", False),
    ],
)
def test_names_that_change_by_themselves(name: str, changes: bool) -> None:
    """A column is left out by its whole words only."""
    assert is_volatile(name) == changes


@pytest.mark.parametrize("appends", [False, True])
def test_what_changes_by_being_read_is_nobodys_fault(appends: bool) -> None:
    """A page that counts its readers, or all requests, does not tell that a PUT has changed it;
    what the PUT has changed is seen all the same."""

    def make() -> FastAPI:
        app = FastAPI()
        note: dict[str, Any] = {"reads": 0, "tags": ["a"], "updatedAt": 0}

        @app.put("/note/{tag}")
        async def write(tag: int) -> dict[str, Any]:
            note["updatedAt"] += 1
            note["tags"] += ["b"] if appends else []
            return {}

        @app.get("/note")
        async def read() -> dict[str, Any]:
            note["reads"] += 1
            return {"seenBy": {"count": note["reads"]}, **note}

        return app

    found = foretold.explore(
        foretold.openapi(make, oracle=None), runs=10, seed=1, shrink=False, confirm=False
    )
    assert (found.failure is not None) == appends
