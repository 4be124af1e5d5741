"""Calls between hosts, as small services make them: one line of JSON there, one line back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

PORT = 7000
PATIENCE_S = 0.5
PAUSE_S = 0.05
Handler = Callable[[Any], Awaitable[Any]]


async def serve(handler: Handler) -> None:
    """Answer calls until the host is stopped."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                while (line := await reader.readline()).endswith(b"\n"):
                    answer = await handler(json.loads(line))
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
            finally:
                writer.close()

    async with await asyncio.start_server(session, "0.0.0.0", PORT) as server:
        await server.serve_forever()


async def call(host: str, request: Any) -> Any:
    """One attempt. Raises OSError or TimeoutError: whether it was done is not known then."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(host, PORT)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
    if not line.endswith(b"\n"):
        raise ConnectionResetError(f"{host} hung up")
    return json.loads(line)


async def insist(host: str, request: Any) -> Any:
    """Until there is an answer: for requests that may be done twice."""
    while True:
        try:
            return await call(host, request)
        except OSError:
            await asyncio.sleep(PAUSE_S)
