"""What chance does: the loop that everybody could write in an afternoon, to be measured against.

Virtual time, no selector. Half of the runs take ready steps in stock order; the other half pick
uniformly among the ready tasks, which never overtake a plain callback that was queued before them.
When the loop wakes, all timers that lie within a millisecond fire together. No strategy, no
feedback, no replay.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import base_events
from collections.abc import Callable, Coroutine
from typing import Any

TOGETHER_S = 0.001
STEP_S = 1e-6
STEPS_MAX = 200_000
_base: Any = base_events.BaseEventLoop  # typeshed omits what a loop of one's own needs


class EndlessRun(Exception):
    """The run never ends: nothing is left to happen, or far too much."""


class UniformLoop(_base):  # type: ignore[misc]  # as above
    """Picks uniformly among ready tasks, or takes them as asyncio does."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__()
        self._generator = generator
        self._in_stock_order = generator.random() < 0.5
        self._now_s = 0.0
        self._steps = 0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        self._wake()
        for _ in range(len(self._ready)):
            handle = self._next()
            self._steps += 1
            self._now_s += STEP_S
            if self._steps > STEPS_MAX:
                raise EndlessRun(f"more than {STEPS_MAX} steps")
            if not handle._cancelled:
                handle._run()
            if not self._in_stock_order:
                return  # what became ready meanwhile takes part in the next choice

    def _wake(self) -> None:
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not self._ready and not self._stopping:
            if not timers:
                raise EndlessRun("nothing will ever happen")
            self._now_s = max(self._now_s, timers[0]._when + TOGETHER_S)
        while timers and timers[0]._when <= self._now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            self._ready.append(timer)

    def _next(self) -> Any:
        if self._in_stock_order:
            return self._ready.popleft()
        tasks = 0
        for handle in self._ready:
            owner = getattr(handle._callback, "__self__", None)
            if not isinstance(owner, asyncio.Task) and not handle._cancelled:
                break
            tasks += 1
        at = self._generator.randrange(max(tasks, 1))
        self._ready.rotate(-at)
        handle = self._ready.popleft()
        self._ready.rotate(at)
        return handle

    def _timer_handle_cancelled(self, handle: Any) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def fails(main: Callable[[], Coroutine[Any, Any, None]], seed: str) -> bool:
    """Whether one run fails."""
    random.seed(seed)
    loop = UniformLoop(random.Random(f"loop {seed}"))
    loop.set_exception_handler(lambda loop, context: None)
    asyncio.set_event_loop(loop)
    task = loop.create_task(main())
    try:
        loop.run_until_complete(task)
    except (Exception, asyncio.CancelledError):
        return True
    finally:
        _end(loop)
    return False


def _end(loop: UniformLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1))
    except (Exception, asyncio.CancelledError):
        pass  # the run is over: what its remains do proves nothing
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def runs_needed(main: Callable[[], Coroutine[Any, Any, None]], seed: int, runs: int) -> float:
    """How many runs it takes until one fails; infinity if none does."""
    failing = (number for number in range(1, runs + 1) if fails(main, f"{seed}/{number}"))
    return next(failing, float("inf"))
