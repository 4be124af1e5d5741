"""A worker: takes the lease, renews it, and writes to a store as long as it believes to hold it."""

import asyncio
import time
from collections.abc import Callable

from examples.lease.service import PORT

RENEW_S = 0.45
ASK_AGAIN_S = 0.05
PATIENCE_S = 0.5
WRITE_S = 0.04

Store = Callable[[str, int], object]
"""What a write calls: the worker's name, and the number of the grant it believes to hold."""


class Worker:
    """Believes to hold the lease until `until`, by its own host's clock."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.until = 0.0
        self.grant = 0
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keep_lease(), name="keep_lease")
            tasks.create_task(self.write(), name="write")

    async def keep_lease(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self.renew()
            except (OSError, TimeoutError):
                self.hang_up()  # as long as the lease runs, there is time to try again
            holds = time.monotonic() < self.until
            await asyncio.sleep(RENEW_S if holds else ASK_AGAIN_S)

    async def renew(self) -> None:
        answer = (await self.ask()).split()
        if answer[:1] == ["granted"]:
            self.grant = int(answer[1])
            # The bug: the answer may have been on its way for long. The service counts from when
            # it granted the lease, this worker from when it heard of it.
            self.until = time.monotonic() + float(answer[2])
        elif answer == ["held"]:
            self.until = 0.0

    async def ask(self) -> str:
        if self.streams is None:
            self.streams = await asyncio.open_connection("lease", PORT)
        reader, writer = self.streams
        writer.write(f"take {self.name}\n".encode())
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the service hung up")
        return line.decode()

    def hang_up(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None

    async def write(self) -> None:
        while True:
            if time.monotonic() < self.until:
                self.store(self.name, self.grant)
            await asyncio.sleep(WRITE_S)


class CarefulWorker(Worker):
    """The fix: count from before the question was asked. No lease was granted earlier than that."""

    async def renew(self) -> None:
        asked = time.monotonic()
        answer = (await self.ask()).split()
        if answer[:1] == ["granted"]:
            self.grant = int(answer[1])
            self.until = asked + float(answer[2])
        elif answer == ["held"]:
            self.until = 0.0
