"""Real code cannot tell the difference: one suite of network programs, on both arms.

Each program runs under stock asyncio on the real loopback and in simulated worlds of several seeds,
under both orders, and must have seen the same. Whatever differs is a bug of the simulated arm; the
real one is Linux.
"""

from __future__ import annotations

import asyncio
import glob
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from tests.fidelity import (
    addresses,
    datagrams,
    details,
    files_and_tls,
    streams,
    tls_sockets,
    unix_sockets,
    waiting,
)

Program = Callable[[], Any]
SEEDS = range(4)


def programs_of(module: Any) -> list[Program]:
    """The public coroutine functions of a module, in their order."""
    return [
        thing
        for name, thing in vars(module).items()
        if inspect.iscoroutinefunction(thing)
        and thing.__module__ == module.__name__
        and not name.startswith("_")
    ]


MODULES = (
    streams, addresses, datagrams, files_and_tls, details, unix_sockets, waiting, tls_sockets
)  # fmt: skip
PROGRAMS = [p for module in MODULES for p in programs_of(module)]


def on_the_real_arm(program: Program) -> Any:
    """Under stock asyncio. It leaves the files of unix sockets behind, as Linux does."""
    try:
        return asyncio.run(program())
    finally:
        for path in glob.glob(os.path.join(tempfile.gettempdir(), streams.UNIX_PREFIX + "*")):
            os.remove(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the reference is Linux")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_both_arms_see_the_same(program: Program) -> None:
    """The real arm's observations equal those of every simulated world, and each seed has one
    digest."""
    real = on_the_real_arm(program)
    assert real is not None, "a program that reports nothing compares nothing"
    for seed in SEEDS:
        for order in ("asyncio", "any"):
            first = foretold.run(program, seed=seed, order=order)
            assert first.value == real, f"seed {seed}, order {order}"
            assert foretold.run(program, seed=seed, order=order).digest == first.digest
