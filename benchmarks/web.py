"""What a request costs: straight into ASGI, and through uvicorn on the simulated network.

Beside both stands httpx → uvicorn on real loopback, in one process, on asyncio's own loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastapi
import httpx
import uvicorn

import foretold
from foretold.kernel import real

REQUESTS = 1_000
PORT = 28_654
CLIENTS = 4
SSL = httpx.create_ssl_context(verify=False)

app = fastapi.FastAPI()


@app.get("/items/{number}")
async def show(number: int) -> dict[str, int]:
    """A small answer."""
    return {"number": number}


async def ask(client: httpx.AsyncClient, number: int) -> None:
    """So many requests of one client, one after the other."""
    for item in range(number):
        answer = await client.get(f"/items/{item}")
        assert answer.status_code == 200


async def ask_all(clients: list[httpx.AsyncClient], clock: Callable[[], float]) -> float:
    """How many requests a second all of them get through together."""
    await asyncio.gather(*(ask(client, 20) for client in clients))
    started = clock()
    await asyncio.gather(*(ask(client, REQUESTS // len(clients)) for client in clients))
    taken = clock() - started
    for client in clients:
        await client.aclose()
    return REQUESTS / taken


def in_the_world(through: str, clients: int) -> float:
    """Requests per second, in one run."""

    async def main(world: foretold.World) -> float:
        web = await world.web(app, through=through)
        names = [f"client {number}" for number in range(clients)]
        return await ask_all([web.client(name) for name in names], real.perf_counter)

    rate: float = foretold.run(main).value
    return rate


async def _on_loopback(clients: int) -> float:
    config = uvicorn.Config(app, port=PORT, log_config=None, loop="asyncio")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    address = f"http://127.0.0.1:{PORT}"
    made = [httpx.AsyncClient(base_url=address, verify=SSL) for _ in range(clients)]
    rate = await ask_all(made, real.perf_counter)
    server.should_exit = True
    await serving
    return rate


def on_loopback(clients: int) -> float:
    """Requests per second over real sockets."""
    return asyncio.run(_on_loopback(clients))


def measure(rounds: int) -> dict[str, tuple[float, float]]:
    """Name → our figure, and that of stock: the best of several rounds, taken in turn."""
    logging.disable(logging.CRITICAL)
    figures: dict[str, tuple[float, float]] = {}
    for clients, name in ((1, "web_asgi_one_client"), (CLIENTS, "web_asgi_clients")):
        ours, stock = 0.0, 0.0
        for _ in range(rounds):
            ours = max(ours, in_the_world("asgi", clients))
            stock = max(stock, on_loopback(clients))
        figures[name] = (ours, stock)
    stock = figures["web_asgi_clients"][1]
    figures["web_uvicorn_clients"] = (in_the_world("uvicorn", CLIENTS), stock)
    logging.disable(logging.NOTSET)
    return figures


BARS = {"web_asgi_one_client": 2.0, "web_asgi_clients": 2.0, "web_uvicorn_clients": 0.0}


def main() -> None:
    """Measure all, show a table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/web.json"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, (ours, stock) in measure(options.rounds).items():
        ratio, bar = round(ours / stock, 3), BARS[name]
        figures[name] = {"ours": round(ours, 1), "stock": round(stock, 1), "ratio": ratio}
        figures[name] |= {"bar": bar, "met": ratio >= bar}
        missed = "" if ratio >= bar else "  MISSED"
        print(f"{name:24}{ours:10.1f}  stock {stock:10.1f}  ratio {ratio}  bar {bar}{missed}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
