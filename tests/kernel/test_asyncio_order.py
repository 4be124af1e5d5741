"""`order="asyncio"` takes the very order that stock asyncio takes.

Small programs note what they do. Each runs on stock asyncio, whose selector is made to jump over
waiting times, and in a run of ours: the notes must be equal, in order and in number. One thing is
kept out, because stock asyncio leaves it undefined: the order of equal deadlines (it takes them in
the order of its heap, we in the order of their creation; tested at the end).
"""

from __future__ import annotations

import asyncio
import gc
import selectors
from typing import Any

import pytest

import foretold
from foretold.kernel.policy import current_policy
from tests.conformance.programs import PROGRAMS, Note, Program, zero_sleeps


class JumpingSelector(selectors.SelectSelector):
    """Never waits: the time that the loop would wait for has passed at once."""

    now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "a program waits for what never comes"
        self.now_s += max(timeout, 0)
        return super().select(0)


class StockLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, in virtual time."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.jumping.now_s


def stock_notes(program: Program) -> list[object]:
    """What a program notes on stock asyncio."""
    notes: list[object] = []
    with asyncio.Runner(loop_factory=StockLoop) as runner:
        runner.run(program(notes.append))
    return notes


def our_notes(program: Program, *, order: str = "asyncio", **settings: Any) -> list[object]:
    """What it notes in a run of ours."""
    notes: list[object] = []

    async def main() -> None:
        await program(notes.append)

    foretold.run(main, order=order, **settings)
    return notes


def test_there_are_programs() -> None:
    """The comparison below is over something: the programs are found, and note several things."""
    assert len(PROGRAMS) >= 25
    assert all(len(stock_notes(program)) >= 3 for program in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_order_is_asyncios(program: Program) -> None:
    """With an exact clock, each program does the same things in the same order."""
    assert our_notes(program, exact_time=True) == stock_notes(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_order_is_asyncios_while_time_passes(program: Program) -> None:
    """Steps that take time change nothing here: the deadlines lie further apart than that."""
    expected = stock_notes(program)
    for seed in range(5):
        assert our_notes(program, seed=seed) == expected


def test_another_order_is_noticed() -> None:
    """The programs can tell: `order="any"` changes what many of them note, or stops them."""

    def differs(program: Program) -> bool:
        try:
            return our_notes(program, order="any", strategy="random") != stock_notes(program)
        except foretold.Deadlock:
            return True

    assert sum(differs(program) for program in PROGRAMS) >= len(PROGRAMS) // 3


def test_equal_deadlines_come_in_order_of_creation() -> None:
    """Stock asyncio takes equal deadlines in the order of its heap, we as they were set."""
    count = 20

    async def equal_deadlines(note: Note) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + 1
        for number in range(count):
            loop.call_at(when, note, number)
        await asyncio.sleep(2)

    assert our_notes(equal_deadlines, exact_time=True) == list(range(count))
    assert sorted(map(str, stock_notes(equal_deadlines))) == sorted(map(str, range(count)))


def test_sleepers_of_equal_length_wake_in_order_of_falling_asleep() -> None:
    """The same for tasks: with an exact clock their deadlines are equal."""

    async def sleepers(note: Note) -> None:
        async def sleeper(number: int) -> None:
            await asyncio.sleep(1)
            note(number)

        await asyncio.gather(*(sleeper(number) for number in range(20)))

    assert our_notes(sleepers, exact_time=True) == list(range(20))


def test_nothing_is_left_behind() -> None:
    """Neither kind of run leaves a loop or a policy of its own set."""
    before = current_policy()
    our_notes(zero_sleeps)
    stock_notes(zero_sleeps)
    gc.collect()
    assert current_policy() is before
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
