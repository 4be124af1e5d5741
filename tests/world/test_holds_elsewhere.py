"""A task that is held on another host is let go when nothing else can run, as on the test's own."""

from __future__ import annotations

import asyncio

import pytest

import foretold
from foretold.tape import ENDED, Hold, Schedule, Tape
from foretold.world.settings import Settings
from tests.helpers import again


async def talk(world: foretold.World) -> bytes:
    """A question and an answer between two hosts."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "0.0.0.0", 80)
        await server.serve_forever()

    server = world.host("server")
    server.start(serve)
    await server.listening(80)
    reader, writer = await asyncio.open_connection("server", 80)
    writer.write(b"hello\n")
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize("until", [("serve", ENDED), ("nobody", 1), ("serve", 99)])
@pytest.mark.parametrize("actor", ["serve", "answer", "_create_server_getaddrinfo"])
def test_a_hold_for_nothing_is_no_deadlock(actor: str, until: tuple[str, int]) -> None:
    """Whatever it waits for: a deadlock would be our doing, not the program's."""
    settings = Settings().with_changes(order="any").on_tape()
    for step in (1, 2, 3):
        hold = Hold("server", actor, step, *until)
        tape = Tape("derived", settings=settings, schedule=Schedule.of([hold]))
        done = again(talk, tape)
        assert done.error is None
        assert done.value == b"hello\n"
