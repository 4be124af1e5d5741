"""Ports to real servers: events in PostgreSQL, mail by SMTP across the simulated network."""

from __future__ import annotations

import asyncio
import json
from email import message_from_bytes
from email.message import EmailMessage
from typing import Any

import aiosmtplib
import asyncpg

import foretold
from examples.kitchen.kitchen import Conflict, History
from examples.kitchen.tickets import Event
from foretold.harness import SimulationWorld

SMTP_PORT = 25
SCHEMA = """
create table events (
    ticket text not null,
    version integer not null,
    name text not null,
    data text not null,
    command text not null,
    primary key (ticket, version)
)
"""
NEXT = "select coalesce(max(version) + 1, 0) from events where ticket = $1"
"""Wrong instead of the version that the decision was made on: it is always free."""
INSERT = "insert into events (ticket, version, name, data, command) values ($1, $2, $3, $4, $5)"


class PostgresStore:
    """Two appends on one version: the primary key lets one of them through."""

    def __init__(self, world: SimulationWorld) -> None:
        self._world = world
        self._pool: Any = None
        self._dsn = ""

    async def prepare(self) -> None:
        self._dsn = (await self._world.world.postgres(schema=SCHEMA)).dsn

    async def start(self) -> None:
        self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=5)

    async def stop(self) -> None:
        await self._pool.close()

    async def load(self, ticket: str) -> History:
        rows = await self._pool.fetch(
            "select name, data, command from events where ticket = $1 order by version", ticket
        )
        return [(row["name"], json.loads(row["data"]), row["command"]) for row in rows]

    async def append(self, ticket: str, version: int, events: list[Event], command: str) -> None:
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if foretold.mutant("no_optimistic_lock"):
                    version = await connection.fetchval(NEXT, ticket)
                rows = [
                    (ticket, version + number, name, json.dumps(data), command)
                    for number, (name, data) in enumerate(events)
                ]
                await connection.executemany(INSERT, rows)
        except asyncpg.UniqueViolationError as error:
            raise Conflict(ticket) from error

    async def all_tickets(self) -> list[str]:
        rows = await self._pool.fetch("select distinct ticket from events order by ticket")
        return [row["ticket"] for row in rows]


class SmtpMail:
    """Sends by aiosmtplib to a server on the host `mail`."""

    def __init__(self, world: SimulationWorld) -> None:
        self._host = world.world.host("mail")
        self._server = MailServer()

    async def prepare(self) -> None:
        self._host.start(self._server.serve)
        await self._host.listening(SMTP_PORT)

    async def send(self, to: str, subject: str) -> None:
        message = EmailMessage()
        message["From"], message["To"] = "kitchen@restaurant", f"{to}@restaurant"
        message["Subject"] = subject
        message.set_content(f"{subject}.\n")
        try:
            await aiosmtplib.send(message, hostname="mail", port=SMTP_PORT, start_tls=False)
        except aiosmtplib.SMTPException as error:
            raise ConnectionError(str(error)) from error

    def sent(self) -> list[tuple[str, str]]:
        return list(self._server.received)


class MailServer:
    """Enough of SMTP to take messages."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []

    async def serve(self) -> None:
        async with await asyncio.start_server(self._session, "0.0.0.0", SMTP_PORT) as server:
            await server.serve_forever()

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ESMTP\r\n")
        while line := await reader.readline():
            verb = line.strip().partition(b" ")[0].upper()
            if verb == b"DATA":
                writer.write(b"354 end with a dot\r\n")
                message = message_from_bytes(await reader.readuntil(b"\r\n.\r\n"))
                self.received.append((str(message["To"]), str(message["Subject"])))
            writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            await writer.drain()
            if verb == b"QUIT":
                break
        writer.close()
