"""A board of tasks, in a database or in memory, with mistakes that mirrors must find."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import asyncpg
import httpx
from fastapi import Body, FastAPI, HTTPException
from hypothesis import strategies as st

import foretold

SCHEMA = """
create table tasks (id serial primary key, status text not null, turns int not null default 0,
                    price numeric not null default 1.50,
                    made_at timestamptz not null default now());
insert into tasks (status) values ('open'), ('open'), ('done');
"""
FIELDS = "id, status, turns, price::text as price, made_at"


def shown(row: Any) -> dict[str, Any]:
    """As JSON, with its own ways to write numbers and instants."""
    return {**row, "made_at": row["made_at"].isoformat().replace("+00:00", "Z")}


def database_board(pg: Any, lie: str) -> FastAPI:
    """The board, with its tasks in PostgreSQL."""
    app = FastAPI()

    async def ask(query: str, *values: Any) -> Any:
        try:
            connection = await asyncpg.connect(pg.dsn, timeout=5)
            try:
                return await connection.fetchrow(query, *values, timeout=5)
            finally:
                await connection.close(timeout=5)
                await asyncio.sleep(0.005)  # others commit before this is answered
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise HTTPException(503, "try again") from error

    @app.post("/tasks", status_code=201)
    async def make() -> Any:
        if lie == "make":
            return {"id": 99, "status": "open", "turns": 0}
        return shown(await ask(f"insert into tasks (status) values ('open') returning {FIELDS}"))

    @app.get("/tasks")
    async def list_all() -> Any:
        found = await ask(f"select json_agg(q) as all from (select {FIELDS} from tasks) q")
        return {"tasks": json.loads(found["all"])}

    @app.get("/tasks/{key}")
    async def show(key: int) -> Any:
        found = shown(await ask(f"select {FIELDS} from tasks where id = $1", key))
        return {**found, "status": "open"} if lie == "show" else found

    @app.post("/tasks/{key}/price")
    async def reprice(key: int, price: Annotated[str, Body(embed=True)]) -> Any:
        if lie == "price":
            return shown(await ask(f"select {FIELDS} from tasks where id = $1", key))
        query = f"update tasks set price = $2::text::numeric where id = $1 returning {FIELDS}"
        return shown(await ask(query, key, price))

    @app.post("/tasks/{key}/turn")
    async def turn(key: int) -> Any:
        """Open becomes done, and done becomes open."""
        if lie == "turn":
            row = await ask(f"select {FIELDS} from tasks where id = $1", key)
            return {**shown(row), "turns": row["turns"] + 1}
        return shown(
            await ask(
                f"""update tasks set turns = turns + 1,
                    made_at = {"now()" if lie == "made_at" else "made_at"},
                    status = case status when 'open' then 'done' else 'open' end
                    where id = $1 returning {FIELDS}""",
                key,
            )
        )

    return app


def memory_board(lie: str) -> FastAPI:
    """The board, with its tasks in a dictionary."""
    app = FastAPI()
    tasks: dict[int, dict[str, Any]] = {
        key: {"id": key, "status": "open", "turns": 0, "price": "1.50"} for key in (1, 2, 3)
    }

    @app.get("/tasks/{key}")
    async def show(key: int) -> Any:
        return tasks[key]

    @app.post("/tasks/{key}/price")
    async def reprice(key: int, price: Annotated[str, Body(embed=True)]) -> Any:
        await asyncio.sleep(0.001)
        if lie != "price":
            tasks[key] = {**tasks[key], "price": price}
        return tasks[key]

    @app.post("/tasks/{key}/turn")
    async def turn(key: int) -> Any:
        await asyncio.sleep(0.001)
        old = tasks[key]
        if old["turns"] == 5:
            raise HTTPException(409, "it was turned often enough")
        status = "done" if old["status"] == "open" else "open"
        new = {**old, "status": status, "turns": old["turns"] + 1}
        if lie != "turn":
            tasks[key] = new
        return new

    return app


class Busy(Exception):
    """The database does not answer."""


class Board(foretold.Machine):
    """Three actors turn tasks and read them."""

    actors = 3
    steps = 15
    lie = ""
    tolerates = (httpx.TransportError, Busy)
    tasks: Any

    async def post(self, actor: Any, path: str, body: Any = None) -> Any:
        return self.judge(await actor.web.post(path, json=body))

    async def get(self, actor: Any, path: str) -> Any:
        return self.judge(await actor.web.get(path))

    def judge(self, answer: httpx.Response) -> Any:
        if answer.status_code == 409:
            raise foretold.Refused(answer.text)
        if answer.status_code == 503:
            raise Busy(answer.text)
        assert answer.is_success, answer.text
        return answer.json()

    async def setup(self) -> None:
        self.web = await self.world.web(await self.board())
        for actor in self.cast:
            actor.web = self.web.client(actor)

    async def board(self) -> FastAPI:
        raise NotImplementedError

    async def teardown(self) -> None:
        for actor in self.cast:
            if "web" in actor:
                await actor.web.aclose()

    @foretold.rule(task=st.integers(1, 3))
    async def turn(self, actor: Any, task: int) -> None:
        with self.tasks.changing(task) as told:
            told(await self.post(actor, f"/tasks/{task}/turn"))

    @foretold.rule(task=st.integers(1, 3), price=st.sampled_from(["1.25", "2.5"]))
    async def reprice(self, actor: Any, task: int, price: str) -> None:
        body = {"price": price, "status": None, "reason": "unknown to the board"}
        with self.tasks.changing(task) as told:
            told.sent(body, await self.post(actor, f"/tasks/{task}/price", body))

    @foretold.rule(task=st.integers(1, 3))
    async def read(self, actor: Any, task: int) -> None:
        with self.tasks.asking() as told:
            told(await self.get(actor, f"/tasks/{task}"))


class Stored(Board):
    """With a mirror of rows."""

    tasks = foretold.Mirror(
        sql="select id, status, turns, price, made_at from tasks", once=["made_at"]
    )

    async def board(self) -> FastAPI:
        self.pg = await self.world.postgres(schema=SCHEMA)
        return database_board(self.pg, self.lie)

    @foretold.rule()
    async def make(self, actor: Any) -> None:
        with self.tasks.changing() as told:
            told.made(await self.post(actor, "/tasks"))

    @foretold.rule()
    async def read_all(self, actor: Any) -> None:
        with self.tasks.asking() as told:
            told(await self.get(actor, "/tasks"))

    @tasks.page
    async def page(self, actor: Any, key: str) -> Any:
        """What a reader sees."""
        return await self.get(actor, f"/tasks/{key}")


class Remembered(Board):
    """With a mirror of answers alone."""

    tasks = foretold.Mirror()

    async def board(self) -> FastAPI:
        return memory_board(self.lie)

    @tasks.page
    async def page(self, actor: Any, key: str) -> Any:
        """What a reader sees."""
        return await self.get(actor, f"/tasks/{key}")
