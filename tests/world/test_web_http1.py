"""Heads of requests and responses: the quick way agrees with h11, which is asked for the rest."""

from __future__ import annotations

import re
from typing import Any

import h11
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.services.web import http1

PIECES = st.sampled_from(
    [b"a", b"B", b" ", b"\t", b"\r", b"\n", b"\0", b":", b",", b"\x07", b"\xe4"]
)
TEXTS = st.lists(PIECES, max_size=4).map(b"".join)
NAMES = st.sampled_from([b"content-length", b"Transfer-Encoding", b"connection", b"upgrade", b"x"])
VALUES = st.sampled_from([b"4", b"4, 4", b"-1", b"5", b"chunked", b"CHUNKED", b"Close, x", b"x"])
HEADERS = st.lists(st.tuples(TEXTS, TEXTS) | st.tuples(NAMES, VALUES), max_size=4)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "CONNECT"])


def by_h11(
    method: str, status: int, headers: list[http1.Header], close: bool
) -> tuple[Any, bool, bytes]:
    """What h11 makes of a response, on both sides of a connection: its headers, whether the
    connection is kept, and how its body is framed."""
    server, client = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)
    asked = [("host", "web"), ("connection", "close" if close else "keep-alive")]
    sent = client.send(h11.Request(method=method, target="/", headers=asked))
    server.receive_data(sent + client.send(h11.EndOfMessage()))
    assert isinstance(server.next_event(), h11.Request)
    assert isinstance(server.next_event(), h11.EndOfMessage)
    client.receive_data(server.send(h11.Response(status_code=status, headers=headers)))
    response = client.next_event()
    assert isinstance(response, h11.Response)
    kept = server._cstate.keep_alive and server.our_state is h11.SEND_BODY
    return response.headers.raw_items(), kept, repr(type(server._writer)).encode()


@settings(max_examples=500, deadline=None, derandomize=True)
@given(METHODS, st.sampled_from([200, 204, 304, 404]), HEADERS, st.booleans())
def test_responses_are_what_h11_makes_of_them(
    method: str, status: int, headers: list[http1.Header], close: bool
) -> None:
    """The same headers in the same order, the same connections kept; and what h11 refuses is
    refused with its words."""
    try:
        raw, kept, framing = by_h11(method, status, headers, close)
    except h11.LocalProtocolError as error:
        with pytest.raises(h11.LocalProtocolError, match=re.escape(str(error))):
            http1.answered(method, status, headers, close)
        return
    head = http1.answered(method, status, headers, close)
    assert head.headers == raw
    assert head.close is not kept
    if not head.is_tunnel:
        assert (head.length is None) == (b"Chunked" in framing)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(METHODS | st.text(max_size=2).filter(str.isascii), HEADERS, st.integers(0, 2))
def test_requests_are_what_h11_makes_of_them(
    method: str, headers: list[http1.Header], hosts: int
) -> None:
    """The same headers arrive in the same order; and what h11 refuses is refused with its words."""
    headers = [*headers, *[(b"Host", b"web")] * hosts]
    try:
        sent = h11.Connection(h11.CLIENT).send(
            h11.Request(method=method, target="/", headers=headers)
        )
    except h11.LocalProtocolError as error:
        with pytest.raises(httpx.LocalProtocolError, match=re.escape(str(error))):
            http1.asked(method, b"/", headers)
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(sent)
    arrived = server.next_event()
    assert isinstance(arrived, h11.Request)
    head = http1.asked(method, b"/", headers)
    assert head.headers == list(arrived.headers)
    assert head.close is not server._cstate.keep_alive
