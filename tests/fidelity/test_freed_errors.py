"""An error of a system call goes as soon as it is handled, and with it all that its frames held.

CPython's own calls leave no cycle. One of ours would keep the program's objects alive for the rest
of the run: a connection that nobody holds any more would not be closed, and not be told.
"""

from __future__ import annotations

import gc
import os
import queue
import socket
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import foretold

NOWHERE = "/nowhere-at-all"


class Held:
    """Something that a program has."""


def bind_twice() -> None:
    """EADDRINUSE."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        socket.create_server(first.getsockname())


def receive(timeout_s: float) -> None:
    """EAGAIN, or a timeout."""
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(timeout_s)
        one.recv(1)


CALLS: dict[str, Callable[[], object]] = {
    "open": lambda: Path(NOWHERE).read_bytes(),
    "open to write": lambda: Path(NOWHERE, "x").write_bytes(b""),
    "open a folder": lambda: Path("/tmp").read_bytes(),
    "listdir": lambda: os.listdir(NOWHERE),
    "scandir": lambda: os.scandir(NOWHERE),
    "stat": lambda: os.stat(NOWHERE),
    "statvfs": lambda: os.statvfs(NOWHERE),
    "mkdir": lambda: os.mkdir(f"{NOWHERE}/x"),
    "remove": lambda: os.remove(NOWHERE),
    "rename": lambda: os.rename(NOWHERE, f"{NOWHERE}-2"),
    "readlink": lambda: os.readlink("/tmp"),
    "chdir": lambda: os.chdir(NOWHERE),
    "chmod": lambda: os.chmod(NOWHERE, 0),
    "truncate": lambda: os.truncate(NOWHERE, 0),
    "link": lambda: os.link(NOWHERE, f"{NOWHERE}-2"),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "connect by a path": lambda: socket.socket(socket.AF_UNIX).connect(NOWHERE),
    "bind": bind_twice,
    "receive in time": lambda: receive(0.01),
    "receive at once": lambda: receive(0.0),
    "send": lambda: socket.socket().send(b"x"),
    "an empty queue": lambda: queue.Queue[int]().get(timeout=0.01),
    "sqlite": lambda: sqlite3.connect(f"{NOWHERE}/x").execute("SELECT 1"),
}


def is_freed(call: Callable[[], object]) -> bool:
    """Whether what a function had that handled the error is gone when it returns."""

    def handle() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(Exception):  # noqa: B017, PT011  # each has its own
            call()
        return weakref.ref(held)

    def quietly() -> weakref.ref[Held]:
        held = Held()
        with suppress(Exception):
            call()
        return weakref.ref(held)

    handle()
    gc.disable()
    try:
        return quietly()() is None
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:(?i)unclosed:ResourceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_error_leaves_nothing_behind(name: str) -> None:
    """Neither on the real machine nor in a world."""
    assert is_freed(CALLS[name])
    assert foretold.run(lambda: is_freed(CALLS[name])).value


def test_a_cycle_is_noticed() -> None:
    """The check itself."""

    def call() -> None:
        error = OSError("kept by its own frame")
        raise error

    assert not is_freed(call)
