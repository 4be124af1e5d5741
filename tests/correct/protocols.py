"""Correct servers and clients with a protocol of their own: replies in order, replicas, leases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import foretold
from tests.correct.program import program
from tests.correct.rpc import call, serve

PORT = 6379


async def read_command(reader: asyncio.StreamReader) -> list[str]:
    """An array of strings, as Redis wants commands; raises IncompleteReadError at the end."""
    head = await reader.readuntil(b"\r\n")
    words: list[str] = []
    for _ in range(int(head[1:])):
        size = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(size + 2))[:-2].decode())
    return words


async def serve_commands(execute: Callable[[list[str]], int]) -> None:
    """Answer each command with a number, in the order of the commands."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                while True:
                    writer.write(b":%d\r\n" % execute(await read_command(reader)))
                    await writer.drain()
            finally:
                writer.close()

    async with await asyncio.start_server(session, "0.0.0.0", PORT) as server:
        await server.serve_forever()


def encoded(*words: object) -> bytes:
    """One command."""
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


@program(faults=foretold.faults.network, runs_max=60)
async def pipelined_commands(world: foretold.World, *, broken: bool) -> None:
    """A client sends a pipeline at once and reads as many replies; a pipeline that breaks is sent
    again as a whole, and the server knows each addition by its number. Broken: the client takes
    what one read gives for all replies."""
    totals: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()

    def execute(words: list[str]) -> int:
        name, number = words[1], words[2]
        if words[0] == "ADD" and (name, number) not in seen:
            seen.add((name, number))
            totals[name] = totals.get(name, 0) + int(words[3])
        return totals.get(name, 0)

    async def replies(reader: asyncio.StreamReader, number: int) -> list[int]:
        if broken:
            return [int(line[1:]) for line in (await reader.read(1000)).split(b"\r\n")[:-1]]
        return [int((await reader.readuntil(b"\r\n"))[1:-2]) for _ in range(number)]

    async def pipeline(commands: list[bytes]) -> list[int]:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(1):
                    reader, writer = await asyncio.open_connection("redis", PORT)
                    try:
                        for command in commands:
                            writer.write(command)
                        return await replies(reader, len(commands))
                    finally:
                        writer.close()
            await asyncio.sleep(0.05)

    async def client(name: str) -> None:
        first = await pipeline([encoded("ADD", name, number, number) for number in (1, 2, 3)])
        assert len(first) == 3, "a reply is missing"
        assert first[2] == 6
        assert await pipeline([encoded("GET", name, 0)]) == [6]

    world.host("redis").start(lambda: serve_commands(execute))
    await asyncio.gather(client("ada"), client("bob"))
    assert totals == {"ada": 6, "bob": 6}


REPLICAS = ("north", "east", "south")
Stamped = list[Any]
"""A number and the value that was written under it."""


async def majority(ask: Callable[[str], Awaitable[Any]]) -> list[Any]:
    """The answers of two replicas of three, as soon as there are two; insists until then."""
    answers: list[Any] = []

    async def one(name: str) -> None:
        while len(answers) < 2:
            with contextlib.suppress(OSError):
                answers.append(await ask(name))
                return
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(one(name)) for name in REPLICAS]
    try:
        while len(answers) < 2:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            tasks = [task for task in tasks if not task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return answers


@program(
    faults=foretold.faults.network + foretold.faults.hosts.only("pause"), runs_max=200, slow=True
)
async def replicated_register(world: foretold.World, *, broken: bool) -> None:
    """Three replicas keep a value; reads and writes ask two of them. Who reads writes back what it
    has read before it says so, so that nobody reads older news later. Broken: it does not."""

    def replica() -> Any:
        kept: Stamped = [0, ""]

        async def answer(request: Any) -> Stamped:
            if request is not None and request > kept:
                kept[:] = request
            return kept

        return lambda: serve(answer)

    async def write(stamped: Stamped) -> None:
        await majority(lambda name: call(name, stamped))

    async def read() -> Stamped:
        newest: Stamped = max(await majority(lambda name: call(name, None)))
        if not broken:
            await write(newest)
        return newest

    for name in REPLICAS:
        world.host(name).start(replica())
    last: Stamped = [0, ""]

    async def reader() -> None:
        nonlocal last
        for _ in range(4):
            before = last
            found = await read()
            assert found >= before, f"{found} was read after {before} had been"
            last = max(last, found)
            await asyncio.sleep(foretold.between(0, 30, "thinks for") / 1000)

    async def writer() -> None:
        for number in (1, 2, 3):
            await write([number, f"news {number}"])

    await asyncio.gather(writer(), reader(), reader())
    assert (await read())[0] == 3


@program(
    faults=foretold.faults.network + foretold.faults.hosts.only("pause"), runs_max=200, slow=True
)
async def lease_of_a_majority(world: foretold.World, *, broken: bool) -> None:
    """Two of three hosts grant a lease, each for a while and under a number that only grows. Who
    got it may sleep past its end, so the storage refuses old numbers. Broken: it does not."""
    written: list[int] = []

    def lessor() -> Any:
        token, holder, until = 0, "", 0.0

        async def grant(request: Any) -> Any:
            nonlocal token, holder, until
            name, wanted = request
            now = asyncio.get_running_loop().time()
            if wanted <= token or (now < until and holder != name):
                return [False, token]
            token, holder, until = wanted, name, now + 0.2
            return [True, token]

        return lambda: serve(grant)

    async def store(token: int) -> bool:
        if not broken and written and token <= written[-1]:
            return False
        written.append(token)
        return True

    for lessor_name in REPLICAS:
        world.host(lessor_name).start(lessor())
    world.host("storage").start(lambda: serve(store))

    def worker(name: str) -> Any:
        async def attempt(wanted: int) -> int:
            """Returns the number to try next."""
            granted, newest = 0, wanted
            for each in REPLICAS:
                with contextlib.suppress(OSError):
                    is_granted, token = await call(each, [name, wanted])
                    granted += is_granted
                    newest = max(newest, token)
            if granted >= 2:
                with contextlib.suppress(OSError):
                    await call("storage", wanted)
            return newest + 1

        async def work() -> None:
            wanted = 1
            for _ in range(8):
                wanted = await attempt(wanted)
                await asyncio.sleep(0.05)

        return work

    await asyncio.gather(*(world.host(name).start(worker(name)).ended() for name in ("one", "two")))
    assert written == sorted(set(written)), "somebody wrote after the lease was another's"
