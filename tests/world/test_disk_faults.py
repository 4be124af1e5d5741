"""Faults of a disk: each kind strikes, does what it says, is over again, and is survivable."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.trace.events import Fault
from foretold.world.run import Run, execute
from foretold.world.settings import Settings
from foretold.world.world import World

SPOKEN = ("io_error", "disk_full", "short_write", "disk_slow", "disk_stall")
SILENT = ("bit_rot", "misdirected_write", "lost_fsync")
BLOCK = b"0123456789" * 100
SEEDS = range(24)


def made(main: Callable[..., Any], seed: int, kind: str) -> Run:
    """A run with one kind of fault, and all its events."""
    settings = Settings(faults=str(foretold.faults.disk.only(kind)))
    tape = foretold.Tape.seeded(seed, settings.on_tape())
    done = execute(lambda world: main(world), tape, settings, detail=True)
    if done.error is not None:
        raise done.error
    return done


def faults_in(done: Run) -> list[str]:
    """What was injected, and what was repaired."""
    return [event.text for event in done.trace.events if isinstance(event, Fault)]


async def appending(world: World) -> dict[str, int]:
    """Append blocks to a file for some seconds; which errors that gave, and how often. In the end,
    after healing, the disk works."""
    seen: dict[str, int] = {}
    for number in range(80):
        try:
            fd = os.open("/log", os.O_RDWR | os.O_CREAT)
            try:
                n = os.pwrite(fd, BLOCK, number * len(BLOCK))
                seen["short"] = seen.get("short", 0) + (n < len(BLOCK))
                os.fsync(fd)
                os.pread(fd, 10, 0)
            finally:
                os.close(fd)
        except OSError as error:
            name = errno.errorcode[error.errno or 0]
            seen[name] = seen.get(name, 0) + 1
        await asyncio.sleep(0.1)
    await world.heal()
    with open("/after", "wb") as file:
        file.write(BLOCK)
        os.fsync(file.fileno())
    assert world.home.disk.read("/after") == BLOCK
    return seen


def test_the_sets() -> None:
    """All kinds, and those of which the program is told; each file defines one."""
    assert foretold.faults.disk.kinds == SPOKEN + SILENT
    assert foretold.faults.disk_errors.kinds == SPOKEN
    assert not set(foretold.faults.disk) & set(foretold.faults.network + foretold.faults.hosts)


@pytest.mark.parametrize("kind", SPOKEN + SILENT)
def test_each_kind_strikes_and_is_over_again(kind: str) -> None:
    """Alone in its set each strikes in some run; after healing the disk is healthy."""
    struck = 0

    async def main(world: World) -> None:
        await appending(world)
        trouble = world.home.disk.trouble
        assert not any((trouble.failing, trouble.full, trouble.short, trouble.lying))
        assert not any((trouble.slow_ns, trouble.stalled_until_ns, trouble.misdirects))
        assert world.nemesis is not None
        assert world.nemesis.ground.taken == set()

    for seed in SEEDS:
        struck += bool(faults_in(made(main, seed, kind)))
        if struck == 3:
            return
    raise AssertionError(f"{kind} struck in {struck} runs")


def seen_with(kind: str) -> dict[str, int]:
    """The errors of all seeds together."""
    total: dict[str, int] = {}
    for seed in SEEDS:
        for name, n in made(appending, seed, kind).value.items():
            total[name] = total.get(name, 0) + n
    return total


def test_what_a_program_sees_of_each() -> None:
    """EIO, ENOSPC, fewer bytes: each kind its own symptom and no other."""
    assert seen_with("io_error").keys() == {"EIO", "short"}
    assert seen_with("disk_full").keys() == {"ENOSPC", "short"}
    short = seen_with("short_write")
    assert short.keys() == {"short"}
    assert short["short"] > 0
    for kind in SILENT:
        silent = seen_with(kind)
        assert silent.keys() == {"short"}
        assert silent["short"] == 0


def test_a_slow_disk_takes_virtual_time() -> None:
    """Slow and stalled operations move the host's clock, by up to the stated times."""
    for kind, at_least_s in (("disk_slow", 0.005), ("disk_stall", 0.03)):
        longest = 0.0

        async def main(world: World) -> None:
            nonlocal longest
            for number in range(100):
                before = world.clock.monotonic()
                with open("/f", "wb") as file:
                    file.write(BLOCK * number)
                longest = max(longest, world.clock.monotonic() - before)
                await asyncio.sleep(0.05)

        for seed in range(15):
            made(main, seed, kind)
        assert at_least_s <= longest < 4, kind


def test_python_s_buffers_survive_short_writes() -> None:
    """Buffered files write the rest by themselves, as on a real disk."""

    async def main(world: World) -> None:
        for number in range(60):
            with open(f"/f{number % 3}", "wb") as file:
                file.write(BLOCK * 30)
            assert world.home.disk.read(f"/f{number % 3}") == BLOCK * 30
            await asyncio.sleep(0.1)

    for seed in SEEDS:
        made(main, seed, "short_write")


def test_rot_and_misdirection_change_what_was_written() -> None:
    """A program that checks what it wrote finds it changed in some runs: exactly one bit, or whole
    sectors of it."""

    async def main(world: World) -> bytes:
        with open("/f", "wb") as file:
            file.write(BLOCK * 5)
        for number in range(80):
            with open("/g", "wb") as file:
                file.write(b"%05d" % number * 200)
            await asyncio.sleep(0.1)
        return world.home.disk.read("/f")

    rotten = [made(main, seed, "bit_rot").value for seed in SEEDS]
    flips = [sum((a ^ b).bit_count() for a, b in zip(r, BLOCK * 5, strict=True)) for r in rotten]
    assert 1 in flips
    assert max(flips) <= 6
    missed = [made(main, seed, "misdirected_write").value for seed in SEEDS]
    assert any(data != BLOCK * 5 for data in missed)
    assert all(len(data) == len(BLOCK * 5) for data in missed)


def test_a_lost_fsync_shows_in_a_crash() -> None:
    """Synced, with its directory: without the fault it always survives, with it not always."""

    async def main(world: World) -> bool:
        lost = False

        async def service() -> None:
            for number in range(40):
                with open(f"/f{number}", "wb") as file:
                    file.write(BLOCK)
                    file.flush()
                    os.fsync(file.fileno())
                fd = os.open("/", os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
                done.append(f"/f{number}")
                await asyncio.sleep(0.1)

        done: list[str] = []
        host = world.host("db")
        host.start(service)
        await asyncio.sleep(3)
        host.crash()
        for path in done:
            lost = lost or not host.disk.exists(path) or host.disk.read(path) != BLOCK
        return lost

    assert not any(foretold.run(main, seed=seed).value for seed in SEEDS)
    assert any(made(main, seed, "lost_fsync").value for seed in SEEDS)


@pytest.mark.usefixtures("one_session")
def test_calm_has_no_fault_and_a_tape_replays() -> None:
    """Inside calm the disk is healthy; one seed gives one digest."""

    async def main(world: World) -> dict[str, int]:
        async with world.calm():
            for _ in range(30):
                with open("/calm", "ab") as file:
                    assert file.write(BLOCK) == len(BLOCK)
                    os.fsync(file.fileno())
                await asyncio.sleep(0.3)
            assert world.home.disk.read("/calm") == BLOCK * 30
        return await appending(world)

    for seed in range(10):
        first = foretold.run(main, seed=seed, faults=foretold.faults.disk_errors)
        again = foretold.run(main, seed=seed, faults=foretold.faults.disk_errors)
        assert (first.value, first.digest) == (again.value, again.digest)


@pytest.mark.usefixtures("one_session")
def test_who_has_no_file_has_no_disk() -> None:
    """Pipes, sockets and their flags are descriptors, and no files: no fault of a disk strikes a
    program that has nothing else."""

    async def main(world: World) -> bool:
        one, other = os.pipe()
        os.write(other, b"x")
        os.read(one, 1)
        with socket.socket() as sock:
            os.fstat(sock.fileno())
            fcntl.fcntl(sock, fcntl.F_GETFL)
        for each in (one, other):
            os.set_blocking(each, False)
            os.close(each)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.read(one, 1)
        await asyncio.sleep(5)
        return world.home.has_disk

    for seed in range(10):
        run = foretold.run(main, seed=seed, faults=foretold.faults.disk)
        assert not run.value
        assert not sum(fault.injected for fault in run.tally.faults.values())
