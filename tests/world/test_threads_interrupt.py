"""Ctrl-C while a thread of the run runs: the process is itself again, and nothing is left behind.

Each case is a process of its own that sends itself the real signal from within the program under
test, so that no clock decides when it comes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHILD = """
import asyncio, gc, io, os, queue, signal, sys, threading, time
import _queue
import foretold
from foretold.kernel import real

LOCKS = (real._Lock, type(threading.RLock()))
KINDS = (*LOCKS, _queue.SimpleQueue, threading.Thread, io.BufferedReader)
before = [dict(vars(kind)) for kind in KINDS], threading.excepthook, queue.SimpleQueue, time.time
unwound = []

def press():
    real.kill(real.getpid(), signal.SIGINT)

def in_threads(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def waits():
    try:
        threading.Event().wait()
    finally:
        unwound.append("waits")

def spins():
    press()
    while True:
        pass

def locks():
    lock = threading.Lock()
    while True:
        with lock:
            press()

def sleeps():
    while True:
        press()
        time.sleep(1)

def in_a_thread(work):
    return lambda: in_threads(waits, work)

def in_the_loop(work):
    async def main():
        await asyncio.gather(asyncio.to_thread(waits), asyncio.to_thread(work))
    return main

def on_a_host(work):
    async def main(world):
        world.host("a").start(in_a_thread(work))
        await asyncio.Event().wait()
    return main

def in_main(work):
    def main():
        threading.Thread(target=waits).start()
        work()
    return main

where, what = sys.argv[1:]
try:
    foretold.run(globals()[where](globals()[what]), steps_max=10**9)
except KeyboardInterrupt:
    print("interrupted")
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert foretold.world.current.world_or_none() is None
gc.collect()  # what the exception held
assert foretold.run(lambda: in_threads(lambda: None)).error is None
after = [dict(vars(kind)) for kind in KINDS], threading.excepthook, queue.SimpleQueue, time.time
assert after == before
print("as before")
"""


@pytest.mark.parametrize("where", ["in_a_thread", "in_the_loop", "on_a_host", "in_main"])
@pytest.mark.parametrize("what", ["spins", "locks", "sleeps"])
def test_ctrl_c_ends_the_run(where: str, what: str) -> None:
    """In whatever thread the program is: KeyboardInterrupt leaves `foretold.run`, all threads have
    ended, everything that was replaced is as before, and the next run works."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, where, what],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.stderr == ""
    assert child.stdout.split("\n") == ["interrupted", "as before", ""]
    assert child.returncode == 0
