"""A tiny PostgreSQL server: the protocol is real, the only table is a dictionary of accounts.

It knows start-up, simple and extended queries, transactions in name only, COPY, NOTIFY, `pg_sleep`
and its cancelling, and the few statements that the drivers and the scenarios send. Values go out as
text or binary, as the client asks.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

INT4, TEXT = 23, 25
Columns = list[tuple[str, int]]
Rows = list[tuple[Any, ...]]
Result = tuple[Columns, Rows, str]
"""Columns, rows and the tag that says what was done."""

SSL_REQUEST, CANCEL_REQUEST = struct.pack("!i", 80877103), struct.pack("!i", 80877102)
FIRST_PID = 4242
SERVER_VERSION = "16.3"
SETTINGS = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
}
FIXED = {
    "select pg_catalog.version()": ("version", f"PostgreSQL {SERVER_VERSION} on a simulated host"),
    "select current_schema()": ("current_schema", "public"),
    "show standard_conforming_strings": ("standard_conforming_strings", "on"),
    "show transaction isolation level": ("transaction_isolation", "read committed"),
}


def message(kind: bytes, *parts: bytes) -> bytes:
    """One message of the protocol."""
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A string as the protocol ends it."""
    return value.encode() + b"\0"


def strings(body: bytes, count: int) -> tuple[list[str], bytes]:
    """The first strings of a message, and what follows them."""
    *found, rest = body.split(b"\0", count)
    return [part.decode() for part in found], rest


def row_description(columns: Columns, formats: list[int]) -> bytes:
    """What the columns are called, and how their values will be written."""
    fields = [
        text(name) + struct.pack("!ihihih", 0, 0, oid, 4 if oid == INT4 else -1, -1, form)
        for (name, oid), form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!h", len(columns)), *fields)


def data_row(columns: Columns, row: tuple[Any, ...], formats: list[int]) -> bytes:
    """One row."""
    cells = []
    for (_, oid), value, form in zip(columns, row, formats, strict=True):
        binary = form == 1 and oid == INT4
        cell = struct.pack("!i", value) if binary else str(value).encode()
        cells.append(struct.pack("!i", len(cell)) + cell)
    return message(b"D", struct.pack("!h", len(cells)), *cells)


def formats_for(columns: Columns, given: list[int]) -> list[int]:
    """One format per column: none given means text, one given is for all."""
    if len(given) == len(columns) and given:
        return given
    return (given or [0])[:1] * len(columns)


class Session:
    """One connection of a client."""

    def __init__(
        self,
        accounts: dict[int, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        others: list[Session],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.accounts, self.reader, self.writer = accounts, reader, writer
        self.others, self.tls = others, tls
        self.pid = 0
        self.cancelled = asyncio.Event()
        self.channels: set[str] = set()
        self.statements: dict[str, str] = {}
        self.portal: tuple[str, list[int], list[Any]] = ("", [], [])
        self.status = b"I"
        self.handlers: dict[bytes, Callable[[bytes], Awaitable[None] | None]] = {
            b"Q": self.query,
            b"P": self.parse,
            b"D": self.describe,
            b"B": self.bind,
            b"E": self.execute,
            b"C": self.close,
            b"S": lambda body: self.ready(),
            b"H": lambda body: None,
        }

    async def run(self) -> None:
        """From the first byte to Terminate, or to the end of the stream."""
        while (first := await self.first_message())[:4] == SSL_REQUEST:
            await self.secure()
        if first[:4] == CANCEL_REQUEST:
            self.cancel(*struct.unpack("!ii", first[4:12]))
            self.writer.close()
            return
        self.pid = FIRST_PID + len(self.others)
        self.others.append(self)
        self.send(message(b"R", struct.pack("!i", 0)))
        for name, value in SETTINGS.items():
            self.send(message(b"S", text(name), text(value)))
        self.send(message(b"K", struct.pack("!ii", self.pid, 1)))
        self.ready()
        while (received := await self.next_message()) is not None:
            kind, body = received
            later = self.handlers[kind](body)
            if later is not None:
                await later
        self.writer.close()

    async def next_message(self) -> tuple[bytes, bytes] | None:
        """Its kind and its content; None at the end."""
        kind = await self.reader.read(1)
        if kind in (b"", b"X"):
            return None
        (size,) = struct.unpack("!i", await self.reader.readexactly(4))
        return kind, await self.reader.readexactly(size - 4)

    def cancel(self, pid: int, key: int) -> None:
        for session in self.others:
            if session.pid == pid and key == 1:
                session.cancelled.set()

    async def secure(self) -> None:
        """The client would like TLS."""
        self.send(b"N" if self.tls is None else b"S")
        if self.tls is not None:
            await self.writer.start_tls(self.tls)

    async def first_message(self) -> bytes:
        """It has no kind: start-up, or the wish for TLS before it."""
        return await self.reader.readexactly(*struct.unpack("!i", self.less_4(await self.head(4))))

    async def head(self, size: int) -> bytes:
        return await self.reader.readexactly(size)

    @staticmethod
    def less_4(size: bytes) -> bytes:
        """A length that counts itself, without itself."""
        return struct.pack("!i", struct.unpack("!i", size)[0] - 4)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ready(self) -> None:
        self.send(message(b"Z", self.status))

    # --- simple and extended queries -------------------------------------------------------------

    def query(self, body: bytes) -> Awaitable[None] | None:
        sql = body[:-1].decode().rstrip(";")
        if sql.startswith("SELECT pg_sleep"):
            return self.sleep(sql)
        if sql.startswith("COPY"):
            return self.copy_in() if "FROM" in sql else self.copy_out()
        self.show(*self.result(sql, []))
        return None

    def show(self, columns: Columns, rows: Rows, tag: str) -> None:
        """All of a simple query's answer."""
        formats = formats_for(columns, [])
        if columns:
            self.send(row_description(columns, formats))
        for row in rows:
            self.send(data_row(columns, row, formats))
        self.send(message(b"C", text(tag)))
        self.ready()

    async def sleep(self, sql: str) -> None:
        """`SELECT pg_sleep(seconds)`; a cancel request ends it."""
        found = re.search(r"[\d.]+", sql)
        assert found is not None
        try:
            async with asyncio.timeout(float(found[0])):
                await self.cancelled.wait()
        except TimeoutError:
            self.show([("pg_sleep", TEXT)], [("",)], "SELECT 1")
            return
        self.cancelled.clear()
        fields = (b"SERROR", b"C57014", b"Mcanceling statement due to user request")
        self.send(message(b"E", *(field + b"\0" for field in fields), b"\0"))
        self.ready()

    async def copy_out(self) -> None:
        self.send(message(b"H", struct.pack("!bhhh", 0, 2, 0, 0)))
        for number, owner in sorted(self.accounts.items()):
            self.send(message(b"d", f"{number}\t{owner}\n".encode()))
        self.send(message(b"c"))
        self.send(message(b"C", text(f"COPY {len(self.accounts)}")))
        self.ready()

    async def copy_in(self) -> None:
        self.send(message(b"G", struct.pack("!bhhh", 0, 2, 0, 0)))
        content = b""
        while (received := await self.next_message()) is not None and received[0] == b"d":
            content += received[1]
        rows = [line.split("\t") for line in content.decode().splitlines()]
        self.accounts.update({int(number): owner for number, owner in rows})
        self.send(message(b"C", text(f"COPY {len(rows)}")))
        self.ready()

    def notify(self, channel: str, payload: str) -> None:
        for session in self.others:
            if channel in session.channels:
                session.send(
                    message(b"A", struct.pack("!i", self.pid), text(channel), text(payload))
                )

    def parse(self, body: bytes) -> None:
        (name, sql), _ = strings(body, 2)
        self.statements[name] = sql.rstrip(";")
        self.send(message(b"1"))

    def describe(self, body: bytes) -> None:
        if body[:1] == b"S":
            sql = self.statements[body[1:-1].decode()]
            oids = [INT4, TEXT][: sql.count("$")]
            self.send(message(b"t", struct.pack(f"!h{len(oids)}i", len(oids), *oids)))
            given: list[int] = []
        else:
            sql, given, _ = self.portal
        columns = self.columns_of(sql)
        if columns:
            self.send(row_description(columns, formats_for(columns, given)))
        else:
            self.send(message(b"n"))

    def bind(self, body: bytes) -> None:
        (_, name), rest = strings(body, 2)
        numbers = self.numbers(rest)
        forms = [next(numbers) for _ in range(next(numbers))]
        rest = rest[2 + 2 * len(forms) :]
        values, rest = self.values(rest, forms)
        numbers = self.numbers(rest)
        given = [next(numbers) for _ in range(next(numbers))]
        self.portal = (self.statements[name], given, values)
        self.send(message(b"2"))

    @staticmethod
    def numbers(data: bytes) -> Iterator[int]:
        return (number for (number,) in struct.iter_unpack("!h", data[: len(data) // 2 * 2]))

    @staticmethod
    def values(rest: bytes, forms: list[int]) -> tuple[list[Any], bytes]:
        """The parameters: the first is an account's number, the second its owner."""
        (count,) = struct.unpack_from("!h", rest)
        rest, found = rest[2:], list[Any]()
        for index in range(count):
            (size,) = struct.unpack_from("!i", rest)
            cell, rest = rest[4 : 4 + size], rest[4 + size :]
            binary = bool(forms) and forms[min(index, len(forms) - 1)] == 1 and size in (2, 4, 8)
            binary = binary and index == 0
            if binary:
                found.append(int.from_bytes(cell, "big", signed=True))
            else:
                found.append(int(cell) if cell.isdigit() else cell.decode())
        return found, rest

    def execute(self, body: bytes) -> None:
        sql, given, values = self.portal
        columns, rows, tag = self.result(sql, values)
        for row in rows:
            self.send(data_row(columns, row, formats_for(columns, given)))
        self.send(message(b"C", text(tag)))

    def close(self, body: bytes) -> None:
        if body[:1] == b"S":
            self.statements.pop(body[1:-1].decode(), None)
        self.send(message(b"3"))

    # --- what the statements mean ----------------------------------------------------------------

    @staticmethod
    def columns_of(sql: str) -> Columns:
        fixed = FIXED.get(sql.lower())
        if fixed is not None:
            return [(fixed[0], TEXT)]
        if sql.lower().startswith("select"):
            return [("id", INT4), ("owner", TEXT)]
        return []

    def result(self, sql: str, values: list[Any]) -> Result:
        columns, verb = self.columns_of(sql), sql.split()[0].upper() if sql.split() else ""
        fixed = FIXED.get(sql.lower())
        if fixed is not None:
            return columns, [(fixed[1],)], "SELECT 1"
        if "pg_type" in sql:
            return columns, [], "SELECT 0"
        if verb == "SELECT":
            values = values or [int(n) for n in re.findall(r"id = (\d+)", sql)]
            wanted = [n for n in sorted(self.accounts) if not values or n == values[0]]
            return columns, [(n, self.accounts[n]) for n in wanted], f"SELECT {len(wanted)}"
        if verb == "INSERT":
            number, owner = values or re.findall(r"\((\d+), *'(.*)'\)", sql)[0]
            self.accounts[int(number)] = owner
            return [], [], "INSERT 0 1"
        if verb == "LISTEN":
            self.channels.add(sql.split()[1])
        if verb == "NOTIFY":
            channel, payload = sql.split(maxsplit=1)[1].split(", ")
            self.notify(channel, payload.strip("'"))
        if verb in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.status = b"T" if verb == "BEGIN" else b"I"
        return [], [], verb


def server(accounts: dict[int, str], tls: ssl.SSLContext | None = None) -> Callable[[], Any]:
    """The main of a host that serves these accounts."""

    async def main() -> None:
        sessions: list[Session] = []

        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await Session(accounts, reader, writer, sessions, tls).run()

        async with await asyncio.start_server(session, "0.0.0.0", 5432) as listening:
            await listening.serve_forever()

    return main
