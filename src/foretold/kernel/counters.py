"""Counters of libraries that a run can see: each run finds them where a fresh process has them.

A counter in a module goes on from run to run. Where its numbers go out to the program or onto the
wire, the second run in a process differs from the first, and a replay in a fresh process from both.

Not every counter may be turned back. Where the numbers are keys of a table that outlives the run
(the finalizers of `multiprocessing`, the generators that Hypothesis manages), a number given twice
would push an older entry out. So there is no search for counters, but this table: each was looked
at, and its numbers are used as names only. They are put back when the run ends.

What a program keeps by itself is for the program to reset, or for `isolation="fork"`;
`foretold check` finds out, and says so.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple


class Counter(NamedTuple):
    """Where a counter is, and what it is in a fresh process."""

    module: str
    owner: str
    """The class in that module which has it, or "" for the module itself."""
    name: str
    new: Callable[[], Any]


COUNTERS: Final = (
    # asyncpg names prepared statements and cursors by it, and sends the names to the server.
    Counter("asyncpg.connection", "", "_uid", lambda: 0),
    # psycopg_pool names its pools and their threads by it.
    Counter("psycopg_pool.base", "BasePool", "_num_pool", lambda: 0),
    # SQLAlchemy names cursors of the server by it, for psycopg and psycopg2.
    Counter(
        "sqlalchemy.dialects.postgresql._psycopg_common",
        "",
        "_server_side_id",
        lambda: sys.modules["sqlalchemy.util"].counter(),
    ),
    # Names of threads, which programs log: Thread-7, and ThreadPoolExecutor-2_0.
    Counter("threading", "", "_counter", lambda: itertools.count(1).__next__),
    Counter(
        "concurrent.futures.thread",
        "ThreadPoolExecutor",
        "_counter",
        lambda: itertools.count().__next__,
    ),
)

ADDRESSES: Final = ("sqlalchemy.dialects.postgresql._psycopg_common",)
"""Modules that send an object's address to a server, as a part of a name (of a cursor) that a
counter makes unique. There `id` gives the same for all of them."""

_before: Final[list[tuple[Any, str, Any]]] = []


def begin_run() -> None:
    """Let all of them count from the beginning."""
    for counter in COUNTERS:
        owner: Any = sys.modules.get(counter.module)
        if owner is not None and counter.owner:
            owner = vars(owner).get(counter.owner)
        if owner is not None and counter.name in vars(owner):
            _before.append((owner, counter.name, vars(owner)[counter.name]))
            setattr(owner, counter.name, counter.new())
    for name in ADDRESSES:
        if name in sys.modules:
            vars(sys.modules[name])["id"] = _no_address


def end_run() -> None:
    """Let them go on as if there had been no run."""
    while _before:
        setattr(*_before.pop())
    for name in ADDRESSES:
        if name in sys.modules:
            vars(sys.modules[name]).pop("id", None)


def _no_address(_: object) -> int:
    """As `id`."""
    return 0
