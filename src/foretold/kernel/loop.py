"""The event loop of a simulated host: asyncio's own, without a selector.

`order="asyncio"` takes one iteration exactly as `BaseEventLoop._run_once` does: what has arrived
from outside, then due timers, then a snapshot of the ready handles, first in first out. Only when
things happen *outside* is chosen by the tape.

`order="any"` also lets ready tasks resume in another order. What it never does, because both gave
false hangs: let a task overtake a plain callback that was queued before it (transports rely on
it), or run all plain callbacks first (anyio's rescheduled cancellation would starve the tasks).
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
import types
import weakref
from _thread import get_ident
from asyncio import base_events, format_helpers
from collections.abc import Callable, Coroutine
from typing import Any

from foretold.kernel.actors import Stepper, WorldFuture, WorldTask, name_of
from foretold.kernel.any_timers import AnyTimers
from foretold.kernel.asyncgens import OrderedWeakSet
from foretold.kernel.audit import LATE
from foretold.kernel.clock import NS
from foretold.kernel.handles import (
    AlarmHandle,
    AnyHandle,
    HandleForThreads,
    StepHandle,
    label_of,
    step_wrapper_type,
)
from foretold.kernel.kernel import Kernel
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.strand import Strand
from foretold.kernel.timed import KEY_BITS, NEVER_NS, TimedLoop
from foretold.kernel.waiting import (
    await_chain,
    innermost_of_package,
    is_machinery,
    users_callers,
    users_place,
    waits_in_package,
    whose_timeout,
)
from foretold.trace import RAISED, outcome_of
from foretold.trace.events import CalledBack, Ended, Made, Resumed

_stock: Any = base_events  # typeshed omits what we borrow from it
_FunctionType = types.FunctionType
_BuiltinType = types.BuiltinFunctionType
_heappush = heapq.heappush
_FOREVER_S = 1e18
_FOREVER_NS = 10**27
"""A delay of more (infinity, or the largest float) is no delay: it never ends."""

_StepWrapper = step_wrapper_type()
_WAKEUP = "task_wakeup"
"""The builtin method by which a future resumes a task. Others of a task (`call_later(1, t.cancel)`)
are plain callbacks."""
_eager_task_factory = getattr(asyncio, "eager_task_factory", None)  # since 3.12
_FACTORIES_NAME = "name" not in (asyncio.BaseEventLoop.create_task.__kwdefaults__ or {})
"""Since 3.14, and late releases of 3.13: a factory is given the name, and names its task itself."""


class WorldLoop(TimedLoop):
    """One loop of one host. All of its time and order comes from the host's kernel."""

    _stopping: bool
    _debug: bool
    _task_factory: Any
    _asyncgens: Any

    def __init__(self, kernel: Kernel, **more: Any) -> None:
        super().__init__(kernel, **more)
        self._asyncgens = OrderedWeakSet()
        self._foreign_actors: weakref.WeakKeyDictionary[Any, Stepper] = weakref.WeakKeyDictionary()
        self._any_order = kernel.order == "any"
        self._run_once_is_ours = type(self)._run_once is WorldLoop._run_once
        self.runner: Strand | None = None
        """The thread that runs it, if that is not the one that drives the world."""
        tape = kernel.tape
        if tape.audit is not None and tape.origin == "enumerated":
            AnyTimers(self, tape.audit, tape.stream(LATE, kernel.host))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "running" if self.is_running() else "open"
        return f"<WorldLoop of {self.kernel.host}, {state}>"

    # Time

    def time(self) -> float:
        clock = self._clock
        clock.reads += 1
        clock.ns += clock.read_ns
        return clock.ns / NS

    # Making handles, tasks and futures

    def call_soon(  # type: ignore[override]  # typeshed wants a TypeVarTuple, slower to read
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> StepHandle:
        if self.on_stir is not None:
            self.on_stir()
        if self._closed or self._debug:
            return self._call_soon_checked(callback, args, context, "call_soon")
        handle = StepHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # as above; one thread at a time runs here
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> StepHandle:
        if self.on_stir is not None:
            self.on_stir()
        if self._closed or self._debug:
            return self._call_soon_checked(callback, args, context, "call_soon_threadsafe")
        handle: StepHandle = HandleForThreads(callback, args, self, context)
        self._ready.append(handle)
        if self.kernel.crew is not None:
            self._let_threads_in()
        return handle

    def _let_threads_in(self) -> None:
        """Here the tape may let another thread go on."""
        strand = strand_of(get_ident())
        if strand is not None:
            strand.crew.point(strand)

    def _call_soon_checked(
        self,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
        method: str,
    ) -> StepHandle:
        self._check_call(callback, method)
        kind = StepHandle if method == "call_soon" else HandleForThreads
        handle: StepHandle = kind(callback, args, self, context)
        handle._source_traceback = format_helpers.extract_stack(sys._getframe(2))
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]  # typeshed wants a TypeVarTuple, slower to read
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> AlarmHandle:
        if self.on_stir is not None:
            self.on_stir()
        clock = self._clock
        clock.ns = now_ns = clock.ns + clock.read_ns
        try:
            when_ns = now_ns + int(delay * 1e9 + 0.5)
        except OverflowError:
            when_ns = NEVER_NS if delay > 0 else now_ns
        except TypeError:
            if delay is None:
                raise TypeError("delay must not be None") from None
            raise
        if when_ns >= _FOREVER_NS or self._closed or self._debug:
            when = when_ns / NS if when_ns < _FOREVER_NS else now_ns / NS + delay
            when_ns = NEVER_NS if when_ns >= _FOREVER_NS else when_ns
            return self._set_alarm(when_ns, when, callback, args, context)
        handle = AlarmHandle(when_ns / NS, callback, args, self, context)
        self._alarm_number = number = self._alarm_number + 1
        key = (when_ns << KEY_BITS) + number
        self._alarm_of[key] = handle
        _heappush(self._alarms, key)
        if when_ns < self._due_ns:
            self._due_ns = when_ns
        return handle

    def call_at(  # type: ignore[override]  # typeshed wants a TypeVarTuple, slower to read
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> AlarmHandle:
        if when is None:
            raise TypeError("when cannot be None")
        when_ns = NEVER_NS if when >= _FOREVER_S else round(when * 1e9)
        return self._set_alarm(when_ns, when, callback, args, context)

    def _set_alarm(
        self,
        when_ns: int,
        when: float,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> AlarmHandle:
        if self._closed or self._debug:
            self._check_call(callback, "call_at")
        handle = AlarmHandle(when, callback, args, self, context)
        if self._debug:
            handle._source_traceback = format_helpers.extract_stack(sys._getframe(2))
        self._push_alarm(when_ns, handle)
        return handle

    def _check_call(self, callback: object, method: str) -> None:
        self._check_closed()  # type: ignore[attr-defined]  # typeshed omits BaseEventLoop's internals
        if self._debug:
            if method != "call_soon_threadsafe":
                self._check_thread()  # type: ignore[attr-defined]  # as above
            self._check_callback(callback, method)  # type: ignore[attr-defined]  # as above

    def create_future(self) -> WorldFuture:
        return WorldFuture(loop=self)

    def create_task(  # type: ignore[override]  # as above; **more is eager_start on 3.12+
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **more: Any,
    ) -> Any:
        self._check_closed()  # type: ignore[attr-defined]  # typeshed omits BaseEventLoop's internals
        if self._task_factory is not None:
            if self._task_factory is not _eager_task_factory:
                return self._create_foreign_task(coro, name, context, more)
            more["eager_start"] = True
        actor = self.kernel.register.enrol(name_of(coro) if name is None else str(name))
        task = WorldTask(
            coro, loop=self, name=actor.name if name is None else name, context=context, **more
        )
        task.actor = actor
        kernel = self.kernel
        if kernel.trace.detail and kernel.current is not kernel.callbacks:
            # For the story: a helper's task has a name that says little without who made it.
            made = Made(kernel.clock.ns, kernel.host, actor.name, by=kernel.current.name)
            kernel.trace.keep(made)
        if self._debug and task._source_traceback:
            del task._source_traceback[-1]  # this line: the caller's is what is asked for
        if more and task.done():
            self._note_end(actor, task)  # it was eager, and is done already
        try:
            return task
        finally:
            del task  # a traceback of what it raised may lead to this frame: a cycle

    def _create_foreign_task(
        self, coro: Coroutine[Any, Any, Any], name: str | None, context: Any, more: Any
    ) -> asyncio.Future[Any]:
        if context is not None:
            more["context"] = context
        if name is not None and _FACTORIES_NAME:
            more["name"] = name
        task: asyncio.Future[Any] = self._task_factory(self, coro, **more)
        set_name = getattr(task, "set_name", None)
        actor = self.kernel.register.enrol(name_of(coro) if name is None else str(name))
        if set_name is not None and "name" not in more:
            set_name(actor.name if name is None else name)
        self._foreign_actors[task] = actor
        return task

    def _foreign_actor(self, owner: object) -> Stepper:
        """The actor behind a callback bound to `owner`, which is not a task of ours."""
        if not isinstance(owner, asyncio.Task):
            return self.kernel.callbacks
        actor = self._foreign_actors.get(owner)
        if actor is None:
            coro: Any = owner.get_coro()
            actor = self._foreign_actors[owner] = self.kernel.register.enrol(name_of(coro))
        return actor

    # Running

    def run_forever(self) -> None:
        """Run until `stop()`: asyncio's own set-up and clean-up around our iterations."""
        # A subclass with its own idea of one iteration gets them one by one.
        self._single_iterations = not self._run_once_is_ours
        strand = strand_of(get_ident())
        if strand is not None and strand is not strand.crew.baton.driver:
            self._begin_in_thread(strand)
        else:
            self.kernel.enter_loop(self)
        try:
            super().run_forever()
        finally:
            self._single_iterations = True
            self.runner = None

    def _begin_in_thread(self, strand: Strand) -> None:
        """Loops of several threads take turns, each with its own order of tasks."""
        self.runner = strand
        self._process_is_threaded()
        if self._any_order and self.scheduler is self.kernel.scheduler:
            self.scheduler = self.kernel.make_scheduler()
            self.recorder = self.kernel.make_recorder()

    def _process_is_threaded(self) -> None:
        """A thread runs a loop."""

    def has_executor(self) -> bool:
        """Whether somebody used the default executor."""
        executor: Any = self._default_executor  # type: ignore[attr-defined]  # typeshed omits it
        return executor is not None

    def close(self) -> None:
        super().close()
        self._forget_alarms()

    def _run_once(self) -> None:
        """One iteration if called alone; all of them until `stop()` inside `run_forever`."""
        if self._any_order:
            self._iterate_any(self._single_iterations)
        else:
            self._iterate_asyncio(self._single_iterations)

    _single_iterations = True

    def _iterate_asyncio(self, once: bool) -> None:
        kernel, clock, ready = self.kernel, self._clock, self._ready
        handle: Any
        callback: Any
        owner: Any = None
        popleft, record = ready.popleft, kernel.trace.pending.append
        rivals, callbacks, step_ns = kernel.rivals, kernel.callbacks, clock.step_ns
        watched, grant = kernel.trace.detail or self._debug, kernel.grant
        try:
            while True:
                if kernel.outside is not None:
                    kernel.outside.catch_up(self)
                if clock.ns >= self._due_ns:
                    self._collect_due_timers()
                if not ready and not self._stopping:
                    handle = callback = None  # what they kept alive may have last words to say
                    if clock.ns >= self._due_ns:
                        continue  # and may have taken its time
                    if not ready:
                        grant = self._wait_with(grant)
                for _ in range(len(ready)):
                    if rivals:
                        self._let_threads_in()
                    handle = popleft()
                    if handle._cancelled:
                        continue
                    callback = handle._callback
                    kind, actor = type(callback), callbacks
                    if kind is _FunctionType:
                        record(callback.__qualname__)
                    elif kind is _StepWrapper or (
                        kind is _BuiltinType and callback.__name__ == _WAKEUP
                    ):
                        owner = callback.__self__
                        if type(owner) is WorldTask:
                            actor = owner.actor
                        else:
                            actor = self._foreign_actor(owner)
                        record(actor.name)
                    else:
                        record(label_of(callback))
                    actor.steps += 1
                    kernel.current = actor
                    clock.ns += step_ns
                    try:
                        if watched:
                            self._run_watched(handle, actor, callback)
                        else:
                            handle._context.run(callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._callback_failed(handle, error)
                    if actor is not callbacks:
                        if owner.done():
                            self._note_end(actor, owner)
                        owner = None  # as asyncio, keep a task no longer than its handle
                    grant -= 1
                    if not grant:
                        grant = kernel.checkpoint()
                if once or self._stopping:
                    return
        finally:
            kernel.grant = grant
            # An exception's traceback leads to this frame: its locals would close a cycle.
            handle = callback = owner = None

    def _iterate_any(self, once: bool) -> None:
        kernel, clock, ready = self.kernel, self._clock, self._ready
        record, callbacks = kernel.trace.pending.append, kernel.callbacks
        recorder, watched = self.recorder, kernel.trace.detail or self._debug
        foreign, step_ns, grant = self._foreign_actor, clock.step_ns, kernel.grant
        next_in_line, scheduler, rivals = self._next_in_line, self.scheduler, kernel.rivals
        assert scheduler is not None, "order is any"
        waits = not (once and ready)  # an iteration whose handles are all cancelled is over
        handle: Any = None
        try:
            while True:
                if rivals:
                    self._let_threads_in()
                if kernel.outside is not None:
                    kernel.outside.catch_up(self)
                if clock.ns >= self._due_ns:
                    self._collect_due_timers()
                if len(ready) == 1 and scheduler.takes_singles and not scheduler.size:
                    handle = ready.popleft()  # nothing to choose: spare the scheduler
                    if handle._cancelled:
                        continue
                    callback = handle._callback
                    kind, actor = type(callback), callbacks
                    if kind is _StepWrapper or (
                        kind is _BuiltinType and callback.__name__ == _WAKEUP
                    ):
                        owner = callback.__self__
                        actor = owner.actor if type(owner) is WorldTask else foreign(owner)
                        owner = None
                    if recorder is not None:
                        kernel.arrivals = handle.arrival = kernel.arrivals + 1
                else:
                    handle = next_in_line()
                    if handle is None:
                        if self._stopping or not (waits or scheduler.size):
                            return
                        callback = None  # as above
                        if not ready and clock.ns < self._due_ns:
                            grant = self._wait_with(grant)
                        continue
                    callback, actor = handle._callback, handle.actor
                actor.steps += 1
                kernel.current = actor
                if actor is callbacks:
                    kind = type(callback)
                    record(callback.__qualname__ if kind is _FunctionType else label_of(callback))
                else:
                    record(actor.name)
                if recorder is not None:
                    recorder.picked(handle.arrival, actor, can_be_held=actor is not callbacks)
                clock.ns += step_ns
                try:
                    if watched:
                        self._run_watched(handle, actor, callback)
                    else:
                        handle._context.run(callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._callback_failed(handle, error)
                if actor is not callbacks and callback.__self__.done():
                    self._note_end(actor, callback.__self__)
                grant -= 1
                if not grant:
                    grant = kernel.checkpoint()
                if once or self._stopping:
                    return
        finally:
            kernel.grant = grant
            handle = callback = owner = None  # as above

    def _next_in_line(self) -> AnyHandle | None:
        """Admit ready tasks to the scheduler's pool, up to the first plain callback, and pick."""
        kernel = self.kernel
        ready, scheduler = self._ready, self.scheduler
        assert scheduler is not None, "order is any"
        while ready:
            handle = ready.popleft()
            if handle._cancelled:
                continue
            callback = handle._callback
            kind = type(callback)
            if kind is _StepWrapper or (kind is _BuiltinType and callback.__name__ == _WAKEUP):
                owner = callback.__self__
                if type(owner) is WorldTask:
                    actor = owner.actor
                else:
                    actor = self._foreign_actor(owner)
                if actor is not kernel.callbacks:
                    handle.actor = actor
                    kernel.arrivals = handle.arrival = kernel.arrivals + 1
                    handle.held_since_ns = self._clock.ns
                    scheduler.add(handle)
                    continue
            handle.actor = kernel.callbacks
            kernel.arrivals = handle.arrival = kernel.arrivals + 1
            if not scheduler.size:
                return handle
            chosen = scheduler.pick(handle)
            if chosen is not handle:
                # Back to the front of the line. Its arrival number is given anew when it is next
                # looked at; nothing can arrive between, so the order stays the same.
                kernel.arrivals -= 1
                ready.appendleft(handle)
            return chosen
        return scheduler.pick(None) if scheduler.size else None

    def _run_watched(self, handle: AnyHandle, actor: Stepper, callback: Any) -> None:
        """Run a step that is kept for the story, or in debug mode, where slow ones are logged."""
        if self.kernel.trace.detail:
            self._keep_step(actor, callback, handle._args)
        clock = self._clock
        began_ns = clock.ns
        self._current_handle = handle if self._debug else None
        try:
            handle._context.run(callback, *handle._args)
        finally:
            took_s = (clock.ns - began_ns) / NS
            if self._debug and took_s >= self.slow_callback_duration:
                step = _stock._format_handle(handle)
                _stock.logger.warning("Executing %s took %.3f seconds", step, took_s)
            # An exception's traceback leads to this frame: its locals would close a cycle.
            self._current_handle = None
            del handle, callback

    def _callback_failed(self, handle: AnyHandle, error: BaseException) -> None:
        """As `Handle._run` reports it."""
        context = {
            "message": f"Exception in callback {label_of(handle._callback)}",
            "exception": error,
            "handle": handle,
        }
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        self.call_exception_handler(context)

    def _note_end(self, actor: Stepper, task: Any) -> None:
        actor.ended = True
        kernel, outcome = self.kernel, outcome_of(task)
        if outcome.how == RAISED:
            kernel.failed.append(weakref.ref(task))
        kernel.trace.note(f"@{self._clock.ns}", actor.name, str(outcome))
        if kernel.trace.detail:
            kernel.keep(Ended, outcome=outcome)

    def _keep_step(self, actor: Stepper, callback: Any, args: Any) -> None:
        if actor is self.kernel.callbacks:
            whose = whose_timeout(callback, args, self)
            name, is_timeout = label_of(callback), whose is not None
            self.kernel.keep(CalledBack, name=name, is_timeout=is_timeout, whose=whose or "")
        else:
            stack, trace = await_chain(callback.__self__.get_coro()), self.kernel.trace
            place = None if is_machinery(stack) else users_place(stack)
            in_package = waits_in_package(stack)
            callers = users_callers(stack)
            told = {"place": place, "callers": callers, "inner": innermost_of_package(stack)}
            self.kernel.keep(Resumed, in_package=in_package, **told)
            key = (self.kernel.host, actor.name, actor.steps)
            if key in trace.watched:
                trace.stacks[key] = stack

    # Where asyncio reports what nobody caught

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        if self.kernel.on_background is not None:
            self.kernel.on_background(context)
        else:
            super().default_exception_handler(context)

    # Nothing outside this thread ever wakes a loop of a world.

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: object) -> None:
        pass
