"""Programs about names, addresses and ports, and about datagrams."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from tests.fidelity.streams import name_of, serving


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(str(writer.get_extra_info("peername")[0]).encode())
    writer.close()


async def _ask(host: str, port: int, **how: Any) -> Any:
    """What a server on `port` says, or the error."""
    try:
        reader, writer = await asyncio.open_connection(host, port, **how)
    except OSError as error:
        return name_of(error)
    said = await reader.read()
    writer.close()
    return said


async def any_address() -> Any:
    """A server on 0.0.0.0 is found at every IPv4 address of the loopback, not at IPv6."""
    async with serving(_answer, "0.0.0.0") as port:
        return [await _ask(host, port) for host in ("127.0.0.1", "127.0.0.2", "0.0.0.0", "::1")]


async def one_address() -> Any:
    """A server on 127.0.0.2 is found there alone."""
    async with serving(_answer, "127.0.0.2") as port:
        return [await _ask(host, port) for host in ("127.0.0.1", "127.0.0.2")]


async def six() -> Any:
    """IPv6: four-part addresses, and no IPv4 through asyncio's `::`, which is IPv6 only."""
    async with serving(_answer, "::") as port:
        reader, writer = await asyncio.open_connection("::1", port)
        names = len(writer.get_extra_info("peername")), writer.get_extra_info("peername")[0]
        said = await reader.read()
        writer.close()
        return names, said, await _ask("127.0.0.1", port)


async def dual_stack() -> Any:
    """A raw `::` socket without V6ONLY answers IPv4 too."""
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", 0))
    listener.listen()
    listener.setblocking(False)
    port = listener.getsockname()[1]
    loop = asyncio.get_running_loop()
    seen = []
    for family, host in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")):
        with socket.socket(family) as client:
            client.setblocking(False)
            await loop.sock_connect(client, (host, port))
            accepted, address = await loop.sock_accept(listener)
            seen.append((address[0], accepted.getsockname()[0], accepted.family))
            accepted.close()
    listener.close()
    return seen


async def both_families() -> Any:
    """`::` alone and 0.0.0.0 share a port, whichever listens first: asyncio keeps them in a set."""
    seen = []
    for families in (("0.0.0.0", "::"), ("::", "0.0.0.0")):
        listeners: list[socket.socket] = []
        port = 0
        for ip in families:
            listener = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET)
            if ":" in ip:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((ip, port))
            port = listener.getsockname()[1]
            listeners.append(listener)
        for listener in listeners:
            listener.listen()
            seen.append(listener.getsockname()[0])
        for listener in listeners:
            listener.close()
    return seen


async def list_of_hosts() -> Any:
    """One server on several addresses has a socket for each; all ports are given by the kernel."""
    server = await asyncio.start_server(_answer, ["127.0.0.1", "127.0.0.2", "::1"], 0)
    found = sorted(sock.getsockname()[0] for sock in server.sockets)
    said = sorted([await _ask(*sock.getsockname()[:2]) for sock in server.sockets])
    server.close()
    return found, said, all(sock_port > 1024 for sock_port in _ports(server)), len(found)


def _ports(server: asyncio.Server) -> list[int]:
    return [sock.getsockname()[1] for sock in server.sockets]


async def localhost() -> Any:
    """The name works for a server and for its client."""
    async with serving(_answer, "localhost") as port:
        return await _ask("localhost", port) in (b"127.0.0.1", b"::1")


async def address_in_use() -> Any:
    """The same port twice: EADDRINUSE with asyncio's text; other addresses are free."""
    async with serving(_answer) as port:
        seen: list[Any] = []
        for host in ("127.0.0.1", "0.0.0.0", "127.0.0.2"):
            try:
                server = await asyncio.start_server(_answer, host, port)
                server.close()
                seen.append("ok")
            except OSError as error:
                seen += [name_of(error), str(error).replace(str(port), "PORT")]
    again = await asyncio.start_server(_answer, "127.0.0.1", port)
    again.close()
    return seen


async def bound_but_not_listening() -> Any:
    """A bound port is taken although nobody listens on it, and refuses connections."""
    one, other = socket.socket(), socket.socket()
    one.bind(("127.0.0.1", 0))
    port = one.getsockname()[1]
    try:
        other.bind(("127.0.0.1", port))
        seen = ["ok"]
    except OSError as error:
        seen = [name_of(error)]
    seen.append(await _ask("127.0.0.1", port))
    one.close()
    other.bind(("127.0.0.1", port))
    other.close()
    return seen


async def not_our_address() -> Any:
    """Binding to an address of nobody here."""
    with socket.socket() as sock:
        try:
            sock.bind(("192.0.2.1", 0))
        except OSError as error:
            return name_of(error)


async def shared_port() -> Any:
    """reuse_port: two servers on one port; without it on one of them, EADDRINUSE."""
    one = await asyncio.start_server(_answer, "127.0.0.1", 0, reuse_port=True)
    port = one.sockets[0].getsockname()[1]
    two = await asyncio.start_server(_answer, "127.0.0.1", port, reuse_port=True)
    seen: list[Any] = [await _ask("127.0.0.1", port) for _ in range(3)]
    try:
        await asyncio.start_server(_answer, "127.0.0.1", port)
    except OSError as error:
        seen.append(name_of(error))
    one.close()
    seen.append(await _ask("127.0.0.1", port))
    two.close()
    seen.append(await _ask("127.0.0.1", port))
    return seen


async def local_address() -> Any:
    """create_connection(local_addr=…): the peer sees it."""
    async with serving(_answer) as port:
        return await _ask("127.0.0.1", port, local_addr=("127.0.0.5", 0))


async def happy_eyeballs() -> Any:
    """A name that may have two addresses, of which one answers."""
    async with serving(_answer, "127.0.0.1") as port:
        return await _ask("localhost", port, happy_eyeballs_delay=0.05)


async def names() -> Any:
    """getaddrinfo for numbers, names that nobody has, and bad services."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = [await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)]
    seen.append(await loop.getaddrinfo("::1", "443", type=socket.SOCK_DGRAM))
    seen.append(len(await loop.getaddrinfo("127.0.0.1", 80)))
    seen.append(await loop.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST))
    for arguments in (("nobody.invalid", 80), ("127.0.0.1", "no-such-service")):
        try:
            seen.append(await loop.getaddrinfo(*arguments, type=socket.SOCK_STREAM))
        except socket.gaierror as error:
            seen.append(error.errno in (socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_SERVICE))
    return seen


async def names_as_bytes() -> Any:
    """Bytes are taken as they are, as by the C library; text must be possible in IDNA 2003."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    for name in (
        b"localhost", b"LOCALHOST", b"127.0.0.1", b"xn--fa-hia.invalid", "xn--fa-hia.invalid",
        "fa\xdf.invalid", b"\xff.invalid", b"a..invalid", b"x" * 70 + b".invalid", "a..invalid",
        "x" * 70 + ".invalid", b"xn--\xff.invalid", b"xn--a-b-c-\x7f.invalid", 5,
    ):  # fmt: skip
        try:
            found = await loop.getaddrinfo(name, 80, family=socket.AF_INET, type=socket.SOCK_STREAM)  # type: ignore[arg-type]  # wrong ones are among them
            seen.append(found)
        except (socket.gaierror, UnicodeError, TypeError) as error:
            seen.append(type(error).__name__)
    return seen


# --- datagrams ---------------------------------------------------------------------------------


class Inbox(asyncio.DatagramProtocol):
    """Keeps what a datagram endpoint hears."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.heard.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.heard.put_nowait(name_of(exc))


async def _endpoint(**how: Any) -> tuple[asyncio.DatagramTransport, Inbox]:
    return await asyncio.get_running_loop().create_datagram_endpoint(Inbox, **how)


async def datagrams() -> Any:
    """There and back, whole, with the sender's address."""
    server, inbox = await _endpoint(local_addr=("127.0.0.1", 0))
    port = server.get_extra_info("sockname")[1]
    client, answers = await _endpoint(remote_addr=("127.0.0.1", port))
    client.sendto(b"ping")
    data, source = await inbox.heard.get()
    server.sendto(data.upper(), source)
    answer, sender = await answers.heard.get()
    same = source == client.get_extra_info("sockname") and sender[1] == port
    client.close()
    server.close()
    return data, answer, same


async def a_refused_datagram() -> Any:
    """Only a connected socket hears that nobody listens."""
    server, _ = await _endpoint(local_addr=("127.0.0.1", 0))
    address = server.get_extra_info("sockname")
    server.close()
    await asyncio.sleep(0.01)
    client, inbox = await _endpoint(remote_addr=address)
    client.sendto(b"anybody?")
    seen: list[Any] = [await inbox.heard.get()]
    client.close()
    free, inbox = await _endpoint(local_addr=("127.0.0.1", 0))
    free.sendto(b"anybody?", address)
    await asyncio.sleep(0.02)
    seen.append(inbox.heard.empty())
    free.close()
    return seen


async def size_of_datagrams() -> Any:
    """The largest passes, one byte more is EMSGSIZE, and an empty one is a datagram too."""
    one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    two.bind(("127.0.0.1", 0))
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    for sock in (one, two):
        sock.setblocking(False)
    for size in (65_507, 65_508, 0):
        try:
            seen.append(await loop.sock_sendto(one, b"x" * size, two.getsockname()))
            data, _ = await loop.sock_recvfrom(two, 100_000)
            seen.append(len(data))
        except OSError as error:
            seen.append(name_of(error))
    await loop.sock_sendto(one, b"cut off", two.getsockname())
    buffer = bytearray(3)
    size, _ = await loop.sock_recvfrom_into(two, buffer)
    seen.append((size, bytes(buffer)))
    with contextlib.suppress(BlockingIOError):
        seen.append(two.recv(10))
    for sock in (one, two):
        sock.close()
    return seen


async def datagram_mistakes() -> Any:
    """send without a destination, getpeername without one, and a connected filter."""
    one, two, three = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    seen: list[Any] = []
    for sock in (one, two, three):
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
    for attempt in (lambda: one.send(b"x"), lambda: one.getpeername()):
        try:
            attempt()
        except OSError as error:
            seen.append(name_of(error))
    one.connect(two.getsockname())
    three.sendto(b"from a stranger", one.getsockname())
    two.sendto(b"from the peer", one.getsockname())
    seen.append(await asyncio.get_running_loop().sock_recv(one, 100))
    seen.append(one.getpeername() == two.getsockname())
    for sock in (one, two, three):
        sock.close()
    return seen
