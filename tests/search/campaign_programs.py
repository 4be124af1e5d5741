"""Programs for campaigns, importable by workers in other processes."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
from pathlib import Path

import foretold
from foretold.kernel import fence

_libc = ctypes.CDLL(None)
_calls = itertools.count(1)


async def worker(turns: int) -> None:
    """Somebody who takes steps."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def spin_until_done(turns: int, *, spinners: int = 1) -> None:
    """Tasks that never wait, until another one has made so many turns."""
    done = False

    async def spin() -> None:
        while not done:
            await asyncio.sleep(0)

    async def work() -> None:
        nonlocal done
        await worker(turns)
        done = True

    await asyncio.gather(spin(), work(), *(spin() for _ in range(spinners - 1)))


async def holds() -> None:
    """Three tasks that meet in many ways, and nothing that fails."""
    await foretold.together(worker(3), worker(5), worker(4))


async def two_bugs() -> None:
    """One failure in about forty runs, and another in about eighty."""
    number = foretold.between(0, 79, "number")
    await foretold.together(worker(2), worker(3))
    assert number not in (7, 8), "seven or eight"
    assert number != 9, "nine"


def die(signal_number: int) -> None:
    """End this process from C, where no fence is."""
    _libc["raise"](signal_number)


async def kills_once(marker: Path) -> None:
    """Kills its process in the run that finds the marker, and takes the marker away."""
    await holds()
    with fence.passage():
        found = _libc.unlink(os.fsencode(marker)) == 0
    if found:
        die(9)


async def kills_always() -> None:
    """Kills its process whenever a certain number comes up."""
    number = foretold.between(0, 29, "number")
    await holds()
    if number == 7:
        die(9)


async def ladder() -> None:
    """Four right choices out of eight each, one after the other; then it fails.

    By chance alone that takes 4,096 runs on average. The program says how far it has come.
    """
    for rung in range(4):
        await asyncio.sleep(0)
        if foretold.between(0, 7, f"rung {rung}") != 5:
            return
        foretold.state("rung", rung)
    raise AssertionError("at the top")


def nested() -> None:
    """Three values that must all be right; nothing but branches tells how far a run has come."""
    if foretold.between(0, 15, "first") == 11:  # noqa: SIM102  # each is to be a branch of its own
        if foretold.between(0, 15, "second") == 3:  # noqa: SIM102  # as above
            if foretold.between(0, 15, "third") == 8:
                raise AssertionError("behind three branches")
