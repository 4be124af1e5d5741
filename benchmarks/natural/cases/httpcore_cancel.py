"""httpcore 0.17.3: a cancelled request leaves its connection in the pool, taken (fixed in 1.0.3).

Requests through a pool of two; some callers give up.
"""

import asyncio

from patterns import pause, some_give_up

KIND = "test"
BUGGY = ("httpcore==0.17.3",)
FIXED = ("httpcore==1.0.9",)
CHANCE = False


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            await pause(0.003)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def main() -> None:
    import httpcore

    server = await asyncio.start_server(answer, "127.0.0.1", 8000)
    async with httpcore.AsyncConnectionPool(max_connections=2) as pool:

        async def get() -> None:
            await pause(0.01)
            await pool.request("GET", "http://127.0.0.1:8000/")

        tasks = [asyncio.create_task(get()) for _ in range(8)]
        await some_give_up(tasks, 4, 0.02)
        await asyncio.wait(tasks, timeout=30)
        last = asyncio.create_task(get())
        done, _ = await asyncio.wait({last}, timeout=30)
        last.cancel()
        assert done, "the pool has no connection for one request"
    server.close()
