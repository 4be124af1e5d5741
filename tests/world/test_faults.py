"""Faults that the world draws by itself: by the tape, inside a budget, never where it is calm."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import statistics

import pytest

import foretold
from foretold.tape.file import TapeFile, dumps, loads
from foretold.trace.events import Fault
from foretold.world.faults.nemesis import AT_A_TIME_MAX, FAULTS_MAX
from foretold.world.run import Run, execute
from foretold.world.settings import Settings
from foretold.world.world import World

NETWORK = (
    "partition",
    "one_way",
    "hold",
    "clog",
    "swizzle",
    "slow",
    "latency",
    "loss",
    "duplication",
    "reordering",
    "reset",
    "dns_missing",
    "dns_slow",
)
HOSTS = ("kill", "pause", "clock_skew", "crash")
PORT = 80


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back each line."""
    try:
        while line := await reader.readline():
            writer.write(line)
    except OSError:
        pass
    finally:
        writer.close()


async def serve() -> None:
    """An echo server that a fault may kill and start again."""
    await asyncio.start_server(echo, "0.0.0.0", PORT)
    await asyncio.Event().wait()


async def ask() -> bool:
    """One request on a connection of its own; whether it was answered within a second."""
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection("server", PORT)
            try:
                writer.write(b"hello\n")
                return await reader.readline() == b"hello\n"
            finally:
                writer.close()
    except OSError:  # TimeoutError is one
        return False


async def client() -> None:
    """Ask for ever."""
    while True:
        await ask()
        await asyncio.sleep(0.1)


async def gossip() -> None:
    """Send datagrams for ever. (Nobody listens; that is no harm.)"""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        while True:
            with contextlib.suppress(OSError):
                sock.sendto(b"hello", ("server", PORT))
            await asyncio.sleep(0.1)


async def busy(world: World) -> None:
    """A server and two clients for some seconds, and one who only sends datagrams."""
    if not world.host("server").stack.is_listening(PORT):
        world.host("server").start(serve)
    world.host("carol").start(gossip)
    for name in ("alice", "bob"):
        world.host(name).start(client)
    await world.clock.advance(8)


def made(main: object, seed: int, faults: foretold.faults.FaultSet) -> Run:
    """A run with all its events."""
    settings = Settings(faults=str(faults))
    done = execute(main, foretold.Tape.seeded(seed, settings.on_tape()), settings, detail=True)  # type: ignore[arg-type]  # a main that takes the world
    if done.error is not None:
        raise done.error
    return done


def faults_in(done: Run) -> list[str]:
    """What was injected, and what was repaired."""
    return [event.text for event in done.trace.events if isinstance(event, Fault)]


def test_a_set_lists_its_kinds_in_a_fixed_order() -> None:
    """Sets are combined and narrowed; the order never depends on how a set was written."""
    faults = foretold.faults
    assert faults.network.kinds == NETWORK
    assert faults.hosts.kinds == HOSTS
    assert (faults.hosts + faults.network).kinds == NETWORK + HOSTS
    assert faults.network.only("reset", "partition").kinds == ("partition", "reset")
    assert faults.network.without(*NETWORK[1:]).kinds == ("partition",)
    assert "reset" in faults.network
    assert "kill" not in faults.network


def test_wrong_names_are_refused() -> None:
    """A mistyped kind is named at once, wherever it is written."""
    with pytest.raises(foretold.UsageError, match="no such kind; it has partition"):
        foretold.faults.network.only("partitoin")
    with pytest.raises(foretold.UsageError, match="a set of faults, such as"):
        foretold.run(serve, faults=7)  # type: ignore[call-overload]  # the mistake
    with pytest.raises(foretold.UsageError, match="there is no fault 'rain'"):
        foretold.simulate(faults="rain")(serve)
    with pytest.raises(foretold.UsageError, match=r"Did you mean 'network'\?"):
        foretold.run(serve, faults="netwrok")


def test_sets_have_names() -> None:
    """In a text a set stands for its kinds; on the tape they stand themselves."""
    settings = Settings(faults="kill network")
    assert settings.faults == " ".join((*NETWORK, "kill"))
    assert Settings(faults="disk_errors").faults == str(foretold.faults.disk_errors)


@pytest.mark.parametrize("kind", [*NETWORK, *HOSTS])
def test_each_kind_strikes_and_is_over_again(kind: str) -> None:
    """Alone in its set, each kind strikes in some run; afterwards every path is as it was."""
    faults = (foretold.faults.network + foretold.faults.hosts).only(kind)
    seen = 0

    async def main(world: World) -> None:
        await busy(world)
        await world.heal()
        await world.clock.advance(2)
        assert world.nemesis is not None
        assert world.nemesis.ground.taken == set()
        assert not world.dns.missing
        assert not world.dns.slow_s
        for path in world.network._paths.values():
            assert path.open
            assert (path.factor, path.loss, path.clogged_until_ns) == (1.0, 0.0, 0)
            assert (path.duplication, path.reordering, path.usual) == (0.0, 0.0, {})
            assert path.high_ns < 10_000_000

    for seed in range(12):
        seen += bool(faults_in(made(main, seed, faults)))
        if seen == 2:
            return
    raise AssertionError(f"{kind} struck in {seen} of 12 runs")


def test_runs_have_different_kinds() -> None:
    """Swarm: some runs have no fault, and no two kinds always come together."""
    first = [
        {text.split()[0] for text in faults_in(made(busy, seed, foretold.faults.network))}
        for seed in range(30)
    ]
    assert set() in first
    verbs = ("partition", "hold", "slow", "reset", "loss")
    for a, b in itertools.combinations(verbs, 2):
        assert any(a in run and b not in run for run in first), (a, b)


def test_the_calm_tape_has_no_fault() -> None:
    """0 means no fault: a tape without choices is the quiet run, though faults are on."""
    tape = foretold.Tape("recorded", settings=Settings(faults="partition reset").on_tape())
    done = execute(busy, tape, Settings.from_tape(tape.settings), detail=True)
    assert done.error is None
    assert faults_in(done) == []


def test_the_budget_is_kept() -> None:
    """At no time more than the stated number of faults, and in no run more than stated."""
    most = 0

    async def main(world: World) -> None:
        nonlocal most
        world.host("server").start(serve)
        for name in ("alice", "bob", "carol"):
            world.host(name).start(client)
        assert world.nemesis is not None
        for _ in range(80):
            await world.clock.advance(0.1)
            going_on = len(world.nemesis.going_on)
            most = max(most, going_on)
            assert going_on <= AT_A_TIME_MAX
        assert world.nemesis.struck <= FAULTS_MAX

    for seed in range(8):
        foretold.run(main, seed=seed, faults=foretold.faults.network)
    assert most == AT_A_TIME_MAX


def test_nothing_strikes_in_calm() -> None:
    """Set-up inside `calm` succeeds in every run; what strikes, strikes afterwards, however long
    the set-up took."""
    struck = 0

    async def main(world: World) -> None:
        async with world.calm():
            world.host("server").start(serve)
            await world.host("server").listening(PORT)
            for _ in range(40):
                assert await ask()
                await world.clock.advance(0.5)
        async with world.calm():
            assert await ask()
        await busy(world)

    for seed in range(12):
        done = made(main, seed, foretold.faults.network)
        times = [event.time_ns for event in done.trace.events if isinstance(event, Fault)]
        assert all(ns > 1_020_000_000_000 for ns in times)
        struck += bool(times)
    assert struck > 6


@pytest.mark.usefixtures("one_session")
def test_after_heal_the_world_converges() -> None:
    """`heal` ends all faults for good: from then on every request is answered."""

    async def main(world: World) -> None:
        await busy(world)
        await world.heal()
        for _ in range(12):
            assert await ask()
            await asyncio.sleep(0.5)

    for seed in range(12):
        foretold.run(main, seed=seed, faults=foretold.faults.network)


def test_faults_travel_on_the_tape() -> None:
    """A tape that was written to a file and read again has the same faults, by its settings."""
    settings = Settings(faults=str(foretold.faults.network))
    tape = foretold.Tape.seeded(3, settings.on_tape())
    recorded = execute(busy, tape, settings, recording=True)
    again = loads(dumps(TapeFile(recorded.tape.recorded()))).tape
    assert again.settings["faults"] == " ".join(NETWORK)
    replayed = execute(busy, again, Settings.from_tape(again.settings), detail=True)
    assert faults_in(replayed)
    assert replayed.digest == recorded.digest


def test_a_program_that_waits_for_ever_is_still_found_out() -> None:
    """The nemesis keeps no world alive: a deadlock is a deadlock, faults or not."""

    async def main(world: World) -> None:
        world.host("server").start(serve)
        await ask()
        await asyncio.Event().wait()

    for seed in range(6):
        with pytest.raises(foretold.Deadlock):
            foretold.run(main, seed=seed, faults=foretold.faults.network)


def test_a_failure_names_the_one_fault_it_needs() -> None:
    """A client that does not expect a reset: the search finds one, takes all other faults away,
    and the story tells it."""

    async def main(world: World) -> None:
        async with world.calm():
            world.host("server").start(serve)
            await world.host("server").listening(PORT)
        reader, writer = await asyncio.open_connection("server", PORT)
        try:
            for _ in range(50):
                writer.write(b"hello\n")
                await reader.readline()
                await asyncio.sleep(0.1)
        finally:
            writer.close()

    failure = foretold.explore(
        main, runs=100, faults=foretold.faults.network, confirm=False
    ).failure
    assert failure is not None
    assert isinstance(failure.exception, ConnectionResetError)
    assert failure.faults == ["reset main <-> server"]
    assert "s, fault: reset main <-> server" in failure.story
    with pytest.raises(ConnectionResetError):
        foretold.replay(main, failure.tape)


async def answered_once(world: World) -> float:
    """One request, as short as a test can be: how long it took."""
    world.host("server").start(serve)
    await world.host("server").listening(PORT)
    began_s = world.clock.monotonic()
    await ask()
    return world.clock.monotonic() - began_s


@pytest.mark.usefixtures("one_session")
def test_a_short_test_is_struck_as_well() -> None:
    """A test that speaks for two milliseconds: at least a third of the runs notice a fault."""
    calm_s = max(foretold.run(answered_once, seed=seed).value for seed in range(20))
    noticed = sum(
        foretold.run(answered_once, seed=seed, faults=foretold.faults.network).value > 2 * calm_s
        for seed in range(90)
    )
    assert noticed >= 30


def test_a_careless_retry_is_found_without_sleeps() -> None:
    """A planted bug: who got no answer asks again, and is served twice. Five requests that follow
    each other at once are over in some milliseconds, and it is found all the same."""

    async def main(world: World) -> None:
        orders: list[bytes] = []

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                orders.append(await reader.readline())
                writer.write(b"taken\n")
                await writer.drain()
            writer.close()

        async def shop() -> None:
            await asyncio.start_server(take, "0.0.0.0", PORT)

        async def order(number: int) -> bool:
            reader, writer = await asyncio.open_connection("shop", PORT)
            try:
                writer.write(b"%d\n" % number)
                return await reader.readline() == b"taken\n"
            finally:
                writer.close()

        world.host("shop").start(shop)
        await world.host("shop").listening(PORT)
        for number in range(5):
            for _ in range(3):
                with contextlib.suppress(OSError):  # TimeoutError is one
                    if await asyncio.wait_for(order(number), 1):
                        break
        taken = [line for line in orders if line]
        assert len(taken) == len(set(taken))

    def runs_from(seed: int) -> int:
        outcome = foretold.explore(
            main, runs=150, seed=seed, faults=foretold.faults.network, shrink=False, confirm=False
        )
        assert isinstance(outcome.failure and outcome.failure.exception, AssertionError)
        return outcome.runs

    assert statistics.median(map(runs_from, (0, 1000, 2000))) <= 60


@pytest.mark.usefixtures("one_session")
def test_what_opens_in_calm_strikes_afterwards() -> None:
    """The first word is spoken inside `calm`, where nothing strikes; right after it something may,
    and after `heal` nothing does."""
    struck = {"calm": 0, "after": 0, "healed": 0}

    async def main(world: World) -> None:
        assert world.nemesis is not None
        async with world.calm():
            world.host("server").start(serve)
            await world.host("server").listening(PORT)
            assert await ask()
            struck["calm"] += world.nemesis.struck
        await ask()
        struck["after"] += (before := world.nemesis.struck)
        await world.heal()
        assert await ask()
        struck["healed"] += world.nemesis.struck - before

    for seed in range(20):
        foretold.run(main, seed=seed, faults=foretold.faults.network)
    assert (struck["calm"], struck["healed"]) == (0, 0)
    assert struck["after"] >= 5


def test_a_killed_host_is_started_again() -> None:
    """`foretold.faults.hosts`: a host that dies comes back, and only if it was asked for."""

    async def main(world: World) -> None:
        world.host("server").start(serve)
        await world.clock.advance(12)
        await world.heal()
        assert await ask()

    kinds = foretold.faults.hosts.only("kill")
    texts = [text for seed in range(20) for text in faults_in(made(main, seed, kinds))]
    assert texts.count("kill server") == texts.count("restart server") > 5


@pytest.mark.parametrize("kind", ["duplication", "reordering"])
def test_what_strikes_datagrams(kind: str) -> None:
    """In some run datagrams are doubled, or overtake each other; all of them arrive. Where only TCP
    is spoken it does not strike at all: it would be told, and have no effect."""
    faults = foretold.faults.network.only(kind)

    async def main(world: World) -> list[int]:
        ear = world.host("ear")
        heard: list[int] = []

        async def listen() -> None:
            with socket.socket(type=socket.SOCK_DGRAM) as sock:
                sock.bind(("0.0.0.0", PORT))
                sock.setblocking(False)
                while True:
                    heard.append(int(await asyncio.get_running_loop().sock_recv(sock, 100)))

        ear.start(listen)
        await asyncio.sleep(0.01)
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            for number in range(2_000):
                sock.sendto(b"%d" % number, (ear.ip, PORT))
                await asyncio.sleep(0.002)
        await world.clock.advance(1)
        return heard

    async def streams_alone(world: World) -> None:
        world.host("server").start(serve)
        world.host("alice").start(client)
        await world.clock.advance(8)

    doubled = overtaken = 0
    for seed in range(8):
        heard = made(main, seed, faults).value
        assert set(heard) == set(range(2_000))
        doubled += len(heard) > 2_000
        overtaken += heard != sorted(heard)
        assert not faults_in(made(streams_alone, seed, faults))
    assert (doubled > 0) == (kind == "duplication")
    assert (overtaken > 0) == (kind == "reordering")


QUALITIES = {
    "latency": ("high_ns", lambda network: network.latency(0.25)),
    "loss": ("loss", lambda network: network.loss(0.25)),
    "slow": ("factor", lambda network: network.slow("main", "server", 3.0)),
    "duplication": ("duplication", lambda network: network.duplication(0.25)),
    "reordering": ("reordering", lambda network: network.reordering(0.25)),
}


@pytest.mark.parametrize("kind", QUALITIES)
def test_what_the_test_sets_survives_a_fault(kind: str) -> None:
    """A verb that is used while a fault of its sort is on holds at once, and when that is over; if
    it is not used, all is as before the fault."""
    quality, verb = QUALITIES[kind]

    async def main(world: World, used: bool) -> tuple[object, object, object]:
        server = world.host("server")
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            sock.sendto(b"hello", (server.ip, PORT))
        path = world.network.path(world.home.stack, server.stack)
        usual = getattr(path, quality)
        for _ in range(100):
            await asyncio.sleep(0.05)
            if getattr(path, quality) != usual:
                break
        else:
            return usual, usual, usual
        if used:
            verb(world.network)
        during = getattr(path, quality)
        async with world.calm():
            return usual, during, getattr(path, quality)

    struck = 0
    for seed in range(8):
        for used in (False, True):

            async def bound(world: World, used: bool = used) -> object:
                return await main(world, used)

            usual, during, after = made(bound, seed, foretold.faults.network.only(kind)).value
            struck += during != usual
            assert after == (during if used else usual)
    assert struck > 4
