"""The model in place of the server: the same races on both arms, waits, errors, and mistakes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.models import FakePg, at, plus
from foretold.models.fakepg import FakePgError
from tests.models.shop_arms import RIGHT, fake_arm, race, real_arm, several

FASTER_AT_LEAST = {"twelve transactions": 20.0} | dict.fromkeys(RIGHT, 11.0)
"""Measured on a machine that others used too: 25 to 27, and 13 to 17 for each race as a run of its
own. In a race the statements are a quarter of a run's time; the rest is the run as such."""


@pytest.mark.parametrize("name", RIGHT)
def test_the_same_races_on_both_arms(name: str) -> None:
    """What is found with the fake is found with the real server, and what a lock prevents there it
    prevents here."""
    for arm, runs in ((fake_arm, 40), (real_arm, 40)):
        failure = foretold.explore(
            race(arm, name, locks=False), runs=runs, seed=1, shrink=False, confirm=False
        ).failure
        assert failure is not None, arm.__name__
        assert isinstance(failure.exception, AssertionError)
    assert foretold.explore(race(fake_arm, name, locks=True), runs=40, seed=1).failure is None
    assert foretold.explore(race(real_arm, name, locks=True), runs=10, seed=1).failure is None


def cpu_s() -> float:
    """Of this process, and of those that it has started: the server's."""
    children: dict[int, list[tuple[int, int]]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            text = each.read_text()
            rest = text.rpartition(")")[2].split()
            children.setdefault(int(rest[1]), []).append((int(each.parts[2]), sum_of(rest)))
    ticks, todo = 0, [os.getpid()]
    while todo:
        for pid, used in children.get(todo.pop(), ()):
            ticks += used
            todo.append(pid)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def sum_of(fields: list[str]) -> int:
    """User and system time, with that of children that have ended."""
    return sum(map(int, fields[11:15]))


@pytest.mark.soak
@pytest.mark.parametrize("name", FASTER_AT_LEAST)
def test_a_fake_is_faster(name: str) -> None:
    """Per run of the same program, in CPU seconds of the process and the server, the best of
    three: each race of two transactions, and twelve transactions in one run."""

    def seconds(arm: Any, runs: int) -> float:
        program = race(arm, name, locks=True) if name in RIGHT else several(arm)
        took = []
        for _ in range(3):
            began = cpu_s()
            foretold.explore(program, runs=runs, seed=1).raise_failure()
            took.append((cpu_s() - began) / runs)
        return min(took)

    real, fake = seconds(real_arm, 40), seconds(fake_arm, 400)
    print(f"{name}: {1e3 * real:.1f} ms, {1e3 * fake:.2f} ms: {real / fake:.1f} times")  # noqa: T201  # the figure
    assert real / fake > FASTER_AT_LEAST[name]


def test_errors_and_waits() -> None:
    """A deadlock has a victim, by the tape; the other one goes on. A session that waits can do
    nothing else."""

    async def both(fake: FakePg, who: str, first: str, second: str) -> str:
        try:
            async with fake.transaction(who) as t:
                await t.update(at(first), plus(1))
                await t.update(at(second), plus(1))
        except FakePgError as error:
            return error.sqlstate
        return "done"

    async def main() -> tuple[str, ...]:
        fake = FakePg(rows={"x": 0, "y": 0})
        ended = await foretold.together(both(fake, "a", "x", "y"), both(fake, "b", "y", "x"))
        assert fake.rows() == dict.fromkeys("xy", 2 - ended.count("40P01"))
        return tuple(ended)

    ended = {foretold.run(main, seed=seed).value for seed in range(30)}
    assert ended == {("done", "done"), ("40P01", "done"), ("done", "40P01")}

    async def twice() -> None:
        fake = FakePg(rows={"x": 0})
        async with fake.transaction("a") as t:
            await t.update(at("x"), plus(1))
            waiting = asyncio.create_task(fake.session("b").update(at("x"), plus(1)))
            await asyncio.sleep(1)
            try:
                await fake.session("b").select(at("x"))
            finally:
                waiting.cancel()

    with pytest.raises(foretold.UsageError, match="waits for a lock"):
        foretold.run(twice)

    async def nested() -> None:
        fake = FakePg(rows={"x": 0})
        async with fake.transaction("a"), fake.transaction("a"):
            pass

    with pytest.raises(foretold.UsageError, match="'a' has a transaction already"):
        foretold.run(nested)


def test_a_transaction_that_is_cancelled_while_it_waits() -> None:
    """It has hung up, and is rolled back; the one that it waited for goes on."""

    async def main() -> dict[str, int]:
        fake = FakePg(rows={"x": 0})

        async def add() -> None:
            async with fake.transaction("b") as t:
                await t.update(at("x"), plus(1))

        async with fake.transaction("a") as t:
            await t.update(at("x"), plus(10))
            waiting = asyncio.create_task(add())
            await asyncio.sleep(1)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        return fake.rows()

    assert foretold.run(main).value == {"x": 10}
