"""The real PostgreSQL with the methods of `PgModel`: what the model is compared with.

Each actor is a session of its own. A statement that has to wait for a lock says so by itself (the
gateway knows), so that nothing here sleeps or guesses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from foretold.models.pgmodel import UPDATE
from foretold.models.statements import Change, Where
from foretold.services.postgres.interleave import Interleaving, SessionStep
from foretold.services.postgres.server import Postgres
from foretold.spec.conform import WAITS, Answer
from foretold.world.world import World

ROWS: Final = {"x": 100, "y": 100}
"""What the table holds unless something else is said."""


def server(
    isolation: str, rows: Mapping[str, int] | None = None
) -> Callable[[World], Awaitable[Server]]:
    """What `foretold.conform` takes as the real system: PostgreSQL at this isolation level, with a
    table `t (id text primary key, v int)` that holds these rows."""
    given = ROWS if rows is None else dict(rows)
    schema = "create table t (id text primary key, v int not null);" + "".join(
        f"insert into t values ('{key}', {value});" for key, value in given.items()
    )

    async def made(world: World) -> Server:
        return Server(await world.postgres(schema=schema), isolation)

    return made


class Server:
    """Sessions of a real server, one statement at a time."""

    def __init__(self, pg: Postgres, isolation: str) -> None:
        self._pg = pg
        self._level = isolation
        self._sessions = Interleaving(pg._gateway, pg.user, pg.database)
        self._waiting: dict[str, SessionStep] = {}

    def state(self) -> dict[str, int]:
        return {row[0]: row[1] for row in self._pg.sql("select id, v from t order by id")}

    def close(self) -> None:
        """End all sessions; what was not committed never happened."""
        self._sessions.end()

    async def begin(self, actor: str) -> Answer:
        return await self._say(actor, "BEGIN")

    async def commit(self, actor: str) -> Answer:
        return await self._say(actor, "COMMIT")

    async def rollback(self, actor: str) -> Answer:
        return await self._say(actor, "ROLLBACK")

    async def savepoint(self, name: str, *, actor: str) -> Answer:
        return await self._say(actor, f"SAVEPOINT {name}")

    async def rollback_to(self, name: str, *, actor: str) -> Answer:
        return await self._say(actor, f"ROLLBACK TO {name}")

    async def release(self, name: str, *, actor: str) -> Answer:
        return await self._say(actor, f"RELEASE {name}")

    async def select(self, where: Where, *, actor: str) -> Answer:
        return await self._say(actor, f"SELECT id, v FROM t WHERE {where.sql} ORDER BY id")

    async def lock(
        self, where: Where, mode: str = UPDATE, policy: str = "", *, actor: str
    ) -> Answer:
        found = f"SELECT id, v FROM t WHERE {where.sql} ORDER BY id"
        return await self._say(actor, f"{found} FOR {mode} {policy}".strip())

    async def update(self, where: Where, change: Change, *, actor: str) -> Answer:
        return await self._say(actor, f"UPDATE t SET v = {change.sql} WHERE {where.sql}")

    async def delete(self, where: Where, *, actor: str) -> Answer:
        return await self._say(actor, f"DELETE FROM t WHERE {where.sql}")

    async def insert(self, key: str, value: int, *, actor: str) -> Answer:
        return await self._say(actor, f"INSERT INTO t VALUES ('{key}', {value})")

    async def _say(self, actor: str, sql: str) -> Answer:
        if actor not in self._sessions.sessions:
            level = f"SET default_transaction_isolation = '{self._level}'"
            await self._sessions.step(actor, level)
        step = await self._sessions.step(actor, sql)
        await self._sessions.let_go_on()
        went_on = {who: _outcome(each) for who, each in self._waiting.items() if each.done}
        self._waiting = {who: each for who, each in self._waiting.items() if not each.done}
        if not step.done:
            self._waiting[actor] = step
        return Answer(_outcome(step), tuple(sorted(went_on.items())))


def _outcome(step: SessionStep) -> Any:
    if not step.done:
        return WAITS
    if step.code is not None:
        return step.code
    return tuple(map(tuple, step.rows)) if step.tag.startswith("SELECT") else step.tag
