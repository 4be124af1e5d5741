"""What HTTP/1.1 lets through: the heads of requests and responses, as h11 checks and rewrites them.

httpx and uvicorn both speak through h11, and what it refuses never leaves a process: a header with
a line break, two lengths, a status of 999. Its rules stand here as one regular expression over a
whole head. h11 itself is asked about those that do not match, or that it would rewrite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import h11
import httpx

Header = tuple[bytes, bytes]

TOKEN = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]++"
VALUE = rb"(?:[\x21-\xff]++(?: [\x21-\xff]++)*+)?+"
HEADERS = re.compile(rb"(?:%b\x00%b\x00)*+" % (TOKEN, VALUE))
"""Names and values, each with a NUL behind it, which neither can have."""
METHOD = re.compile(TOKEN)
TARGET = re.compile(rb"[\x21-\x7e]+")
DIGITS_MAX = 20
HEADS_KEPT = 256
"""Most heads are like one before."""
FRAMING = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade")
)  # fmt: skip
NO_BODY = (204, 304)
KNOWN_STATUS = range(100, 600)
"""uvicorn has no words for others, and fails."""
CHUNKED = (b"Transfer-Encoding", b"chunked")
TOO_MUCH = "Too much data for declared Content-Length"
TOO_LITTLE = "Too little data for declared Content-Length"
BROKEN = "Can't send data when our state is ERROR"


class RequestHead(NamedTuple):
    headers: list[Header]
    length: int | None
    """So long its body must be; None: it has none to be compared with."""
    close: bool
    """The connection is not to be used again."""
    upgrade: bytes | None
    """Which other protocol the client wants to speak."""

    def suits(self, size: int) -> bool:
        """Whether a body may be so long."""
        return self.length is None or self.length == size


class Answered(NamedTuple):
    """The head of a response, as it leaves."""

    status: int
    headers: list[Header]
    length: int | None
    close: bool
    is_tunnel: bool
    """Behind it there is no HTTP any more: it was the answer to CONNECT."""


def asked(method: str, target: bytes, raw: Sequence[Header]) -> RequestHead:
    """What a server has of this request; or the client's own error, if it can't be sent."""
    if TARGET.fullmatch(target) is None:
        raise httpx.LocalProtocolError("Illegal target characters")
    return _asked(method, tuple(raw))


@lru_cache(HEADS_KEPT)
def _asked(method: str, raw: tuple[Header, ...]) -> RequestHead:
    read = None
    if is_plain(raw) and METHOD.fullmatch(method.encode()):
        read = _read_request(raw)
    if read is None:
        try:
            event = h11.Request(method=method, target=b"/", headers=list(raw))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from None
        read = _read_request(event.headers.raw_items())
        assert read is not None, "h11 has put it right"
    return read


def is_plain(headers: Sequence[Header]) -> bool:
    """Whether each name and each value has only what it may have."""
    try:
        text = b"".join([b"%b\x00%b\x00" % header for header in headers])
    except TypeError:
        return False  # text, or no pairs
    return HEADERS.fullmatch(text) is not None and text.count(b"\x00") == 2 * len(headers)


def _read_request(raw: Sequence[Header]) -> RequestHead | None:
    """None if h11 would refuse or rewrite it."""
    headers: list[Header] = []
    hosts, length, chunked, wanted = 0, None, False, None
    tokens: list[bytes] = []
    for name, value in raw:
        lower = name.lower()
        if lower in FRAMING:
            if lower == b"host":
                hosts += 1
                headers.insert(0, (lower, value))  # h11 writes it first
                continue
            if lower == b"connection":
                tokens += tokens_of(value)
            elif lower == b"upgrade":
                wanted = value.lower()
            elif lower == b"transfer-encoding":
                if chunked or value != b"chunked":
                    return None
                chunked = True
            elif length is not None or not _is_length(value):
                return None
            else:
                length = int(value)
        headers.append((lower, value))
    if hosts != 1:
        return None
    upgrade = wanted if b"upgrade" in tokens else None
    return RequestHead(headers, None if chunked else length or 0, b"close" in tokens, upgrade)


def answered(method: str, status: Any, headers: list[Header], close: bool) -> Answered:
    """What a client has of this response; or the error of the server, if it can't be sent.
    `close`: the client has said that it is its last request."""
    if status not in KNOWN_STATUS:
        raise KeyError(status)
    if not isinstance(status, int):
        raise h11.LocalProtocolError("status code must be integer")
    try:
        return _answered(method, int(status), tuple(headers), close)
    except TypeError:  # not all of them are tuples of bytes
        return _answered.__wrapped__(method, int(status), tuple(headers), close)


@lru_cache(HEADS_KEPT)
def _answered(method: str, status: int, headers: tuple[Header, ...], close: bool) -> Answered:
    read = None
    if status >= 200 and is_plain(headers):
        read = _read_response(method, status, headers, close)
    if read is None:
        event = h11.Response(status_code=status, headers=list(headers))
        read = _read_response(method, status, event.headers.raw_items(), close)
        assert read is not None, "h11 has put it right"
    return read


def _read_response(
    method: str, status: int, headers: Sequence[Header], close: bool
) -> Answered | None:
    """None if h11 would refuse or rewrite it."""
    length, chunked, closing = None, False, close
    for name, value in headers:
        lower = name.lower()
        if lower not in FRAMING:
            continue
        if lower == b"content-length":
            if length is not None or not _is_length(value):
                return None
            length = int(value)
        elif lower == b"transfer-encoding":
            if chunked or value != b"chunked":
                return None
            chunked = True
        elif lower == b"connection" and b"close" in tokens_of(value):
            closing = True
    is_tunnel = method == "CONNECT" and status < 300
    has_body = status not in NO_BODY and not is_tunnel
    sent = list(headers)
    if has_body and (chunked or length is None):
        sent = [*_without(sent, b"content-length", b"transfer-encoding"), CHUNKED]
        length = None
    if close:
        sent = _with_close(sent)
    if not has_body or method == "HEAD":
        length = 0
    return Answered(status, sent, length, closing or is_tunnel, is_tunnel)


def _with_close(headers: list[Header]) -> list[Header]:
    """A server repeats that the connection will be closed."""
    tokens = {b"close"}
    for name, value in headers:
        if name.lower() == b"connection":
            tokens.update(tokens_of(value))
    tokens.discard(b"keep-alive")
    return [*_without(headers, b"connection"), *((b"Connection", t) for t in sorted(tokens))]


def _without(headers: list[Header], *names: bytes) -> list[Header]:
    return [header for header in headers if header[0].lower() not in names]


def _is_length(value: bytes) -> bool:
    return value.isdigit() and len(value) <= DIGITS_MAX


def tokens_of(value: bytes) -> list[bytes]:
    """The words of a header that is a list of them."""
    return [word for part in value.lower().split(b",") if (word := part.strip())]


def bytes_of(body: Any, length: int | None) -> bytes:
    """A part of a body, of any type of bytes, as it goes over the wire."""
    if type(body) is bytes:
        return body
    if length is None and not body:
        return b""  # in chunks, an empty one is none
    len(body)  # which h11 asks for first
    return b"".join((body,))
