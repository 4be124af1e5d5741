"""urllib3 1.26.15: a pool is closed while another thread is about to use it (urllib3#1252).

Threads fetch pages of several hosts through one PoolManager that keeps two pools.
"""

import asyncio
import time

KIND = "test"
BUGGY = ("urllib3==1.26.15",)
FIXED = ("urllib3==1.26.16",)
CHANCE = False


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(0.001)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def main() -> None:
    import urllib3

    ports = (8001, 8002, 8003)
    servers = [await asyncio.start_server(answer, "127.0.0.1", port) for port in ports]
    pools = urllib3.PoolManager(num_pools=2)

    def fetch(port: int) -> None:
        for _ in range(2):
            response = pools.request("GET", f"http://127.0.0.1:{port}/", retries=False)
            assert response.data == b"ok"
            time.sleep(0.001)

    await asyncio.gather(*(asyncio.to_thread(fetch, port) for port in ports))
    pools.clear()
    for server in servers:
        server.close()
