"""A client that speaks PostgreSQL's protocol message by message, as no driver would."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from foretold.services.postgres.protocol import (
    PROTOCOL_3,
    READY,
    fields_of,
    message,
    query,
    split,
    startup,
    text,
)

SYNC, FLUSH, TERMINATE, COPY_DONE = (message(kind) for kind in (b"S", b"H", b"X", b"c"))


def parse(sql: str, name: str = "") -> bytes:
    """Parse, without types."""
    return message(b"P", text(name), text(sql), b"\0\0")


def bind(portal: str = "", name: str = "") -> bytes:
    """Bind, without values; results as text."""
    return message(b"B", text(portal), text(name), b"\0\0\0\0\0\0")


def execute(portal: str = "", rows: int = 0) -> bytes:
    """Execute, for so many rows."""
    return message(b"E", text(portal), struct.pack("!i", rows))


def run(sql: str, rows: int = 0) -> bytes:
    """All three."""
    return parse(sql) + bind() + execute(rows=rows)


def data(content: bytes) -> bytes:
    """A part of a COPY."""
    return message(b"d", content)


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.greeting: list[bytes] = []
        self.heard: list[bytes] = []
        """All that the server has said and somebody has read."""
        self._buffer = bytearray()
        self._messages: list[bytes] = []

    @classmethod
    async def connect(cls, pg: Any, code: int = PROTOCOL_3, **parameters: str) -> Raw:
        """Begin a session, and read the server's greeting."""
        own = cls(*await asyncio.open_connection(pg.host.name, pg.port))
        words = {"user": pg.user, "database": pg.database, **parameters}
        own.writer.write(startup(code, words.items()))
        own.greeting = await own.until_ready()
        return own

    def send(self, *messages: bytes) -> None:
        """All of them, at once."""
        self.writer.write(b"".join(messages))

    async def next(self) -> bytes | None:
        """The next message; None when the server has hung up."""
        while not self._messages:
            received = await self.reader.read(1 << 16)
            if not received:
                return None
            self._buffer += received
            self._messages += split(self._buffer)
        self.heard.append(self._messages[0])
        return self._messages.pop(0)

    async def take(self, count: int) -> str:
        """The letters of the next messages."""
        found = [await self.next() or b"-" for _ in range(count)]
        return b"".join(each[:1] for each in found).decode()

    async def until_ready(self) -> list[bytes]:
        """All messages up to ReadyForQuery, or to the end."""
        found: list[bytes] = []
        while (each := await self.next()) is not None:
            found.append(each)
            if each[:1] == READY:
                break
        return found

    async def ask(self, *messages: bytes) -> str:
        """Send, and the letters of all that comes up to ReadyForQuery; errors with their code."""
        self.send(*messages)
        return letters(await self.until_ready())

    async def sql(self, statement: str) -> str:
        """The same for a simple query."""
        return await self.ask(query(statement))

    @property
    def key(self) -> bytes:
        """For a request to cancel."""
        return next(each[5:] for each in self.greeting if each[:1] == b"K")

    def hold(self, is_held: bool) -> None:
        """Read nothing more from the network; or do so again."""
        transport: Any = self.writer.transport
        transport.pause_reading() if is_held else transport.resume_reading()

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        await self.writer.wait_closed()


def letters(messages: list[bytes]) -> str:
    """`1 2 D C Z`, and the code after an E; notices are left out."""
    shown = []
    for each in messages:
        kind = each[:1].decode()
        if kind == "E":
            kind += f"({fields_of(each)['C']})"
        if kind != "N":
            shown.append(kind)
    return " ".join(shown)
