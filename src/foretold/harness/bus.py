"""The event bus: published after commit, handled one after the other.

- What a unit of work publishes is held back until its commit has succeeded. If the unit raises, or
  its commit does, nobody hears of it.
- Events are handled in the order of commits (outbox order), each by all of its handlers in the
  order of their subscriptions, and one handler ends before the next begins. What a handler
  publishes comes after what is waiting already.
- The unit of work returns when its events, and those that handlers have published because of them,
  have been handled. A handler that publishes does not wait for that: it would wait for itself.
- A handler that raises does not undo the commit, and the other handlers still get the event. Its
  exception is raised to whoever has committed, after all of that commit's events were handled. So
  nothing is swallowed, and no projection falls behind because another one is broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from foretold.spec.events import event
from foretold.world.current import world_or_none
from foretold.world.log import CAUSE, CORRELATION

Handler = Callable[["Published"], Any]
Commit = Callable[[list["Published"]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Published:
    """An event as handlers get it."""

    name: str
    data: dict[str, Any]
    cause: int | None = None
    correlation: str = ""


@dataclass(slots=True)
class Unit:
    """A unit of work: what it publishes waits for its commit."""

    events: list[Published] = field(default_factory=list)

    def publish(self, name: str, /, **data: Any) -> None:
        """Say this, once all is committed."""
        self.events.append(Published(name, data, CAUSE.get(), CORRELATION.get()))


@dataclass(slots=True, eq=False)
class _Commit:
    """What somebody has committed, with all that handlers publish because of it."""

    done: asyncio.Future[None]
    pending: int = 0
    error: Exception | None = None

    def one_less(self) -> None:
        self.pending -= 1
        if not self.pending and not self.done.done():
            self.done.set_result(None)


_handling: contextvars.ContextVar[_Commit | None] = contextvars.ContextVar(
    "foretold_handling", default=None
)
"""Whose events this handler is part of. A timer that a handler sets finds it finished."""


class EventBus:
    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}
        self._outbox: deque[tuple[_Commit, list[Published]]] = deque()
        self._drainer: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was published has been handled."""
        return self._drainer is None or self._drainer.done()

    def subscribe(self, name: str, handler: Handler) -> None:
        """From now on the handler gets events of that name; `*` is all of them."""
        self._handlers.setdefault(name, []).append(handler)

    @contextlib.asynccontextmanager
    async def unit(self, commit: Commit | None = None) -> AsyncIterator[Unit]:
        """A unit of work. `commit` stores its events; it may raise, and then nothing happened."""
        unit = Unit()
        yield unit
        if commit is not None:
            await commit(unit.events)
        await self.deliver(unit.events)

    async def deliver(self, events: list[Published]) -> None:
        """Handle events that are committed."""
        if not events:
            return
        within = _handling.get()
        nested = within is not None and not within.done.done()
        loop = asyncio.get_running_loop()
        commit = within if nested and within is not None else _Commit(loop.create_future())
        commit.pending += 1
        self._outbox.append((commit, events))
        if self.is_idle:
            # A task of its own: that who commits is cancelled does not stop the outbox.
            self._drainer = loop.create_task(self._drain(), name="event bus")
        if nested:
            return
        await asyncio.shield(commit.done)
        if commit.error is not None:
            raise commit.error

    async def _drain(self) -> None:
        while self._outbox:
            commit, events = self._outbox.popleft()
            try:
                for each in events:
                    await self._handle(each, commit)
            finally:
                commit.one_less()

    async def _handle(self, published: Published, commit: _Commit) -> None:
        """In the context of the event, not of the task that drains the outbox."""
        context = contextvars.copy_context()
        context.run(_enter, published, commit)
        for handler in (*self._handlers.get(published.name, ()), *self._handlers.get("*", ())):
            try:
                result = context.run(handler, published)
                if inspect.isawaitable(result):
                    loop = asyncio.get_running_loop()
                    await loop.create_task(_awaited(result), context=context, name=published.name)
            except Exception as error:
                commit.error = commit.error or error


async def _awaited(result: Awaitable[Any]) -> None:
    await result


def _enter(published: Published, commit: _Commit) -> None:
    """Log the event, and let what follows from it know its cause."""
    _handling.set(commit)
    CAUSE.set(published.cause)
    CORRELATION.set(published.correlation)
    event(published.name, **published.data)
    world = world_or_none()
    if world is not None:
        CAUSE.set(len(world.log))
