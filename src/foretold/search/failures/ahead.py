"""Shrinking on several processors: while one tape is asked about, others run that come next.

Most candidates hold, so the questions that follow if this one holds, too, are likely to be asked.
Other processes run them meanwhile. Answers are taken in the order of the questions: the result is
that of a single process, and so are the runs and the processor time that count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final

from foretold.errors import WorkerDied
from foretold.kernel import real
from foretold.kernel.session import session
from foretold.search.planning.allowance import note_work, worked_s
from foretold.search.planning.deadline import OutOfTime
from foretold.search.workers.brief import Brief, died
from foretold.search.workers.executors import ForkPool, wait_for_some
from foretold.tape import Tape
from foretold.tape.shrink.edit import fingerprint

RUN_S_MIN: Final = 0.02
"""Shorter runs are over before another process has been told about them."""
SAMPLES: Final = 4
QUEUE: Final = 4
"""So many tapes for each worker are thought of at once."""

Run = Callable[[Tape], Brief]
Likely = Callable[[int], list[Tape]]

_run: Run | None = None
"""What workers do; they inherit it."""


class Ahead:
    def __init__(self, workers: int, run: Run) -> None:
        self._workers = workers
        self._run = run
        self._pool: ForkPool | None = None
        self._started: dict[Hashable, Future[tuple[float, Brief]]] = {}
        self._queue: dict[Hashable, Tape] = {}
        self._made = 0
        self._took_s = 0.0
        """How many runs were made here, and how long that took."""

    def close(self) -> None:
        """Nobody asks any more."""
        global _run
        _run = None  # it refers to the program
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            self._started.clear()

    def foresee(self, asked: Tape, likely: Likely) -> None:
        """A tape is about to be asked about. `likely(n)` are this one and the next, if all hold."""
        if self._made < SAMPLES or self._took_s < self._made * RUN_S_MIN:
            return
        if self._pool is not None:
            self._pool.pump(0)  # who has done what nobody asked for is free again
        key = fingerprint(asked)
        if key not in self._started and key not in self._queue:
            self._queue.clear()
        while self._busy() < self._workers:
            if not self._queue:
                new = {fingerprint(each): each for each in likely(QUEUE * self._workers)}
                self._queue = {key: new[key] for key in new if key not in self._started}
                if not self._queue:
                    return
            key = next(iter(self._queue))
            self._start(key, self._queue.pop(key))

    def _busy(self) -> int:
        return sum(not each.done() for each in self._started.values())

    def _start(self, key: Hashable, tape: Tape) -> None:
        global _run
        _run = self._run  # for those that are forked now
        if self._pool is None:
            self._pool = ForkPool(self._workers)
        self._started[key] = self._pool.submit(_work, tape)

    def answer(self, tape: Tape, until_s: float | None) -> Brief:
        """What comes of a tape: made here if nobody has begun with it."""
        started = self._started.pop(fingerprint(tape), None) if self._started else None
        if started is None:
            began_s = real.monotonic()
            brief = self._run(tape)
            self._made += 1
            self._took_s += real.monotonic() - began_s
            return brief
        assert self._pool is not None, "it was started there"
        if not started.done() and not wait_for_some(self._pool, [started], until_s):
            raise OutOfTime
        try:
            cpu_s, brief = started.result()
        except WorkerDied as error:
            return died(str(error))
        note_work(cpu_s)
        return brief

    def forget(self) -> None:
        """A tape has failed: other questions follow than those that were thought of."""
        self._queue.clear()
        for key in [key for key, each in self._started.items() if each.cancel()]:
            del self._started[key]


def _work(tape: Tape) -> tuple[float, Brief]:
    """In a worker: one run, and the processor time that it took."""
    assert _run is not None, "inherited"
    began_s = worked_s()
    with session():
        brief = _run(tape)
    return worked_s() - began_s, brief.ready_to_send()
