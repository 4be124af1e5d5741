"""Programs that talk over TCP and unix sockets, and report what they saw.

Each is plain asyncio or plain sockets and runs on both arms. What it returns holds nothing that two
real runs could differ in: no port numbers, no exact byte counts of buffers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
UNIX_PREFIX = "foretold-fidelity-"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def name_of(error: BaseException) -> str:
    """An error as both arms must raise it: its class, and the name of its errno."""
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return f"{type(error).__name__} {errno.errorcode.get(number, number)}"
    return type(error).__name__


@contextlib.asynccontextmanager
async def serving(handler: Handler, host: Any = "127.0.0.1") -> AsyncIterator[int]:
    """A server on a free port."""
    server = await asyncio.start_server(handler, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Streams, Streams]]:
    """Two ends of one connection, both as streams: (client, server)."""
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    async with serving(lambda r, w: accepted.put_nowait((r, w))) as port:
        client = await asyncio.open_connection("127.0.0.1", port)
        server = await accepted.get()
        try:
            yield client, server
        finally:
            client[1].close()
            server[1].close()
            for _, writer in (client, server):
                with contextlib.suppress(OSError):
                    await writer.wait_closed()


async def echo() -> Any:
    """Lines come back, then the end of the stream."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()

    async with serving(handle) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one\ntwo\n")
        answers = [await reader.readline(), await reader.readline()]
        writer.write_eof()
        answers.append(await reader.read())
        writer.close()
        await writer.wait_closed()
        return answers


async def a_peer_that_never_reads() -> Any:
    """drain() blocks for good, and so many bytes were taken: less than 32 MB, more than 64 K."""
    async with connected() as ((_, writer), (_, server_writer)):
        transport: Any = server_writer.transport
        transport.pause_reading()
        taken = 0

        async def pump() -> None:
            nonlocal taken
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                taken += 65_536

        pumping = asyncio.create_task(pump())
        done, _ = await asyncio.wait([pumping], timeout=0.5)
        first = taken
        await asyncio.sleep(0.3)
        result = (bool(done), 65_536 < taken < 32 << 20, taken == first)
        pumping.cancel()
        writer.transport.abort()
        return result


async def a_megabyte_in_one_write() -> Any:
    """It arrives in several reads, all of it, in order."""
    async with connected() as ((_, writer), (reader, _)):
        data = bytes(range(256)) * 4096
        writer.write(data)
        writer.write_eof()
        parts = []
        while part := await reader.read(1 << 22):
            parts.append(part)
        return len(parts) > 1, b"".join(parts) == data


async def writes_of_one_step() -> Any:
    """On the loopback what is sent is there: the peer reads all of one step at once, also its end,
    however many writes that were."""
    async with connected() as ((reader, writer), (server_reader, server_writer)):
        for part in (b"head ", b"body ", b"end"):
            writer.write(part)
        seen: list[Any] = [await server_reader.read(100)]
        server_writer.write(b"x" * 10_000)
        server_writer.writelines([b"y" * 10_000, b"z" * 10_000])
        seen.append(len(await reader.read(1 << 20)))
        server_writer.write(b"last")
        server_writer.close()
        seen.append((await reader.read(1), reader.at_eof()))
        await asyncio.sleep(0)
        seen.append(await reader.read())
    return seen


async def ready_at_once() -> Any:
    """Neither a connection nor its bytes take time on the loopback: the next look finds them."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.socket()
    client.setblocking(False)
    seen: list[Any] = [client.connect_ex(listener.getsockname())]
    seen.append([len(each) for each in select.select([listener], [client], [], 0)])
    server, _ = listener.accept()
    client.send(b"a")
    client.send(b"b")
    seen += [len(select.select([server], [], [], 0)[0]), server.recv(10)]
    client.close()
    seen += [len(select.select([server], [], [], 0)[0]), server.recv(10)]
    server.close()
    listener.close()
    return seen


async def half_close() -> Any:
    """After write_eof the other direction goes on."""
    async with connected() as ((reader, writer), (server_reader, server_writer)):
        writer.write(b"question")
        writer.write_eof()
        question = await server_reader.read()
        server_writer.write(b"an answer, ")
        await server_writer.drain()
        server_writer.write(b"late")
        server_writer.close()
        again = None
        try:
            writer.write(b"more")
        except RuntimeError as error:
            again = str(error)
        return question, await reader.read(), again


async def refused() -> Any:
    """Nobody listens: the error's class, errno and text."""
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    seen: list[Any] = []
    try:
        await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        seen += [name_of(error), str(error).replace(str(port), "PORT")]
    raw = socket.socket()
    raw.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    except OSError as error:
        seen += [name_of(error), str(error).replace(str(port), "PORT")]
    raw.close()
    return seen


async def closed_with_unread_data() -> Any:
    """Linux resets a connection that is closed while data waits to be read."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(one, b"unread")
        await loop.sock_recv(other, 1)
        other.close()
        try:
            return await loop.sock_recv(one, 10)
        except OSError as error:
            return name_of(error), error.args[1]


async def closed_politely() -> Any:
    """A connection closed with nothing unread ends with FIN: b"", again and again."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(other, b"bye")
        other.close()
        return [await loop.sock_recv(one, 10) for _ in range(3)]


async def writes_after_the_peer_closed() -> Any:
    """The first goes through, is answered by a reset, and the next fail."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        other.close()
        seen: list[Any] = [await loop.sock_recv(one, 10), one.send(b"first")]
        await asyncio.sleep(0.05)
        for data in (b"second", b"third"):
            try:
                seen.append(one.send(data))
            except OSError as error:
                seen.append(name_of(error))
        seen.append(one.recv(10))
        return seen


async def reset_is_reported_once() -> Any:
    """A pending ECONNRESET is raised by the first receive; after it the stream is just over."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(one, b"unread")
        await asyncio.sleep(0.02)
        other.close()
        await asyncio.sleep(0.02)
        seen: list[Any] = []
        for attempt in (lambda: one.recv(10), lambda: one.recv(10), lambda: one.send(b"x")):
            try:
                seen.append(attempt())
            except OSError as error:
                seen.append(name_of(error))
        return seen


async def linger_zero_resets() -> Any:
    """SO_LINGER with 0 seconds: close sends RST although nothing was unread."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        other.close()
        try:
            return await loop.sock_recv(one, 10)
        except OSError as error:
            return name_of(error)


async def data_before_a_reset_is_lost_or_not() -> Any:
    """What had arrived before the FIN can be read after the peer has closed."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(other, b"last words")
        other.shutdown(socket.SHUT_WR)
        other.close()
        await asyncio.sleep(0.02)
        return await loop.sock_recv(one, 4), await loop.sock_recv(one, 100), one.recv(1)


async def shutdown_twice() -> Any:
    """The second shutdown is harmless while the peer is there; on no connection it is ENOTCONN."""
    async with raw_pair() as (one, other):
        one.shutdown(socket.SHUT_WR)
        one.shutdown(socket.SHUT_WR)
        seen: list[Any] = [await asyncio.get_running_loop().sock_recv(other, 1)]
        try:
            one.send(b"x")
        except OSError as error:
            seen.append(name_of(error))
    alone = socket.socket()
    try:
        alone.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        seen.append(name_of(error))
    alone.close()
    return seen


async def shutdown_read() -> Any:
    """After SHUT_RD a receive gives the end of the stream at once."""
    async with raw_pair() as (one, other):
        one.shutdown(socket.SHUT_RD)
        first = one.recv(10)
        one.send(b"still sends")
        return first, await asyncio.get_running_loop().sock_recv(other, 100)


async def after_close() -> Any:
    """Every call on a closed socket is EBADF, and its descriptor is -1."""
    sock = socket.socket()
    sock.close()
    sock.close()
    seen: list[Any] = [sock.fileno()]
    for attempt in (
        lambda: sock.recv(1),
        lambda: sock.send(b"x"),
        lambda: sock.getsockname(),
        lambda: sock.listen(),
        lambda: sock.connect(("127.0.0.1", 1)),
    ):
        try:
            attempt()
        except OSError as error:
            seen.append(name_of(error))
    return seen


async def not_connected() -> Any:
    """Sockets that were never connected: ENOTCONN, EPIPE, and so on."""
    sock = socket.socket()
    sock.setblocking(False)
    seen: list[Any] = [sock.getsockname()]
    for attempt in (
        lambda: sock.recv(1),
        lambda: sock.send(b"x"),
        lambda: sock.getpeername(),
        lambda: sock.accept(),
    ):
        try:
            attempt()
        except OSError as error:
            seen.append(name_of(error))
    sock.close()
    return seen


async def nothing_there_yet() -> Any:
    """Non-blocking calls that would wait: EAGAIN, EINPROGRESS, EALREADY or success."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    seen: list[Any] = []
    try:
        listener.accept()
    except OSError as error:
        seen.append(name_of(error))
    sock = socket.socket()
    sock.setblocking(False)
    seen.append(errno.errorcode[sock.connect_ex(listener.getsockname())])
    loop = asyncio.get_running_loop()
    accepted, address = await loop.sock_accept(listener)
    await asyncio.sleep(0.02)
    seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    seen.append(address == sock.getsockname() == accepted.getpeername())
    seen.append(sock.getpeername() == listener.getsockname() == accepted.getsockname())
    seen.append(errno.errorcode.get(sock.connect_ex(listener.getsockname()), "ok"))
    seen.append(errno.errorcode.get(sock.connect_ex(listener.getsockname()), "ok"))
    try:
        sock.recv(1)
    except OSError as error:
        seen.append(name_of(error))
    for each in (listener, sock, accepted):
        each.close()
    return seen


async def raw_calls() -> Any:
    """All sock_* calls of the loop for streams."""
    async with raw_pair() as (one, other):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(one, b"0123456789")
        seen: list[Any] = [await loop.sock_recv(other, 4)]
        buffer = bytearray(3)
        seen.append((await loop.sock_recv_into(other, buffer), bytes(buffer)))
        seen.append(other.recv(2, socket.MSG_PEEK))
        seen.append(other.recv(10))
        big = b"y" * 3_000_000
        sending = asyncio.create_task(loop.sock_sendall(one, big))
        total = 0
        while total < len(big):
            total += len(await loop.sock_recv(other, 1 << 20))
        await sending
        seen.append(total)
        seen.append(one.sendmsg([b"ab", bytearray(b"cd")]))
        await asyncio.sleep(0.02)
        seen.append(other.recvmsg(100)[0])
        one.send(b"0123456789")
        await asyncio.sleep(0.02)
        first, second = bytearray(4), bytearray(20)
        seen.append(other.recvmsg_into([first, second])[0])
        seen.append((bytes(first), bytes(second[:6])))
        return seen


@contextlib.asynccontextmanager
async def raw_pair() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Two connected non-blocking sockets."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    one = socket.socket()
    one.setblocking(False)
    await loop.sock_connect(one, listener.getsockname())
    other, _ = await loop.sock_accept(listener)
    try:
        yield one, other
    finally:
        for each in (listener, one, other):
            each.close()


async def names_of_both_ends() -> Any:
    """Each end knows the other by the address that the other has."""
    async with connected() as ((_, writer), (_, server_writer)):
        client = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        server = server_writer.get_extra_info("peername"), server_writer.get_extra_info("sockname")
        sock = writer.get_extra_info("socket")
        return client == server, client[0][0], sock.family, sock.type, sock.getsockname()[0]


async def server_closes() -> Any:
    """A closed server refuses; its connections live on; wait_closed returns when they are gone."""
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    server = await asyncio.start_server(lambda r, w: accepted.put_nowait((r, w)), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _, server_writer = await accepted.get()
    server.close()
    seen: list[Any] = [server.is_serving(), server.sockets == ()]
    try:
        await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        seen.append(name_of(error))
    server_writer.write(b"still here")
    seen.append(await reader.readexactly(10))
    server_writer.close()
    seen.append(await reader.read())
    writer.close()
    await server.wait_closed()
    return seen


async def never_accepted() -> Any:
    """A listener is closed while a connection waits in its queue: the client is reset."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, listener.getsockname())
    await asyncio.sleep(0.02)
    listener.close()
    try:
        seen: Any = await loop.sock_recv(sock, 1)
    except OSError as error:
        seen = name_of(error)
    sock.close()
    return seen


async def start_and_abort() -> Any:
    """transport.abort() of an idle connection is a plain close for the peer."""
    async with connected() as ((_, writer), (reader, _)):
        writer.transport.abort()
        return await reader.read()


async def a_cancelled_connect() -> Any:
    """It leaves nothing behind: the server sees a connection that ends, or none at all."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read())
        writer.close()

    async with serving(handle) as port:
        attempt = asyncio.create_task(asyncio.open_connection("127.0.0.1", port))
        await asyncio.sleep(0)
        attempt.cancel()
        results = await asyncio.gather(attempt, return_exceptions=True)
        await asyncio.sleep(0.05)
        return [name_of(r) for r in results if isinstance(r, BaseException)], set(seen) <= {b""}


def unix_path(name: str) -> str:
    """A path that no other program uses. The real arm's are removed when it has ended."""
    return os.path.join(tempfile.gettempdir(), f"{UNIX_PREFIX}{name}")


async def unix_streams() -> Any:
    """Unix sockets: absence, an echo, and the names of both ends."""
    path = unix_path("echo")
    seen: list[Any] = []
    try:
        await asyncio.open_unix_connection(path)
    except OSError as error:
        seen.append((name_of(error), error.args[1]))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((writer.get_extra_info("peername"), writer.get_extra_info("sockname") == path))
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_unix_server(handle, path)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"hello\n")
    seen.append(await reader.read())
    seen.append((writer.get_extra_info("peername") == path, writer.get_extra_info("sockname")))
    writer.close()
    server.close()
    await server.wait_closed()
    return seen


async def unix_left_behind() -> Any:
    """A unix socket closed without unlink: its path refuses, and cannot be bound again."""
    path = unix_path("left")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    seen: list[Any] = []

    def attempt(action: Callable[[socket.socket], object]) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            action(sock)
            seen.append("ok")
        except OSError as error:
            seen.append(name_of(error))
        sock.close()

    attempt(lambda sock: sock.connect(path))
    listener.listen()
    attempt(lambda sock: sock.connect(path))
    listener.close()
    attempt(lambda sock: sock.connect(path))
    attempt(lambda sock: sock.bind(path))
    return seen


async def a_pair() -> Any:
    """socket.socketpair: both directions, half-close, EAGAIN."""
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    try:
        one.recv(1)
    except OSError as error:
        seen.append(name_of(error))
    await loop.sock_sendall(one, b"there")
    seen.append(await loop.sock_recv(other, 100))
    await loop.sock_sendall(other, b"back")
    other.close()
    seen += [await loop.sock_recv(one, 100), await loop.sock_recv(one, 100)]
    one.close()
    return seen
