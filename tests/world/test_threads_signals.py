"""Signals and blocking code: handlers run in the main thread, and what they interrupt goes on."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.world.world import World

SEEDS = 5


def asleep() -> None:
    """Blocks in `time.sleep`."""
    time.sleep(20)


def at_a_socket() -> None:
    """Blocks until the peer says something."""
    with socket.create_connection(("main", 80)) as sock:
        assert sock.recv(10) == b"hello"


def at_a_lock() -> None:
    """Blocks until another thread gives something back."""
    items: queue.Queue[int] = queue.Queue()
    threading.Timer(20, items.put, [1]).start()
    assert items.get() == 1


def in_a_loop() -> None:
    """A plain main that runs a loop of its own."""
    asyncio.run(asyncio.sleep(20))


PLACES = (asleep, at_a_socket, at_a_lock, in_a_loop)


async def says_hello_late() -> None:
    """A server that answers after 20 s."""

    async def serve(reader: Any, writer: Any) -> None:
        await asyncio.sleep(20)
        writer.write(b"hello")
        writer.close()

    await asyncio.start_server(serve, "main", 80)


@pytest.mark.parametrize("block", PLACES, ids=lambda block: block.__name__)
def test_a_handler_interrupts_what_blocks(block: Callable[[], None]) -> None:
    """It runs at once, in the main thread; then the call waits on until its time (PEP 475)."""

    async def main(world: World) -> Any:
        seen: list[Any] = []

        def program() -> float:
            def handler(number: int, frame: object) -> None:
                main_thread = threading.current_thread() is threading.main_thread()
                seen.append((number, round(time.monotonic() - began), main_thread))

            signal.signal(signal.SIGTERM, handler)
            began = time.monotonic()
            block()
            return round(time.monotonic() - began)

        await says_hello_late()
        running = world.host("a").start(program)
        for _ in range(2):
            await asyncio.sleep(5)
            world.host("a").signal(signal.SIGTERM)
        took_s = await running
        return list(seen), took_s

    for seed in range(SEEDS):
        done = foretold.run(main, seed=seed)
        sigterm = int(signal.SIGTERM)
        assert done.value == ([(sigterm, 5, True), (sigterm, 10, True)], 20)


@pytest.mark.parametrize("block", PLACES, ids=lambda block: block.__name__)
def test_a_handler_that_raises_ends_what_blocks(block: Callable[[], None]) -> None:
    """As `raise SystemExit` in a handler of SIGTERM does: `finally` runs, the process ends."""

    async def main(world: World) -> Any:
        log: list[str] = []

        class Stop(Exception):
            pass

        def handler(number: int, frame: object) -> None:
            raise Stop

        def program() -> None:
            signal.signal(signal.SIGTERM, handler)
            try:
                block()
            except Stop:
                log.append("stopped")
            finally:
                log.append("finally")

        await says_hello_late()
        world.host("a").start(program)
        await asyncio.sleep(5)
        began = time.monotonic()
        by_itself = await world.host("a").stop()
        return log, by_itself, time.monotonic() - began < (1 if block is not at_a_lock else 30)

    for seed in range(SEEDS):
        assert foretold.run(main, seed=seed).value == (["stopped", "finally"], True, True)


@pytest.mark.parametrize("block", PLACES, ids=lambda block: block.__name__)
def test_without_a_handler_the_process_ends_at_once(block: Callable[[], None]) -> None:
    """Its main is cancelled where it blocks, and not when its grace is over."""

    async def main(world: World) -> Any:
        ended: list[str] = []

        def program() -> None:
            block()
            ended.append("went on")

        await says_hello_late()
        running = world.host("a").start(program)
        await asyncio.sleep(5)
        world.host("a").signal(signal.SIGTERM)
        await asyncio.sleep(1)
        return running.done(), ended

    for seed in range(SEEDS):
        assert foretold.run(main, seed=seed).value == (True, [])


def test_a_signal_that_a_thread_sends() -> None:
    """`os.kill` on oneself from a thread: the handler runs in the main thread all the same."""

    def main() -> Any:
        seen: list[str] = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread().name))
        thread = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGUSR1))
        thread.start()
        time.sleep(1)
        thread.join()
        return seen

    for seed in range(SEEDS):
        assert foretold.run(main, seed=seed).value == ["MainThread"]
