"""Handles that are lean to make and carry what a scheduler needs to know.

They are asyncio's own handles, plus the actor they belong to and their place in the order of
arrival. The debug bookkeeping is left to the loop, which knows whether it is in debug mode. In
texts (`repr`, logs) they go by asyncio's names, as they would in production.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from asyncio import events
from collections.abc import Callable
from traceback import StackSummary
from typing import Any

from foretold.kernel.actors import Stepper

_copy_context = contextvars.copy_context
CANCELLED_ALARMS_MIN = 100
"""So many cancelled alarms may lie about, as in asyncio; of more, at most half of all."""


class StepHandle(asyncio.Handle):
    """A callback that is ready, or will be."""

    __slots__ = ("actor", "arrival", "held_since_ns")

    actor: Stepper
    arrival: int
    held_since_ns: int
    _callback: Any
    _args: Any
    _context: contextvars.Context
    _loop: Any
    _repr: str | None
    _source_traceback: StackSummary | None

    def __init__(  # asyncio's own __init__, without asking the loop for its debug flag
        self,
        callback: Callable[..., object],
        args: Any,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        self._context = _copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self._loop._debug:
                self._repr = repr(self)  # while the callback is known: logs want it
            self._callback = self._args = None


class AlarmHandle(asyncio.TimerHandle):
    """A callback that becomes ready at a time."""

    __slots__ = ("actor", "arrival", "held_since_ns")

    actor: Stepper
    arrival: int
    held_since_ns: int
    _callback: Any
    _args: Any
    _context: contextvars.Context
    _loop: Any
    _repr: str | None
    _source_traceback: StackSummary | None
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Any,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        self._context = _copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            loop = self._loop
            if self._scheduled:
                loop.kernel.overlaps += 1  # a limit that was kept: at another pace it may not be
                loop._timer_cancelled_count = count = loop._timer_cancelled_count + 1
                if count > CANCELLED_ALARMS_MIN and count * 2 > len(loop._alarms):
                    loop._drop_cancelled_timers()  # a busy loop never waits, and drops none there
            if loop._debug:
                self._repr = repr(self)
            self._callback = self._args = None


class _Guarded:
    """Stands for the context of a `ThreadSafeHandle`: what runs in it runs under the lock."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def run(self, callback: Callable[..., object], *args: Any) -> None:
        """As `Context.run`, unless a thread has cancelled the handle just before."""
        handle = self._handle
        with handle._lock:
            if not handle._cancelled:
                handle.get_context().run(callback, *args)


_Stock: Any = getattr(events, "_ThreadSafeHandle", asyncio.Handle)


class ThreadSafeHandle(_Stock):  # type: ignore[misc]  # a class of 3.14, which has no stub
    """What `call_soon_threadsafe` gives since 3.14: who cancels it while its callback runs, in
    another thread, waits until that is done."""

    __slots__ = ("_own_context", "actor", "arrival", "held_since_ns")

    def __init__(self, *args: Any) -> None:
        StepHandle.__init__(self, *args)  # its fields are the same
        self._lock = threading.RLock()  # type: ignore[misc]  # a slot of the base

    @property
    def _context(self) -> _Guarded:
        return _Guarded(self)

    @_context.setter
    def _context(self, context: contextvars.Context) -> None:
        self._own_context = context

    def get_context(self) -> contextvars.Context:
        context: contextvars.Context = self._own_context
        return context


ThreadSafeHandle.__name__ = _Stock.__name__
HandleForThreads: Any = ThreadSafeHandle if _Stock is not asyncio.Handle else StepHandle

StepHandle.__name__ = asyncio.Handle.__name__
AlarmHandle.__name__ = asyncio.TimerHandle.__name__

AnyHandle = StepHandle | AlarmHandle


def label_of(callback: object) -> str:
    """A name for a callback that is the same in every process."""
    while isinstance(callback, functools.partial):  # by type: a Mock has a `func`, without end
        callback = callback.func
    name = getattr(callback, "__qualname__", None)
    return name if isinstance(name, str) else type(callback).__qualname__


def step_wrapper_type() -> type:
    """The C type of the callback that starts a task's step; it has no public name."""
    seen: list[Any] = []

    class Probe(asyncio.BaseEventLoop):
        def call_soon(self, callback: Any, *args: Any, **more: Any) -> Any:  # type: ignore[override]  # only a probe
            seen.append(callback)

    async def nothing() -> None:
        pass

    coro, loop = nothing(), Probe()
    task = asyncio.Task(coro, loop=loop)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is never run, on purpose
    coro.close()
    loop.close()
    return type(seen[0])
