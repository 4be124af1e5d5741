"""Programs on `ssl.SSLSocket`, both ends without blocking, in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.compat.tls import CLIENT, NAMES, SERVER
from tests.fidelity.streams import name_of, raw_pair
from tests.fidelity.unix_sockets import said


async def _when_ready(attempt: Callable[[], Any]) -> Any:
    """Try until TLS has all it wants."""
    while True:
        try:
            return attempt()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def _wrapped(**how: Any) -> AsyncIterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """Client and server, not yet introduced."""
    async with raw_pair() as (one, other):
        client = CLIENT.wrap_socket(
            one, server_hostname=NAMES[0], do_handshake_on_connect=False, **how
        )
        server = SERVER.wrap_socket(other, server_side=True, do_handshake_on_connect=False, **how)
        with client, server:
            yield client, server


@contextlib.asynccontextmanager
async def _introduced(**how: Any) -> AsyncIterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    async with _wrapped(**how) as (client, server):
        await asyncio.gather(_when_ready(client.do_handshake), _when_ready(server.do_handshake))
        yield client, server


async def a_handshake() -> Any:
    """What each side knows of the other afterwards, and that the plain socket is used up."""
    async with _wrapped() as (client, server):
        seen: list[Any] = [isinstance(client, ssl.SSLSocket), isinstance(client, socket.socket)]
        seen += said(client.do_handshake, lambda: client.version(), lambda: client.cipher())
        await asyncio.gather(_when_ready(client.do_handshake), _when_ready(server.do_handshake))
        cipher: Any = client.cipher()
        seen += [client.version(), cipher == server.cipher(), server.getpeercert()]
        certificate: Any = client.getpeercert()
        seen += [sorted(certificate), client.server_hostname == NAMES[0], server.server_side]
        seen += [client.selected_alpn_protocol(), client.compression(), client.session_reused]
        seen += [client.context is CLIENT, client.pending(), bool(client.getpeercert(True))]
        return seen


async def records() -> Any:
    """Small and large data both ways, and calls that TLS does not have."""
    async with _introduced() as (client, server):
        seen: list[Any] = [client.send(b"hello"), await _when_ready(lambda: server.recv(99))]
        seen += said(lambda: server.recv(1))
        buffer = bytearray(3)
        server.write(b"answer")
        seen += [await _when_ready(lambda: client.recv_into(buffer)), bytes(buffer)]
        seen += [client.pending(), client.read(9)]
        data = bytes(range(256)) * 4_000
        got = b""

        async def receive() -> None:
            nonlocal got
            while len(got) < len(data):
                got += await _when_ready(lambda: server.recv(1 << 16))

        receiving = asyncio.create_task(receive())
        sent = 0
        while sent < len(data):
            part = data[sent : sent + 100_000]
            sent += await _when_ready(lambda: client.send(part))  # noqa: B023  # awaited at once
        await receiving
        seen += [got == data, sent]
        seen += said(lambda: client.recvfrom(1), lambda: client.sendto(b"x", ("a", 1)))
        seen += [name_of(error) for error in [_raised(client.dup)]]
        return seen


def _raised(attempt: Callable[[], Any]) -> BaseException:
    try:
        attempt()
    except NotImplementedError as error:
        return error
    return AssertionError("it should have been refused")


async def the_end_of_tls() -> Any:
    """unwrap on both sides leaves a plain connection; a close without it is a ragged end."""
    seen: list[Any] = []
    async with _introduced() as (client, server):
        first, second = await asyncio.gather(_when_ready(client.unwrap), _when_ready(server.unwrap))
        first.send(b"plain")
        await asyncio.sleep(0.01)
        seen += [second.recv(9), client.version()]
    for ragged in (True, False):
        async with _introduced(suppress_ragged_eofs=ragged) as (client, server):
            await asyncio.sleep(0.01)  # the session tickets have arrived, and are not read
            client.close()
            try:
                seen.append(await _when_ready(lambda: server.recv(9)))  # awaited at once
            except OSError as error:  # some Pythons take a reset for the end
                seen.append(type(error).__name__)
            seen += said(lambda: client.recv(1), lambda: client.send(b"x"))  # called at once
    return seen


async def tls_mistakes() -> Any:
    """A name that the certificate does not have, no TLS on the other side, the wrong kind."""
    seen: list[Any] = []
    async with raw_pair() as (one, other):
        client = CLIENT.wrap_socket(
            one, server_hostname="wrong.example", do_handshake_on_connect=False
        )
        server = SERVER.wrap_socket(other, server_side=True, do_handshake_on_connect=False)
        with client, server:
            results = await asyncio.gather(
                _when_ready(client.do_handshake),
                _when_ready(server.do_handshake),
                return_exceptions=True,
            )
            seen.append(type(results[0]).__name__)
    async with raw_pair() as (one, other):
        client = CLIENT.wrap_socket(one, server_hostname=NAMES[0], do_handshake_on_connect=False)
        with client:
            await asyncio.gather(_when_ready(lambda: other.send(b"HTTP/1.1 400 Bad\r\n\r\n")))
            try:
                await _when_ready(client.do_handshake)
            except ssl.SSLError as error:
                seen.append(error.reason)
    async with raw_pair() as (one, other):
        seen += said(lambda: CLIENT.wrap_socket(one, server_hostname=NAMES[0]))
        with contextlib.suppress(OSError):
            one.close()
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    try:
        CLIENT.wrap_socket(datagrams, server_hostname=NAMES[0])
    except NotImplementedError as error:
        seen.append(str(error))
    datagrams.close()
    return seen
