"""Programs that send files, and that begin TLS in the middle of a connection."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.compat.tls import CLIENT, NAMES, SERVER
from tests.fidelity.streams import connected, serving

CONTENT = os.path.abspath(os.__file__)
"""A file that every arm may read: a module of the standard library."""


async def sendfile() -> Any:
    """loop.sendfile sends the whole file, and a part of it."""
    async with connected() as ((_, writer), (reader, _)):
        loop = asyncio.get_running_loop()
        with open(CONTENT, "rb") as file:
            data = file.read()
            file.seek(0)
            sent = await loop.sendfile(writer.transport, file)
            whole = await reader.readexactly(len(data))
            part = await loop.sendfile(writer.transport, file, 100, 50)
            place = file.tell()
        return (
            sent == len(data),
            whole == data,
            part,
            place,
            await reader.readexactly(50) == (data[100:150]),
        )


async def start_tls() -> Any:
    """A connection turns to TLS after a plain greeting; both directions work, and it ends well."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ready\n")
        await writer.start_tls(SERVER)
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async with serving(handle) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        greeting = await reader.readline()
        await writer.start_tls(CLIENT, server_hostname=NAMES[0])
        version = writer.get_extra_info("ssl_object").version()
        writer.write(b"secret\n")
        answer = await reader.read()
        writer.close()
        return greeting, version, answer
