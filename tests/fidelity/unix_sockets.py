"""Programs about unix sockets: their files, abstract names, datagrams, packets and pairs."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import stat
from collections.abc import Callable
from typing import Any

from tests.fidelity.streams import name_of, unix_path


def said(*attempts: Callable[[], Any]) -> list[Any]:
    """What each of them gave, or the error that it raised."""
    found: list[Any] = []
    for attempt in attempts:
        try:
            found.append(attempt())
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            found.append(name_of(error))
    return found


def a_socket(family: int = socket.AF_INET, type: int = socket.SOCK_STREAM) -> socket.socket:
    """A socket that does not block."""
    sock = socket.socket(family, type)
    sock.setblocking(False)
    return sock


def close(*socks: Any) -> None:
    """Close them all."""
    for sock in socks:
        sock.close()


async def files_of_unix_sockets() -> Any:
    """A bound path is a file of type socket, stays after close, and can be removed and renamed."""
    path, moved = unix_path("file"), unix_path("moved")
    seen: list[Any] = [os.path.exists(path), os.access(path, os.F_OK)]
    one, two, client = (a_socket(socket.AF_UNIX) for _ in range(3))
    one.bind(path)
    info = os.stat(path)
    seen += [stat.S_ISSOCK(info.st_mode), info.st_size, os.lstat(path).st_ino == info.st_ino]
    seen += [pathlib.Path(path).is_socket(), pathlib.Path(path).exists(), os.path.isfile(path)]
    os.chmod(path, 0o600)
    seen.append(oct(os.stat(path).st_mode))
    seen += said(lambda: two.bind(path), lambda: one.bind(moved), lambda: client.connect(path))
    one.listen()
    os.rename(path, moved)
    seen += said(lambda: client.connect(path), lambda: client.connect(moved))
    seen += said(client.getpeername, lambda: one.accept()[0].close())
    one.close()
    again = a_socket(socket.AF_UNIX)
    seen += said(lambda: again.connect(moved), lambda: again.bind(moved), lambda: os.remove(path))
    pathlib.Path(moved).unlink()
    seen += said(lambda: again.connect(moved), lambda: again.bind(moved), lambda: os.stat(path))
    seen.append(os.path.exists(moved))
    os.unlink(moved)
    pathlib.Path(moved).unlink(missing_ok=True)
    close(two, client, again)
    return [str(each).replace(moved, "MOVED") for each in seen]


async def unlinked_while_open() -> Any:
    """Who unlinks and binds anew takes the name; the old listener cannot be reached any more."""
    path = unix_path("taken")
    one, two, client = (a_socket(socket.AF_UNIX) for _ in range(3))
    one.bind(path)
    one.listen()
    os.unlink(path)
    two.bind(path)
    two.listen()
    client.connect(path)
    seen = said(lambda: one.accept(), lambda: two.accept()[0].close())
    close(one, two, client)
    return seen


async def servers_and_stale_files() -> Any:
    """asyncio removes a stale file before it binds, and from 3.13 on removes its own at the end."""
    path = unix_path("server")
    stale = a_socket(socket.AF_UNIX)
    stale.bind(path)
    stale.close()
    server = await asyncio.start_unix_server(lambda r, w: w.close(), path)
    reader, writer = await asyncio.open_unix_connection(path)
    seen: list[Any] = [await reader.read()]
    writer.close()
    server.close()
    await server.wait_closed()
    seen.append(os.path.exists(path))
    return seen


async def abstract_names() -> Any:
    """They are bytes, are free with their socket, and an empty one is given by the kernel."""
    name = "\0foretold-fidelity"
    one, two, three, client = (a_socket(socket.AF_UNIX) for _ in range(4))
    one.bind(name)
    seen = said(one.getsockname, lambda: two.bind(name.encode()), lambda: client.connect(name))
    one.listen()
    seen += said(lambda: client.connect(name), client.getpeername, client.getsockname)
    one.close()
    seen += said(lambda: two.bind(name), lambda: three.connect("\0foretold-nobody"))
    three.bind("")
    automatic = three.getsockname()
    seen += [automatic[:1], len(automatic)]
    close(two, three, client)
    return seen


async def unix_mistakes() -> Any:
    """Bad addresses, calls at the wrong time."""
    one, two = a_socket(socket.AF_UNIX), a_socket(socket.AF_UNIX)
    path: Any = unix_path("mistakes")
    number: Any = 3
    seen = said(
        lambda: one.bind("/tmp/" + "x" * 110),
        lambda: one.bind(number),
        lambda: one.connect((path, 1)),
        lambda: one.listen(),
        lambda: one.accept(),
        lambda: one.recv(1),
        lambda: one.send(b"x"),
        lambda: one.getpeername(),
        lambda: one.sendto(b"x", path),
        lambda: one.shutdown(socket.SHUT_RDWR),
        lambda: repr(one.getsockname()),
        lambda: one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
    )
    two.bind(path)
    two.listen(1)
    one.connect(path)
    third, fourth = a_socket(socket.AF_UNIX), a_socket(socket.AF_UNIX)
    seen += said(lambda: one.connect(path), lambda: third.connect(path))
    seen += said(lambda: fourth.connect(path), lambda: one.sendto(b"x", path))
    two.close()
    seen += said(lambda: one.recv(1), lambda: one.recv(1), lambda: one.send(b"x"))
    close(one, third, fourth)
    return seen


async def unix_is_at_once() -> Any:
    """What is sent can be received without waiting; ends, hang-ups and resets show at once too."""
    one, other = socket.socketpair()
    for sock in (one, other):
        sock.setblocking(False)
    seen = said(one.getsockname, one.getpeername, lambda: one.send(b"abc"), lambda: other.recv(2))
    seen += said(lambda: other.recv(9), lambda: other.recv(9))
    one.shutdown(socket.SHUT_WR)
    seen += said(lambda: other.recv(9), lambda: one.send(b"x"), lambda: other.send(b"back"))
    other.close()
    seen += said(lambda: one.recv(9), lambda: one.recv(9), lambda: one.send(b"x"))
    one.close()
    one, other = socket.socketpair()
    one.send(b"unread")
    other.close()
    seen += said(lambda: one.send(b"x"), lambda: one.recv(1), lambda: one.recv(1))
    one.close()
    one, other = socket.socketpair()
    other.shutdown(socket.SHUT_RD)
    seen += said(lambda: one.send(b"x"), lambda: other.recv(1))
    close(one, other)
    return seen


async def a_full_unix_stream() -> Any:
    """The buffer is finite, and one large send takes a part of its data."""
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    for sock in (one, other):
        sock.setblocking(False)
    sent = 0
    while not (full := said(lambda: one.send(b"x" * 1_000)) == ["BlockingIOError EAGAIN"]):
        sent += 1_000
    seen = [full, 10_000 < sent < 1_000_000]
    data = b"y" * 700_000
    sending = asyncio.create_task(loop.sock_sendall(one, data))
    received = b""
    while len(received) < sent + len(data):
        received += await loop.sock_recv(other, 1 << 16)
    await sending
    seen += [received.endswith(data), 0 < one.send(b"z" * 1_000_000) < 1_000_000]
    close(one, other)
    return seen


async def pairs_of_all_types() -> Any:
    """Streams run together, packets and datagrams keep their bounds; how each of them ends."""
    seen: list[Any] = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        for sock in (one, other):
            sock.setblocking(False)
        one.send(b"one")
        one.send(b"two")
        seen += [one.type, one.family, one.proto]
        seen += said(lambda: other.recv(2), lambda: other.recv(9), lambda: other.recv(9))  # noqa: B023  # called at once
        seen += said(lambda: one.send(b"four") and other.recvmsg(2))  # noqa: B023  # called at once
        seen += said(lambda: other.recv(2, socket.MSG_PEEK), lambda: other.recv(9))  # noqa: B023  # called at once
        seen += said(lambda: one.send(b"") or other.recvfrom(9))  # noqa: B023  # called at once
        seen += said(lambda: one.send(b"x" * 500_000) == 500_000)  # noqa: B023  # called at once
        one.close()
        while kind == socket.SOCK_STREAM and other.recv(1 << 20):
            pass
        seen += said(lambda: other.recv(9), lambda: other.send(b"1"), lambda: other.send(b"1"))  # noqa: B023  # called at once
        other.close()
    seen += said(lambda: socket.socketpair(socket.AF_INET))
    return [repr(each) for each in seen]


async def unix_datagrams() -> Any:
    """By path and by connection; absence, staleness, wrong kinds, a receiver that does not read."""
    here, there = unix_path("here"), unix_path("there")
    kind = socket.SOCK_DGRAM
    one, two, third = (a_socket(socket.AF_UNIX, kind) for _ in range(3))
    seen = said(lambda: one.send(b"x"), lambda: one.sendto(b"x", there), lambda: two.listen())
    two.bind(there)
    seen += said(lambda: one.sendto(b"x", there), lambda: two.recvfrom(9), lambda: two.recvfrom(9))
    one.bind(here)
    one.connect(there)
    seen += said(lambda: one.send(b"abc"), lambda: two.recvfrom(2)[0], lambda: two.recv(2))
    seen += said(lambda: one.getpeername() == there, lambda: two.sendto(b"back", here))
    two.connect(here)
    seen += said(lambda: one.recvfrom(9)[1] == there, lambda: third.sendto(b"x", there))
    sent = 0
    while said(lambda: one.send(b"x"))[0] == 1:
        sent += 1
    seen += [5 < sent < 600, two.recv(9), one.send(b"y")]
    two.close()
    seen += said(lambda: one.send(b"x"), lambda: one.send(b"x"), lambda: one.sendto(b"x", there))
    stream = a_socket(socket.AF_UNIX)
    seen += said(lambda: stream.connect(here), lambda: one.accept(), lambda: third.recv(1))
    close(one, third, stream)
    return seen


async def unix_datagram_endpoints() -> Any:
    """asyncio's datagram endpoints on unix sockets."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Any] = asyncio.Queue()

    class Inbox(asyncio.DatagramProtocol):
        """Keeps what it hears."""

        def datagram_received(self, data: bytes, addr: Any) -> None:
            heard.put_nowait((data, addr))

    server, client = unix_path("inbox"), unix_path("outbox")
    data = source = None
    for _ in range(2):  # the second time there is a stale file
        one, _ = await loop.create_datagram_endpoint(
            Inbox,
            local_addr=server,
            family=socket.AF_UNIX,
        )
        two, _ = await loop.create_datagram_endpoint(
            Inbox,
            local_addr=client,
            remote_addr=server,
            family=socket.AF_UNIX,
        )
        two.sendto(b"hello")
        data, source = await heard.get()
        one.close()
        two.close()
        await asyncio.sleep(0)
    return data, source == client


async def packets_by_name() -> Any:
    """SOCK_SEQPACKET listens and accepts, and does not mix with streams."""
    path, kind = unix_path("packets"), socket.SOCK_SEQPACKET
    listener, client, stream = (
        a_socket(socket.AF_UNIX, each) for each in (kind, kind, socket.SOCK_STREAM)
    )
    listener.bind(path)
    listener.listen()
    seen = said(lambda: stream.connect(path), lambda: client.connect(path))
    accepted, _ = listener.accept()
    client.send(b"one")
    client.send(b"two")
    seen += said(lambda: accepted.recv(9), lambda: accepted.recv(9))
    client.close()
    seen += said(lambda: accepted.recv(9), lambda: accepted.send(b"x"))
    close(listener, accepted, stream)
    return seen
