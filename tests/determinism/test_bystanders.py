"""A loop that lives in another thread of the process changes nothing in a run, nor a run in it.

asyncio keeps the tasks of all loops in tables that the whole process shares; since Python 3.14 each
thread has a list of its own. The bystander here has a real loop, as a Dask client has, and changes
these tables in the middle of a run.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import foretold
from foretold.kernel import hashes, real

HAS_EAGER_TASKS = sys.version_info >= (3, 12)
NESTED = 40 if HAS_EAGER_TASKS else 0
EAGER: dict[str, Any] = {"eager_start": True}  # not known to the types of 3.11
ENDING, COMING = 20, 20
SEEDS = 3
GIVE_UP_S = 600


class Bystander:
    """A loop with tasks of its own. At each turn some of them end, some come, all are looked at."""

    def __init__(self) -> None:
        self.turns = 0
        self.wrong = 0
        self._is_over = False
        self._own: list[asyncio.Task[Any]] = []
        self._go, self._done = real.allocate_lock(), real.allocate_lock()
        real.lock_acquire(self._go)
        real.lock_acquire(self._done)

    def turn(self) -> None:
        """Let it act, and wait until it has: by real locks, in a run too."""
        real.lock_release(self._go)
        assert real.lock_acquire(self._done, timeout=GIVE_UP_S), "its thread has died"

    @contextmanager
    def standing_by(self) -> Iterator[None]:
        """It is there, with some tasks, while this lasts."""
        thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        thread.start()
        self.turn()
        try:
            yield
        finally:
            self._is_over = True
            self.turn()
            thread.join()

    async def _live(self) -> None:
        while not self._is_over:
            await self._await_turn(NESTED)
            await self._act()
            self.turns += 1
            real.lock_release(self._done)

    async def _await_turn(self, nested: int) -> None:
        """Wait within so many eager tasks: while they are in their first step, asyncio keeps them
        in a table apart."""
        if nested:
            loop = asyncio.get_running_loop()
            await asyncio.Task(self._await_turn(nested - 1), loop=loop, **EAGER)
        else:
            real.lock_acquire(self._go)

    async def _act(self) -> None:
        ending, self._own = self._own[::2][:ENDING], self._own[1::2] + self._own[::2][ENDING:]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._own += [asyncio.create_task(asyncio.Event().wait()) for _ in range(COMING)]
        self.wrong += asyncio.all_tasks() != {*self._own, asyncio.current_task()}


def names() -> list[str]:
    """The tasks of this loop, in the order of the set in which asyncio gives them."""
    return [task.get_name() for task in asyncio.all_tasks()]


async def came_and_went(turn: Callable[[], None]) -> object:
    """Many tasks, of the loop and made by hand, few of which stay."""
    log, kept = [], []
    for number in range(30):
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(1 + number * 7 % 23)))
        kept.append(asyncio.create_task(asyncio.sleep(1000), name=f"kept {number}"))
        kept.append(asyncio.Task(asyncio.sleep(1000), name=f"by hand {number}"))
        turn()
        log.append(names())
    return log


async def eager_in_eager(turn: Callable[[], None]) -> object:
    """Tasks that are in their first step, one within the other."""
    log, loop = [], asyncio.get_running_loop()

    async def level(number: int) -> None:
        passing: list[asyncio.Future[None]] = [asyncio.Future() for _ in range(number * 7 % 23)]
        assert len(set(passing)) == len(passing)  # they take numbers between those of tasks
        turn()
        log.append(names())
        if number:
            await asyncio.Task(level(number - 1), loop=loop, name=f"level {number}", **EAGER)

    await level(30)
    return log


PROGRAMS = [came_and_went, eager_in_eager] if HAS_EAGER_TASKS else [came_and_went]


def outcomes(program: Callable[..., Any], turn: Callable[[], None]) -> list[tuple[str, Any]]:
    """Digest and result with some seeds."""
    done = [foretold.run(partial(program, turn), seed=seed) for seed in range(SEEDS)]
    return [(one.trace.digest, one.value) for one in done]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loop_in_another_thread_changes_no_order(program: Callable[..., Any]) -> None:
    """`all_tasks()` has the order that it has where no other loop is.

    The tables are shared with tasks that hash by their address, and that come and go.
    """
    alone = outcomes(program, lambda: None)
    bystander = Bystander()
    with bystander.standing_by():
        assert outcomes(program, bystander.turn) == alone
    assert bystander.turns > 30 * SEEDS


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no table holds tasks of several threads")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_order_by_table_is_noticed(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: tasks as the tables yield them. Else the test above would prove nothing."""
    alone = outcomes(program, lambda: None)
    monkeypatch.setattr(hashes, "_TABLES", ())
    bystander = Bystander()
    with bystander.standing_by():
        assert outcomes(program, bystander.turn) != alone


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_other_loop_keeps_its_tasks(program: Callable[..., Any]) -> None:
    """What `all_tasks()` says there is right before, during and after runs: none of its tasks is
    lost, those included that were made while a run went on."""
    bystander = Bystander()
    with bystander.standing_by():
        outcomes(program, bystander.turn)
        outcomes(program, bystander.turn)
        bystander.turn()
    assert bystander.wrong == 0
