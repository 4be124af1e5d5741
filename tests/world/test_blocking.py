"""Plain blocking code on the test's own host: it waits in virtual time, and the others go on."""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold import EscapedWorld, current_world
from tests.compat.tls import CLIENT, NAMES, SERVER


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            await asyncio.sleep(1)
            writer.write(line.upper())
    finally:
        writer.close()


async def _serve(tls: bool = False) -> None:
    server = await asyncio.start_server(_echo, "0.0.0.0", 9000, ssl=SERVER if tls else None)
    await server.serve_forever()


async def _ready(tls: bool = False) -> str:
    """A host that echoes; returns its address."""
    host = current_world().host(NAMES[0])
    host.start(_serve(tls))
    await host.listening(9000)
    return host.ip


def test_blocking_tls_against_another_host() -> None:
    """connect, handshake, send, recv, a time limit that strikes, and the end: all of it blocking,
    while the other host runs asyncio's TLS. Seconds pass, virtual ones, and each seed has one
    digest."""

    async def main() -> Any:
        address = await _ready(tls=True)
        before = time.monotonic()
        plain = socket.create_connection((address, 9000))
        with CLIENT.wrap_socket(plain, server_hostname=NAMES[0]) as sock:
            certificate: Any = sock.getpeercert()
            sock.sendall(b"hello\n")
            sock.settimeout(0.5)
            with pytest.raises(TimeoutError, match="The read operation timed out"):
                sock.recv(99)
            sock.settimeout(5)
            answer = sock.recv(99)
            sock.sendall(b"x" * 50_000 + b"\n")
            long = sock.makefile("rb").readline()
            took_s = time.monotonic() - before
            return answer, len(long), sock.version(), "subject" in certificate, 2 < took_s < 3

    for seed in range(3):
        first = foretold.run(main, seed=seed)
        assert first.value == (b"HELLO\n", 50_001, "TLSv1.3", True, True)
        assert foretold.run(main, seed=seed).digest == first.digest


def test_connect_of_a_tls_socket_shakes_hands() -> None:
    """wrap first, connect then, as http.client does not but others do; a wrong name is refused."""

    async def main() -> Any:
        address = await _ready(tls=True)
        with CLIENT.wrap_socket(socket.socket(), server_hostname=NAMES[0]) as sock:
            sock.connect((address, 9000))
            version = sock.version()
        wrong = CLIENT.wrap_socket(socket.socket(), server_hostname="wrong.example")
        with wrong, pytest.raises(ssl.SSLCertVerificationError):
            wrong.connect((address, 9000))
        return version

    assert foretold.run(main).value == "TLSv1.3"


def test_select_waits_for_another_host() -> None:
    """A selector in plain code waits a virtual second for an answer that takes one."""

    async def main() -> Any:
        address = await _ready()
        with socket.create_connection((address, 9000)) as sock, selectors.DefaultSelector() as all_:
            sock.sendall(b"hello\n")
            before = time.monotonic()
            all_.register(sock, selectors.EVENT_READ)
            nothing = all_.select(0.25)
            found = all_.select(10)
            return nothing, len(found), 1 < time.monotonic() - before < 1.5, sock.recv(99)

    assert foretold.run(main).value == ([], 1, True, b"HELLO\n")


def test_another_host_waits_on_its_own_thread() -> None:
    """Its main thread stands still for its time limit; nobody else does."""

    async def waits() -> float:
        one, other = socket.socketpair()
        with one, other:
            other.send(b"x")
            assert select.select([one], [], [], 5)[0] == [one]
            one.recv(1)
            before = time.monotonic()
            assert select.select([one], [], [], 5)[0] == []
            return time.monotonic() - before

    async def main() -> Any:
        waiting = current_world().host("other").start(waits)
        await asyncio.sleep(1)
        assert not waiting.done()
        return await waiting

    assert 5 <= foretold.run(main).value < 5.1


async def _read_pipe(fd: int) -> None:
    loop = asyncio.get_running_loop()
    with open(fd, "rb", 0, closefd=False) as pipe:
        await loop.connect_read_pipe(asyncio.Protocol, pipe)


REAL: tuple[tuple[str, Callable[[int], Any]], ...] = (
    ("loop.add_reader", lambda fd: asyncio.get_running_loop().add_reader(fd, print)),
    ("loop.add_writer", lambda fd: asyncio.get_running_loop().add_writer(fd, print)),
    ("loop.connect_read_pipe", _read_pipe),
    ("select.select", lambda fd: select.select([fd], [], [], 0)),
    ("select.poll", lambda fd: select.poll().register(fd)),
    ("select.epoll", lambda fd: select.epoll().register(fd)),
    ("select.epoll", lambda fd: selectors.DefaultSelector().register(fd, 1)),
)


@pytest.mark.parametrize(("call", "watch"), REAL)
def test_real_descriptors_are_refused(call: str, watch: Callable[[int], Any]) -> None:
    """A pipe made before the run becomes ready when the real machine likes: nobody may wait for
    it, and the error says what to write instead."""
    reader, writer = os.pipe()

    async def main() -> None:
        result = watch(reader)
        if asyncio.iscoroutine(result):
            await result

    try:
        with pytest.raises(EscapedWorld, match="their descriptors are simulated") as caught:
            foretold.run(main)
        assert call in str(caught.value)
    finally:
        os.close(reader)
        os.close(writer)


def test_descriptors_sent_along_are_refused() -> None:
    """SCM_RIGHTS: a clear error instead of a message without its descriptors."""

    async def main() -> None:
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [other.fileno()])

    with pytest.raises(EscapedWorld, match="SCM_RIGHTS"):
        foretold.run(main)


def test_files_of_unix_sockets_outlive_their_process() -> None:
    """A killed server leaves its socket file: clients are refused, a plain bind fails, and asyncio
    removes the file when the server comes again. Another host has no such file."""
    path = "/run/service.sock"

    async def serve() -> None:
        await (await asyncio.start_unix_server(_echo, path)).serve_forever()

    async def talk() -> Any:
        seen: list[Any] = [os.path.exists(path)]
        try:
            _, writer = await asyncio.open_unix_connection(path)
            writer.close()
            seen.append("ok")
        except OSError as error:
            seen.append(type(error).__name__)
        return seen

    async def main() -> Any:
        host = current_world().host("api")
        host.start(serve)
        await asyncio.sleep(0.1)
        seen = [await host.start(talk())]
        host.kill()
        seen.append(await host.restart(talk))
        host.start(serve)
        await asyncio.sleep(0.1)
        seen.append(await host.start(talk()))
        host.crash()
        seen.append(await host.restart(talk))
        seen.append(await current_world().host("other").start(talk))
        return seen

    up, down = [True, "ok"], [True, "ConnectionRefusedError"]
    assert foretold.run(main).value == [up, down, up, down, [False, "FileNotFoundError"]]


def test_time_wait_ends_after_a_minute() -> None:
    """A killed server's port can be bound again without SO_REUSEADDR after 60 virtual seconds, not
    before."""

    async def serve() -> None:
        with socket.socket() as listener:
            listener.bind(("0.0.0.0", 9000))
            listener.listen()
            listener.setblocking(False)
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            with accepted:
                await asyncio.sleep(10_000)

    async def main() -> Any:
        host = current_world().host("api")
        host.start(serve)
        await host.listening(9000)
        reader, writer = await asyncio.open_connection(host.ip, 9000)
        await asyncio.sleep(0.1)
        host.kill()
        assert await reader.read() == b""
        writer.close()
        seen = []
        for seconds in (1, 58, 2):
            await asyncio.sleep(seconds)
            again = host.restart(serve)
            try:
                await asyncio.wait_for(again, 0.01)
            except OSError as error:
                seen.append(type(error).__name__)
        return seen

    assert foretold.run(main).value == ["OSError", "OSError", "TimeoutError"]


def test_a_user_timeout_gives_up_early() -> None:
    """TCP_USER_TIMEOUT: a peer that went silent costs five seconds instead of a quarter of an
    hour."""

    async def main() -> Any:
        address = await _ready()
        network = current_world().network
        reader, writer = await asyncio.open_connection(address, 9000)
        sock: Any = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5_000)
        network.partition("main", NAMES[0])
        before = time.monotonic()
        writer.write(b"anybody?\n")
        with pytest.raises(TimeoutError):
            await reader.read()
        current_world().host(NAMES[0]).kill()  # it would wait for its client for ever
        return 4.9 < time.monotonic() - before < 6

    assert foretold.run(main).value


def test_others_live_through_a_sleep_of_the_test() -> None:
    """What the test does after `time.sleep(5)` happens five seconds later for the others too."""
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(time.monotonic())

    async def main(world: foretold.World) -> None:
        server = world.host("server")
        server.start(tick)
        await asyncio.sleep(0.5)
        time.sleep(5)
        server.kill()
        await asyncio.sleep(5)

    foretold.run(main)
    assert len(ticks) == 5
