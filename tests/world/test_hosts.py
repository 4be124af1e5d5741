"""Hosts: how their programs start, end and die, and what each has for itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import time
from typing import Any

import pytest

import foretold
from foretold.world.world import World
from tests.helpers import run_of

ORDERS = ("asyncio", "any")
SEEDS = range(3)


def seen_by(main: Any, **changes: Any) -> Any:
    """What `main` returns, the same for all seeds and orders; each tape has one digest."""
    values = []
    for seed in SEEDS:
        for order in ORDERS:
            done = foretold.run(main, seed=seed, order=order, **changes)
            again = foretold.run(main, seed=seed, order=order, **changes)
            assert again.digest == done.digest
            values.append(done.value)
    assert all(value == values[0] for value in values), values
    return values[0]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives back what it gets."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def echo_server(port: int = 80) -> None:
    """The main of a host that echoes."""
    async with await asyncio.start_server(echo, "0.0.0.0", port) as server:
        await server.serve_forever()


async def ask(host: str, port: int = 80, message: bytes = b"hello") -> bytes:
    """One question and its answer."""
    reader, writer = await asyncio.open_connection(host, port)
    with contextlib.closing(writer):
        writer.write(message)
        return await reader.readexactly(len(message))


def test_two_hosts_on_one_port() -> None:
    """Each has its own address, name and ports; a client tells them apart by name and number."""

    def server(world: World, name: str) -> Any:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(f"{name} for {writer.get_extra_info('peername')[0]}".encode())
            writer.close()

        async def main() -> None:
            await asyncio.start_server(handle, "0.0.0.0", 80)

        world.host(name).start(main)
        return world.host(name)

    async def main(world: World) -> Any:
        one, two = server(world, "one"), server(world, "two")
        await one.listening(80)
        await two.listening(80)
        said = []
        for target in ("one", two.ip, one.stack.ipv6, "TWO"):
            try:
                reader, writer = await asyncio.open_connection(target, 80)
            except OSError as error:
                said.append(type(error).__name__.encode())
                continue
            said.append(await reader.read())
            writer.close()
        return said, world.home.ip

    said, home = seen_by(main)
    assert said[0] == f"one for {home}".encode()
    assert said[1] == said[3] == f"two for {home}".encode()
    assert said[2] == b"ConnectionRefusedError"  # it listens on IPv4 alone


def test_localhost_is_each_hosts_own() -> None:
    """What listens on 127.0.0.1 of one host cannot be reached from another."""

    async def local() -> None:
        await asyncio.start_server(echo, "127.0.0.1", 80)

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(local)
        await host.listening(80)
        found = await host.start(ask("localhost"))
        with pytest.raises(ConnectionRefusedError):
            await ask(host.ip)
        with pytest.raises(ConnectionRefusedError):
            await ask("127.0.0.1")
        return found

    assert seen_by(main) == b"hello"


def test_all_calls_know_the_same_services() -> None:
    """A name that one call knows leads to the same port by the others, and back to the name."""

    def main() -> dict[str, tuple[Any, str]]:
        found = {}
        for name in ("http", "ntp", "mysql"):
            ((*_, address), *_) = socket.getaddrinfo("127.0.0.1", name)
            found[name] = (address[1], socket.getnameinfo(address, 0)[1])
            assert socket.getservbyname(name) == address[1]
        return found

    known = {"http": (80, "http"), "ntp": (123, "ntp"), "mysql": (3306, "mysql")}
    assert foretold.run(main).value == known


def test_a_result_and_an_error_can_be_awaited() -> None:
    """`await host.start(…)` gives what the main returns, or raises what it raised, also if it had
    failed before anybody looked."""

    async def fails() -> None:
        await asyncio.sleep(1)
        raise ValueError("as asked")

    async def answers() -> int:
        await asyncio.sleep(1)
        return 42

    async def main(world: World) -> Any:
        value = await world.host("one").start(answers)
        with pytest.raises(ValueError, match="as asked"):
            await world.host("two").start(fails)
        failed = world.host("two").start(fails)
        await asyncio.sleep(5)
        with pytest.raises(ValueError, match="as asked"):
            await failed
        return value

    assert seen_by(main) == 42


def test_a_main_that_raises_fails_the_run() -> None:
    """Nobody awaits it: the run is known by that error, which says whose main it was."""

    async def fails() -> None:
        raise ValueError("nobody looks")

    async def main(world: World) -> None:
        world.host("one").start(fails)
        await asyncio.sleep(1)

    async def waits_for_ever(world: World) -> None:
        world.host("one").start(fails)
        await world.host("one").listening(80)

    for program in (main, waits_for_ever):
        with pytest.raises(ValueError, match="nobody looks") as caught:
            foretold.run(program)
        assert any("host one" in note for note in caught.value.__notes__)


def test_what_raises_while_it_is_stopped_fails_the_run() -> None:
    """A `finally` that raises on the way out is not swallowed by `stop`."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError("while stopping")

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(stubborn)
        await asyncio.sleep(1)
        await host.stop()

    with pytest.raises(ValueError, match="while stopping"):
        foretold.run(main)


def test_stop_runs_finally_and_a_crash_does_not() -> None:
    """`stop` cancels main and the tasks it left, which clean up; `kill` and `crash` run nothing of
    the program any more, though its garbage is collected meanwhile."""

    def program(log: list[str]) -> Any:
        async def helper() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                log.append("helper")

        async def main() -> None:
            task = asyncio.create_task(helper())
            try:
                await asyncio.sleep(10_000)
            finally:
                log.append("main")
                del task

        return main

    async def main(world: World) -> Any:
        logs: dict[str, list[str]] = {}
        for how in ("stop", "kill", "crash"):
            host, log = world.host(how), logs.setdefault(how, [])
            host.start(program(log))
            await asyncio.sleep(1)
            if how == "stop":
                await host.stop()
            else:
                getattr(host, how)()
            gc.collect()
            await asyncio.sleep(100)
        return {how: sorted(log) for how, log in logs.items()}

    assert seen_by(main) == {"stop": ["helper", "main"], "kill": [], "crash": []}


def test_signals_of_a_host() -> None:
    """A handler of SIGTERM runs instead of the cancellation, on its own host alone."""

    async def polite() -> str:
        done = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
        await done.wait()
        return "ended by itself"

    async def main(world: World) -> Any:
        one, two = world.host("one").start(polite), world.host("two").start(polite)
        await asyncio.sleep(1)
        await world.host("one").stop()
        return await one, two.done()

    assert seen_by(main) == ("ended by itself", False)


def test_peers_of_a_killed_process_are_told() -> None:
    """Its kernel closes its sockets: FIN for a quiet connection, RST for one with unread data, and
    the port is free again."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport: Any = writer.transport
        transport.pause_reading()
        await asyncio.Event().wait()

    async def deaf() -> None:
        await asyncio.start_server(ignore, "0.0.0.0", 80)

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(deaf)
        await host.listening(80)
        quiet, other = await asyncio.open_connection("one", 80)
        unread, writer = await asyncio.open_connection("one", 80)
        await asyncio.sleep(1)
        writer.write(b"x" * 100_000)
        await asyncio.sleep(1)
        host.kill()
        seen: list[Any] = [await quiet.read()]
        try:
            seen.append(await unread.read())
        except OSError as error:
            seen.append(type(error).__name__)
        try:
            await ask(host.ip)
        except OSError as error:
            seen.append(type(error).__name__)
        other.close()
        writer.close()
        return seen

    assert seen_by(main) == [b"", "ConnectionResetError", "ConnectionRefusedError"]


def test_peers_of_a_crashed_host_hear_nothing() -> None:
    """No FIN, no RST: a reader waits; who writes gets ETIMEDOUT after Linux' 924.6 seconds."""

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(echo_server)
        await host.listening(80)
        reader, writer = await asyncio.open_connection("one", 80)
        writer.write(b"there?")
        await reader.readexactly(6)
        host.crash()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 3600)
        began = time.monotonic()
        writer.write(b"there?")
        with pytest.raises(TimeoutError) as caught:
            await reader.read()
        return caught.value.errno, round(time.monotonic() - began)

    number, seconds = seen_by(main)
    assert number == 110
    assert seconds == 925


def test_a_crash_and_a_restart() -> None:
    """After it the kernel knows nothing of old connections and answers data with a reset; the same
    name, address and port serve again."""

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(echo_server)
        await host.listening(80)
        reader, writer = await asyncio.open_connection("one", 80)
        before = host.ip, await ask("one")
        host.crash()
        with pytest.raises(foretold.UsageError, match="restart"):
            host.start(echo_server)
        await asyncio.sleep(5)
        host.restart()
        await host.listening(80)
        assert (host.ip, await ask("one")) == before
        writer.write(b"anybody?")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        return before[1]

    assert seen_by(main) == b"hello"


def test_a_restart_over_a_living_process() -> None:
    """It is killed first; nothing of it runs beside the new one, not even what was ready."""

    async def main(world: World) -> Any:
        log: list[str] = []

        def program(name: str) -> Any:
            async def ticking() -> None:
                while True:
                    log.append(name)
                    await asyncio.sleep(0)
                    await asyncio.sleep(0.1)

            return ticking

        host = world.host("one")
        host.start(program("old"))
        await asyncio.sleep(1)
        host.restart(program("new"))
        old = log.count("old")
        await asyncio.sleep(1)
        await host.stop()
        host.start(program("third"))
        await asyncio.sleep(1)
        return log.count("old") == old, "new" in log, "third" in log

    assert seen_by(main) == (True, True, True)


def test_a_host_that_crashes_itself() -> None:
    """Nothing that was ready on it runs after that."""

    async def main(world: World) -> Any:
        log: list[str] = []
        host = world.host("one")

        async def late() -> None:
            log.append("late")

        async def suicide() -> None:
            task = asyncio.create_task(late())
            host.crash()
            await task

        host.start(suicide)
        await asyncio.sleep(1)
        return log

    assert seen_by(main) == []


def test_a_paused_host_stands_still_and_its_kernel_does_not() -> None:
    """As under SIGSTOP: connections are still established and data is taken in; it goes on late."""

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(echo_server)
        await host.listening(80)
        host.pause()
        began = time.monotonic()
        asking = asyncio.create_task(ask("one"))
        await asyncio.sleep(30)
        assert not asking.done()
        host.resume()
        return await asking, round(time.monotonic() - began)

    assert seen_by(main) == (b"hello", 30)


def test_a_slow_host_makes_no_other_late() -> None:
    """`time.sleep` on one host, or a long step, stops that host alone."""

    async def busy() -> None:
        for _ in range(10):
            time.sleep(5)
            await asyncio.sleep(0)

    async def main(world: World) -> Any:
        world.host("fast").start(echo_server)
        await world.host("fast").listening(80)
        world.host("busy").start(busy)
        began = time.monotonic()
        for _ in range(10):
            await ask("fast")
        return time.monotonic() - began < 1

    assert seen_by(main) is True


def test_a_woken_host_has_the_time_of_what_woke_it() -> None:
    """An idle host's clock does not lag: what arrives after an hour is seen after that hour, on
    hosts that only serve as on those that await another's main."""

    async def main(world: World) -> Any:
        seen: list[float] = []
        began = time.monotonic()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(time.monotonic() - began)
            writer.close()

        async def server() -> None:
            await asyncio.start_server(handle, "0.0.0.0", 80)

        async def sleeper() -> None:
            await asyncio.sleep(7200)

        async def waiter() -> None:
            await sleeping
            seen.append(time.monotonic() - began)

        world.host("server").start(server)
        sleeping = world.host("sleeper").start(sleeper)
        waiting = world.host("waiter").start(waiter)
        await asyncio.sleep(3600)
        _, writer = await asyncio.open_connection("server", 80)
        writer.close()
        await waiting
        return [round(s) for s in seen], round(time.monotonic() - began)

    assert seen_by(main) == ([3600, 7200], 7200)


def test_clocks_differ() -> None:
    """Skew moves one host's wall clock; the monotonic time is not touched."""

    async def now() -> tuple[float, float]:
        return time.time(), time.monotonic()

    async def main(world: World) -> Any:
        host = world.host("one")
        host.clock.skew(3600)
        wall, monotonic = await host.start(now)
        return round(wall - time.time()), round(monotonic - time.monotonic())

    assert seen_by(main) == (3600, 0)


def test_a_deadlock_across_hosts_names_all_who_wait() -> None:
    """Each of two hosts waits for the other's word: the error lists the tasks of both."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async def serving() -> None:
        async with await asyncio.start_server(silent, "0.0.0.0", 80) as server:
            await server.serve_forever()

    async def main(world: World) -> None:
        world.host("one").start(serving)
        await world.host("one").listening(80)
        reader, _writer = await asyncio.open_connection("one", 80)
        await reader.read(1)

    for order in ORDERS:
        error = run_of(main, order=order).error
        assert isinstance(error, foretold.Deadlock)
        assert "main waits at" in str(error)
        assert "silent" in str(error)
        assert "serving" in str(error)


def test_keep_alive_alone_hides_no_deadlock() -> None:
    """Probes that are answered go on for ever and change nothing: the deadlock is found at once,
    and `run_until_idle` returns. Where the peer is dead, probes do make a difference."""

    async def main(world: World, wait: str) -> float:
        host = world.host("one")
        host.start(echo_server)
        await host.listening(80)
        reader, writer = await asyncio.open_connection("one", 80)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        began = time.monotonic()
        if wait == "idle":
            await world.clock.run_until_idle()
        elif wait == "crash":
            host.crash()
            with pytest.raises(TimeoutError):
                await reader.read()
        else:
            await reader.read()
        writer.close()
        return time.monotonic() - began

    stuck = run_of(lambda world: main(world, "read"))
    assert isinstance(stuck.error, foretold.Deadlock)
    assert stuck.virtual_s < 1
    assert foretold.run(lambda world: main(world, "idle")).value < 1
    assert 7200 < foretold.run(lambda world: main(world, "crash")).value < 7200 + 10 * 75 + 1


def test_run_until_idle_gives_up_on_hosts_that_never_rest() -> None:
    """Another host's endless timer is found out after the limit, as one of our own is."""

    async def ticking() -> None:
        while True:
            await asyncio.sleep(1)

    async def main(world: World) -> None:
        world.host("one").start(ticking)
        await world.clock.run_until_idle(limit_s=60)

    with pytest.raises(foretold.LimitExceeded, match="did not come to rest"):
        foretold.run(main)


def test_blocking_sockets_in_a_plain_main() -> None:
    """`socket.create_connection` waits as long as it takes, in virtual time, while the hosts go
    on; a timeout is a TimeoutError; what never comes is a deadlock."""

    def main(world: World) -> Any:
        world.network.latency(0.1, 0.1)
        world.host("one").start(echo_server)
        world.drive(1)
        began = time.monotonic()
        with socket.create_connection(("one", 80), timeout=5) as sock:
            sock.sendall(b"hello")
            answer = sock.makefile("rb").read(5)
            took = round(time.monotonic() - began, 2)
            with pytest.raises(TimeoutError, match="timed out"):
                sock.recv(1)
            late = round(time.monotonic() - began, 1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("one", 81))
        return answer, took, late

    assert seen_by(main, exact_time=True) == (b"hello", 0.4, 5.4)

    def stuck(world: World) -> None:
        socket.create_server(("0.0.0.0", 80)).accept()

    assert isinstance(run_of(stuck).error, foretold.Deadlock)


def test_blocking_sockets_on_another_host() -> None:
    """A blocking call stops the main thread of its own process, and nobody else."""

    async def blocking() -> bytes:
        with socket.create_connection(("main", 80)) as sock:
            sock.sendall(b"hello\n")
            return sock.recv(100)

    async def main(world: World) -> Any:
        await asyncio.start_server(echo, "0.0.0.0", 80)
        return await world.host("one").start(blocking)

    assert foretold.run(main).value == b"hello\n"


def test_closed_connections_are_forgotten() -> None:
    """A hundred connections leave nothing in the tables of either host."""

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(echo_server)
        await host.listening(80)
        for _ in range(100):
            await ask("one")
        await asyncio.sleep(1)
        return len(host.stack.ends), len(world.home.stack.ends), len(world.wire.queue)

    assert seen_by(main) == (0, 0, 0)
