"""In which order, and on which threads, the systems of a hook run.

All schedulers give the same result, because a system waits for each earlier one that disturbs it.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from examples.cardinal.bugs import planted

Job = Callable[[], None]
Waits = Sequence[Sequence[int]]
Pick = Callable[[int], int]


class Scheduler(Protocol):
    """Runs the jobs of a hook, each after those that it waits for."""

    def run(self, hook: str, jobs: Sequence[Job], waits: Waits) -> None: ...

    def reset(self) -> None:
        """The world begins anew."""

    def close(self) -> None:
        """The world ends."""


class Sequential:
    """In the order of registration."""

    def run(self, hook: str, jobs: Sequence[Job], waits: Waits) -> None:
        for job in jobs:
            job()

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


class Permuted(Sequential):
    """One after the other, in any order that the declarations allow: `pick(n)` says which of n
    systems that could run is the next. A game whose declarations are wrong shows it here."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick

    def run(self, hook: str, jobs: Sequence[Job], waits: Waits) -> None:
        done: set[int] = set()
        while len(done) < len(jobs):
            free = [i for i in range(len(jobs)) if i not in done and done.issuperset(waits[i])]
            chosen = free[self._pick(len(free))] if len(free) > 1 else free[0]
            jobs[chosen]()
            done.add(chosen)


class Concurrent:
    """On worker threads: a system starts as soon as the last one that it waits for has ended."""

    def __init__(self, workers: int = 2) -> None:
        self._count = workers
        self._workers: list[threading.Thread] = []
        self._ready: queue.Queue[tuple[_Batch, int] | None] = queue.Queue()
        self._plans: dict[str, _Plan] = {}

    def run(self, hook: str, jobs: Sequence[Job], waits: Waits) -> None:
        if len(jobs) < 2:
            Sequential().run(hook, jobs, waits)
            return
        self._start()
        plan = self._plans.get(hook)
        if plan is None:
            plan = self._plans[hook] = _Plan(waits)
        _Batch(jobs, plan, self._ready).run()

    def reset(self) -> None:
        for plan in self._plans.values():
            plan.reset()

    def close(self) -> None:
        for _ in self._workers:
            self._ready.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _start(self) -> None:
        if not self._workers:
            names = [f"systems-{number}" for number in range(1, self._count + 1)]
            self._workers = [
                threading.Thread(target=self._work, name=name, daemon=True) for name in names
            ]
            for worker in self._workers:
                worker.start()

    def _work(self) -> None:
        while (given := self._ready.get()) is not None:
            batch, job = given
            batch.perform(job)


class _Plan:
    """How many systems each one still waits for. There are two buffers: while one is counted down,
    the other is filled for the next run, so that a run begins without any work."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits
        self.followers = [
            [j for j in range(len(waits)) if i in waits[j]] for i in range(len(waits))
        ]
        self._toggle = 0
        self._forgets = planted("odd_tick_deadlock")
        self._fill()

    def _fill(self) -> None:
        self._buffers = [[len(each) for each in self.waits], [0] * len(self.waits)]

    def reset(self) -> None:
        self._fill()
        if not self._forgets:
            self._toggle = 0

    def take(self) -> list[int]:
        """The counters of this run."""
        now, then = self._buffers[self._toggle], self._buffers[1 - self._toggle]
        then[:] = [len(each) for each in self.waits]
        self._toggle = 1 - self._toggle
        return now


class _Batch:
    """One run of the systems of a hook."""

    def __init__(
        self, jobs: Sequence[Job], plan: _Plan, ready: "queue.Queue[tuple[_Batch, int] | None]"
    ) -> None:
        self._jobs = jobs
        self._plan = plan
        self._ready = ready
        self._left = plan.take()
        self._done = 0
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()
        self._finished = threading.Event()

    def run(self) -> None:
        """Returns when all have run; raises what the first of them, by registration, has raised."""
        for job, waits in enumerate(self._plan.waits):
            if not waits:
                self._ready.put((self, job))
        self._finished.wait()
        if self._errors:
            raise self._errors[min(self._errors)]

    def perform(self, job: int) -> None:
        """On a worker. After an error nothing else is begun, and the rest is only counted."""
        try:
            if not self._errors:
                self._jobs[job]()
        except BaseException as error:
            self._errors[job] = error
        with self._lock:
            self._done += 1
            for follower in self._plan.followers[job]:
                self._left[follower] -= 1
                if self._left[follower] == 0:
                    self._ready.put((self, follower))
            if self._done == len(self._jobs):
                self._finished.set()
