"""A spare process: each question is answered where nothing was done before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from foretold.world.spare import Spare

done: list[int] = []


def work(question: int) -> Any:
    """How much was done in this process, and what was asked; some questions cannot be answered."""
    if question == 13:
        raise ValueError("no")
    if question == 14:
        os._exit(1)
    done.append(question)
    return len(done), "x" * question if question > 99 else question


@pytest.fixture
def spare() -> Iterator[Spare]:
    """One that was made when one thing had been done."""
    done[:] = [1]
    found = Spare(work)
    done.append(2)
    yield found
    found.close()


def test_each_question_is_the_first(spare: Spare) -> None:
    """What was done here since, or for another question, is not there."""
    assert [spare.ask(number) for number in (5, 6, 7)] == [(2, 5), (2, 6), (2, 7)]
    assert done == [1, 2]


def test_a_long_answer(spare: Spare) -> None:
    """Longer than what a pipe holds."""
    assert spare.ask(1_000_000) == (2, "x" * 1_000_000)


def test_what_cannot_be_answered(spare: Spare) -> None:
    """An exception, or the end of the process: there is no answer, and the next one is right."""
    assert [spare.ask(number) for number in (13, 14, 15)] == [None, None, (2, 15)]


def test_nothing_is_left() -> None:
    """Neither a process nor a descriptor; also if nothing was asked."""
    before = os.listdir("/proc/self/fd")
    spare = Spare(work)
    pid = spare._pid
    spare.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert os.listdir("/proc/self/fd") == before
