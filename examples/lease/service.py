"""A lease service: at most one worker at a time may hold the lease, and only for a while.

Plain asyncio streams, one line per request: `take worker-a` is answered by `granted 7 1.0` (the
number of the grant, and for how many seconds) or by `held`. Asking again renews.
"""

import asyncio
import time

PORT = 7400
LEASE_S = 1.0


class Service:
    """Who holds the lease, and until when by this host's clock."""

    def __init__(self) -> None:
        self.holder = ""
        self.until = 0.0
        self.grant = 0

    def take(self, worker: str) -> str:
        now = time.monotonic()
        if self.holder != worker and now < self.until:
            return "held"
        if self.holder != worker or now >= self.until:
            self.holder = worker
            self.grant += 1
        self.until = now + LEASE_S
        return f"granted {self.grant} {LEASE_S}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                _, worker = line.decode().split()
                writer.write(f"{self.take(worker)}\n".encode())
                await writer.drain()
        except OSError:
            pass  # the worker is gone; it will come back
        finally:
            writer.close()


async def serve() -> None:
    service = Service()
    server = await asyncio.start_server(service.answer, "0.0.0.0", PORT)
    await server.serve_forever()
