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
