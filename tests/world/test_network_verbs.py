"""The verbs of `world.network`: what each does to connections and datagrams, in exact numbers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Any

import pytest

import foretold
from foretold.world.world import World
from tests.helpers import run_of

SEEDS = range(3)
PORT = 80


def seen_by(main: Any, **changes: Any) -> list[Any]:
    """What `main` returns on several tapes, of which each has one digest."""
    values = []
    for seed in SEEDS:
        for order in ("asyncio", "any"):
            done = foretold.run(main, seed=seed, order=order, **changes)
            again = foretold.run(main, seed=seed, order=order, **changes)
            assert again.digest == done.digest
            values.append(done.value)
    return values


class Listener:
    """A host that keeps all it hears, and when."""

    def __init__(self, world: World, name: str = "server") -> None:
        self.host = world.host(name)
        self.heard: list[tuple[float, bytes]] = []
        self.ends: list[str] = []
        self.host.start(self._serve)

    async def _serve(self) -> None:
        await asyncio.start_server(self._listen, "0.0.0.0", PORT)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 20):
                self.heard.append((time.monotonic(), data))
            self.ends.append("end of stream")
        except OSError as error:
            self.ends.append(type(error).__name__)
        writer.close()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.heard)


async def deaf_server(kept: list[asyncio.StreamWriter]) -> None:
    """The main of a host that accepts connections and never reads."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport: Any = writer.transport
        transport.pause_reading()
        kept.append(writer)
        await asyncio.Event().wait()

    await asyncio.start_server(ignore, "0.0.0.0", PORT)


@contextlib.asynccontextmanager
async def connection(world: World) -> Any:
    """A listener, and a connection to it from the test's host."""
    server = Listener(world)
    await server.host.listening(PORT)
    reader, writer = await asyncio.open_connection(server.host.ip, PORT)
    try:
        yield server, reader, writer
    finally:
        writer.transport.abort()


# --- quality -----------------------------------------------------------------------------------


def test_a_connect_costs_one_round_trip() -> None:
    """With exactly 10 ms each way, a connect takes 20 ms and a question 20 more; set before any
    path exists, it holds for the later ones. Loopback is not slowed."""

    async def main(world: World) -> Any:
        world.network.latency(0.01, 0.01)
        server = Listener(world)
        await server.host.listening(PORT)
        times = [time.monotonic()]
        _, writer = await asyncio.open_connection(server.host.ip, PORT)
        times.append(time.monotonic())
        writer.write(b"x")
        await asyncio.sleep(1)
        writer.close()
        return times[1] - times[0], server.heard[0][0] - times[1]

    for connect, send in seen_by(main, exact_time=True):
        assert connect == pytest.approx(0.02, abs=0.000_01)
        assert send == pytest.approx(0.01, abs=0.000_01)


@pytest.mark.parametrize(("megabytes", "seed"), [(100, 1), (5, 0), (5, 2)])
def test_bandwidth_costs_time(megabytes: int, seed: int) -> None:
    """100 MB over 10 MB/s take 10 seconds of virtual time; and so does less over a thinner line,
    however small the segments of the connection are."""

    async def main(world: World) -> float:
        world.network.bandwidth(megabytes * 1e5)
        async with connection(world) as (server, _, writer):
            began = time.monotonic()
            for _ in range(megabytes):
                writer.write(b"x" * 1_000_000)
                await writer.drain()
            while sum(len(data) for _, data in server.heard) < megabytes * 1_000_000:
                await asyncio.sleep(0.05)
            return time.monotonic() - began

    assert foretold.run(main, seed=seed, order="asyncio").value == pytest.approx(10, rel=0.05)


def test_buffers_push_back() -> None:
    """A peer that does not read: as many bytes are taken as the two buffers hold."""

    async def main(world: World) -> int:
        world.network.buffers(20_000, 30_000)
        host = world.host("deaf")
        host.start(deaf_server([]))
        await host.listening(PORT)
        sock = socket.socket()
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (host.ip, PORT))
        await asyncio.sleep(1)  # until it has begun not to read
        taken = 0
        with pytest.raises(TimeoutError):
            while True:
                await asyncio.wait_for(loop.sock_sendall(sock, b"x" * 100), 5)
                taken += 100
        sock.close()
        return taken

    assert seen_by(main) == [50_000] * 6


def test_tcp_survives_loss() -> None:
    """With 30 % lost, all bytes arrive, in order, later."""

    async def main(world: World) -> Any:
        world.network.loss(0.3)
        data = bytes(range(256)) * 400
        async with connection(world) as (server, _, writer):
            writer.write(data)
            writer.write_eof()
            while not server.ends:
                await asyncio.sleep(1)
            return server.text == data, server.ends

    assert seen_by(main) == [(True, ["end of stream"])] * 6


class Inbox(asyncio.DatagramProtocol):
    """Keeps the numbers that datagrams bring."""

    def __init__(self, got: list[int]) -> None:
        self.got = got

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.got.append(int(data))


async def numbers_sent(world: World, count: int = 200) -> list[int]:
    """What arrives of `count` numbered datagrams, sent 10 ms apart."""
    got: list[int] = []

    async def receiver() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: Inbox(got), local_addr=("0.0.0.0", PORT))

    host = world.host("receiver")
    await host.start(receiver)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=(host.ip, PORT)
    )
    for number in range(count):
        transport.sendto(b"%d" % number)
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    transport.close()
    return got


@pytest.mark.parametrize("what", ["nothing", "loss", "duplication", "reordering"])
def test_what_can_happen_to_datagrams(what: str) -> None:
    """Loss loses some, duplication doubles some, reordering lets some be overtaken; and nothing
    else happens besides."""

    async def main(world: World) -> list[int]:
        world.network.latency(0.001, 0.002)
        if what != "nothing":
            getattr(world.network, what)(0.3)
        return await numbers_sent(world)

    for got in seen_by(main):
        assert (len(got) < 200) == (what == "loss")
        assert (len(got) > len(set(got))) == (what == "duplication")
        assert (got != sorted(got)) == (what == "reordering")
        assert what == "loss" or set(got) == set(range(200))
        assert len(set(got)) > 100


def test_an_unreachable_port_is_told_after_a_round_trip() -> None:
    """ECONNREFUSED for a connected datagram socket comes back over the path."""

    async def main(world: World) -> Any:
        world.network.latency(0.05, 0.05)
        host = world.host("one")
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.connect((host.ip, PORT))
        began = time.monotonic()
        sock.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().sock_recv(sock, 1)
        sock.close()
        return time.monotonic() - began

    for took in seen_by(main, exact_time=True):
        assert took == pytest.approx(0.1, abs=0.000_01)


# --- cuts --------------------------------------------------------------------------------------


def test_a_partition_loses_nothing_of_a_stream() -> None:
    """What was written before, during and after it arrives after the repair, once and in order."""

    async def main(world: World) -> Any:
        async with connection(world) as (server, _, writer):
            for number in range(60):
                if number == 20:
                    world.network.partition("main", "server")
                if number == 25:
                    assert server.text.count(b";") <= 20
                if number == 40:
                    world.network.repair("main", "server")
                writer.write(b"%d;" % number)
                await asyncio.sleep(0.1)
            await asyncio.sleep(60)
            return server.text == b"".join(b"%d;" % number for number in range(60))

    assert seen_by(main) == [True] * 6


def test_cuts_in_quick_succession_keep_the_order() -> None:
    """Segments in flight when a path is cut, and others sent when it is open again, arrive in the
    order in which they were written."""

    async def main(world: World) -> Any:
        world.network.latency(0.01, 0.2)
        async with connection(world) as (server, _, writer):
            for number in range(300):
                if number % 7 == 3:
                    world.network.partition("main", "server")
                if number % 7 == 5:
                    world.network.repair("main", "server")
                writer.write(b"%d;" % number)
                await asyncio.sleep(0.02)
            await world.heal()
            await asyncio.sleep(300)
            return server.text == b"".join(b"%d;" % number for number in range(300))

    assert seen_by(main) == [True] * 6


def test_a_connect_across_a_partition_times_out() -> None:
    """Linux sends 6 further SYNs and gives up after 127 s. A repair before that lets the next SYN
    through."""

    async def main(world: World) -> Any:
        server = Listener(world)
        await server.host.listening(PORT)
        world.network.partition("main", server.host)
        began = time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            await asyncio.open_connection(server.host.ip, PORT)
        gave_up = time.monotonic() - began
        connecting = asyncio.create_task(asyncio.open_connection(server.host.ip, PORT))
        began = time.monotonic()
        await asyncio.sleep(4)
        world.network.repair("main", "server")
        _, writer = await connecting
        writer.close()
        return caught.value.errno, round(gave_up), round(time.monotonic() - began)

    assert seen_by(main) == [(110, 127, 7)] * 6


def test_a_host_that_is_not_there() -> None:
    """An address of nobody: no route, after three seconds."""

    async def main() -> Any:
        began = time.monotonic()
        with pytest.raises(OSError, match=r"No route to host|Connect call failed"):
            await asyncio.open_connection("10.9.9.9", PORT)
        return round(time.monotonic() - began)

    assert seen_by(main) == [3] * 6


def test_a_one_way_partition() -> None:
    """From here nothing gets there; from there everything gets here. Acknowledgements are lost
    with the direction that they take."""

    async def main(world: World) -> Any:
        got: list[bytes] = []

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"there")
            await asyncio.sleep(10)
            writer.write(b" still")
            got.append(await reader.read(100))
            writer.close()

        async def serve() -> None:
            await asyncio.start_server(talk, "0.0.0.0", PORT)

        host = world.host("server")
        host.start(serve)
        await host.listening(PORT)
        reader, writer = await asyncio.open_connection(host.ip, PORT)
        await reader.readexactly(5)
        world.network.partition("main", "server", one_way=True)
        writer.write(b"here")
        heard = await reader.readexactly(6)
        before = list(got)
        world.network.repair("main", "server")
        await reader.read()
        writer.close()
        return heard, before, got

    assert seen_by(main) == [(b" still", [], [b"here"])] * 6


def test_lost_acknowledgements_time_out() -> None:
    """Data gets there, but no acknowledgement comes back: the writer's kernel gives up."""

    async def main(world: World) -> Any:
        async with connection(world) as (server, reader, writer):
            world.network.partition("server", "main", one_way=True)
            writer.write(b"one way")
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                await reader.read()
            return server.text, round(time.monotonic() - began)

    assert seen_by(main) == [(b"one way", 925)] * 6


def test_a_crash_across_a_partition_is_silent() -> None:
    """Neither the crash nor a reset of the dead process reaches a peer behind a cut; after repair
    and restart, data is answered by a reset."""

    async def main(world: World) -> Any:
        async with connection(world) as (server, reader, writer):
            world.network.partition("main", "server")
            server.host.crash()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 600)
            world.network.repair("main", "server")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 600)
            server.host.restart()
            await server.host.listening(PORT)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 600)
            writer.write(b"anybody?")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            return True

    assert seen_by(main) == [True] * 6


def test_a_reset_that_is_lost_is_not_repeated() -> None:
    """A killed process' reset does not pass a cut; the peer finds out when it next sends."""

    async def main(world: World) -> Any:
        host = world.host("server")
        host.start(deaf_server([]))
        await host.listening(PORT)
        reader, writer = await asyncio.open_connection(host.ip, PORT)
        await asyncio.sleep(1)
        writer.write(b"x" * 50_000)
        await asyncio.sleep(1)
        world.network.partition("main", "server")
        host.kill()
        world.network.repair("main", "server")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 60)
        writer.write(b"still there?")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        return True

    assert seen_by(main) == [True] * 6


def test_keep_alive_finds_a_dead_peer() -> None:
    """Idle 10 s, then 3 probes 5 s apart, the last of which is waited for: 25 s, as on Linux."""

    async def main(world: World) -> Any:
        async with connection(world) as (server, reader, writer):
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 101)
            server.host.crash()
            began = time.monotonic()
            with pytest.raises(TimeoutError) as caught:
                await reader.read()
            return caught.value.errno, 15 <= time.monotonic() - began <= 26

    assert seen_by(main) == [(110, True)] * 6


# --- holds, clogs, slowness, resets ------------------------------------------------------------


def test_hold_and_release() -> None:
    """What is sent while held waits, and goes at once and in order when released; so does a
    connect."""

    async def main(world: World) -> Any:
        world.network.latency(0.001, 0.002)
        async with connection(world) as (server, _, writer):
            world.network.hold("main", "server")
            for number in range(20):
                writer.write(b"%d;" % number)
                await asyncio.sleep(0.1)
            connecting = asyncio.create_task(asyncio.open_connection(server.host.ip, PORT))
            await asyncio.sleep(60)
            nothing = server.text
            world.network.release("main", "server")
            began = time.monotonic()
            _, other = await connecting
            connected = time.monotonic() - began
            await asyncio.sleep(0.1)
            other.close()
            return nothing, server.text, connected < 0.05

    text = b"".join(b"%d;" % number for number in range(20))
    assert seen_by(main) == [(b"", text, True)] * 6


def test_clog_and_slow() -> None:
    """A clog lets nothing pass for a while, then everything; slow multiplies the latency."""

    async def main(world: World) -> Any:
        world.network.latency(0.01, 0.01)
        async with connection(world) as (server, _, writer):
            times = []
            for verb, argument in (("clog", 5), ("slow", 100), ("slow", 1)):
                getattr(world.network, verb)("main", "server", argument)
                began = time.monotonic()
                writer.write(b"x")
                await asyncio.sleep(20)
                times.append(server.heard[-1][0] - began)
            return times

    for times in seen_by(main, exact_time=True):
        assert times == pytest.approx([5.01, 1.0, 0.01], abs=0.001)


def test_reset_breaks_connections_between_two_hosts_alone() -> None:
    """Both ends get ECONNRESET; a connection to a third host goes on."""

    async def main(world: World) -> Any:
        third = Listener(world, "third")
        await third.host.listening(PORT)
        _, other = await asyncio.open_connection(third.host.ip, PORT)
        async with connection(world) as (server, reader, _):
            await asyncio.sleep(1)
            world.network.reset("main", "server")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            other.write(b"hello")
            await asyncio.sleep(1)
            other.close()
            return server.ends, third.text

    assert seen_by(main) == [(["ConnectionResetError"], b"hello")] * 6


def test_heal_mends_everything() -> None:
    """After `world.heal()`, nothing of cuts, holds, clogs, loss and slowness is left."""

    async def main(world: World) -> Any:
        async with connection(world) as (server, _, writer):
            network = world.network
            network.partition("main", "server")
            network.hold("main", "server")
            network.clog("main", "server", 1000)
            network.slow("main", "server", 1000)
            network.loss(0.9)
            writer.write(b"x")
            await asyncio.sleep(1)
            await world.heal()
            began = time.monotonic()
            while not server.heard:
                await asyncio.sleep(0.1)
            return time.monotonic() - began < 3

    assert seen_by(main) == [True] * 6


# --- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "complaint"),
    [
        ("latency", (0.0, 1.0), "low_s must be above 0"),
        ("latency", (2.0, 1.0), "high_s must be at least 2.0"),
        ("loss", (1.0,), "below 1"),
        ("duplication", (1.5,), "at most 1"),
        ("reordering", (-0.1,), "at least 0"),
        ("bandwidth", (0,), "above 0"),
        ("buffers", (0, 1), "1 or more"),
        ("partition", ("main", "nobody"), "there is no host 'nobody'"),
        ("slow", ("main", "main", 0), "above 0"),
    ],
)
def test_wrong_arguments(verb: str, arguments: Any, complaint: str) -> None:
    """Each verb says what is wrong with what it was given."""

    def main(world: World) -> None:
        getattr(world.network, verb)(*arguments)

    error = run_of(main).error
    assert isinstance(error, foretold.UsageError)
    assert complaint in str(error)


# --- names -------------------------------------------------------------------------------------


def test_names_can_be_missing_or_slow() -> None:
    """A name that is not found is a gaierror, and slow resolution takes its time; both end."""

    async def main(world: World) -> Any:
        server = Listener(world)
        await server.host.listening(PORT)
        world.dns.missing.add("server")
        with pytest.raises(socket.gaierror) as caught:
            await asyncio.open_connection("server", PORT)
        world.dns.missing.clear()
        world.dns.slow_s = 3.0
        began = time.monotonic()
        _, writer = await asyncio.open_connection("server", PORT)
        writer.close()
        return caught.value.errno, round(time.monotonic() - began)

    assert seen_by(main) == [(socket.EAI_NONAME, 3)] * 6


def test_happy_eyeballs_across_families() -> None:
    """A host that listens on IPv6 alone is found by its name although IPv4 refuses."""

    async def main(world: World) -> Any:
        async def serve() -> None:
            await asyncio.start_server(lambda r, w: w.close(), "::", PORT)

        host = world.host("six")
        host.start(serve)
        await host.listening(PORT)
        reader, writer = await asyncio.open_connection("six", PORT, happy_eyeballs_delay=0.25)
        peer = writer.get_extra_info("peername")[0]
        await reader.read()
        writer.close()
        return peer == host.stack.ipv6

    assert seen_by(main) == [True] * 6
