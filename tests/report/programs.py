"""Small programs with planted bugs, as text: written to a folder, so that stories can name lines.

Their line numbers are part of what the tests expect.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foretold

_numbers = itertools.count()

BANK = '''\
"""Two deposits at once, and one is lost."""

import asyncio


async def deposit(account, amount):
    balance = account["balance"]
    await asyncio.sleep(0)
    account["balance"] = balance + amount


async def refund(account):
    for _ in range(2):
        await asyncio.sleep(0)
    await deposit(account, 7)


async def main():
    account = {"balance": 0}
    await asyncio.gather(deposit(account, 5), refund(account))
    assert account["balance"] == 12, f"only {account['balance']} of 12"
'''

NOISY_BANK = BANK.replace(
    "    await asyncio.gather(",
    "    await asyncio.gather(*(chatter() for _ in range(10)), ",
) + (
    """

async def chatter():
    for _ in range(20):
        await asyncio.sleep(0)
"""
)

LATE = '''\
"""A time limit that holds unless the event loop is late."""

import asyncio


async def work(done):
    await asyncio.sleep(5)
    await asyncio.sleep(0.001)
    done.append(True)


async def main():
    done = []
    try:
        async with asyncio.timeout(5.0015):
            await work(done)
    except TimeoutError:
        pass
    assert done, "timed out"
'''

CHOSEN = '''\
"""A bug for certain values, whatever the order."""

import asyncio

import foretold


async def main():
    amount = foretold.between(0, 100, "amount")
    who = foretold.choose(["ann", "bob", "cy"], "who")
    await asyncio.sleep(1)
    foretold.always(amount < 50 or who != "bob", "bob gets too much", amount=amount)
'''

STALLED = '''\
"""Somebody blocks the whole loop."""

import asyncio
import time

import foretold


async def blocker():
    await asyncio.sleep(1)
    time.sleep(2.5)


async def heartbeat():
    last = time.monotonic()
    for _ in range(5):
        await asyncio.sleep(0.4)
        now = time.monotonic()
        assert now - last < 2, "no heartbeat"
        last = now


async def main():
    await foretold.together(heartbeat(), blocker())
'''

DEADLOCK = '''\
"""Two locks, taken in two orders."""

import asyncio


async def one(a, b):
    async with a:
        await asyncio.sleep(0)
        async with b:
            pass


async def two(a, b):
    for _ in range(3):
        await asyncio.sleep(0)
    async with b:
        await asyncio.sleep(0)
        async with a:
            pass


async def main():
    a, b = asyncio.Lock(), asyncio.Lock()
    await asyncio.gather(one(a, b), two(a, b))
'''

FINE = '''\
"""Nothing is wrong here, though there is something to explore."""

import asyncio

import foretold


async def main():
    await foretold.together(asyncio.sleep(1), asyncio.sleep(1))
    foretold.sometimes(False, "the moon is full")


async def quiet():
    await asyncio.sleep(1)
'''


def write(folder: Path, text: str, name: str = "bank.py") -> Path:
    """Put a program into a folder. Its compiled form goes: Python would take that of an older text
    of the same length for this one's if both were written within one second."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
    return path


def load(path: Path) -> Any:
    """The program as a module of its own, whatever others of that name were loaded before."""
    spec = importlib.util.spec_from_file_location(f"planted_{next(_numbers)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main_of(folder: Path, text: str) -> Callable[..., Any]:
    """The function `main` of a program, written into `folder` as bank.py."""
    main: Callable[..., Any] = load(write(folder, text)).main
    return main


def environment(**more: str) -> dict[str, str]:
    """For child processes: they find this foretold, and nothing of what surrounds these tests."""
    source = str(Path(foretold.__file__).resolve().parents[1])
    left_out = ("FORETOLD_", "PYTEST_", "PYTHONHASHSEED", "CI", "GITHUB_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, **more}


PYTHON = sys.executable
