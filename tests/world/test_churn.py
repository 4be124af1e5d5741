"""Hosts that come and go, faults that are aimed at some of them, and a supervisor."""

from __future__ import annotations

import asyncio
import functools
import socket
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel.session import session
from foretold.tape.file import TapeFile, dumps, loads
from foretold.trace.events import Fault
from foretold.world.faults.faultset import fault_kinds, sets_within
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World

faults = foretold.faults
PORT = 80


class Swarm:
    """Three members and one that stands by. Each says when it comes, and when it leaves."""

    def __init__(self, goodbye_s: float = 0.01) -> None:
        self.here: set[str] = set()
        self.said: list[str] = []
        self.goodbye_s = goodbye_s

    async def live(self, name: str) -> None:
        self.here.add(name)
        self.said.append(f"{name} came")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.goodbye_s)
            self.here.discard(name)
            self.said.append(f"{name} left")

    async def main(self, world: World) -> None:
        for name in ("node-1", "node-2", "node-3"):
            world.host(name).start(lambda name=name: self.live(name))
        world.host("node-4").standby(lambda: self.live("node-4"))
        world.host("api").start(lambda: self.live("api"))
        await world.clock.advance(12)
        await world.heal()
        await world.clock.advance(2)


def made(swarm: Swarm, seed: int, chosen: Any) -> tuple[Run, list[str]]:
    """A run with these faults, and which of them struck."""
    settings = Settings(faults=chosen)
    tape = foretold.Tape.seeded(seed, settings.on_tape())
    done = execute(bind_main(swarm.main), tape, settings, detail=True)
    assert done.error is None, done.error
    struck = (each for each in done.trace.events if isinstance(each, Fault))
    return done, [each.text for each in struck if not each.is_setting]


def test_members_come_and_go_and_are_all_there_in_the_end() -> None:
    """Every member that left says goodbye and comes back; the one that stood by joins once."""
    struck: set[str] = set()
    with session():
        for seed in range(12):
            swarm = Swarm()
            _, texts = made(swarm, seed, faults.churn)
            verbs = {text.split()[0] for text in texts}
            assert "kill" not in verbs
            struck |= verbs
            joined = "join node-4" in texts
            assert texts.count("join node-4") <= 1
            members = {"node-1", "node-2", "node-3", "api", *(["node-4"] if joined else [])}
            assert swarm.said.count("node-1 came") >= 1
            for name in members:
                left, came = (swarm.said.count(f"{name} {verb}") for verb in ("left", "came"))
                assert (came, left) in ((left, left), (left + 1, left)), swarm.said
    assert struck == {"join", "leave", "restart"}


def test_the_right_members_are_up_after_heal() -> None:
    """When faults stop, each host that a fault has taken down is started again."""
    with session():
        for seed in range(8):
            swarm = Swarm()

            async def main(world: World, swarm: Swarm = swarm) -> None:
                await swarm.main(world)
                assert {"node-1", "node-2", "node-3", "api"} <= swarm.here, swarm.said

            foretold.run(main, seed=seed, faults=faults.churn + faults.hosts.only("pause"))


def test_a_goodbye_is_not_cut_short() -> None:
    """A member that needs five seconds for it gets them, also if faults stop meanwhile."""
    seen = 0
    with session():
        for seed in range(8):
            swarm = Swarm(goodbye_s=5)
            _, texts = made(swarm, seed, faults.churn.only("leave", "restart"))
            assert not any(text.startswith("kill") for text in texts)
            seen += sum(said.endswith("left") for said in swarm.said)
    assert seen


@pytest.mark.parametrize("goodbye_s", [0.01, 5.0])
def test_what_the_test_has_ended_stays_down(goodbye_s: float) -> None:
    """A host that the test kills while it is away, or while it says goodbye, does not come back."""

    async def main(world: World) -> None:
        swarm = Swarm(goodbye_s)
        host = world.host("node-1")
        host.start(lambda: swarm.live("node-1"))
        await world.clock.advance(foretold.between(0, 40) / 10)
        host.kill()
        came = len(swarm.said)
        await world.clock.advance(30)
        assert [said for said in swarm.said[came:] if said.endswith("came")] == []

    with session():
        for seed in range(30):
            foretold.run(main, seed=seed, faults=faults.churn)


def test_nothing_is_started_when_the_run_is_over() -> None:
    """Main returns while a host is down: whatever took it down does not bring it back any more."""

    async def main(world: World, swarm: Swarm) -> int:
        world.host("node-1").start(lambda: swarm.live("node-1"))
        await world.clock.advance(foretold.between(0, 40) / 10)
        return len(swarm.said)

    with session():
        for seed in range(30):
            swarm = Swarm()
            chosen = faults.hosts.only("kill").on("node*") + faults.churn
            done = foretold.run(lambda world, s=swarm: main(world, s), seed=seed, faults=chosen)
            assert [said for said in swarm.said[done.value :] if said.endswith("came")] == []


def test_standby_is_checked() -> None:
    """What stands by is a function, on a host that is not running and not the test's own."""

    async def main(world: World, given: Any, started: bool) -> None:
        host = world.host("b")
        if started:
            host.start(Swarm().main(world))
        host.standby(given)

    async def serve() -> None: ...

    with pytest.raises(foretold.UsageError, match="needs an async function"):
        foretold.run(lambda world: main(world, 7, False))

    async def own(world: World) -> None:
        world.home.standby(serve)

    with pytest.raises(foretold.UsageError, match="standby: the test itself runs on host"):
        foretold.run(own)

    async def twice(world: World) -> None:
        world.host("b").start(serve)
        world.host("b").standby(serve)

    with pytest.raises(foretold.UsageError, match="b was started already"):
        foretold.run(twice)


# --- aimed faults


def test_faults_strike_the_hosts_they_are_aimed_at() -> None:
    """And no other; without an aim, others are struck as well."""
    aimed: set[str] = set()
    free: set[str] = set()
    with session():
        for seed in range(10):
            for chosen, found in (
                (faults.hosts.on("node-[12]"), aimed),
                (faults.hosts, free),
            ):
                done, _ = made(Swarm(), seed, chosen)
                events = [each for each in done.trace.events if isinstance(each, Fault)]
                found.update(name for each in events for name in each.hosts)
    assert aimed == {"node-1", "node-2"}
    assert free > aimed


def test_faults_strike_the_ways_they_are_aimed_at() -> None:
    """`between` takes both ends, `on` takes one; names of other hosts stay known."""

    async def call() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as own:
            while True:
                for server in ("db", "cache"):
                    own.sendto(b"hello", (server, PORT))
                await asyncio.sleep(0.5)

    async def main(world: World) -> None:
        world.host("db")
        world.host("cache")
        for name in ("api-1", "api-2", "job"):
            world.host(name).start(call)
        await world.clock.advance(8)

    def pairs(chosen: Any) -> set[frozenset[str]]:
        found = set()
        for seed in range(8):
            settings = Settings(faults=chosen)
            tape = foretold.Tape.seeded(seed, settings.on_tape())
            done = execute(main, tape, settings, detail=True)
            assert done.error is None
            texts = [each.text for each in done.trace.events if isinstance(each, Fault)]
            names = ("api-1", "api-2", "job", "db", "cache")
            found |= {frozenset(n for n in names if n in text.split()) for text in texts}
        return {pair for pair in found if len(pair) == 2}

    chosen = faults.network.only("partition", "hold", "slow")
    with session():
        assert pairs(chosen.between("api-*", "db")) == {
            frozenset({"api-1", "db"}),
            frozenset({"api-2", "db"}),
        }
        assert pairs(chosen.on("job")) == {frozenset({"job", "db"}), frozenset({"job", "cache"})}


def test_an_aim_is_kept_on_the_tape() -> None:
    """As a text that a tape file and a command line can hold; sets may be aimed in a text too."""
    chosen = faults.hosts.on("node*", "api") + faults.network.only("reset").between("a", "b")
    settings = Settings(faults=str(chosen))
    assert settings.faults == (
        "reset@a~b kill@node*+api pause@node*+api clock_skew@node*+api crash@node*+api"
    )
    assert Settings(faults="hosts@node*+api reset@a~b").faults == settings.faults
    done, texts = made(Swarm(), 3, faults.hosts.on("node*"))
    kept = loads(dumps(TapeFile(done.tape)))
    again = execute(bind_main(Swarm().main), kept.tape, Settings.from_tape(kept.tape.settings))
    assert texts
    assert again.trace.digest == done.trace.digest


class Alone(foretold.Machine):
    """Planted: it is taken for granted that node-1 is always there."""

    faults = faults.churn.on("node*")
    steps = 3

    async def setup(self) -> None:
        self.swarm = Swarm()
        for name in ("node-1", "node-2", "api"):
            self.world.host(name).start(functools.partial(self.swarm.live, name))
        await self.world.clock.advance(0.1)

    @foretold.rule()
    async def wait(self) -> None:
        await asyncio.sleep(0.5)

    @foretold.invariant(when="instant")
    def node_1_is_there(self) -> None:
        assert "node-1" in self.swarm.here


def test_an_aimed_fault_is_shrunk_saved_and_replayed(tmp_path: Path) -> None:
    """The one fault that matters is left, and the tape file replays it."""
    failure = foretold.explore(Alone, runs=100, confirm=False).failure
    assert failure is not None
    (fault,) = failure.faults
    assert fault in ("leave node-1", "restart node-1")
    failure.save(tmp_path / "alone.tape")
    with pytest.raises(AssertionError):
        foretold.replay(Alone, tmp_path / "alone.tape")
    aside = foretold.faults.churn.on("node-2", "api")
    assert foretold.explore(Alone, runs=60, faults=aside, confirm=False).failure is None


def test_aimed_sets_are_sets() -> None:
    """They can be added to others and narrowed, by the names of the kinds."""
    aimed = faults.hosts.on("node*")
    assert list(aimed.only("kill")) == ["kill@node*"]
    assert list(aimed.without("kill", "pause", "crash")) == ["clock_skew@node*"]
    assert len(aimed + faults.hosts) == 8
    assert "dns_slow@a" not in faults.network.on("a")
    assert sets_within(str(aimed + faults.churn)) == (
        {"hosts@node*": tuple(aimed), "churn": tuple(faults.churn)},
        [],
    )
    assert [kind.strikes for kind in fault_kinds(str(aimed))] == ["host"] * 4


def test_wrong_aims_are_told() -> None:
    """Kinds that strike no host, names that no host can have, and no name at all."""
    with pytest.raises(foretold.UsageError, match="can be aimed at hosts"):
        faults.web.on("api")
    with pytest.raises(foretold.UsageError, match="none of kill, pause, clock_skew, crash"):
        faults.hosts.between("a", "b")
    with pytest.raises(foretold.UsageError, match="a pattern of names"):
        faults.hosts.on("a b")
    with pytest.raises(foretold.UsageError, match="names no host"):
        faults.hosts.on()
    with pytest.raises(foretold.UsageError, match="request_lost strikes no host"):
        foretold.run(Swarm().main, faults="request_lost@api")
    with pytest.raises(foretold.UsageError, match="there is no fault 'rain'"):
        foretold.run(Swarm().main, faults="rain@api")


def test_an_aim_that_hits_nothing_is_hollow() -> None:
    """A name that no host has would test nothing: the search says so."""
    outcome = foretold.explore(
        lambda world: Swarm().main(world), runs=100, faults=faults.hosts.on("nodes*"), confirm=False
    )
    assert [each.name for each in outcome.hollow] == ["hosts@nodes*"]


# --- a supervisor


def test_a_supervisor_starts_what_was_killed() -> None:
    """Killed and crashed hosts come back after its time, what was stopped or is not its does not;
    one that the test has started again itself is not started twice."""

    async def main(world: World) -> None:
        swarm = Swarm()
        world.supervise("node*", after_s=2)
        for name in ("node-1", "node-2", "node-3", "node-4", "api"):
            world.host(name).start(lambda name=name: swarm.live(name))
        await world.clock.advance(1)
        swarm.said.clear()
        world.host("node-1").kill()
        world.host("node-2").crash()
        await world.host("node-3").stop()
        world.host("node-4").kill()
        world.host("node-4").restart()
        world.host("api").kill()
        await world.clock.advance(1.9)
        assert swarm.said == ["node-3 left", "node-4 came"]
        await world.clock.advance(10)
        assert sorted(swarm.said[2:]) == ["node-1 came", "node-2 came"]
        world.host("node-1").kill()
        await world.clock.advance(10)
        assert swarm.said[4:] == ["node-1 came"]
        world.host("node-2").kill()  # and the run ends

    with session():
        for seed in range(5):
            foretold.run(main, seed=seed)


def test_a_supervisor_hides_no_bug() -> None:
    """A main that raises fails the run; wrong calls are told."""

    async def broken() -> None:
        await asyncio.sleep(0.1)
        raise KeyError("typo")

    async def main(world: World) -> None:
        world.supervise("b")
        world.host("b").start(broken)
        await world.clock.advance(10)

    with pytest.raises(KeyError, match="typo"):
        foretold.run(main)

    async def wrong(world: World) -> None:
        world.supervise("b", after_s=-1)

    with pytest.raises(foretold.UsageError, match="after_s must be at least 0"):
        foretold.run(wrong)


def test_a_supervisor_and_kills_by_chance() -> None:
    """Two that would start a host again do it once, and everything is up in the end."""
    with session():
        for seed in range(8):
            swarm = Swarm()

            async def main(world: World, swarm: Swarm = swarm) -> None:
                world.supervise("*", after_s=0.2)
                await swarm.main(world)

            settings = Settings(faults=str(faults.hosts.only("kill", "crash")))
            tape = foretold.Tape.seeded(seed, settings.on_tape())
            done = execute(bind_main(main), tape, settings, detail=True)
            assert done.error is None
            texts = [each.text for each in done.trace.events if isinstance(each, Fault)]
            for name in ("node-1", "api"):
                down = texts.count(f"kill {name}") + texts.count(f"crash {name}")
                assert texts.count(f"restart {name}") == down
