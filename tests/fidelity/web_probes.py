"""Heads and bodies at the edge of HTTP, as tables: what an application may send, what a client may
ask. Half of it no server lets out, or no client.

Each probe of a table is tried on all arms by `answers` or `questions`.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator
from typing import Any

SETTLE_S = 0.01
"""A connection that will be closed has been by then."""
LEFT_OUT = (b"date", b"server")


class Status(enum.IntEnum):
    """A status that is a number, and more."""

    TEAPOT = 418


def head(status: Any = 200, *headers: Any, **more: Any) -> dict[str, Any]:
    """The first message of a response."""
    return {"type": "http.response.start", "status": status, "headers": list(headers), **more}


def body(data: Any = b"", *, more: bool = False) -> dict[str, Any]:
    """A part of its body."""
    return {"type": "http.response.body", "body": data, "more_body": more}


def with_header(name: Any, value: Any) -> list[dict[str, Any]]:
    """A response that is good but, perhaps, for this header."""
    return [head(200, (name, value)), body(b"body")]


def with_status(status: Any) -> list[dict[str, Any]]:
    """A response that is good but, perhaps, for its status."""
    return [head(status), body(b"body")]


def with_body(*parts: Any) -> list[dict[str, Any]]:
    """A response with a body of these parts."""
    return [head(), *(body(part, more=True) for part in parts), body()]


def with_length(value: bytes, *others: Any) -> list[dict[str, Any]]:
    """A response of four bytes that tells its length, and perhaps more."""
    return [head(200, (b"content-length", value), *others), body(b"body")]


ANSWERS: dict[str, list[dict[str, Any]]] = {
    # headers
    "break in a value": with_header(b"x-next", b"/\r\nset-cookie: admin=1"),
    "newline in a value": with_header(b"x-next", b"a\nb"),
    "nul in a value": with_header(b"x-next", b"a\0b"),
    "bell in a value": with_header(b"x-next", b"a\x07b"),
    "tab in a value": with_header(b"x-next", b"a\tb"),
    "empty value": with_header(b"x-next", b""),
    "padded value": with_header(b"x-next", b" padded "),
    "two spaces in a value": with_header(b"x-next", b"a  b"),
    "value beyond ascii": with_header(b"x-next", "ä☃".encode()),
    "space in a name": with_header(b"x next", b"1"),
    "colon in a name": with_header(b"x:next", b"1"),
    "nul in a name": with_header(b"x\0y\0z", b"1"),
    "empty name": with_header(b"", b"1"),
    "name beyond ascii": with_header("x-ä".encode(), b"1"),
    "text": with_header("x-next", "text"),
    "text beyond ascii": with_header("x-next", "ä"),
    "a number": with_header(b"x-next", 5),
    "a list": [head(200, [b"x-next", b"1"]), body(b"body")],
    "three of a pair": [head(200, (b"x-next", b"1", b"2")), body(b"body")],
    "many of a name": [head(200, (b"X-A", b"1"), (b"x-a", b"2"), (b"X-A", b"1")), body(b"body")],
    "no headers": [{"type": "http.response.start", "status": 200}, body(b"body")],
    # status
    **{f"status {code!r}": with_status(code) for code in (0, 99, 101, 103, 199, 200, 299, 599)},
    **{f"status {code!r}": with_status(code) for code in (600, 999, 1000, -1, "200", 200.0, None)},
    "status of an enum": with_status(Status.TEAPOT),
    "status true": with_status(True),
    "204 with a body": with_status(204),
    "304 with a body": with_status(304),
    "204 with a length": [head(204, (b"content-length", b"4")), body(b"body")],
    "304 with a length": [head(304, (b"content-length", b"4")), body()],
    "204 in chunks": [head(204, (b"transfer-encoding", b"chunked")), body()],
    # lengths
    "length": with_length(b"4"),
    "length in words": with_length(b"four"),
    "length below zero": with_length(b"-1"),
    "length with a sign": with_length(b"+4"),
    "length with zeros": with_length(b"0004"),
    "length of 21 digits": with_length(b"000000000000000000004"),
    "no length": with_length(b""),
    "length twice": with_length(b"4", (b"Content-Length", b"4")),
    "length twice in one": with_length(b"4, 4"),
    "two lengths": with_length(b"4", (b"content-length", b"5")),
    "two lengths in one": with_length(b"4, 5"),
    "length too small": with_length(b"3"),
    "length too large": with_length(b"5"),
    "length and chunks": with_length(b"4", (b"transfer-encoding", b"chunked")),
    "chunks": with_header(b"Transfer-Encoding", b"Chunked"),
    "chunks twice": [
        head(200, (b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")),
        body(b"body"),
    ],
    "identity": with_header(b"transfer-encoding", b"identity"),
    "gzip and chunks": with_header(b"transfer-encoding", b"gzip, chunked"),
    "all, and more to come": [
        head(200, (b"content-length", b"4")),
        body(b"body", more=True),
        body(b"", more=True),
        body(),
    ],
    "all, and one too many": [
        head(200, (b"content-length", b"4")),
        body(b"body", more=True),
        body(b"!"),
    ],
    # connections
    "close": with_header(b"connection", b"close"),
    "Close": with_header(b"Connection", b"Close"),
    "close, among others": with_header(b"connection", b"keep-alive, Close"),
    "keep alive": with_header(b"connection", b"keep-alive"),
    "closed": with_header(b"connection", b"closed"),
    # bodies
    "body of nothing": with_body(None),
    "body of text": with_body("text"),
    "body of a number": with_body(5),
    "body of a bytearray": with_body(bytearray(b"body")),
    "body of a view": with_body(memoryview(b"body")),
    "body of nothing, with a length": [head(200, (b"content-length", b"0")), body(None)],
    "body without its data": [head(), {"type": "http.response.body"}],
    # order
    "two heads": [head(), head()],
    "one too many": [head(), body(b"one"), body(b"two")],
    "trailers": [head(trailers=True), body(b"body"), {"type": "http.response.trailers"}],
    "a file": [head(), {"type": "http.response.pathsend", "path": "/dev/null"}],
    "of another kind": [{"type": "http.response.debug", "info": {}}, head(), body(b"body")],
}


async def in_pieces() -> AsyncIterator[bytes]:
    """A body that nobody knows the length of."""
    yield b"one"
    yield b"two"


def asking(*headers: Any, method: str = "GET", path: str = "/heard", **options: Any) -> Any:
    """A request with these headers."""
    return method, path, {"headers": list(headers), **options}


def posting(length: str, content: Any) -> Any:
    """A request that tells its length."""
    return asking(("content-length", length), method="POST", content=content)


UPGRADE = (("connection", "upgrade"), ("upgrade", "websocket"))
QUESTIONS: dict[str, Any] = {
    # headers
    "break in a value": asking(("x-a", "a\r\nx-b: 1")),
    "newline in a value": asking(("x-a", "a\nb")),
    "return in a value": asking(("x-a", "\r")),
    "nul in a value": asking(("x-a", "a\0b")),
    "bell in a value": asking(("x-a", "a\x07b")),
    "tab in a value": asking(("x-a", "a\tb")),
    "empty value": asking(("x-a", "")),
    "padded value": asking(("x-a", " a")),
    "value beyond ascii": asking((b"x-a", "ä".encode("latin-1"))),
    "space in a name": asking(("x a", "1")),
    "empty name": asking(("", "1")),
    "nul in a name": asking(("x\0y\0z", "1")),
    "many of a name": asking(("X-A", "1"), ("x-a", "2"), ("cookie", "a=1"), ("Cookie", "b=2")),
    "empty host": asking(("host", "")),
    "two hosts": asking(("host", "a"), ("host", "b")),
    "host at the end": asking(("x-a", "1"), ("Host", "elsewhere")),
    # lines
    "space in a method": asking(method="GE T"),
    "empty method": asking(method=""),
    "method beyond ascii": asking(method="GËT"),
    "a method of its own": asking(method="PURGE"),
    "tunnel": asking(method="CONNECT"),
    "tunnel to nowhere": asking(method="CONNECT", path="/status/404"),
    "target of its own": asking(extensions={"target": b"/heard/%20b"}),
    "illegal target": asking(extensions={"target": b"/a b"}),
    # bodies
    "body": posting("4", b"body"),
    "shorter than it says": posting("5", b"body"),
    "longer than it says": posting("3", b"body"),
    "pieces, shorter": posting("7", in_pieces),
    "pieces, longer": posting("5", in_pieces),
    "pieces, as it says": posting("6", in_pieces),
    "length in words": posting("four", b"body"),
    "length below zero": posting("-4", b"body"),
    "length twice in one": posting("4, 4", b"body"),
    "two lengths": asking(
        ("content-length", "4"), ("content-length", "5"), method="POST", content=b"body"
    ),
    "chunks": asking(("Transfer-Encoding", "Chunked"), method="POST", content=b"body"),
    "length and chunks": asking(
        ("content-length", "9"), ("transfer-encoding", "chunked"), method="POST", content=b"body"
    ),
    "identity": asking(("transfer-encoding", "identity"), method="POST", content=b"body"),
    "large, longer than it says": posting("100000", b"x" * 300_000),
    # connections
    "close": asking(("connection", "close")),
    "Close, among others": asking(("connection", "x, Close")),
    "close, twice": asking(("connection", "close"), path="/answers/close, among others"),
    "close, and a list": asking(("connection", "close"), path="/answers/closed"),
    "upgrade to a websocket": asking(*UPGRADE),
    "upgrade without a head": asking(*UPGRADE, method="HEAD"),
    "half of a handshake": asking(*UPGRADE, ("sec-websocket-version", "13")),
    "upgrade to something": asking(("connection", "upgrade"), ("upgrade", "h2c")),
    "upgrade, not asked for": asking(("upgrade", "websocket")),
    "head of a body": asking(method="HEAD", path="/answers/length too large"),
    "head of chunks": asking(method="HEAD", path="/answers/chunks"),
}


async def _tried(stage: Any, method: str, path: str, options: Any) -> Any:
    """What a client sees of a probe, what the application hears, and whether the connection is used
    again."""
    stage.log.clear()
    async with stage.client(timeout=2) as client:
        before = (await client.get("/port")).content
        try:
            response = await client.request(method, path, **options)
        except Exception as error:
            found: Any = type(error).__name__, str(error)
        else:
            raw = [header for header in response.headers.raw if header[0].lower() not in LEFT_OUT]
            found = response.status_code, response.reason_phrase, raw, response.content
        await asyncio.sleep(SETTLE_S)
        after = (await client.get("/port")).content
    return found, [*stage.log], before == after


async def answers(stage: Any) -> Any:
    """What comes of each answer of the table."""
    return {name: await _tried(stage, "GET", f"/answers/{name}", {}) for name in ANSWERS}


async def questions(stage: Any) -> Any:
    """What comes of each question of the table."""
    found = {}
    for name, (method, path, options) in QUESTIONS.items():
        content = options.get("content")
        given = {**options, "content": content() if callable(content) else content}
        found[name] = await _tried(stage, method, path, given)
    return found
