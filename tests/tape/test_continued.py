"""A tape that is the beginning of a run: kept up to a point, and from there on drawn anew."""

from __future__ import annotations

import asyncio

import pytest

import foretold
from foretold.tape import WORKLOAD, Tape, TapeFile, dumps, loads
from tests.helpers import again, run_of


def draw_ten(tape: Tape) -> list[int]:
    """Ten numbers, every other one by chance."""
    stream = tape.stream("workload")
    return [stream.choose(1_000, "n") if n % 2 else int(stream.chance(0.5)) for n in range(10)]


def test_the_beginning_is_kept_and_the_rest_is_drawn() -> None:
    """The first five stay as they were, whatever the seed; the others follow it."""
    original = Tape.seeded(7).fresh(recording=True)
    first = draw_ten(original)
    others = [original.recorded().continued({"workload": 5}, 0, seed) for seed in range(20)]
    drawn = [draw_ten(tape.fresh()) for tape in others]
    assert all(numbers[:5] == first[:5] for numbers in drawn)
    assert len({tuple(numbers[5:]) for numbers in drawn}) == 20
    assert [draw_ten(tape.fresh()) for tape in others] == drawn


def test_a_chance_has_its_own_probability() -> None:
    """A coin that rarely falls that way falls that way rarely, too, when it is thrown anew."""
    recorded = Tape("recorded", choices={})
    thrown = [recorded.continued({}, 0, seed).stream("fault").chance(0.05) for seed in range(400)]
    assert 5 < sum(thrown) < 50


INSTANTS_NS: list[int] = []


async def three_steps() -> list[str]:
    """Two tasks of three steps each; the order in which they are made."""
    log: list[str] = []
    clock = foretold.current_world().clock

    async def work(name: str) -> None:
        for _ in range(3):
            log.append(name)
            if len(log) == 2:
                INSTANTS_NS.append(int(clock.monotonic() * 1e9))
            await asyncio.sleep(0)

    await asyncio.gather(work("a"), work("b"))
    return log


@pytest.mark.usefixtures("one_session")
def test_the_order_of_tasks_is_kept_up_to_the_instant() -> None:
    """Before the instant the order is the recorded one; after it, any."""
    done = run_of(three_steps, 3, recording=True, order="any", strategy="random")
    tape = done.tape.recorded()
    recorded = again(three_steps, tape).value
    draws = {name: len(entries) for name, entries in tape.choices.items()}
    instant_ns = INSTANTS_NS[-1]
    others = [
        again(three_steps, tape.continued(draws, instant_ns, seed)).value for seed in range(30)
    ]
    assert {tuple(log[:2]) for log in others} == {tuple(recorded[:2])}
    assert len({tuple(log) for log in others}) > 1


def test_a_file_says_that_shrinking_is_not_finished() -> None:
    """One line in the header, there and back; without it nothing is written."""
    tape = Tape("recorded", choices={WORKLOAD: []})
    unfinished = dumps(TapeFile(tape, unfinished=True))
    assert "\nshrinking unfinished\n" in unfinished
    assert loads(unfinished).unfinished
    assert "shrinking" not in dumps(TapeFile(tape))
    assert not loads(dumps(TapeFile(tape))).unfinished
