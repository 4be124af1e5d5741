"""For whom code works: the request that a task, and all that it starts, was begun for.

A request spreads over tasks and threads: middleware runs the application in a task of its own, a
handler gathers, a `def` endpoint runs in a thread. All of them inherit the context of the request,
so the context says whose work it is. Only runs with detail set it; nobody but stories asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from foretold.trace.events import Who


@dataclass(slots=True, eq=False)
class ServedRequest:
    who: Who
    """The task that the server has begun it with."""
    client: str
    asks: str
    """Method and path."""
    is_open: bool = True
    """The server has not finished it. What its tasks do later they do by themselves."""


current: ContextVar[ServedRequest | None] = ContextVar("foretold.errand", default=None)


@contextmanager
def working_for(request: ServedRequest) -> Iterator[None]:
    """What is done inside, and what is started there, is done for this request."""
    token = current.set(request)
    try:
        yield
    finally:
        request.is_open = False
        current.reset(token)
