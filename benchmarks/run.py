"""Measures foretold against stock asyncio, side by side in one process.

    python benchmarks/run.py [--output build/bench.json] [--rounds 5]

Each figure is the best of several rounds in which ours and stock take turns, so that a busy
machine disturbs both alike. The file holds name → {ours, stock, ratio, bar}; `bar` is the ratio
(or for sizes the figure) that the project has promised.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import json
import os
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What a real service has imported: a large heap is what makes runs slow elsewhere.
import aiohttp.web
import fastapi
import httpx
import numpy as np
import sqlalchemy.ext.asyncio
import uvicorn
from campaign import measure_campaign
from figures import row

import foretold
from foretold.kernel import real
from foretold.kernel.native import extensions
from foretold.kernel.patches import patches

HEAVY = (aiohttp.web, fastapi, sqlalchemy.ext.asyncio)
CALLBACKS = 200_000
TIMER_TASKS, TIMER_SLEEPS = 1_000, 100
RUNS = 1_000
STEPS = 1_000_000
ORDERS = ("asyncio", "any")
ECHOES, ECHO_PORT = 4_000, 28_651
REQUESTS, HTTP_PORT = 200, 28_652
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once: httpx would read all certificate authorities for every client."""


def chains(width: int) -> Callable[[], Any]:
    """`width` chains of callbacks, each scheduling its next; CALLBACKS in all."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        left = CALLBACKS

        def ping() -> None:
            nonlocal left
            left -= 1
            if left > 0:
                loop.call_soon(ping)
            elif not done.done():
                done.set_result(None)

        for _ in range(width):
            loop.call_soon(ping)
        await done

    return main


async def timers() -> None:
    """Many tasks that sleep for different times."""

    async def sleeper(i: int) -> None:
        for k in range(TIMER_SLEEPS):
            await asyncio.sleep(((i * 7919 + k * 104729) % 1000) / 1000 + 0.001)

    await asyncio.gather(*(sleeper(i) for i in range(TIMER_TASKS)))


async def task_steps() -> None:
    """Ten tasks that yield again and again."""

    async def yielder() -> None:
        for _ in range(20_000):
            await asyncio.sleep(0)

    await asyncio.gather(*(yielder() for _ in range(10)))


async def two_tasks() -> None:
    """The small program of which whole runs are counted."""

    async def worker() -> None:
        await asyncio.sleep(0)

    await asyncio.gather(worker(), worker())


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(
    works: dict[str, Callable[[], object]], count: int, rounds: int
) -> dict[str, float]:
    """The best rate of each, per second, all taking turns."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work))
    return {name: count / taken for name, taken in best.items()}


def measure_callbacks(rounds: int) -> dict[str, Any]:
    """Callbacks, timers and task steps per second."""
    figures: dict[str, Any] = {}
    for width, bars in ((2, (0.8, 0.6)), (1_000, (0.6, 0.4))):
        main = chains(width)
        rates = side_by_side(
            {
                "stock": lambda main=main: asyncio.run(main()),
                "asyncio": lambda main=main: foretold.run(main, order="asyncio"),
                "any": lambda main=main: foretold.run(main, order="any"),
            },
            CALLBACKS,
            rounds,
        )
        for order, bar in zip(("asyncio", "any"), bars, strict=True):
            figures[f"callbacks_{width}_chains_{order}"] = row(rates[order], rates["stock"], bar)
    # Against stock callbacks: stock timers would wait in real time.
    sleeps = {order: lambda order=order: foretold.run(timers, order=order) for order in ORDERS}
    two = chains(2)
    callbacks = {"stock": lambda: asyncio.run(two())}
    rates = side_by_side({**callbacks, **sleeps}, TIMER_TASKS * TIMER_SLEEPS, rounds)
    stock = rates["stock"] * CALLBACKS / (TIMER_TASKS * TIMER_SLEEPS)
    for order in ORDERS:
        figures[f"timers_{order}"] = row(rates[order], stock, 0.2)
    works = {order: lambda order=order: foretold.run(task_steps, order=order) for order in ORDERS}
    rates = side_by_side({"stock": lambda: asyncio.run(task_steps()), **works}, 200_000, rounds)
    for order in ORDERS:
        figures[f"task_steps_{order}"] = row(rates[order], rates["stock"], None)
    return figures


def measure_runs(rounds: int) -> dict[str, Any]:
    """Whole runs per second with a large heap."""

    def stock() -> None:
        for _ in range(RUNS):
            asyncio.run(two_tasks())

    def single() -> None:
        for seed in range(RUNS):
            foretold.run(two_tasks, seed=seed)

    rates = side_by_side(
        {
            "stock": stock,
            "explore": lambda: foretold.explore(two_tasks, runs=RUNS),
            "run": single,
        },
        RUNS,
        rounds,
    )
    return {
        "whole_runs_explore": row(rates["explore"], rates["stock"], 0.4),
        "whole_runs_single": row(rates["run"], rates["stock"], None),
    }


def resident_mb() -> float:
    """Memory of this process. Steps outside: inside a run the real file system is fenced."""
    with patches.outside():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure_memory() -> dict[str, Any]:
    """What a run of a million steps adds to the process while it goes on."""
    grown = 0.0

    async def main() -> None:
        nonlocal grown
        before = resident_mb()
        for step in range(STEPS):
            await asyncio.sleep(0)
            if step % 100_000 == 0:
                grown = max(grown, resident_mb() - before)
        grown = max(grown, resident_mb() - before)

    foretold.run(main)
    figure = {"ours": round(grown, 1), "stock": 0, "ratio": None, "bar": 100, "met": grown < 100}
    return {"memory_mb_per_million_steps": figure}


def echo(clients: int) -> Callable[[], Any]:
    """ECHOES lines sent and echoed over TCP, by so many clients."""

    async def main() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line)
            writer.close()

        async def client() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", ECHO_PORT)
            for _ in range(ECHOES // clients):
                writer.write(b"ping\n")
                await reader.readline()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(handle, "127.0.0.1", ECHO_PORT)
        await asyncio.gather(*(client() for _ in range(clients)))
        server.close()

    return main


APP = fastapi.FastAPI()


@APP.get("/")
async def hello() -> dict[str, str]:
    """The least that a service does."""
    return {"hello": "world"}


async def requests() -> None:
    """REQUESTS from httpx to uvicorn and FastAPI, one after the other."""
    config = uvicorn.Config(APP, "127.0.0.1", HTTP_PORT, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.001)
    async with httpx.AsyncClient(verify=NO_TLS) as client:
        for _ in range(REQUESTS):
            (await client.get(f"http://127.0.0.1:{HTTP_PORT}/")).raise_for_status()
    server.should_exit = True
    await serving


def measure_network(rounds: int) -> dict[str, Any]:
    """TCP round trips and HTTP requests per second, against stock asyncio on real loopback."""
    figures: dict[str, Any] = {}
    for clients in (1, 10):
        main = echo(clients)
        works = {"stock": lambda main=main: asyncio.run(main())}
        works |= {
            order: lambda main=main, order=order: foretold.run(main, order=order)
            for order in ORDERS
        }
        rates = side_by_side(works, ECHOES, rounds)
        for order in ORDERS:
            figures[f"tcp_echo_{clients}_clients_{order}"] = row(rates[order], rates["stock"], 0.6)
    works = {"stock": lambda: asyncio.run(requests())}
    works |= {order: lambda order=order: foretold.run(requests, order=order) for order in ORDERS}
    rates = side_by_side(works, REQUESTS, rounds)
    for order in ORDERS:
        figures[f"http_{order}"] = row(rates[order], rates["stock"], 1.0)
    return figures


CALLS = 20_000


def pipe_reads() -> None:
    """Bytes through a pipe: one write and one read each."""
    reader, writer = os.pipe()
    try:
        for _ in range(CALLS):
            os.write(writer, b"x")
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def path_looks() -> None:
    """Looks at a path that is there."""
    for _ in range(CALLS):
        os.path.exists("/tmp")


def measure_calls(rounds: int) -> dict[str, Any]:
    """System calls per second, against the real machine's."""
    figures: dict[str, Any] = {}
    for name, work in (("pipe_write_and_read", pipe_reads), ("path_exists", path_looks)):
        works = {"stock": work, "ours": lambda work=work: foretold.run(work)}
        rates = side_by_side(works, CALLS, rounds)
        figures[name] = row(rates["ours"], rates["stock"], 0.2)
    return figures


HAND_OVERS, THREAD_STEPS, LINES, LOCKS = 20_000, 20_000, 100_000, 100_000


def hand_overs() -> float:
    """How often per second one thread can hand over to another, with nothing chosen."""
    mine, other = real.allocate_lock(), real.allocate_lock()
    acquire, release = real.lock_acquire, real.lock_release
    acquire(mine)
    acquire(other)

    def answer() -> None:
        for _ in range(HAND_OVERS):
            acquire(other)
            release(mine)

    def ask() -> None:
        for _ in range(HAND_OVERS):
            release(other)
            acquire(mine)

    thread = threading.Thread(target=answer)
    thread.start()
    taken = seconds(ask)
    thread.join()
    return 2 * HAND_OVERS / taken


def thread_steps() -> None:
    """Two threads that take a lock again and again: two steps each time."""
    lock = threading.Lock()

    def work() -> None:
        for _ in range(THREAD_STEPS // 4):
            with lock:
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def lines() -> float:
    """How long a thread takes for LINES lines, while another waits for it."""
    stop, taken = threading.Event(), 0.0

    def work() -> None:
        nonlocal taken
        start = real.perf_counter()
        for _ in range(LINES // 2):
            pass
        taken = real.perf_counter() - start
        stop.set()

    threads = [threading.Thread(target=work), threading.Thread(target=stop.wait)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def lines_beside_another() -> float:
    """How long two threads take for LINES lines in all, when each could go on at any of them."""

    def work() -> None:
        for _ in range(LINES // 4):
            pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    start = real.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return real.perf_counter() - start


def measure_lines(rounds: int) -> dict[str, Any]:
    """What a line costs in a module that may be preempted: where nobody else could go on, and where
    another could. There each look is a choice; how far they are apart is drawn, hence ten seeds."""
    alone = min(foretold.run(lines).value for _ in range(rounds))
    watched = min(foretold.run(lines, preempt="lines").value for _ in range(rounds))
    plain = min(foretold.run(lines_beside_another).value for _ in range(rounds))
    beside = [foretold.run(lines_beside_another, seed=s, preempt="lines").value for s in range(10)]
    return {
        "thread_line_ns": size_row((watched - alone) / LINES * 1e9, 300),
        "thread_line_beside_another_ns": size_row((sum(beside) / 10 - plain) / LINES * 1e9, None),
    }


def locks_without_threads() -> float:
    """How often per second a lock is taken; in a run, in one that has no thread."""
    lock = threading.Lock()
    start = real.perf_counter()
    for _ in range(LOCKS):
        with lock:
            pass
    return LOCKS / (real.perf_counter() - start)


def measure_threads(rounds: int) -> dict[str, Any]:
    """Raw hand-overs, chosen and traced steps, preempted lines, and locks where nobody threads."""
    figures: dict[str, Any] = {}
    raw = max(hand_overs() for _ in range(rounds))
    figures["thread_hand_overs"] = rate_row(raw, 100_000)
    for strategy in ("random", "fifo"):
        work = functools.partial(foretold.run, thread_steps, strategy=strategy)
        taken = min(seconds(work) for _ in range(rounds))
        figures[f"thread_steps_{strategy}"] = rate_row(THREAD_STEPS / taken, 30_000)
    figures |= measure_lines(rounds)
    inside = max(foretold.run(locks_without_threads).value for _ in range(rounds))
    outside = max(locks_without_threads() for _ in range(rounds))
    # A free lock costs one more call: so that one taken twice is a deadlock, and not a hang.
    figures["lock_without_threads"] = row(inside, outside, 0.5)
    return figures


def rate_row(ours: float, bar: float) -> dict[str, Any]:
    """A figure per second that has a bar of its own, and nothing to compare with."""
    return {"ours": round(ours), "stock": 0, "ratio": None, "bar": bar, "met": ours >= bar}


def size_row(ours: float, bar: float | None) -> dict[str, Any]:
    """A cost that must stay below its bar, if it has one."""
    met = bar is None or ours < bar
    return {"ours": round(ours), "stock": 0, "ratio": None, "bar": bar, "met": met}


def measure_clock() -> dict[str, Any]:
    """Nanoseconds for a read of the clock inside a run."""
    reads = 200_000

    async def main() -> None:
        now = time.time
        for _ in range(reads):
            now()

    inside = min(seconds(lambda: foretold.run(main, order="asyncio")) for _ in range(3))
    outside = min(seconds(lambda: asyncio.run(main())) for _ in range(3))
    ours, stock = inside / reads * 1e9, outside / reads * 1e9
    figure = {"ours": round(ours), "stock": round(stock), "ratio": round(ours / stock, 2)}
    return {"clock_read_ns": {**figure, "bar": None, "met": True}}


NATIVE_READS, NATIVE_TURNS = 20_000, 200


def native_reads() -> float:
    """Nanoseconds for a read of the clock by C code of numpy."""
    start = real.perf_counter()
    for _ in range(NATIVE_READS):
        np.datetime64("now")
    return (real.perf_counter() - start) / NATIVE_READS * 1e9


def measure_native(rounds: int) -> dict[str, Any]:
    """What it costs that C libraries live in the world: to lead their tables to us and back, once
    in a session; to look for libraries that an import has loaded; a clock that C code reads."""
    (tables, _) = extensions.CHANGES

    def turns() -> None:
        for _ in range(NATIVE_TURNS):
            tables.apply()
            tables.undo()

    def looks() -> None:
        for _ in range(NATIVE_TURNS):
            extensions.look()

    inside = min(foretold.run(native_reads).value for _ in range(rounds))
    outside = min(native_reads() for _ in range(rounds))
    per_turn = 1e9 / NATIVE_TURNS
    return {
        "native_tables_ns": size_row(
            min(seconds(turns) for _ in range(rounds)) * per_turn, 100_000
        ),
        "native_look_ns": size_row(min(seconds(looks) for _ in range(rounds)) * per_turn, 10_000),
        "native_clock_read_ns": {**size_row(inside, 5_000), "stock": round(outside)},
    }


HOSTS, HOST_TURNS, HOST_PORT = (20, 200, 400), 20, 7_000


def ring(hosts: int) -> Callable[[foretold.World], Any]:
    """Each host sends a datagram to the next one, again and again."""

    async def main(world: foretold.World) -> None:
        every = [world.host(f"h{number}") for number in range(hosts)]

        def talks_to(ip: str) -> Callable[[], Any]:
            async def program() -> None:
                loop = asyncio.get_running_loop()
                transport, _ = await loop.create_datagram_endpoint(
                    asyncio.DatagramProtocol, local_addr=("0.0.0.0", HOST_PORT)
                )
                for _ in range(HOST_TURNS):
                    await asyncio.sleep(0.01)
                    transport.sendto(b"here I am", (ip, HOST_PORT))
                transport.close()

            return program

        followers = every[1:] + every[:1]
        tasks = [one.start(talks_to(o.ip)) for one, o in zip(every, followers, strict=True)]
        for task in tasks:
            await task

    return main


def measure_hosts(rounds: int) -> dict[str, Any]:
    """Microseconds of processor time for each host of a world, against a host among the fewest.
    Some kernels count that time in steps of 10 ms: all sizes make the same number of hosts."""
    figures: dict[str, Any] = {}
    few, made = 0.0, HOSTS[-1] * rounds
    for hosts, bar in zip(HOSTS, (None, 1.2, 1.4), strict=True):
        foretold.run(ring(hosts), seed=1)
        start = time.process_time()
        for _ in range(made // hosts):
            foretold.run(ring(hosts), seed=1)
        ours = (time.process_time() - start) / made * 1e6
        few = few or ours
        ratio = round(ours / few, 2)
        figure = {"ours": round(ours), "stock": round(few), "ratio": ratio, "bar": bar}
        figures[f"host_among_{hosts}_us"] = {**figure, "met": bar is None or ratio <= bar}
    return figures


def main() -> None:
    """Measure all, show a table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    figures |= measure_memory()  # first: memory that others have freed would hide growth
    figures |= measure_callbacks(options.rounds)
    figures |= measure_runs(options.rounds)
    figures |= measure_network(options.rounds)
    figures |= measure_calls(options.rounds)
    figures |= measure_hosts(max(2, options.rounds // 2))
    figures |= measure_threads(options.rounds)
    figures |= measure_clock()
    figures |= measure_native(options.rounds)
    figures |= measure_campaign(max(1, options.rounds // 2))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"{'':36}{'ours':>12}{'stock':>12}{'ratio':>8}{'bar':>7}")
    for name, one in figures.items():
        missed = "" if one["met"] else "  MISSED"
        ratio = "" if one["ratio"] is None else one["ratio"]
        bar = "" if one["bar"] is None else one["bar"]
        print(f"{name:36}{one['ours']:>12,}{one['stock']:>12,}{ratio:>8}{bar:>7}{missed}")


if __name__ == "__main__":
    main()
