"""What TCP makes of trouble on the way: what waits, what is sent again, what is answered, and that
no fault outlives its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import foretold
from foretold.world.world import World

SEEDS = range(3)
PORT = 80
SOON_S = 5.0
"""So long after the end of all faults everything has arrived, about: TCP's next retransmission."""


def seen_by(main: Any, **changes: Any) -> list[Any]:
    """What `main` returns on several tapes, of which each has one digest."""
    values = []
    for seed in SEEDS:
        done = foretold.run(main, seed=seed, **changes)
        assert foretold.run(main, seed=seed, **changes).digest == done.digest
        values.append(done.value)
    return values


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each line."""
    try:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listening(world: World, handle: Handler) -> None:
    """A server on a host of its own."""

    async def serve() -> None:
        await asyncio.start_server(handle, "0.0.0.0", PORT)
        await asyncio.Event().wait()

    server = world.host("server")
    server.start(serve)
    await server.listening(PORT)


@contextlib.asynccontextmanager
async def connected(
    world: World, handle: Handler
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server on a host of its own."""
    await listening(world, handle)
    reader, writer = await asyncio.open_connection("server", PORT)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def outcome(awaited: Awaitable[Any]) -> tuple[Any, float]:
    """What came of it, or the kind of its error, and after how long."""
    start_s = time.monotonic()
    try:
        found = await awaited
    except OSError as error:
        found = type(error).__name__
    return found, time.monotonic() - start_s


async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Neither reads nor answers."""
    await asyncio.Event().wait()


async def answer_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one line, and no more."""
    writer.write(await reader.readline())
    await asyncio.Event().wait()


async def refuse_the_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers and closes while there is something unread: the connection is reset."""
    await reader.readline()
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that also reads
    await asyncio.sleep(0.5)
    writer.write(b"413\n")
    writer.close()


@pytest.mark.parametrize("fault", ["hold", "clog"])
def test_a_reset_waits_as_data_does(fault: str) -> None:
    """What is kept back arrives in its order when it is let go: the answer, then the reset; also
    with everything undone by `heal`."""

    async def main(world: World) -> Any:
        await listening(world, refuse_the_body)
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, (world.host("server").ip, PORT))
            await loop.sock_sendall(sock, b"question\n")
            await asyncio.sleep(0.1)
            await loop.sock_sendall(sock, b"body")
            await asyncio.sleep(0.1)
            if fault == "hold":
                world.network.hold("main", "server")
            else:
                world.network.clog("main", "server", 100)
            waiting = asyncio.ensure_future(outcome(loop.sock_recv(sock, 99)))
            await asyncio.sleep(1)
            assert not waiting.done()
            await world.heal()
            return (await waiting)[0], (await outcome(loop.sock_recv(sock, 99)))[0]

    assert set(seen_by(main)) == {(b"413\n", "ConnectionResetError")}


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("kinds", ["hold", "swizzle"])
def test_faults_that_hold_swallow_no_reset(kinds: str) -> None:
    """Clients of a server that resets them come to an end in every run, whatever is held when."""

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        await asyncio.sleep(0.2)
        writer.write(b"413\n")
        writer.close()

    async def main(world: World) -> int:
        async with world.calm():
            await listening(world, hasty)
        ended = 0

        async def client() -> None:
            nonlocal ended
            for _ in range(8):
                reader, writer = await asyncio.open_connection("server", PORT)
                writer.write(b"x" * 400_000)
                await outcome(reader.read())
                writer.close()
                ended += 1
                await asyncio.sleep(0.3)

        task = asyncio.create_task(client())
        await asyncio.sleep(8)
        await world.heal()
        await task
        return ended

    assert [foretold.run(main, seed=seed, faults=kinds).value for seed in range(20)] == [8] * 20


def test_a_refused_connection_waits_for_the_release() -> None:
    """The reset that answers a SYN is held as well, and arrives then."""

    async def main(world: World) -> Any:
        ip = world.host("server").ip
        world.network.latency(0.1)
        attempt = asyncio.ensure_future(outcome(asyncio.open_connection(ip, PORT)))
        await asyncio.sleep(0.05)
        world.network.hold("main", "server")
        await asyncio.sleep(0.9)
        assert not attempt.done()
        world.network.release("main", "server")
        return await attempt

    for found, after_s in seen_by(main):
        assert found == "ConnectionRefusedError"
        assert 0.95 < after_s < 1.2


def test_an_unknown_fin_is_answered_with_a_reset() -> None:
    """A restarted host knows nothing of its connections: not even their end."""

    async def main(world: World) -> Any:
        async with connected(world, ignore) as (reader, writer):
            await asyncio.sleep(1)
            world.host("server").crash()
            world.host("server").restart()
            await world.host("server").listening(PORT)
            writer.write_eof()
            return await outcome(reader.read())

    for found, after_s in seen_by(main):
        assert found == "ConnectionResetError"
        assert after_s < 0.1


@pytest.mark.parametrize("repaired_after_s", [2.0, None])
def test_a_lost_reset_is_provoked_again(repaired_after_s: float | None) -> None:
    """The answer to data for an unknown connection is cut off: the sender retransmits, and hears it
    after the repair; without one it gives up as always."""

    async def main(world: World) -> Any:
        async with connected(world, ignore) as (reader, writer):
            await asyncio.sleep(1)
            world.host("server").crash()
            world.host("server").restart()
            await world.host("server").listening(PORT)
            world.network.partition("server", "main", one_way=True)
            writer.write(b"question\n")
            waiting = asyncio.ensure_future(outcome(reader.read()))
            if repaired_after_s is not None:
                await asyncio.sleep(repaired_after_s)
                world.network.repair("server", "main")
            return await waiting

    for found, after_s in seen_by(main):
        if repaired_after_s is None:
            assert (found, round(after_s)) == ("TimeoutError", 925)
        else:
            assert found == "ConnectionResetError"
            assert 2.0 < after_s < 3.2


async def vanish_after(
    world: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float
) -> None:
    """Answers a line, reads another one, and resets the connection; the reset is lost."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if (await reader.readline()) == b"first\n":
        writer.write(b"answer\n")
        await reader.readline()
    await asyncio.sleep(wait_s)
    world.network.loss(0.999_999)
    writer.close()
    await asyncio.sleep(0.001)
    world.network.loss(0)


@pytest.mark.parametrize(
    ("first", "wait_s", "is_told"),
    [(True, 0.0, True), (True, 0.03, True), (True, 0.06, False), (False, 0.0, False)],
)
def test_a_lost_reset_is_provoked_by_what_was_not_acknowledged(
    first: bool, wait_s: float, is_told: bool
) -> None:
    """Linux delays the acknowledgement of a request by 40 ms, on a connection on which it has
    answered before. If the connection is gone by then, the client retransmits, and hears of it.
    Otherwise it has nothing to send, and waits for ever. (On Linux 6.18 the same four cases end
    alike, with a socket that vanishes by TCP_REPAIR: 0.2 s, 0.2 s, silence, silence.)"""

    async def main(world: World) -> Any:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await vanish_after(world, reader, writer, wait_s)

        async with connected(world, handle) as (reader, writer):
            if first:
                writer.write(b"first\n")
                await reader.readline()
            writer.write(b"question\n")
            return await outcome(asyncio.wait_for(reader.read(), 5_000))

    for found, after_s in seen_by(main):
        if is_told:
            assert found == "ConnectionResetError"
            assert 0.15 < after_s < 0.25
        else:
            assert (found, round(after_s)) == ("TimeoutError", 5_000)


def test_a_power_cut_before_the_acknowledgement_is_heard_of() -> None:
    """The client retransmits its request until the host is up again, and answers with a reset."""

    async def main(world: World) -> Any:
        async with connected(world, answer_the_first) as (reader, writer):
            writer.write(b"first\n")
            await reader.readline()
            writer.write(b"question\n")
            await asyncio.sleep(0.01)
            world.host("server").crash()
            waiting = asyncio.ensure_future(outcome(reader.read()))
            await asyncio.sleep(3)
            world.host("server").restart()
            return await waiting

    for found, after_s in seen_by(main):
        assert found == "ConnectionResetError"
        assert 3.0 < after_s < 7.0


def test_a_reset_that_meets_a_cut_on_its_way_is_provoked_again() -> None:
    """It left before the partition, and is lost in it; the client's data was never acknowledged."""

    async def main(world: World) -> Any:
        async with connected(world, ignore) as (reader, writer):
            await asyncio.sleep(1)
            world.host("server").crash()
            world.host("server").restart()
            await world.host("server").listening(PORT)
            world.network.latency(0.1)
            writer.write(b"question\n")
            waiting = asyncio.ensure_future(outcome(reader.read()))
            await asyncio.sleep(0.15)
            world.network.partition("server", "main", one_way=True)
            await asyncio.sleep(2)
            world.network.repair("server", "main")
            return await waiting

    for found, after_s in seen_by(main):
        assert found == "ConnectionResetError"
        assert 2.0 < after_s < 5.0


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("kinds", ["loss", "slow latency", "partition", "clog"])
def test_no_fault_outlives_its_end(kinds: str) -> None:
    """Whatever the network did, an answer that was under way comes soon after `heal`."""

    async def main(world: World) -> float:
        async with world.calm():
            await listening(world, echo)
            reader, writer = await asyncio.open_connection("server", PORT)
        healed = False

        async def client() -> None:
            while not healed:
                writer.write(b"x\n")
                await reader.readline()
                await asyncio.sleep(0.05)

        task = asyncio.create_task(client())
        await asyncio.sleep(6)
        await world.heal()
        healed = True
        _, after_s = await outcome(task)
        writer.close()
        return after_s

    worst_s = max(foretold.run(main, seed=seed, faults=kinds).value for seed in range(25))
    assert worst_s < 2 * SOON_S


def test_loss_ends_with_the_loss() -> None:
    """Each retransmission meets the rate that holds when it happens: none is lost any more."""

    async def main(world: World) -> Any:
        async with connected(world, echo) as (reader, writer):
            world.network.loss(0.99)
            writer.write(b"x\n")
            await asyncio.sleep(1)
            world.network.loss(0)
            return await outcome(reader.readline())

    for found, after_s in seen_by(main):
        assert found == b"x\n"
        assert after_s < 1


def test_all_lost_for_ever_is_given_up() -> None:
    """A path that loses nearly everything ends a connection after tcp_retries2."""

    async def main(world: World) -> Any:
        async with connected(world, echo) as (reader, writer):
            world.network.loss(0.999_999)
            writer.write(b"x\n")
            return await outcome(reader.readline())

    assert {(found, round(after_s)) for found, after_s in seen_by(main)} == {("TimeoutError", 925)}


@pytest.mark.parametrize("end", ["heal", "time"])
def test_a_clog_ends_with_heal_or_in_its_time(end: str) -> None:
    """What waits is let go by whichever comes first, a handshake too."""

    async def main(world: World) -> Any:
        async with connected(world, echo) as (reader, writer):
            world.network.clog("main", "server", 1000 if end == "heal" else 3)
            writer.write(b"x\n")
            other = asyncio.ensure_future(asyncio.open_connection("server", PORT))
            answer = asyncio.ensure_future(outcome(reader.readline()))
            await asyncio.sleep(1)
            if end == "heal":
                await world.heal()
            _, second = await other
            second.close()
            return await answer

    for found, after_s in seen_by(main):
        assert found == b"x\n"
        assert (1.0 if end == "heal" else 3.0) <= round(after_s, 1) < 3.2


def test_a_retransmission_takes_no_bandwidth_in_advance() -> None:
    """Datagrams pass while TCP waits for its next attempt."""

    async def main(world: World) -> Any:
        world.network.bandwidth(1e6)
        async with connected(world, echo) as (_, writer):
            late: list[float] = []

            class Clock(asyncio.DatagramProtocol):
                def datagram_received(self, data: bytes, addr: Any) -> None:
                    late.append(time.monotonic() - float(data))

            loop = asyncio.get_running_loop()

            async def receive() -> None:
                await asyncio.get_running_loop().create_datagram_endpoint(Clock, ("0.0.0.0", 9))
                await asyncio.Event().wait()

            world.host("server").start(receive)
            sender, _ = await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, remote_addr=("server", 9)
            )
            await asyncio.sleep(0.1)
            world.network.loss(0.3)
            for _ in range(50):
                writer.write(b"x\n")
                sender.sendto(repr(time.monotonic()).encode())
                await asyncio.sleep(0.05)
            sender.close()
            return len(late) > 10, max(late) < 0.03

    assert set(seen_by(main)) == {(True, True)}


def test_keep_alive_is_silent_while_data_is_under_way() -> None:
    """Linux sends no probes then: the connection ends when retransmission does."""

    async def main(world: World) -> Any:
        async with connected(world, ignore) as (reader, writer):
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (
                (socket.TCP_KEEPIDLE, 10),
                (socket.TCP_KEEPINTVL, 5),
                (socket.TCP_KEEPCNT, 3),
            ):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            world.network.partition("server", "main")
            writer.write(b"question")
            return await outcome(reader.read())

    assert {(found, round(after_s)) for found, after_s in seen_by(main)} == {("TimeoutError", 925)}


def forget(kept: list[Any], *, in_a_circle: bool) -> None:
    """Drop what is in the list: at once, or with the next collection."""
    if in_a_circle:
        circle = [*kept]
        circle.append(circle)
        del circle
    kept.clear()
    gc.collect()


@pytest.mark.parametrize("in_a_circle", [False, True])
def test_a_forgotten_socket_is_closed(in_a_circle: bool) -> None:
    """At once if nothing refers to it, else when garbage is collected: the peer reads the end."""

    async def main(world: World) -> Any:
        server = socket.create_server(("", PORT))
        client = socket.create_connection(("127.0.0.1", PORT))
        accepted, _ = server.accept()
        accepted.send(b"x")
        kept = [accepted]
        del accepted
        with pytest.warns(ResourceWarning, match="unclosed"):
            forget(kept, in_a_circle=in_a_circle)
        found = client.recv(9), client.recv(9)
        client.close()
        server.close()
        return found

    assert set(seen_by(main)) == {(b"x", b"")}


def test_a_dead_process_closes_nothing_late() -> None:
    """The sockets of a crashed host are garbage one day: nobody hears of that."""

    async def main(world: World) -> Any:
        kept: list[socket.socket] = []

        async def serve() -> None:
            server = socket.create_server(("", PORT))
            server.setblocking(False)
            kept.append(server)
            kept.append((await asyncio.get_running_loop().sock_accept(server))[0])
            await asyncio.Event().wait()

        world.host("server").start(serve)
        await world.host("server").listening(PORT)
        reader, writer = await asyncio.open_connection("server", PORT)
        await asyncio.sleep(1)
        world.host("server").crash()
        kept.clear()
        gc.collect()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return True

    assert all(seen_by(main))
