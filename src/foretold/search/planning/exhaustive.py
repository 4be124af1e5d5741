"""Every schedule with at most so many delays, one run each, the fewest delays first.

A *delay* holds one task before one of its steps until some step of another has been made, for as
long as one likes. That is one sentence of a story, and most ordering bugs need one or two.

What this does *not* vary: values, times, faults, and the order of threads. They are the calm ones.

How. A run logs its picks. To delay the step at position j of a run, it is held for as long as
anything else can go on; those who went on meanwhile are the moments at which the delay may end. The
next delay is placed at or after the last one, so that no set of delays is met twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from foretold.arguments import check_whole
from foretold.errors import UsageError
from foretold.kernel.schedulers.logged import Pick, ScheduleLog
from foretold.search.planning.portfolio import EXHAUSTIVE
from foretold.search.workers.brief import Brief
from foretold.tape import CALLBACKS, Hold, Schedule, Setting, Tape

DELAYS_DEFAULT = 2
HELD_PICKS_MIN = 200
HELD_RUN_LENGTHS = 4
"""A delay lasts for so many lengths of the calm run at most: somebody may spin until the other has
gone on."""
_NEVER = "\0"
"""Nobody has this name: who waits for it waits until nothing else can go on."""

RunTape = Callable[[Tape], Brief]


def check_delays(
    delays: int | None, strategy: str, order: str | None, isolation: str | None
) -> int:
    """How many delays, after a look at whether that can be meant."""
    if strategy != EXHAUSTIVE:
        if delays is not None:
            raise UsageError(f'delays={delays} is for strategy="exhaustive" alone')
        return 0
    if order == "asyncio":
        raise UsageError(
            'strategy="exhaustive" varies the order of ready tasks, but order="asyncio" has only '
            "one: leave order out"
        )
    if isolation is not None:
        raise UsageError('strategy="exhaustive" runs in this process: leave isolation out')
    delays = DELAYS_DEFAULT if delays is None else delays
    check_whole("delays", delays, at_least=0, example=2)
    return delays


class ScheduleNode(NamedTuple):
    """A schedule: its delays, and from which position on a further one may be placed."""

    holds: tuple[Hold, ...]
    position: int


class Enumeration:
    """All schedules of one program with at most `delays` delays."""

    def __init__(self, run: RunTape, settings: Mapping[str, Setting], delays: int) -> None:
        self._run = run
        self._settings = settings
        self._delays = delays
        self._held_picks_max = 0
        self._seen: dict[str, int] = {}
        """By digest: from which position on this run has been extended."""
        self.complete = -1
        """All schedules with so many delays have been run."""
        self.with_more = 0
        """How many schedules with one more have been run."""
        self.cut = self._threads = False
        self.nothing_to_choose = True
        """Every step was the only one that could be made."""

    def __iter__(self) -> Iterator[tuple[Tape, Brief]]:
        """Each schedule's tape and what came of it."""
        tape, done, picks = self._one(())
        self._held_picks_max = HELD_RUN_LENGTHS * len(picks) + HELD_PICKS_MIN
        self.complete = 0
        yield tape, done
        level = [ScheduleNode((), 0)]
        while level and self.complete < self._delays:
            self.with_more = 0
            following: list[ScheduleNode] = []
            for node in level:
                for tape, done, child in self._extended(node):
                    self.with_more += 1
                    if self._is_new(done.digest, child.position):
                        following.append(child)
                    yield tape, done
            level = following
            self.complete += 1
        if not level:
            self.complete = max(self.complete, self._delays)
        self.with_more = 0

    def words(self) -> str:
        """What was covered, and no more."""
        if self.complete < 0:
            return "no schedule"
        what = "schedules of tasks" if self._threads else "schedules"
        text = f"all {what} with at most {self.complete} {_delays(self.complete)}"
        if self.complete == 0:
            text = "the schedule without any delay"
        if self.with_more:
            text += f", and {self.with_more:,} of those with {self.complete + 1}"
        if self.cut:
            text += f" (no delay of more than {self._held_picks_max:,} steps)"
        if self._threads:
            text += "; the order of threads was not varied"
        return text

    def _is_new(self, digest: str, position: int) -> bool:
        former = self._seen.get(digest)
        if former is not None and former <= position:
            return False
        self._seen[digest] = position
        return True

    def _one(self, holds: tuple[Hold, ...]) -> tuple[Tape, Brief, list[Pick]]:
        tape = Tape.calm(self._settings).derived(schedule=Schedule.of(holds))
        tape.log = log = ScheduleLog(self._held_picks_max or 1 << 60)
        done = self._run(tape)
        self.cut |= log.cut
        self._threads |= log.threads
        self.nothing_to_choose &= not log.threads and all(pick.alone for pick in log.picks)
        return tape, done, log.picks

    def _extended(self, node: ScheduleNode) -> Iterator[tuple[Tape, Brief, ScheduleNode]]:
        """The runs with one delay more, placed at or after the node's position."""
        held = {hold.key for hold in node.holds}
        _, _, picks = self._one(node.holds)
        for position in range(node.position, len(picks)):
            pick = picks[position]
            if not pick.alone and pick.key not in held and pick.actor != CALLBACKS:
                yield from self._delayed(node, position, pick)

    def _delayed(
        self, node: ScheduleNode, position: int, pick: Pick
    ) -> Iterator[tuple[Tape, Brief, ScheduleNode]]:
        """The runs in which this step is delayed: by all, and by each shorter time."""
        longest, done, picks = self._one((*node.holds, Hold(*pick.key, _NEVER, 1)))
        meanwhile = _until_step(picks, position, pick.key)
        for last in meanwhile:
            holds = (*node.holds, Hold(*pick.key, last.actor, last.step))
            if last is meanwhile[-1]:
                yield longest, done, ScheduleNode(holds, position)
            else:
                tape, shorter, _ = self._one(holds)
                yield tape, shorter, ScheduleNode(holds, position)


def _until_step(picks: list[Pick], position: int, key: tuple[str, str, int]) -> list[Pick]:
    """Who went on while the step with this key was held, on its host: a delay ends with one of
    them."""
    later = itertools.takewhile(lambda pick: pick.key != key, picks[position:])
    return [pick for pick in later if pick.host == key[0]]


def _delays(count: int) -> str:
    return "delay" if count == 1 else "delays"
