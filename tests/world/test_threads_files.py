"""Files that several threads use at once: on sockets, pipes and the simulated disk."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.world.world import World
from tests.helpers import run_of

SEEDS = 20


def in_threads(*works: Callable[[], Any]) -> None:
    """Start a thread for each, and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("mode", ["r", "rb", "rwb"])
@pytest.mark.parametrize("by", ["readline", "iteration"])
def test_two_readers_of_one_socket_file(mode: Any, by: str) -> None:
    """One waits inside the buffer, the other for the buffer: each line goes to one of them."""

    async def main(world: World) -> list[str]:
        async def serve(reader: Any, writer: Any) -> None:
            for number in range(6):
                await asyncio.sleep(1)
                writer.write(b"line %d\n" % number)
            writer.close()

        await asyncio.start_server(serve, "main", 80)
        found: list[str] = []

        def client() -> None:
            with socket.create_connection(("main", 80)) as sock, sock.makefile(mode) as file:

                def read() -> None:
                    end = "" if mode == "r" else b""
                    for line in file if by == "iteration" else iter(file.readline, end):
                        found.append(line if isinstance(line, str) else line.decode())

                in_threads(read, read)

        await asyncio.to_thread(client)
        return found

    whole = [f"line {number}\n" for number in range(6)]
    for seed in range(SEEDS):
        assert sorted(foretold.run(main, seed=seed).value) == whole


@pytest.mark.usefixtures("one_session")
def test_writers_into_a_full_pipe() -> None:
    """One waits in `write` until somebody reads, the others for the buffer it is in."""

    def main() -> int:
        reading, writing = os.pipe()
        size = 100_000
        taken = 0
        with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:

            def write() -> None:
                for _ in range(4):
                    sink.write(b"x" * (size // 4))
                    sink.flush()

            def read() -> None:
                nonlocal taken
                while taken < 3 * size:
                    taken += len(source.read1(50_000))

            in_threads(write, write, write, read)
        return taken

    for seed in range(SEEDS):
        assert foretold.run(main, seed=seed).value == 300_000


@pytest.mark.usefixtures("one_session")
def test_lines_of_threads_on_a_slow_disk() -> None:
    """Threads print into one file while the disk is slow: each line is whole."""

    def main(world: World) -> list[str]:
        world.home.disk.trouble.slow_ns = 50_000_000
        with open("/printed", "w", buffering=1) as file:  # each line is written at once

            def work(name: str) -> None:
                for number in range(5):
                    print(f"{name}{number}", file=file, flush=True)

            in_threads(lambda: work("a"), lambda: work("b"))
        with open("/printed") as file:
            return file.read().split()

    for seed in range(SEEDS):
        lines = foretold.run(main, seed=seed).value
        assert sorted(lines) == [f"{name}{number}" for name in "ab" for number in range(5)]


def test_a_file_that_is_never_given_back() -> None:
    """Two readers of a pipe that nobody writes to: a deadlock that says so, not a hang."""

    def main() -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb"):
            in_threads(source.read, source.read)

    error = run_of(main).error
    assert isinstance(error, foretold.Deadlock)
    assert "for a file that another thread uses" in str(error)
    del error
    gc.collect()  # what is closed after its run closes nothing in the real world


def test_a_file_called_from_inside_itself() -> None:
    """CPython's own error for that is not hidden by a wait for oneself."""

    class Raw(io.RawIOBase):
        file: Any = None

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.file.flush()
            return len(data)

    def main() -> None:
        raw = Raw()
        raw.file = io.BufferedWriter(raw)

        def work() -> None:
            raw.file.write(b"x")
            with pytest.raises(RuntimeError, match="reentrant call"):
                raw.file.flush()
            raw.file.detach.__self__.raw.file = io.BytesIO()

        in_threads(work)

    assert run_of(main).error is None
