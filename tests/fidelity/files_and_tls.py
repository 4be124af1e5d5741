"""Programs that send files."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.fidelity.streams import connected

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
        return sent == len(data), whole == data, part, place, await reader.readexactly(50) == (
            data[100:150]
        )
