"""Programs whose results depend on the disk: listings, temporary names, times, and crashes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any

import foretold
from tests.determinism.registry import free, program


@free
async def shared_log() -> object:
    """Several tasks append to one file; their order stands in it."""
    folder = tempfile.mkdtemp()

    async def writer(name: str) -> None:
        for number in range(4):
            with open(os.path.join(folder, "log"), "a") as file:
                file.write(f"{name}{number} ")
            await asyncio.sleep(0)

    await asyncio.gather(*map(writer, "abc"))
    with open(os.path.join(folder, "log")) as file:
        return folder, file.read()


@program
async def listings_and_times() -> object:
    """Names in the order of the disk, numbers of inodes, times of files."""
    for name in "abcdefgh":
        with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix=name, delete=False) as file:
            file.write(name)
        await asyncio.sleep(0.01)
    return [(e.name, e.inode(), e.stat().st_mtime_ns) for e in os.scandir("/tmp")]


@program
async def crashes(world: foretold.World) -> object:
    """What is left of unsynced files after several power cuts."""
    found: list[Any] = []

    async def main() -> None:
        for number in range(6):
            with open(f"/f{number}", "ab") as file:
                file.write(b"x" * 700)
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    host = world.host("db")
    host.start(main)
    for _ in range(3):
        await asyncio.sleep(1)
        host.crash()
        found.append(host.disk.tree())
        host.restart()
    return found
