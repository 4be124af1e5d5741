"""Programs that wait with `select`, `poll`, `epoll` and `selectors`, and that use pipes."""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import socket
import stat
import time
from typing import Any

from tests.fidelity.streams import raw_pair
from tests.fidelity.unix_sockets import a_socket, close, said

EVERYTHING = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLPRI


def _masks(sock: Any) -> Any:
    """All that epoll, poll and select say about it now."""
    with select.epoll() as watcher:
        watcher.register(sock, EVERYTHING)
        found = [mask for _, mask in watcher.poll(0)]
    poller = select.poll()
    poller.register(sock)
    chosen = select.select([sock], [sock], [sock], 0)
    return found, [mask for _, mask in poller.poll(0)], [len(each) for each in chosen]


async def _pairs() -> Any:
    """A connected pair of each kind, again and again."""
    async with raw_pair() as (one, other):
        yield one, other
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        yield one, other
        close(one, other)


async def readiness_while_open() -> Any:
    """Idle, with data, and after each kind of shutdown on either side."""
    seen: list[Any] = []
    for step in range(6):
        async for one, other in _pairs():
            if step == 1:
                other.send(b"x")
            elif step == 2 and one.type != socket.SOCK_DGRAM:
                other.shutdown(socket.SHUT_WR)
            elif step == 3:
                one.shutdown(socket.SHUT_WR)
            elif step == 4:
                one.shutdown(socket.SHUT_RD)
            elif step == 5 and one.type != socket.SOCK_DGRAM:
                one.shutdown(socket.SHUT_RDWR)
                await asyncio.sleep(0.01)
                other.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0.01)
            seen.append((_masks(one), _masks(other) if step != 4 else None))
    return seen


async def readiness_at_the_end() -> Any:
    """The peer has closed, with and without unread data; the error taken."""
    seen: list[Any] = []
    for unread in (False, True):
        async for one, other in _pairs():
            if unread:
                one.send(b"unread")
                await asyncio.sleep(0.01)
            other.close()
            await asyncio.sleep(0.01)
            seen.append(_masks(one))
            seen.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            seen.append(_masks(one))
    return seen


async def readiness_before_connecting() -> Any:
    """Fresh, bound, listening and refused sockets."""
    seen: list[Any] = []
    for family, kind in (
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_UNIX, socket.SOCK_STREAM),
        (socket.AF_UNIX, socket.SOCK_DGRAM),
    ):
        sock = a_socket(family, kind)
        seen.append(_masks(sock))
        sock.close()
    listener, client = a_socket(), a_socket()
    listener.bind(("127.0.0.1", 0))
    seen.append(_masks(listener))
    client.connect_ex(listener.getsockname())
    await asyncio.sleep(0.01)
    seen += [_masks(client), client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), _masks(client)]
    listener.listen()
    seen.append(_masks(listener))
    another = a_socket()
    another.connect_ex(listener.getsockname())
    await asyncio.sleep(0.01)
    seen += [_masks(listener), _masks(another)]
    close(listener, client, another)
    return seen


async def waiting_in_select() -> Any:
    """With a limit they wait until something arrives, or for so long; without one, at once."""
    one, other = socket.socketpair()
    seen: list[Any] = []
    for wait in (
        lambda: select.select([one], [], [], 0.05),
        lambda: _poll_for(one, 50),
        lambda: _epoll_for(one, 0.05),
        lambda: _selector_for(one, 0.05),
    ):
        before = time.monotonic()
        found = wait()
        seen += [_count(found), 0.045 < time.monotonic() - before < 2]
        other.send(b"x")
        before = time.monotonic()
        found = wait()
        seen += [_count(found), time.monotonic() - before < 0.045, one.recv(9)]
    close(one, other)
    return seen


def _count(found: Any) -> int:
    return sum(map(len, found)) if isinstance(found, tuple) else len(found)


def _poll_for(sock: socket.socket, limit_ms: int) -> Any:
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return poller.poll(limit_ms)


def _epoll_for(sock: socket.socket, limit_s: float) -> Any:
    with select.epoll() as watcher:
        watcher.register(sock, select.EPOLLIN)
        return watcher.poll(limit_s)


def _selector_for(sock: socket.socket, limit_s: float) -> Any:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return selector.select(limit_s)


async def waiting_for_the_network() -> Any:
    """select waits for a connection, for its data, and for its end, in one piece of plain code."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = a_socket()
    client.connect_ex(listener.getsockname())
    seen: list[Any] = [_count(select.select([listener], [], [], 5))]
    accepted, _ = listener.accept()
    seen.append(_count(select.select([], [client], [], 5)))
    seen.append(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    client.send(b"hello")
    seen += [_count(select.select([accepted], [], [], 5)), accepted.recv(9)]
    client.close()
    seen += [_count(select.select([accepted], [], [], 5)), accepted.recv(9)]
    close(listener, accepted)
    return seen


async def epoll_rules() -> Any:
    """register, modify, unregister; duplicates, closed files, edges, one shot, its own end."""
    one, other = socket.socketpair()
    third = socket.socket()
    watcher = select.epoll()
    seen = said(
        lambda: watcher.register(one),
        lambda: watcher.register(one),
        lambda: watcher.modify(other, select.EPOLLIN),
        lambda: watcher.unregister(other),
        lambda: watcher.register(-1),
        lambda: watcher.register("x"),  # type: ignore[arg-type]  # the mistake
        lambda: watcher.poll(0, 0),
        lambda: len(watcher.poll(0)),
    )
    again = one.dup()
    one.close()
    seen += said(lambda: len(watcher.poll(0)))
    again.close()
    seen += said(lambda: watcher.poll(0), lambda: watcher.unregister(one))
    for flag in (select.EPOLLET, select.EPOLLONESHOT):
        watcher.register(third, select.EPOLLOUT | flag)
        seen += [len(watcher.poll(0)), len(watcher.poll(0))]
        watcher.modify(third, select.EPOLLOUT | flag)
        seen += [len(watcher.poll(0)), len(watcher.poll(0))]
        watcher.unregister(third)
    number = third.fileno()
    close(third, other)
    seen += said(lambda: watcher.register(number), lambda: watcher.closed)
    watcher.close()
    watcher.close()
    seen += said(lambda: watcher.poll(0), watcher.fileno, lambda: watcher.closed)
    return seen


async def poll_and_select_rules() -> Any:
    """poll forgets nothing; select wants sequences, sensible limits and open files."""
    sock = socket.socket()
    number: Any = sock.fileno()
    poller = select.poll()
    seen = said(
        lambda: poller.modify(sock, select.POLLIN),
        lambda: poller.register(-1),
        lambda: poller.register(sock),
        lambda: poller.register(sock, select.POLLOUT),
        lambda: [mask for _, mask in poller.poll(0)],
        lambda: poller.poll("x"),  # type: ignore[arg-type]  # the mistake
    )
    sock.close()
    seen += said(lambda: [mask for _, mask in poller.poll(-1)], lambda: poller.register(sock))
    poller.unregister(number)
    seen += [name.split()[0] for name in said(lambda: poller.unregister(number))]
    seen += said(
        lambda: select.select([sock], [], [], 0),
        lambda: select.select([], [], [], -1),
        lambda: select.select([], [], [], "x"),  # type: ignore[arg-type]  # the mistake
        lambda: select.select(1, [], [], 0),  # type: ignore[arg-type]  # the mistake
        lambda: select.select([object()], [], [], 0),
        lambda: select.select([], [], [], 0),
    )
    return seen


async def selectors_of_all_kinds() -> Any:
    """The standard library's selectors: keys, events, changes, closed files."""
    seen: list[Any] = []
    for kind in (
        selectors.DefaultSelector,
        selectors.EpollSelector,
        selectors.PollSelector,
        selectors.SelectSelector,
    ):
        one, other = socket.socketpair()
        selector: Any = kind()
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        seen.append(selector.register(one, selectors.EVENT_READ, "data").data)
        seen += [name.split()[0] for name in said(lambda: selector.register(one, both))]  # noqa: B023  # called at once
        seen += said(lambda: selector.register(other, 8))  # noqa: B023  # called at once
        seen += [len(selector.select(0)), len(selector.get_map())]
        selector.modify(one, both)
        other.send(b"x")
        seen.append([mask for _, mask in selector.select(0)])
        selector.unregister(one)
        seen.append([mask for _, mask in selector.select(0.001)])
        close(selector, one, other)
    return seen


async def a_socket_closed_while_watched() -> Any:
    """A reader whose socket is closed under it is never called, also when its number is reused."""
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    called: list[int] = []
    loop.add_reader(one, called.append, 1)
    number = one.fileno()
    one.close()
    third, fourth = socket.socketpair()
    seen: list[Any] = [third.fileno() == number]
    fourth.send(b"x")
    await asyncio.sleep(0.02)
    seen += [called, loop.remove_reader(number)]
    close(other, third, fourth)
    return seen


# --- pipes -------------------------------------------------------------------------------------


async def pipes() -> Any:
    """Reading, writing, ends, a full pipe, the wrong end, what kind of file it is."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    seen = said(lambda: os.read(reader, 1), lambda: os.write(writer, b"abc"))
    seen += said(lambda: os.read(reader, 2), lambda: os.read(reader, 9), lambda: os.read(writer, 1))
    seen += said(lambda: os.write(reader, b"x"), lambda: os.lseek(reader, 0, 0))
    seen += [stat.S_ISFIFO(os.fstat(reader).st_mode), os.get_blocking(reader), os.isatty(reader)]
    seen += said(lambda: os.write(writer, b"x" * 100_000), lambda: os.write(writer, b"x"))
    seen += [_masks(reader), _masks(writer)]
    os.read(reader, 4_096)
    seen += [_masks(writer), *said(lambda: os.write(writer, b"y" * 5_000))]
    copy = os.dup(writer)
    os.close(writer)
    os.write(copy, b"") or os.read(reader, 60_000)
    os.close(copy)
    seen += [_masks(reader), len(os.read(reader, 60_000)), os.read(reader, 1), _masks(reader)]
    os.close(reader)
    seen += said(lambda: os.close(reader))
    reader, writer = os.pipe()
    os.close(reader)
    seen += [_masks(writer), *said(lambda: os.write(writer, b"x"))]
    os.close(writer)
    return seen


async def blocking_pipes_and_files() -> Any:
    """A blocking read returns what is there; `open` makes a file of an end."""
    reader, writer = os.pipe()
    os.write(writer, b"first")
    seen: list[Any] = [os.read(reader, 100)]
    with open(writer, "w") as out, open(reader) as into:
        out.write("one\ntwo\n")
        out.flush()
        seen += [into.readline(), into.fileno() == reader]
        out.close()
        seen.append(into.read())
    return [*seen, *said(lambda: os.close(reader), lambda: os.close(writer))]


async def pipe_transports() -> Any:
    """connect_read_pipe and connect_write_pipe, with back pressure, to the end."""
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    stream = asyncio.StreamReader()
    into = open(reader, "rb", 0)  # noqa: SIM115  # the transport closes it
    out = open(writer, "wb", 0)  # noqa: SIM115  # the transport closes it
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), into)
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, out)
    transport.write(b"x" * 200_000)
    seen: list[Any] = [transport.get_write_buffer_size() > 0]
    transport.write_eof()
    seen += [len(await stream.read()), into.closed or True]
    await asyncio.sleep(0.01)
    return [*seen, out.closed]
