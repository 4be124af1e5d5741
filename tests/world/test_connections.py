"""Connections of `multiprocessing` that the program still holds when its run is over."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

import pytest

import foretold


async def uses_processes() -> None:
    """A pool makes pipes first, and then asks for a process."""
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        pool.submit(os.getpid)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_pool_of_processes_is_refused_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The error says what to write instead, and nothing is printed besides: not while the search
    goes on, nor when its exceptions are freed."""
    failure = foretold.explore(uses_processes, runs=3, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.EscapedWorld)
    assert "Instead: concurrent.futures.ThreadPoolExecutor" in str(failure.exception)
    del failure
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("duplex", [True, False])
def test_a_connection_is_closed_with_its_run(duplex: bool) -> None:
    """Made of a pair of sockets or of a pipe. It works as long as the run lasts. Those of the real
    world stay open."""
    real_one, real_other = multiprocessing.Pipe()
    kept: list[Connection[Any, Any]] = []

    def main() -> None:
        kept.extend(multiprocessing.Pipe(duplex))
        kept[1].send("hello")
        assert kept[0].recv() == "hello"

    foretold.run(main)
    assert [each.closed for each in kept] == [True, True]
    real_one.send("still here")
    assert real_other.recv() == "still here"
    real_one.close()
    real_other.close()
