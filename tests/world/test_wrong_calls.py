"""Calls that cannot work are told so at once, in a sentence that shows the right one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.arguments import nearest, printable
from foretold.errors import UsageError
from foretold.tape import Tape, TapeFile
from foretold.tape.file import save
from foretold.world.world import World


async def nothing() -> None:
    """A program."""


async def with_port(port: int) -> None:
    """A program that wants something."""


def plain() -> None:
    """No program."""


NUMBER = "is a number, such as 1 or 0.5; got"
RUNS = "runs is a whole number, 1 or more, such as runs=500; got"
LOOKED_UP = "cannot be looked up as a host's name"

OUTSIDE: dict[str, tuple[Callable[[Any], object], str]] = {
    "run(tape=3)": (lambda f: foretold.run(f, tape=3), "or the path of a tape file; got 3"),  # type: ignore[call-overload]  # the mistake
    "replay(None)": (lambda f: foretold.replay(f, None), "the path of a tape file; got None"),  # type: ignore[call-overload]  # the mistake
    "runs='3'": (lambda f: foretold.explore(f, runs="3"), f"{RUNS} '3'"),  # type: ignore[arg-type]  # the mistake
    "runs=0": (lambda f: foretold.explore(f, runs=0), f"{RUNS} 0"),
    "runs=True": (lambda f: foretold.explore(f, runs=True), f"{RUNS} True"),
    "time_s=0": (lambda f: foretold.explore(f, time_s=0), "time_s must be above 0, got 0"),
    "time_s=nan": (lambda f: foretold.explore(f, time_s=float("nan")), f"time_s {NUMBER} nan"),
    "simulate(time_s)": (lambda f: foretold.simulate(time_s="1m")(f), f"time_s {NUMBER} '1m'"),  # type: ignore[call-overload]  # the mistake
    "seed='x'": (lambda f: foretold.run(f, seed="x"), "a whole number, such as seed=7; got 'x'"),  # type: ignore[call-overload]  # the mistake
    "explore seed": (lambda f: foretold.explore(f, seed=1.5), "such as seed=7; got 1.5"),  # type: ignore[arg-type]  # the mistake
    "seed=huge": (
        lambda f: foretold.run(f, seed=10**5000),
        "128 bits, this one has 16,610",
    ),
    "order": (lambda f: foretold.run(f, order="asynco"), "Did you mean 'asyncio'?"),
    "order, explore": (lambda f: foretold.explore(f, order="ani"), "Did you mean 'any'?"),
    "strategy": (lambda f: foretold.run(f, strategy="randon"), "Did you mean 'random'?"),
    "strategy, explore": (
        lambda f: foretold.explore(f, strategy="portfolo"),
        "Did you mean 'portfolio'?",
    ),
    "strategy=[]": (lambda f: foretold.explore(f, strategy=[]), "'surw' or 'exhaustive', got []"),  # type: ignore[arg-type]  # the mistake
    "faults": (lambda f: foretold.run(f, faults="partiton"), "Did you mean 'partition'?"),
    "faults.only": (lambda f: foretold.faults.network.only("rest"), "Did you mean 'reset'?"),
    "faults=[]": (lambda f: foretold.run(f, faults=["reset"]), "such as 'partition reset'"),  # type: ignore[call-overload]  # the mistake
    "isolation": (lambda f: foretold.explore(f, isolation="frok"), "Did you mean 'fork'?"),
    "setting": (lambda f: foretold.explore(f, exakt_time=True), "Did you mean 'exact_time'?"),  # type: ignore[call-arg]  # the mistake
    "wall_s_max=-1": (lambda f: foretold.run(f, wall_s_max=-1), "wall_s_max must be above 0"),
    "wall_s_max='3'": (lambda f: foretold.run(f, wall_s_max="3"), f"wall_s_max {NUMBER} '3'"),  # type: ignore[call-overload]  # the mistake
    "virtual_s_max": (lambda f: foretold.run(f, virtual_s_max=0), "virtual_s_max must be above 0"),
    "steps_max=3.5": (lambda f: foretold.run(f, steps_max=3.5), "steps_max is a whole number"),  # type: ignore[call-overload]  # the mistake
    "epoch_s": (lambda f: foretold.run(f, epoch_s="now"), f"epoch_s {NUMBER} 'now'"),  # type: ignore[call-overload]  # the mistake
    "epoch_s=inf": (lambda f: foretold.run(f, epoch_s=float("inf")), "epoch_s must be finite"),
    "monotonic_s": (lambda f: foretold.run(f, monotonic_s=-1), "monotonic_s must be at least 0"),
    "exact_time": (lambda f: foretold.run(f, exact_time="yes"), "exact_time is True or False"),  # type: ignore[call-overload]  # the mistake
    "limit": (lambda f: next(foretold.enumerate_tapes("x")), "such as limit=1000; got 'x'"),  # type: ignore[arg-type]  # the mistake
}


@pytest.mark.parametrize("call", OUTSIDE)
def test_wrong_arguments_outside_of_runs(call: str) -> None:
    """Before anything is run: a `UsageError` that says what is wanted."""
    do, said = OUTSIDE[call]
    with pytest.raises(UsageError, match=re.escape(said)):
        do(nothing)


INSIDE: dict[str, tuple[Callable[[Any], object], str]] = {
    "choose({})": (lambda w: foretold.choose({}), "Write choose(list(options)) for a key"),  # type: ignore[arg-type]  # the mistake
    "choose({1: 2})": (lambda w: foretold.choose({1: 2}), "got {1: 2}"),  # type: ignore[arg-type]  # the mistake
    "choose([])": (lambda w: foretold.choose([]), "choose([]) has nothing to choose from: give it"),
    "choose(set)": (lambda w: foretold.choose({1}), "write choose(sorted(…))"),  # type: ignore[arg-type]  # the mistake
    "choose(5)": (lambda w: foretold.choose(5), "write foretold.between(low, high)"),  # type: ignore[arg-type]  # the mistake
    "choose(iterator)": (lambda w: foretold.choose(iter([1])), "Write choose(list(…))"),  # type: ignore[arg-type]  # the mistake
    "between(5, 1)": (lambda w: foretold.between(5, 1), "Write between(1, 5)"),
    "host('')": (lambda w: w.host(""), "such as world.host('api'); got ''"),
    "host(3)": (lambda w: w.host(3), "such as world.host('api'); got 3"),
    "host([])": (lambda w: w.host([]), "such as world.host('api'); got []"),
    "host, line": (lambda w: w.host("a\nb"), f"'a\\nb' {LOOKED_UP}"),
    "host, space": (lambda w: w.host("a b"), f"'a b' {LOOKED_UP}"),
    "host, long": (lambda w: w.host("a" * 64), LOOKED_UP),
    "host, too long": (lambda w: w.host(".".join(["a" * 60] * 5)), LOOKED_UP),
    "host, dots": (lambda w: w.host("a..b"), LOOKED_UP),
    "host, ip": (lambda w: w.host("10.0.0.1"), "that leads to an address"),
    "host, localhost": (lambda w: w.host("localhost"), "that leads to an address"),
    "host, case": (lambda w: (w.host("db"), w.host("DB")), "there is a host 'db' already"),
    "host, Main": (lambda w: w.host("Main"), "Write world.host('main') for that one"),
    "isolate=[3]": (lambda w: w.host("a", isolate=[3]), 'such as ["myapp"]; got 3'),
    "isolate=3": (lambda w: w.host("a", isolate=3), 'isolate=["myapp"]; got 3'),
    "isolate": (lambda w: w.host("a", isolate="json"), "isolate=['json']"),
    "start(None)": (lambda w: w.host("a").start(None), "got None.\n  right: host.start(serve)"),
    "start, arguments": (
        lambda w: w.host("a").start(with_port),
        "with_port without arguments: missing a required argument: 'port'",
    ),
    "start, module": (lambda w: w.host("a").start("no_such:x"), "there is no module 'no_such'"),
    "start, name": (lambda w: w.host("a").start("json:lods"), "Did you mean 'loads'?"),
    "latency('a')": (lambda w: w.network.latency("a"), f"latency's low_s {NUMBER} 'a'"),
    "latency, between": (
        lambda w: w.network.latency(0.1, between="s"),
        "between is a pair of hosts, such as between=('api', 'db'); got 's'",
    ),
    "loss, between": (lambda w: w.network.loss(0.1, between=3), "a pair of hosts"),
    "loss, one host": (lambda w: w.network.loss(0.1, between=("main",)), "got ('main',)"),
    "latency(1e300)": (lambda w: w.network.latency(1e300), "must be at most 1000000000"),
    "latency(2, 1)": (lambda w: w.network.latency(2, 1), "high_s must be at least 2, got 1"),
    "loss": (lambda w: w.network.loss(1), "loss must be below 1, got 1"),
    "duplication": (lambda w: w.network.duplication(2), "duplication must be at most 1"),
    "bandwidth": (lambda w: w.network.bandwidth(0), "must be above 0, got 0"),
    "buffers": (lambda w: w.network.buffers(0, 5), "send is a whole number, 1 or more"),
    "clog": (lambda w: w.network.clog("main", "main", "x"), f"clog's seconds {NUMBER} 'x'"),
    "clog(1e300)": (
        lambda w: w.network.clog("main", "main", 1e300),
        "clog's seconds must be at most 1000000000, got 1e+300",
    ),
    "clog(-1)": (lambda w: w.network.clog("main", "main", -1), "at least 0, got -1"),
    "clog(nan)": (lambda w: w.network.clog("main", "main", float("nan")), f"{NUMBER} nan"),
    "bandwidth, tiny": (lambda w: w.network.bandwidth(1e-300), "must be at least 0.001"),
    "slow(1e300)": (lambda w: w.network.slow("main", "main", 1e300), "must be at most"),
    "stop": (lambda w: w.host("a").stop("a"), f"stop's grace_s {NUMBER} 'a'"),
    "stop(-1)": (lambda w: w.host("a").stop(-1), "stop's grace_s must be at least 0, got -1"),
    "listening('80')": (lambda w: w.host("a").listening("80"), "host.listening(8000); got '80'"),
    "listening(0)": (lambda w: w.host("a").listening(0), "from 1 to 65535"),
    "listening(70000)": (lambda w: w.host("a").listening(70_000), "got 70000"),
    "listening(True)": (lambda w: w.host("a").listening(True), "got True"),
    "slow": (lambda w: w.network.slow("main", "main", 0), "slow's factor must be above 0"),
    "partition": (lambda w: w.network.partition("mian", "main"), "Did you mean 'main'?"),
    "partition(3)": (lambda w: w.network.partition([], "main"), "there is no host []"),
    "advance": (lambda w: w.clock.advance("x"), f"seconds {NUMBER} 'x'"),
    "schedule": (lambda w: w.clock.schedule(plain, "x"), f"delay_s {NUMBER} 'x'"),
    "set_time": (lambda w: w.clock.set_time("x"), f"epoch_s {NUMBER} 'x'"),
    "skew": (lambda w: w.clock.skew(None), f"seconds {NUMBER} None"),
}


@pytest.mark.parametrize("call", INSIDE)
def test_wrong_arguments_inside_of_runs(call: str) -> None:
    """The same for what a test calls in its world; the message is the same in each run."""
    do, said = INSIDE[call]

    async def main(world: World) -> None:
        result = do(world)
        if asyncio.iscoroutine(result):
            await result

    for _ in range(2):
        with pytest.raises(UsageError, match=re.escape(said)) as raised:
            foretold.run(main)
        assert " at 0x" not in str(raised.value)


def test_good_names_of_hosts() -> None:
    """What people call their hosts, and what a name service knows."""

    async def main(world: World) -> None:
        for name in ("api", "my_db", "web-1", "API2", "büro", "db.example.com", "a" * 63, "7"):
            assert world.host(name).name == name

    foretold.run(main)


def test_one_number_is_a_latency() -> None:
    """All messages take equally long."""

    async def main(world: World) -> tuple[int, int]:
        world.network.latency(0.25)
        path = world.network.path(world.home.stack, world.host("api").stack)
        return path.low_ns, path.high_ns

    assert foretold.run(main).value == (250_000_000, 250_000_000)


def test_seeds_may_be_negative_and_large() -> None:
    """Each is a run of its own, and can be kept in a file."""
    seeds = (-1, 1, 2**128 - 1, -(2**127))

    async def main() -> int:
        return foretold.between(0, 10**9)

    assert len({foretold.run(main, seed=seed).value for seed in seeds}) == len(seeds)


def test_run_reads_a_tape_file(tmp_path: Path) -> None:
    """`run(tape=…)` takes what `replay` takes."""

    async def main() -> int:
        return foretold.between(0, 10**9)

    path = tmp_path / "some.tape"
    done = foretold.run(main, seed=9)
    save(path, TapeFile(Tape.seeded(9, done.tape.settings)))
    assert foretold.run(main, tape=path).value == done.value
    assert foretold.run(main, tape=str(path)).digest == done.digest
    with pytest.raises(foretold.TapeError, match="check the path"):
        foretold.run(main, tape=tmp_path / "none.tape")


def test_names_on_one_line() -> None:
    """What would break a story apart, or colour a terminal, is shown as it is written."""
    assert printable("worker-2 ä") == "worker-2 ä"
    assert printable("a\nb\x1b[31m\tc\udc80") == "a\\nb\\x1b[31m\\tc\\udc80"


def test_a_task_with_several_lines_for_a_name() -> None:
    """Story, deadlock and background failure keep one line for it; the program sees its name."""
    name = "two\nlines\x1b"

    async def stuck() -> None:
        current = asyncio.current_task()
        assert current is not None
        assert current.get_name() == name
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.create_task(stuck(), name=name)

    with pytest.raises(foretold.Deadlock) as raised:
        foretold.run(main)
    assert "two\\nlines\\x1b waits at" in str(raised.value)

    outcome = foretold.explore(main, runs=1, confirm=False)
    assert outcome.failure is not None
    assert "two\\nlines\\x1b" in outcome.failure.story
    assert name not in outcome.failure.story


def test_only_near_words_are_suggested() -> None:
    """A suggestion that is far off would be worse than none."""
    assert nearest("xyz", ["random", "pct"]) == ""
    assert nearest(["any"], ["any"]) == ""
