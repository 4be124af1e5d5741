"""Counters of libraries that a run can see: each run finds them where a fresh process has them.

A counter in a module goes on from run to run. Where its numbers go out to the program or onto the
wire, the second run in a process differs from the first, and a replay in a fresh process from both.

Not every counter may be turned back. Where the numbers are keys of a table that outlives the run
(the finalizers of `multiprocessing`, the generators that Hypothesis manages), a number given twice
would push an older entry out. So there is no search for counters, but a table, library by library
(`libraries/`): each was looked at, and its numbers are used as names only. They are put back when
the run ends.

What a program keeps by itself is for the program to reset, or for `isolation="fork"`;
`foretold check` finds out, and says so.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from foretold.kernel.libraries import asyncpg, psycopg, sqlalchemy


class Counter(NamedTuple):
    """Where a counter is, and what it is in a fresh process."""

    module: str
    owner: str
    """The class in that module which has it, or "" for the module itself."""
    name: str
    new: Callable[[], Any]


COUNTERS: Final = tuple(
    Counter(*each)
    for each in (
        *asyncpg.COUNTERS,
        *psycopg.COUNTERS,
        *sqlalchemy.COUNTERS,
        # Names of threads, which programs log: Thread-7, and ThreadPoolExecutor-2_0.
        ("threading", "", "_counter", lambda: itertools.count(1).__next__),
        (
            "concurrent.futures.thread",
            "ThreadPoolExecutor",
            "_counter",
            lambda: itertools.count().__next__,
        ),
    )
)
_before: Final[list[tuple[Any, str, Any]]] = []


def _counted() -> Iterator[tuple[Any, Counter]]:
    """The counters that this process has, and who has them."""
    for counter in COUNTERS:
        owner: Any = sys.modules.get(counter.module)
        if owner is not None and counter.owner:
            owner = vars(owner).get(counter.owner)
        if owner is not None and counter.name in vars(owner):
            yield owner, counter


def begin_run() -> None:
    """Let all of them count from the beginning."""
    for owner, counter in _counted():
        _before.append((owner, counter.name, vars(owner)[counter.name]))
        setattr(owner, counter.name, counter.new())
    for name in sqlalchemy.ADDRESSES:
        if name in sys.modules:
            vars(sys.modules[name])["id"] = _no_address


def end_run() -> None:
    """Let them go on as if there had been no run."""
    while _before:
        setattr(*_before.pop())
    for name in sqlalchemy.ADDRESSES:
        if name in sys.modules:
            vars(sys.modules[name]).pop("id", None)


@contextmanager
def standing_still() -> Iterator[None]:
    """Inside, somebody uses these libraries on the run's behalf, who does so in one run of many:
    the run does not see that they have counted."""
    found = {counter: (owner, vars(owner)[counter.name]) for owner, counter in _counted()}
    for counter, (owner, _) in found.items():
        setattr(owner, counter.name, counter.new())  # some are objects that cannot be turned back
    try:
        yield
    finally:
        for owner, counter in _counted():
            known, value = found.get(counter, (None, None))
            setattr(owner, counter.name, value if known is owner else counter.new())


def _no_address(_: object) -> int:
    """As `id`."""
    return 0
