"""What a verb for all paths means for a host's way to itself."""

from __future__ import annotations

import asyncio

import pytest

import foretold


@pytest.mark.parametrize("others", [0, 1])
def test_the_quality_of_all_paths_and_the_loopback(others: int) -> None:
    """With a single host its loopback is the network; with several it is none, as in production."""

    async def main(world: foretold.World) -> float:
        for number in range(others):
            world.host(f"other-{number}")
        world.network.latency(0.1, 0.1)
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 80)
        begin = world.clock.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", 80)
        took = world.clock.monotonic() - begin
        await reader.read()
        writer.close()
        server.close()
        return took

    took_s = foretold.run(main).value
    assert took_s < 0.01 if others else took_s == pytest.approx(0.2, abs=0.01)


async def _one_step(host: str) -> set[bytes]:
    """What a client's first read gives, of two writes that a server makes in one step."""
    reader, writer = await asyncio.open_connection(host, 80)
    writer.write(b"?")
    got = await reader.read(100)
    writer.close()
    await writer.wait_closed()
    return {got}


async def _two_writes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"head")
    writer.write(b"body")
    writer.close()


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("exact_time", [False, True])
@pytest.mark.parametrize("order", ["asyncio", "any"])
def test_two_writes_of_one_step_within_a_host(order: str, exact_time: bool) -> None:
    """Linux has both at the peer before the loop polls again: they are one read, on all tapes, also
    if the program's clock stands still."""

    async def main() -> set[bytes]:
        async with await asyncio.start_server(_two_writes, "127.0.0.1", 80):
            seen = await _one_step("127.0.0.1")
            await asyncio.sleep(1)  # until the server's end is closed too
        return seen

    for seed in range(30):
        run = foretold.run(main, seed=seed, order=order, exact_time=exact_time)
        assert run.value == {b"headbody"}, seed


@pytest.mark.usefixtures("one_session")
def test_two_writes_of_one_step_between_hosts() -> None:
    """Between hosts they are segments of their own, which may be read together or one by one."""

    async def serve() -> None:
        async with await asyncio.start_server(_two_writes, "0.0.0.0", 80) as server:
            await server.serve_forever()

    async def main(world: foretold.World) -> set[bytes]:
        server = world.host("server")
        server.start(serve)
        await server.listening(80)
        return await _one_step("server")

    seen = set[bytes]().union(*(foretold.run(main, seed=seed).value for seed in range(30)))
    assert seen == {b"head", b"headbody"}


def test_a_loopback_that_a_fault_slows_down() -> None:
    """It takes no time by itself, so a factor has something of its own to multiply."""

    async def main(world: foretold.World) -> list[float]:
        took = []
        async with await asyncio.start_server(_two_writes, "127.0.0.1", 80):
            for factor in (1, 1_000, 1):
                world.network.slow("main", "main", factor)
                begun = world.clock.monotonic()
                await _one_step("127.0.0.1")
                took.append(world.clock.monotonic() - begun)
            await asyncio.sleep(1)
        return took

    before, slow, after = foretold.run(main, exact_time=True).value
    assert (before, after) == (0, 0)
    assert slow > 0.01
