"""`pg.interleave(…)`: statements of several sessions, in exactly the order that a test writes down.

    steps = await pg.interleave(
        ("a", "BEGIN"), ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
        ("b", "UPDATE account SET balance = 2 WHERE id = 1"),     # waits for a
        ("a", "COMMIT"),                                          # now b goes on
    )

Each session is its own connection. A statement that has to wait for a lock is marked, the next step
is made, and the answer is entered when it comes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretold.errors import UsageError
from foretold.services.postgres import protocol
from foretold.services.postgres.protocol import (
    COMMAND_COMPLETE,
    ERROR,
    READY,
    Group,
    Opening,
    fields_of,
    split,
    tag_of,
)
from foretold.services.postgres.session import DUE, Session
from foretold.services.postgres.values import Rows, found_in
from foretold.world.hosttask import wake

if TYPE_CHECKING:
    from foretold.services.postgres.gateway import Gateway


@dataclass
class SessionStep:
    """One statement of one session, and what became of it."""

    session: str
    sql: str
    waited: bool = False
    """It had to wait for a lock."""
    done: bool = False
    rows: Rows = field(default_factory=Rows)
    tag: str = ""
    """What was done: `UPDATE 1`."""
    code: str | None = None
    """The SQLSTATE of the error, if there was one."""
    message: str | None = None

    def answered(self, messages: list[bytes]) -> None:
        """Enter the server's answer."""
        for message in messages:
            kind = message[:1]
            if kind == COMMAND_COMPLETE:
                self.tag = tag_of(message)
            elif kind == ERROR:
                fields = fields_of(message)
                self.code, self.message = fields.get("C"), fields.get("M")
        self.rows = found_in(messages)
        self.done = True


class _Direct:
    """Stands where a client's connection stands; the test itself is behind it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gone = False
        self.is_stuck = False
        self.on_gone: Any = None
        self.on_sent: Any = None
        self.begun = False
        self.step: SessionStep | None = None
        self.came: asyncio.Future[None] | None = None
        self._buffer = bytearray()
        self._messages: list[bytes] = []

    def send(self, data: bytes) -> None:
        self._buffer += data
        self._messages.extend(split(self._buffer))
        if self._messages and self._messages[-1][:1] in (READY, ERROR):
            messages, self._messages = self._messages, []
            if self.step is not None:
                self.step.answered(messages)
                self.step = None
            self.begun = True
            self.look_up()

    def look_up(self) -> None:
        """Something has happened that the test may wait for."""
        if self.came is not None and not self.came.done():
            wake(self.came)

    def close(self) -> None:
        self.gone = True

    abort = close


class Interleaving:
    """The sessions of one call."""

    def __init__(self, gateway: Gateway, user: str, database: str) -> None:
        self.gateway = gateway
        self.opening = Opening(
            protocol.PROTOCOL_3, f"user\0{user}\0database\0{database}\0\0".encode()
        )
        self.clients: dict[str, _Direct] = {}
        self.sessions: dict[str, Session] = {}

    async def run(self, steps: list[tuple[str, str]]) -> list[SessionStep]:
        """All steps, one after the other."""
        made = []
        try:
            for name, sql in steps:
                made.append(await self.step(name, sql))
                await self.let_go_on()
        finally:
            self.end()
        return made

    def end(self) -> None:
        """All sessions are over."""
        for session in self.sessions.values():
            self.gateway.end(session)

    async def step(self, name: str, sql: str) -> SessionStep:
        """One statement: it is done, or waits for a lock."""
        client = self.clients.get(name) or await self._connect(name)
        if client.step is not None:
            raise UsageError(
                f"interleave: session {name!r} still waits for a lock, in {client.step.sql!r}; "
                "it can do nothing else before another session has released it"
            )
        step = client.step = SessionStep(name, sql)
        session = self.sessions[name]
        session.on_wait = client.look_up
        self.gateway.enqueue(session, Group([protocol.query(sql)]))
        await self._until(client, lambda: step.done or session in self.gateway.waits.blocked)
        step.waited = not step.done
        return step

    async def _connect(self, name: str) -> _Direct:
        client = self.clients[name] = _Direct(name)
        self.sessions[name] = self.gateway.admit(client, self.opening, f"interleave {name}")  # type: ignore[arg-type]  # it does what is asked of a Client
        await self._until(client, lambda: client.begun)
        return client

    async def let_go_on(self) -> None:
        """Whoever is free to go on by now does, before the next step is made; and whoever is freed
        by that."""
        while going := self._going():
            for name in going:
                client, step = self.clients[name], self.clients[name].step
                if step is not None and self._goes_on(name):  # until it waits for another lock
                    await self._until(
                        client, lambda step=step: step.done or not self._goes_on(step.session)
                    )

    def _going(self) -> list[str]:
        """Who goes on. The server is asked each time: a savepoint that is rolled back frees locks,
        and so does a statement that was the first to wait for a row, and found that it was gone."""
        self.gateway.waits.settle()
        return [name for name in self.clients if self._goes_on(name)]

    def _goes_on(self, name: str) -> bool:
        session = self.sessions[name]
        is_free = session.resuming or session.doing == DUE
        return self.clients[name].step is not None and is_free

    async def _until(self, client: _Direct, is_so: Any) -> None:
        while not is_so():
            client.came = asyncio.get_running_loop().create_future()
            await client.came
        client.came = None
