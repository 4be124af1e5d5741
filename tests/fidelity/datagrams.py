"""Programs about UDP: who gets a datagram, in which order, and under which names."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from tests.fidelity.addresses import Inbox
from tests.fidelity.streams import name_of

REUSE_ADDRESS = (socket.SOL_SOCKET, socket.SO_REUSEADDR)
ONLY_SIX = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def _socket(*options: tuple[int, int], six: bool = False) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    for level, option in options:
        made.setsockopt(level, option, 1)
    return made


def _bound(*options: tuple[int, int], to: Any = ("127.0.0.1", 0)) -> socket.socket:
    made = _socket(*options, six=":" in to[0])
    made.bind(to)
    return made


def _try(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except OSError as error:
        return name_of(error)


async def _heard(*sockets: socket.socket) -> list[Any]:
    """What each has got; then they are closed."""
    await asyncio.sleep(0.1)
    heard = [_try(sock.recv, 100) for sock in sockets]
    for sock in sockets:
        sock.close()
    return heard


async def order_on_the_loopback() -> Any:
    """Nothing overtakes, be it from one socket or from two."""
    loop = asyncio.get_running_loop()
    receiver, inbox = await loop.create_datagram_endpoint(Inbox, ("127.0.0.1", 0))
    address = receiver.get_extra_info("sockname")
    senders = [await loop.create_datagram_endpoint(Inbox, remote_addr=address) for _ in range(2)]
    for number in range(100):
        senders[number % 3 // 2][0].sendto(b"%d" % number)
    got = [int((await inbox.heard.get())[0]) for _ in range(100)]
    for transport in (receiver, *(sender for sender, _ in senders)):
        transport.close()
    return got


async def dual_endpoint() -> Any:
    """A `::` endpoint hears IPv4 as ::ffff:127.0.0.1, and its answer is IPv4 again."""
    loop = asyncio.get_running_loop()
    server, inbox = await loop.create_datagram_endpoint(Inbox, ("::", 0))
    port = server.get_extra_info("sockname")[1]
    seen: list[Any] = []
    for host in ("127.0.0.1", "::1"):
        client, answers = await loop.create_datagram_endpoint(Inbox, remote_addr=(host, port))
        client.sendto(b"ping")
        data, source = await inbox.heard.get()
        server.sendto(b"pong", source)
        answer, sender = await answers.heard.get()
        own = client.get_extra_info("sockname")
        seen.append((data, source[0], source[1] == own[1], len(source), answer, sender[0]))
        client.close()
    server.close()
    return seen


async def only_six() -> Any:
    """With IPV6_V6ONLY it does not, and cannot speak to IPv4."""
    loop = asyncio.get_running_loop()
    server = _bound(ONLY_SIX, to=("::", 0))
    port = server.getsockname()[1]
    client, answers = await loop.create_datagram_endpoint(Inbox, remote_addr=("127.0.0.1", port))
    client.sendto(b"ping")
    seen = [await answers.heard.get()]
    client.close()
    mapped = ("::ffff:127.0.0.1", port)
    seen += [_try(server.sendto, b"x", mapped), _try(server.connect, mapped)]
    server.close()
    with _bound(to=("::1", 0)) as other:
        seen.append(_try(other.sendto, b"x", mapped))
    return seen


async def mapped_addresses() -> Any:
    """An IPv6 socket that speaks IPv4 shows both addresses as mapped ones."""
    server = _bound()
    port = server.getsockname()[1]
    client = _socket(six=True)
    client.connect(("::ffff:127.0.0.1", port))
    seen: list[Any] = [client.getsockname()[0], client.getpeername() == _six(port)]
    client.send(b"ping")
    await asyncio.sleep(0.1)
    data, source = server.recvfrom(100)
    seen += [data, source == ("127.0.0.1", client.getsockname()[1])]
    server.sendto(b"pong", source)
    await asyncio.sleep(0.1)
    data, source = client.recvfrom(100)
    seen += [data, source == _six(port)]
    with _bound(to=("::ffff:127.0.0.1", 0)) as other:
        seen.append(other.getsockname()[0])
    client.close()
    server.close()
    return seen


def _six(port: int) -> Any:
    return ("::ffff:127.0.0.1", port, 0, 0)


async def connected_comes_first() -> Any:
    """Of two sockets on a port, the connected one gets its peer's datagrams and no others."""
    seen: list[Any] = []
    for connected_first in (False, True):
        plain, peer, stranger = _bound(REUSE_ADDRESS), _bound(), _bound()
        connected = _bound(REUSE_ADDRESS, to=plain.getsockname())
        if connected_first:
            plain, connected = connected, plain
        connected.connect(peer.getsockname())
        for sender, data in ((peer, b"1"), (stranger, b"2"), (peer, b"3")):
            sender.sendto(data, plain.getsockname())
        await asyncio.sleep(0.1)
        seen.append((connected.recv(9), connected.recv(9), plain.recv(9)))
        seen.append(await _heard(plain, connected, peer, stranger))
    return seen


async def connected_refuses_strangers() -> Any:
    """Nobody else is there to hear them: the sender is told that the port is closed."""
    connected, peer, stranger = _bound(), _bound(), _bound()
    connected.connect(peer.getsockname())
    stranger.connect(connected.getsockname())
    stranger.send(b"x")
    return await _heard(stranger, connected, peer)


async def who_was_bound_last() -> Any:
    """Of two that share an address with SO_REUSEADDR the last one hears; an exact address comes
    before any, and IPv4's any before that of IPv6."""
    seen = []
    for first, second in (
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "0.0.0.0"),
        ("0.0.0.0", "::"),
    ):
        one = _bound(REUSE_ADDRESS, to=(first, 0))
        port = one.getsockname()[1]
        two = _bound(REUSE_ADDRESS, to=(second, port))
        with _bound() as sender:
            sender.sendto(b"x", ("127.0.0.1", port))
            seen.append(await _heard(one, two))
    return seen


async def shared_addresses() -> Any:
    """Which two claims to a port go together: both have to ask, and `::` means IPv4 too."""
    seen = []
    reuse_port = (socket.SOL_SOCKET, socket.SO_REUSEPORT)
    for first, second, one, two in (
        ("127.0.0.1", "127.0.0.1", (), ()),
        ("127.0.0.1", "127.0.0.1", (REUSE_ADDRESS,), ()),
        ("127.0.0.1", "127.0.0.1", (), (REUSE_ADDRESS,)),
        ("127.0.0.1", "127.0.0.1", (REUSE_ADDRESS,), (reuse_port,)),
        ("127.0.0.1", "127.0.0.1", (reuse_port,), (reuse_port,)),
        ("127.0.0.1", "127.0.0.2", (), ()),
        ("127.0.0.1", "0.0.0.0", (), ()),
        ("::", "0.0.0.0", (), ()),
        ("0.0.0.0", "::", (), ()),
        ("::", "127.0.0.1", (), ()),
        ("::", "0.0.0.0", (ONLY_SIX,), ()),
        ("127.0.0.1", "::ffff:127.0.0.1", (), ()),
    ):
        with _bound(*one, to=(first, 0)) as taken, _socket(*two, six=":" in second) as other:
            seen.append(_try(other.bind, (second, taken.getsockname()[1])))
    return seen


async def connecting_gives_an_address() -> Any:
    """A socket that was bound to any has its own address when it is connected."""
    seen = []
    for bound, to in (("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("0.0.0.0", "0.0.0.0")):
        with _bound(to=(bound, 0)) as sock:
            port = sock.getsockname()[1]
            sock.connect((to, 9))
            seen.append((sock.getsockname()[0], sock.getsockname()[1] == port, sock.getpeername()))
    return seen


async def full_receive_buffer() -> Any:
    """What finds no room is dropped; what is there stays, and one datagram always has room."""
    seen = []
    for size, data in ((2_000, b"x"), (2_000, b"x" * 20_000)):
        receiver, sender = _bound(), _bound()
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        for _ in range(40):
            sender.sendto(data, receiver.getsockname())
        await asyncio.sleep(0.1)
        count = 0
        while isinstance(_try(receiver.recv, 30_000), bytes):
            count += 1
        seen.append(1 <= count < 10)
        sender.sendto(data, receiver.getsockname())
        seen.append(await _heard(receiver, sender) == [data[:100], "EAGAIN"])
    return seen
