"""A campaign: the runs of a search, made here or by many workers, given back in their order.

In their order, because then nothing that follows can depend on who was faster: which failure comes
first, what is new, what is learned. A result that is early waits for those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from foretold.errors import UsageError, WorkerDied
from foretold.search.planning.rounds import Rounds
from foretold.search.workers.batch import Errand, Maker, Recipe, work
from foretold.search.workers.brief import Brief, died
from foretold.search.workers.executors import ForkPool, is_cluster, wait_for_some
from foretold.search.workers.helper import work_by_helper

BATCH_S = 0.25
"""A batch takes about that long: results come soon, and the way there and back costs nothing."""
BATCH_ELSEWHERE_S = 1.0
BATCH_RUNS_MAX = 2_000
BATCHES_EACH = 2
"""So many batches a worker has ahead of it, so that it never waits for the next one."""
Answer = tuple[Errand, Brief]
"""A run that was asked for, and what came of it."""


def here(maker: Maker, rounds: Rounds) -> Generator[Answer]:
    """Make the runs in this process, one after the other."""
    with maker.ready():
        while errands := rounds.take():
            for errand in errands:
                yield errand, maker.run(errand)


class Crowd:
    def __init__(
        self, executor: Executor, workers: int, recipe: Recipe, on_death: Callable[[str], object]
    ) -> None:
        self._executor = executor
        self._workers = workers
        self._work = work_by_helper if is_cluster(executor) else work
        self._recipe = recipe
        self._on_death = on_death
        self._batch_s = BATCH_S if isinstance(executor, ForkPool) else BATCH_ELSEWHERE_S
        self._run_s = BATCH_S
        """How long a run takes; at first, one run is a batch."""
        self._backlog: deque[Errand] = deque()
        self._doubtful: deque[Errand] = deque()
        """Runs of batches that were lost: made again one by one."""
        self._going_on: dict[Future[Any], list[Errand]] = {}
        self._lost: set[int] = set()
        self.until_s: float | None = None
        """When the search is over, whoever is still at work: one of them may hang."""
        self.made = 0
        """How many runs have been made, also those that wait for others before them."""

    def results(self, rounds: Rounds) -> Generator[Answer]:
        """Make the runs by many hands."""
        early: dict[int, Answer] = {}
        number = 1
        while True:
            self._hand_out(rounds)
            if not self._going_on:
                return
            done = wait_for_some(self._executor, self._going_on, self.until_s)
            if not done:
                return  # time is up
            for answer in self._gather(done):
                early[answer[0].number] = answer
            while number in early:
                yield early.pop(number)
                number += 1

    def _hand_out(self, rounds: Rounds) -> None:
        wanted = self._workers * BATCHES_EACH
        while len(self._going_on) < wanted:
            if self._doubtful:
                self._submit([self._doubtful.popleft()])
                continue
            while len(self._backlog) < wanted * self._batch_size() and rounds.is_ready():
                self._backlog.extend(rounds.take())
            if not self._backlog:
                return
            share = -(-len(self._backlog) // wanted)
            size = max(1, min(share, self._batch_size(), len(self._backlog)))
            self._submit([self._backlog.popleft() for _ in range(size)])

    def _batch_size(self) -> int:
        return max(1, min(BATCH_RUNS_MAX, int(self._batch_s / self._run_s)))

    def _submit(self, errands: list[Errand]) -> None:
        self._going_on[self._executor.submit(self._work, self._recipe, errands)] = errands

    def _gather(self, done: list[Future[Any]]) -> Iterator[Answer]:
        for future in done:
            errands = self._going_on.pop(future)
            error = future.exception()
            if error is None:
                answer = future.result()
                if isinstance(answer, BaseException):
                    raise answer  # of foretold, or about the settings: it would be the same again
                took_s, answers = answer
                self._run_s = max(1e-6, (self._run_s + took_s / len(errands)) / 2)
                self.made += len(errands)
                yield from zip(errands, answers, strict=True)
            else:
                yield from self._lose(errands, error)

    def _lose(self, errands: list[Errand], error: BaseException) -> Iterator[Answer]:
        """A worker died over these: once more, one by one; what dies again is a failure."""
        first = errands[0]
        if first.number in self._lost:
            self.made += 1
            yield first, died(_what(error))
            return
        runs = f"run {first.number:,}" + (f" to {errands[-1].number:,}" if len(errands) > 1 else "")
        again = "they are" if len(errands) > 1 else "it is"
        said = _what(error).partition("\n")[0]
        self._on_death(f"a worker died ({said}) over {runs}; {again} made again")
        self._lost |= {errand.number for errand in errands}
        self._doubtful.extend(errands)


def _what(error: BaseException) -> str:
    return str(error) if isinstance(error, WorkerDied) else f"{type(error).__name__}: {error}"


def check_elsewhere(executor: Any, target: str) -> None:
    """Workers that are not forks of this process have to import the program."""
    if not isinstance(executor, ForkPool) and not target:
        raise UsageError(
            "the workers of an executor import the program by its name, and this function has "
            "none: define it at the top of a module, or use workers=N without an executor"
        )
