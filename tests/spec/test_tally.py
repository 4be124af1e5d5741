"""The counts of a run: they come to the search by every way that a run can take."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import foretold
from foretold.search.explore import explore
from foretold.world.run import execute
from foretold.world.settings import Settings
from foretold.world.tally import FaultCount, InvariantCount, RuleCount, Tally
from foretold.world.world import World


async def counting(world: World) -> None:
    """A program that counts as a machine would."""
    tally = world.tally
    tally.rule("buy")
    tally.rule("sell")
    for _ in range(foretold.between(1, 3, "calls")):
        tally.rule("buy", "tried")
        tally.rule("buy", "succeeded")
    tally.invariant("stock", over=2)
    tally.invariant("never checked", checked=False)
    await asyncio.sleep(0)


def _sample() -> Tally:
    tally = Tally()
    tally.rule("buy", "tried")
    tally.rule("buy", "refused", "sold out\nsorry")
    tally.invariant("stock")
    tally.invariant("stock", over=3)
    tally.fault("loss", "injected")
    tally.fault("kill", "injected")
    tally.fault("kill", "effect", 0)
    return tally


def test_counts_add_up() -> None:
    """Two runs give the sum; what is not known of an effect stays not known, and 0 stays 0."""
    tally = Tally()
    tally.add(_sample())
    tally.add(_sample())
    assert tally.rules == {"buy": RuleCount(tried=2, refused=2, runs=2, said="sold out")}
    assert tally.invariants == {"stock": InvariantCount(checks=4, told=2, ranged=6, runs=2)}
    assert tally.faults == {"loss": FaultCount(2, None, 2), "kill": FaultCount(2, 0, 2)}
    assert _sample().rules["buy"].tried == 1, "what was added is not shared"


def test_counts_survive_the_way() -> None:
    """Pickles give back what was counted; an empty tally is falsy, and not sent."""
    tally = _sample()
    assert pickle.loads(pickle.dumps(tally)) == tally
    assert tally
    assert not Tally()


@pytest.mark.parametrize("how", [{}, {"workers": 2}, {"isolation": "fork"}])
def test_a_search_adds_up_its_runs(how: dict[str, Any]) -> None:
    """In this process, in workers and in forks: the same counts, of rules never tried as well."""
    outcome = explore(counting, runs=40, seed=5, **how)
    tally = outcome.tally
    alone = explore(counting, runs=40, seed=5).tally
    assert tally == alone
    assert tally.rules["sell"] == RuleCount(runs=40)
    assert 40 < tally.rules["buy"].succeeded == tally.rules["buy"].tried < 120
    assert tally.invariants["stock"] == InvariantCount(40, 40, 80, 40)
    assert tally.invariants["never checked"] == InvariantCount(runs=40)


def test_counting_leaves_no_trace() -> None:
    """Who counts does not change a run: the digest is that of the program without its counts."""

    async def silent(world: World) -> None:
        for _ in range(foretold.between(1, 3, "calls")):
            pass
        await asyncio.sleep(0)

    silent.__name__ = counting.__name__
    tape = foretold.Tape.seeded(3, Settings().on_tape())
    digests = {execute(main, tape, Settings()).digest for main in (counting, silent)}
    assert len(digests) == 1


async def _two_hosts(world: World) -> None:
    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(1))
            writer.close()

        server = await asyncio.start_server(answer, "0.0.0.0", 80)
        await server.serve_forever()

    world.host("server").start(serve)
    for _ in range(20):
        try:
            reader, writer = await asyncio.open_connection("server", 80)
            writer.write(b"x")
            await reader.read(1)
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(0.1)


def test_faults_that_struck_are_counted() -> None:
    """A kind that finds something to strike is counted as injected, one that finds nothing is not:
    nobody sends datagrams here, so nothing is duplicated. What befalls a host has its effect at
    once; of the others that is not known."""
    faults = foretold.faults.network + foretold.faults.hosts
    outcome = explore(_two_hosts, runs=60, seed=1, faults=faults, background_errors="ignore")
    assert outcome.failure is None
    counts = outcome.tally.faults
    assert counts["kill"].effect == counts["kill"].injected > 0
    assert counts["reset"].injected > 0
    assert counts["reset"].effect is None
    assert "duplication" not in counts


def test_faults_of_disks_are_felt_or_not() -> None:
    """A disk that fails while nobody uses it has no effect, and that is known."""

    async def idle(world: World) -> None:
        async with world.calm():
            with open("/tmp/a", "w") as file:
                file.write("a")
        await asyncio.sleep(foretold.between(50, 60, "seconds"))

    async def busy(world: World) -> None:
        for _ in range(foretold.between(300, 310, "writes")):
            try:
                with open("/tmp/a", "w") as file:
                    file.write("a")
            except OSError:
                pass
            await asyncio.sleep(0.1)

    faults = foretold.faults.disk.only("io_error", "disk_full")
    felt = {
        main: explore(main, runs=40, seed=1, faults=faults).tally.faults for main in (idle, busy)
    }
    for kind in faults:
        assert felt[idle][kind].injected > 10
        assert felt[idle][kind].effect == 0
        assert felt[busy][kind].effect


def test_buggify_is_a_fault() -> None:
    """A site that is passed is declared, and counted when it fires."""

    async def main() -> None:
        foretold.buggify("rare")
        await asyncio.sleep(0)

    count = explore(main, runs=100, seed=1).tally.faults["buggify rare"]
    assert count.runs == 100
    assert 0 < count.injected < 25
