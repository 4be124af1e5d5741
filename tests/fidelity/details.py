"""Programs about the small print of sockets: options, flags, duplicates, ports, wrong moments."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import socket
import warnings
from collections.abc import Callable
from typing import Any

from tests.fidelity.files_and_tls import CONTENT
from tests.fidelity.streams import name_of, raw_pair
from tests.fidelity.unix_sockets import a_socket, close, said

LOOPBACK = ("127.0.0.1", 0)
F_GETPIPE_SZ = 1_032
"""Linux's number; not every Python has a name for it."""
RESET = (1).to_bytes(4, "little") + bytes(4)
"""SO_LINGER with 0 seconds: `close` sends a reset."""
OPTIONS = {
    socket.SOL_SOCKET: (
        "SO_RCVBUF SO_SNDBUF SO_KEEPALIVE SO_REUSEADDR SO_REUSEPORT SO_ERROR SO_DOMAIN SO_PROTOCOL"
        " SO_TYPE SO_ACCEPTCONN SO_BROADCAST SO_OOBINLINE SO_RCVLOWAT SO_LINGER SO_PRIORITY"
    ),
    socket.IPPROTO_TCP: (
        "TCP_NODELAY TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2"
        " TCP_DEFER_ACCEPT TCP_USER_TIMEOUT TCP_QUICKACK"
    ),
    socket.IPPROTO_IP: "IP_TTL IP_TOS",
    socket.IPPROTO_IPV6: "IPV6_V6ONLY IPV6_UNICAST_HOPS",
}


def _options_of(sock: socket.socket, *left_out: str) -> Any:
    return {
        name: said(lambda: sock.getsockopt(level, getattr(socket, name)))[0]  # noqa: B023  # called at once
        for level, names in OPTIONS.items()
        for name in names.split()
        if name not in left_out
    }


async def options_of_new_sockets() -> Any:
    """Defaults of all kinds of sockets, and of a listener and its connections."""
    seen: list[Any] = []
    for family, kind in (
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET6, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_UNIX, socket.SOCK_STREAM),
    ):
        with socket.socket(family, kind) as sock:
            seen.append(_options_of(sock))
    listener = socket.create_server(LOOPBACK)
    seen.append(_options_of(listener))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client = a_socket()
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, listener.getsockname())
    accepted, _ = listener.accept()
    buffers = ("SO_RCVBUF", "SO_SNDBUF")
    seen += [_options_of(client, *buffers), _options_of(accepted, *buffers), accepted.timeout]
    close(listener, client, accepted)
    return seen


async def setting_options() -> Any:
    """What the kernel makes of values, and what it refuses."""
    sock = socket.socket()
    seen: list[Any] = []
    sol, tcp = socket.SOL_SOCKET, socket.IPPROTO_TCP
    for option, value in (
        (socket.SO_RCVBUF, 1_000),
        (socket.SO_SNDBUF, 1_000),
        (socket.SO_RCVBUF, 100_000),
        (socket.SO_KEEPALIVE, 5),
        (socket.SO_REUSEADDR, 7),
        (socket.SO_KEEPALIVE, b"\0\0\0\0"),
    ):
        sock.setsockopt(sol, option, value)
        seen.append(sock.getsockopt(sol, option))
    wrong: Any = "x"
    udp, unix = socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    seen += said(
        lambda: sock.setsockopt(tcp, socket.TCP_KEEPIDLE, 0),
        lambda: sock.setsockopt(tcp, 9_999, 1),
        lambda: sock.setsockopt(sol, 9_999, 1),
        lambda: sock.getsockopt(tcp, 9_999),
        lambda: sock.setsockopt(sol, socket.SO_ERROR, 1),
        lambda: sock.setsockopt(sol, socket.SO_TYPE, 1),
        lambda: sock.setsockopt(sol, socket.SO_LINGER, 1),
        lambda: sock.getsockopt(sol, socket.SO_LINGER, 8),
        lambda: sock.setsockopt(sol, socket.SO_LINGER, RESET),
        lambda: sock.getsockopt(sol, socket.SO_LINGER, 8),
        lambda: sock.getsockopt(sol, socket.SO_REUSEADDR, 4),
        lambda: sock.getsockopt(sol, socket.SO_REUSEADDR, -1),
        lambda: sock.setsockopt(sol, socket.SO_KEEPALIVE, wrong),
        lambda: sock.setsockopt(tcp, socket.TCP_USER_TIMEOUT, -1),
        lambda: sock.setsockopt(tcp, socket.TCP_USER_TIMEOUT, 5_000),
        lambda: sock.getsockopt(tcp, socket.TCP_USER_TIMEOUT),
        lambda: udp.setsockopt(tcp, socket.TCP_NODELAY, 1),
        lambda: udp.getsockopt(tcp, socket.TCP_NODELAY),
        lambda: unix.setsockopt(tcp, socket.TCP_NODELAY, 1),
    )
    close(sock, udp, unix)
    return seen


async def kinds_of_sockets() -> Any:
    """Families, types and protocols that exist or not."""
    return [
        str(each)
        for each in said(
            lambda: socket.socket(999).close(),
            lambda: socket.socket(socket.AF_INET, 77).close(),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 17).close(),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET).close(),
            lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RDM).close(),
            lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 5).close(),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 6).close(),
            lambda: socket.socket(fileno=-1),
        )
    ]


async def flags_of_receive() -> Any:
    """MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, nothing asked for, and buffers of the wrong size."""
    async with raw_pair() as (one, other):
        one.send(b"hello")
        await asyncio.sleep(0.01)
        other.setblocking(True)
        seen = said(
            lambda: other.recv(2, socket.MSG_PEEK),
            lambda: other.recv(2, socket.MSG_DONTWAIT),
            lambda: other.recv(0),
            lambda: other.recv(3, socket.MSG_WAITALL),
            lambda: other.recv(1, socket.MSG_DONTWAIT),
            lambda: other.recv(-1),
            lambda: other.recv_into(bytearray(3), 9),
            lambda: other.recv_into(bytearray(0)),
            lambda: one.send(b"ab", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT),
        )
        await asyncio.sleep(0.01)
        other.setblocking(False)
        seen += said(lambda: other.recv(5, socket.MSG_WAITALL))
        seen += said(lambda: other.recv(5, socket.MSG_WAITALL))
        one.send(b"the end")
        one.close()
        await asyncio.sleep(0.01)
        other.setblocking(True)
        seen += said(lambda: other.recv(99, socket.MSG_WAITALL), lambda: other.recv(9))
    two, three = (a_socket(type=socket.SOCK_DGRAM) for _ in range(2))
    two.bind(LOOPBACK)
    three.sendto(b"datagram", 0, two.getsockname())
    await asyncio.sleep(0.01)
    seen += said(lambda: two.recv(4, socket.MSG_PEEK), lambda: two.recvmsg(4)[:3])
    seen += said(lambda: two.recv(4, socket.MSG_DONTWAIT))
    close(two, three)
    return seen


async def wrong_moments() -> Any:
    """Listeners, fresh and closed sockets asked for what they cannot do."""
    listener, fresh = a_socket(), a_socket()
    listener.listen()
    seen = said(
        lambda: listener.getsockname()[0],
        lambda: listener.listen(5),
        lambda: listener.bind(LOOPBACK),
        lambda: listener.connect(listener.getsockname()),
        lambda: listener.send(b"x"),
        lambda: listener.recv(1),
        lambda: listener.getpeername(),
        lambda: listener.accept(),
        lambda: listener.shutdown(socket.SHUT_RD),
        lambda: listener.accept(),
        lambda: fresh.shutdown(socket.SHUT_RDWR),
        lambda: fresh.shutdown(7),
        lambda: fresh.recv(0),
        lambda: fresh.recvfrom(1),
        lambda: fresh.bind(LOOPBACK),
        lambda: fresh.bind(LOOPBACK),
        lambda: fresh.accept(),
    )
    close(listener, fresh)
    seen += said(
        lambda: fresh.accept(),
        lambda: fresh.recv(0),
        lambda: fresh.settimeout(3),
        lambda: fresh.shutdown(socket.SHUT_RDWR),
        lambda: fresh.sendall(b""),
        lambda: fresh.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
        lambda: fresh.dup(),
        lambda: fresh.detach(),
        lambda: fresh.get_inheritable(),
        lambda: fresh.connect_ex(LOOPBACK),
        lambda: fresh.recvfrom(1),
    )
    return seen


async def flags_by_fcntl() -> Any:
    """Flags of sockets and pipes, and duplicates: by number and by object."""
    commands = (fcntl.F_GETFL, fcntl.F_GETFD, F_GETPIPE_SZ, fcntl.F_GETFL, 9_999)
    one, other = socket.socketpair()
    fresh = socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    timed = a_socket()
    timed.settimeout(3)
    pipe = os.pipe()
    seen: list[Any] = []
    for thing in (one, fresh, timed, one.fileno(), *pipe):
        seen.append([_tried(fcntl.fcntl, thing, command) for command in commands])
        seen.append(_tried(fcntl.fcntl, thing, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND))
        seen.append(_tried(fcntl.fcntl, thing, fcntl.F_SETFD, 0))
        seen.append([_tried(fcntl.fcntl, thing, command) for command in commands])
        number = thing if isinstance(thing, int) else thing.fileno()
        seen += [os.get_inheritable(number), os.get_blocking(number)]
    seen += [one.getblocking(), one.gettimeout(), one.get_inheritable(), _tried(one.recv, 1)]
    fcntl.fcntl(one, fcntl.F_SETFL, 0)
    seen += [one.getblocking(), os.get_blocking(one.fileno()), _tried(os.read, pipe[0], 1)]
    other.send(b"x")
    for command in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        copy = fcntl.fcntl(one, command, 100)
        seen += [copy >= 100, os.get_inheritable(copy)]
        second = fcntl.fcntl(one, command, copy)
        seen.append(second - copy)
        os.close(second)
        os.close(copy)
    seen += [one.recv(1), _tried(fcntl.fcntl, one, fcntl.F_DUPFD, -1)]
    number = one.fileno()
    close(one, other, fresh, timed)
    for each in pipe:
        os.close(each)
    seen += [_tried(fcntl.fcntl, n, fcntl.F_GETFL) for n in (number, pipe[0])]
    return seen


def _tried(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except OSError as error:
        return name_of(error)


async def wrong_addresses() -> Any:
    """Addresses of the wrong shape, and ports that are none."""
    sock, six = a_socket(), a_socket(socket.AF_INET6)
    seen = []
    wrong: Any
    for wrong in ("x", ["127.0.0.1", 80], ("127.0.0.1", 80, 0), ("127.0.0.1", "80"), (None, 0)):
        for target in (sock.bind, sock.connect):
            try:
                target(wrong)
            except TypeError as error:
                seen.append(str(error))
    for port in (-1, 70_000):
        try:
            sock.connect(("127.0.0.1", port))
        except OverflowError as error:
            seen.append(str(error))
    seen += said(lambda: sock.bind((b"127.0.0.1", 0)), lambda: six.bind("x"))
    close(sock, six)
    return seen


async def connect_again() -> Any:
    """After a refusal the same socket may try again; the pending error is told once."""
    bound, sock = a_socket(), a_socket()
    bound.bind(LOOPBACK)
    address = bound.getsockname()
    seen = said(lambda: sock.connect(address))
    await asyncio.sleep(0.01)
    seen += said(lambda: sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    seen += said(lambda: sock.recv(1), lambda: sock.send(b"x"), lambda: sock.connect(address))
    seen += said(lambda: sock.connect(address))
    await asyncio.sleep(0.01)
    seen += said(lambda: sock.getpeername(), lambda: sock.connect(address))
    bound.listen()
    seen += said(lambda: sock.connect(address))
    await asyncio.sleep(0.01)
    seen += said(lambda: sock.connect(address), lambda: sock.getpeername() == address)
    close(bound, sock)
    return seen


async def connect_to_itself() -> Any:
    """A bound socket that connects to its own port gets itself."""
    sock = a_socket()
    sock.bind(LOOPBACK)
    seen = said(lambda: sock.connect(sock.getsockname()))
    await asyncio.sleep(0.01)
    seen += said(lambda: sock.getpeername() == sock.getsockname(), lambda: sock.send(b"me"))
    await asyncio.sleep(0.01)
    seen += said(lambda: sock.recv(9))
    sock.close()
    return seen


async def after_the_end() -> Any:
    """Names, shutdowns and sends once both sides have ended, or after a reset."""
    seen: list[Any] = []
    async with raw_pair() as (one, other):
        other.shutdown(socket.SHUT_RDWR)
        seen += said(lambda: other.recv(1), lambda: other.send(b"x"))
        await asyncio.sleep(0.01)
        seen += said(lambda: one.recv(1), lambda: one.getpeername() == other.getpeername())
        one.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.01)
        for sock in (one, other):
            seen += said(sock.getpeername, lambda: sock.shutdown(socket.SHUT_WR))  # noqa: B023  # called at once
            seen += said(lambda: sock.recv(1), lambda: sock.send(b"x"))  # noqa: B023  # called at once
    for data in (b"", b"data"):
        async with raw_pair() as (one, other):
            one.send(data) if data else None
            await asyncio.sleep(0.01)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.close()
            await asyncio.sleep(0.01)
            seen += said(other.getpeername, lambda: other.shutdown(2), lambda: other.recv(9))
            seen += said(lambda: other.recv(9), lambda: other.send(b"x"))
    return seen


async def a_number_closed_behind_ones_back() -> Any:
    """Whatever is done with the socket then is EBADF, closing it included."""
    seen = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        sock = socket.socket(socket.AF_INET, kind)
        os.close(sock.fileno())
        calls = (sock.getsockname, sock.close, sock.close)
        seen += [_tried(sock.send, b"x"), _tried(sock.recv, 1), _tried(sock.bind, ("127.0.0.1", 0))]
        seen += [_tried(sock.connect, ("127.0.0.1", 9)), *map(_tried, calls), sock.fileno()]
    return seen


async def duplicates() -> Any:
    """dup, fromfd, detach and socket(fileno=…): one socket behind several descriptors."""
    loop = asyncio.get_running_loop()
    async with raw_pair() as (one, other):
        copy = one.dup()
        again = socket.fromfd(one.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        seen: list[Any] = [copy.fileno() != one.fileno(), copy.timeout, again.timeout]
        one.close()
        copy.send(b"from the copy")
        seen.append(await loop.sock_recv(other, 99))
        again.setblocking(False)
        copy.close()
        other.send(b"to the other")
        seen.append(await loop.sock_recv(again, 99))
        number = again.detach()
        seen += [again.fileno(), *said(lambda: again.send(b"x"))]
        last = socket.socket(fileno=number)
        seen += [last.family, last.type, last.proto, last.timeout, *said(lambda: last.recv(1))]
        last.close()
        seen += [await loop.sock_recv(other, 9), *said(lambda: socket.socket(fileno=number))]
    one, other = socket.socketpair()
    number = one.detach()
    os.write(number, b"by number")
    seen += [other.recv(99), os.read(number, 0)]
    os.close(number)
    seen += said(lambda: os.write(number, b"x"))
    other.close()
    return seen


async def duplicated_listeners() -> Any:
    """A listener lives as long as one of its descriptors."""
    listener = socket.create_server(LOOPBACK)
    copy = listener.dup()
    address = listener.getsockname()
    listener.close()
    loop = asyncio.get_running_loop()
    client, late = a_socket(), a_socket()
    await loop.sock_connect(client, address)
    accepted, _ = copy.accept()
    copy.close()
    try:
        await loop.sock_connect(late, address)
        seen = "connected"
    except OSError as error:
        seen = name_of(error)
    close(client, late, accepted)
    return seen


async def _rebind(first: bool, *, reuse: tuple[int, int], end: str) -> Any:
    """Whether a port can be bound after a connection on it, which ended in one of these ways."""
    loop = asyncio.get_running_loop()
    option = (socket.SOL_SOCKET, socket.SO_REUSEADDR)
    listener, client, again = a_socket(), a_socket(), a_socket()
    listener.setsockopt(*option, reuse[0])
    listener.bind(LOOPBACK)
    listener.listen()
    address = listener.getsockname()
    await loop.sock_connect(client, address)
    accepted, _ = await loop.sock_accept(listener)
    listener.close()
    if end == "reset":
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    if end != "open":
        for sock in (accepted, client) if first else (client, accepted):
            sock.close()
            await asyncio.sleep(0.01)
            if end == "half":
                break
    again.setsockopt(*option, reuse[1])
    seen = said(lambda: again.bind(address), lambda: again.listen())
    close(again, accepted, client)
    return seen


async def time_wait() -> Any:
    """Who closes first leaves the port in TIME_WAIT: SO_REUSEADDR on both sockets gets it again."""
    seen = []
    for first in (True, False):
        for reuse in ((0, 0), (0, 1), (1, 0), (1, 1)):
            for end in ("both", "open", "reset", "half"):
                seen.append(await _rebind(first, reuse=reuse, end=end))
    return seen


async def bound_twice() -> Any:
    """Two sockets on one port, with and without SO_REUSEADDR, one of them listening or not."""
    seen: list[Any] = []
    for reuse in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for listening in (False, True):
            for one, other in (("127.0.0.1",) * 2, ("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "")):
                first, second = a_socket(), a_socket()
                first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse[0])
                second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse[1])
                first.bind((one, 0))
                if listening:
                    first.listen()
                address = (other, first.getsockname()[1])
                seen += said(lambda: second.bind(address), second.listen, first.listen)  # noqa: B023  # called at once
                close(first, second)
    return seen


async def a_clients_port() -> Any:
    """The port of a client is taken for others on its host."""
    async with raw_pair() as (one, _):
        sock = a_socket()
        seen = said(lambda: sock.bind(one.getsockname()))
        sock.close()
        return seen


async def sendfile_without_fallback() -> Any:
    """loop.sock_sendfile(fallback=False) sends real files, and refuses what is none."""
    loop = asyncio.get_running_loop()
    async with raw_pair() as (one, other):
        with open(CONTENT, "rb") as file:
            data = file.read()

            async def receive() -> bytes:
                got = b""
                while len(got) < len(data):
                    got += await loop.sock_recv(other, 1 << 16)
                return got

            receiving = asyncio.create_task(receive())
            seen: list[Any] = [await loop.sock_sendfile(one, file, fallback=False) == len(data)]
            seen += [await receiving == data, file.tell() == len(data)]
            seen.append(await loop.sock_sendfile(one, file, 10, 20, fallback=False))
            seen += [await loop.sock_recv(other, 99) == data[10:30], file.tell()]
        for mistake in (io.BytesIO(b"not a file"), io.StringIO("text")):
            try:
                await loop.sock_sendfile(one, mistake, fallback=False)  # type: ignore[arg-type]  # the mistake
            except (asyncio.SendfileNotAvailableError, ValueError) as error:
                seen.append(name_of(error))
        return seen


async def _pause() -> None:
    """Until what was sent on a loopback has arrived, on both arms."""
    await asyncio.sleep(0.05)


async def buffers_are_free_after_an_error() -> Any:
    """Who catches the error of a send or a receive may change the buffer it was given: no view of
    it is left behind (asyncio clears its write buffer there)."""
    async with raw_pair() as (one, other):
        other.close()
        await asyncio.sleep(0.02)
        seen: list[Any] = []

        def attempt(what: str, call: Callable[[bytearray], Any]) -> None:
            buffer = bytearray(b"some bytes")
            try:
                seen.append((what, call(buffer)))
            except OSError as error:
                buffer.clear()
                seen.append((what, name_of(error), len(buffer)))

        one.send(b"is answered by a reset")
        await asyncio.sleep(0.02)
        attempt("send", one.send)
        attempt("send again", one.send)
        attempt("sendall", one.sendall)
        attempt("sendmsg", lambda buffer: one.sendmsg([buffer, buffer]))
        fresh, _peer = socket.socketpair()
        with fresh, _peer:
            fresh.setblocking(False)
            attempt("recv_into", fresh.recv_into)
            attempt("recvfrom_into", fresh.recvfrom_into)
            attempt("recvmsg_into", lambda buffer: fresh.recvmsg_into([buffer]))
        return seen


async def an_end_and_then_a_reset() -> Any:
    """The peer has closed, and answers what is sent all the same with a reset: reading still gives
    the end of the stream, any number of times; writing says EPIPE."""
    seen: list[Any] = []
    async with raw_pair() as (one, other):
        other.close()
        await _pause()
        one.send(b"x")
        await _pause()
        seen += [said(lambda: one.recv(9)), said(lambda: one.recv(9))]
        seen += [said(lambda: one.send(b"y")), said(lambda: one.recv(9))]
    return seen


async def an_error_that_reading_leaves() -> Any:
    """What reading did not report stays for SO_ERROR, once."""
    async with raw_pair() as (one, other):
        other.close()
        await _pause()
        one.send(b"x")
        await _pause()
        return [
            said(lambda: one.recv(9)),
            *(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(2)),
        ]


async def data_for_a_socket_shut_down() -> Any:
    """After shutdown in both directions data is answered with a reset, which both ends notice;
    after one that only ends reading or only ends writing it is not."""
    seen: list[Any] = []
    for *hows, closed in (
        (socket.SHUT_RDWR, False),
        (socket.SHUT_RD, socket.SHUT_WR, False),
        (socket.SHUT_WR, socket.SHUT_RD, False),
        (socket.SHUT_RD, False),
        (socket.SHUT_WR, False),
        (socket.SHUT_RDWR, True),
    ):
        async with raw_pair() as (one, other):
            for how in hows:
                other.shutdown(how)
            if closed:
                other.close()
            await _pause()
            seen.append(said(lambda: one.send(b"x")))  # called at once
            await _pause()
            seen.append(said(lambda: one.send(b"y")))  # called at once
            await _pause()
            if not closed:
                seen.append(said(lambda: other.recv(9)))  # called at once
    return seen


async def a_forgotten_socket() -> Any:
    """A socket that nobody refers to any more is closed: the peer reads the end. So is a listener,
    and with a warning each."""
    seen: list[Any] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        listener = socket.create_server(LOOPBACK)
        address = listener.getsockname()
        one, other = a_socket(), None
        await asyncio.get_running_loop().sock_connect(one, address)
        other, _ = listener.accept()
        other.send(b"last words")
        del other
        await _pause()
        seen += [said(lambda: one.recv(99)), said(lambda: one.recv(99))]
        del listener
        await _pause()
        seen.append(said(lambda: socket.create_connection(address)))
        seen.append([(w.category, str(w.message).split()[0]) for w in warned])
    one.close()
    return seen
