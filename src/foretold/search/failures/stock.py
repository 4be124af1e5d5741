"""Can stock asyncio do this? Three answers: seen in its order, excluded for a reason, or not seen.

*Seen* is a run in stock order that fails in the same way. The search for it begins with the failing
tape: the same values at the same times, but no task is held. What a hold did there, lateness has to
do here. If a step takes long enough, a timer or a message that came after the next one comes before
it, in one batch with others. So each step of a stock run is made late in turn, until something else
has come; the steps around the instants of the holds first. A run that shows a new order is where to
go on. In turn with that, randomness and latencies are drawn anew.

*Excluded* needs a proof: every stock schedule of the program was run (`kernel/any_timers.py`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from foretold.errors import UsageError
from foretold.kernel.any_timers import PAUSE_S
from foretold.kernel.audit import Audit, StepAt
from foretold.search.planning.allowance import Allowance
from foretold.search.workers.brief import Brief
from foretold.story.signature import Signature
from foretold.tape import Schedule, Slow, StockNote, Tape, enumerate_tapes
from foretold.tape.streams import generator_for

TRIES_MAX = 600
TRIES_CPU_S = 8.0
"""Of processor time: a program whose runs take longer is tried less often (`allowance.py`)."""
SCHEDULES_MAX = 2_000
"""An enumeration that is longer excludes nothing."""
SCHEDULES_CPU_S = 3.0
DRAWS_MAX = 40
"""Of one run: with more, an enumeration is hardly ever short enough."""
SAME_VALUES_FIRST = 60
LATE_STEPS_REDRAWN = REDRAWN_AT_ONCE = 10
BACK_MAX = 40
SWAP_NS = 5_000
SWAP_RANK = 8
LATE_NS_MAX = 50_000_000
"""Later than a step of a search: a loop is now and then, and here it strikes where it is aimed."""
IDLE_FACTOR = 4
"""A step that comes so much later than the quickest was woken."""
NOT_THE_PROGRAMS = ("entropy", "net", "pace", "sets", "threads")
"""Streams that may be drawn anew while the program's own values stay."""

Again = Callable[[Tape], Brief]


@dataclass(frozen=True, slots=True)
class StockAnswer:
    """What came of it; `tape` is one in stock order that fails, if there is one."""

    note: StockNote
    tape: Tape | None = None


@dataclass(frozen=True, slots=True)
class Lateness:
    """Steps that are late, and how far-fetched that is."""

    rank: int
    slows: tuple[Slow, ...]

    def applied_to(self, tape: Tape) -> Tape:
        return tape.derived(schedule=Schedule.of([*tape.schedule, *self.slows]))


def in_stock_order(tape: Tape) -> Tape:
    """The same tape without holds of tasks: what stock asyncio makes of it."""
    settings = {**tape.settings, "order": "asyncio", "strategy": "fifo"}
    return tape.derived(settings=settings)


def ask(
    tape: Tape, signature: Signature, again: Again, *, seed: int, until_s: float
) -> StockAnswer:
    """Whether stock asyncio can fail like `tape`, which does in another order. A search with a time
    of its own has until `until_s` for it."""
    stock = in_stock_order(tape)
    if again(stock).signature == signature:
        return StockAnswer(StockNote(True), stock)  # as a rule: no order of tasks was needed
    if reason := _why_excluded(stock, signature, again, until_s):
        return StockAnswer(StockNote(False, reason=reason))
    search, made = _Search(tape, signature, again, seed), 0
    allowance = Allowance(TRIES_MAX, TRIES_CPU_S, until_s)
    for _ in search.tries():
        if search.found is not None:
            return StockAnswer(StockNote(True), search.found)
        if search.made == made:
            continue  # one way of trying has come to its end
        made = search.made
        if not allowance.spend():
            break
    return StockAnswer(StockNote(None, tries=search.made))


# Excluded


def _why_excluded(stock: Tape, signature: Signature, again: Again, until_s: float) -> str | None:
    """Why no stock schedule fails like this; None if that is not known."""
    audit, runs, timers, values = Audit(), 0, 0, False
    allowance = Allowance(SCHEDULES_MAX, SCHEDULES_CPU_S, until_s)
    try:
        for tape in enumerate_tapes(streams=None):
            tape.settings, tape.audit = dict(stock.settings), audit
            seen = again(tape)
            told = seen.audit
            if told is None or told.outside or seen.signature == signature:
                return None
            if told.drawn > DRAWS_MAX or (told.drawn and told is not audit):
                return None  # too many; or made in another process, where the enumeration is not
            runs, timers, values = runs + 1, max(timers, told.timers), values or told.values
            if runs + tape.left_at_least >= SCHEDULES_MAX or not allowance.spend():
                return None
    except UsageError:
        return None  # it is not a function of what was enumerated
    return _reason(runs, timers=bool(timers), values=values)


def _reason(runs: int, *, timers: bool, values: bool) -> str:
    if timers:
        which = "timers can fire, with all values that it draws," if values else "timers can fire"
        return (
            f"all {runs:,} orders in which its {which} were run as stock asyncio takes them, and "
            f"none fails like this (a loop that is late by {PAUSE_S:g} s in all is not considered)"
        )
    closed = "no timer, socket, thread or other host wakes any of its tasks"
    if values:
        return (
            f"{closed}, and all {runs:,} combinations of the values that it draws were run as "
            "stock asyncio runs them: none fails like this"
        )
    return f"{closed}, so they run in one order only, which does not fail like this"


# Seen


class _Search:
    """Tries tapes in stock order, the likeliest to fail first."""

    def __init__(self, tape: Tape, signature: Signature, again: Again, seed: int) -> None:
        self._failing = tape
        self._stock = in_stock_order(tape)
        self._signature = signature
        self._again = again
        self._random = generator_for(seed, "stock")
        self.found: Tape | None = None
        self.made = 0
        """How many did not fail like this."""

    def tries(self) -> Iterator[None]:
        """One try after the other, without end."""
        same, redrawn = self._made_late(self._crucial_ns()), self._redrawn()
        for number in count():
            others = number >= SAME_VALUES_FIRST and number // REDRAWN_AT_ONCE % 2
            yield next(redrawn) if others else next(same, None)

    def _try(self, tape: Tape) -> Brief:
        seen = self._run(tape)
        if seen.signature == self._signature:
            self.found = tape
        else:
            self.made += 1
        return seen

    def _run(self, tape: Tape) -> Brief:
        tape = tape.fresh(recording=not tape.scheduled_by_key)
        tape.audit = Audit()
        return self._again(tape)

    def _crucial_ns(self) -> list[int]:
        """When those who are held in the failing run go on, and those for whom they wait."""
        schedule = self._failing.schedule
        wanted = {entry.key for entry in schedule}
        wanted |= {(h.host, h.until_actor, h.until_step) for h in schedule.holds.values()}
        return [step.ns for step in _steps_of(self._run(self._failing)) if step[:3] in wanted]

    def _made_late(self, crucial_ns: list[int]) -> Iterator[None]:
        """The same values at the same times; each step late, alone and together with others."""
        calm = self._stock.derived(schedule=Schedule.of(self._stock.schedule.holds.values()))
        known: set[tuple[tuple[str, str, int], ...]] = set()
        heap: list[tuple[int, int, Tape, Lateness]] = []
        numbers = count()

        def go_on_from(tape: Tape, steps: Sequence[StepAt], rank: int) -> None:
            order = tuple(step[:3] for step in steps)
            if order not in known:
                known.add(order)
                for late in _late_steps(steps, crucial_ns):
                    heapq.heappush(heap, (rank + late.rank, next(numbers), tape, late))

        for base in (self._stock, calm):
            go_on_from(base, _steps_of(self._try(base)), 0)
            yield
        while heap:
            rank, _, tape, late = heapq.heappop(heap)
            later = late.applied_to(tape)
            go_on_from(later, _steps_of(self._try(later)), rank)
            yield

    def _redrawn(self) -> Iterator[None]:
        """Other values: those that are not the program's own, and, each second time, all."""
        for number in count():
            drawn = self._try(Tape.seeded(self._random.randrange(1 << 62), self._stock.settings))
            yield
            if drawn.recorded is None:
                continue
            tape = drawn.recorded if number % 2 else self._with_own_values(drawn.recorded)
            steps = _steps_of(self._try(tape))
            yield
            late_steps = _late_steps(steps, [])
            self._random.shuffle(late_steps)
            for late in late_steps[:LATE_STEPS_REDRAWN]:
                self._try(late.applied_to(tape))
                yield

    def _with_own_values(self, drawn: Tape) -> Tape:
        """What the failing program chose, in the world of another run."""
        own = {n: c for n, c in self._stock.choices.items() if not _is_the_worlds(n)}
        others = {n: c for n, c in drawn.choices.items() if _is_the_worlds(n)}
        return drawn.derived(choices={**others, **own})


def _is_the_worlds(stream: str) -> bool:
    return stream.split("/")[0] in NOT_THE_PROGRAMS


def _steps_of(seen: Brief) -> Sequence[StepAt]:
    return () if seen.audit is None else seen.audit.steps


def _late_steps(steps: Sequence[StepAt], crucial_ns: list[int]) -> list[Lateness]:
    """What may change the order in which things come from outside. The least far-fetched are steps
    just before one of them that comes near a crucial instant."""
    by_host: dict[str, list[StepAt]] = defaultdict(list)
    for step in steps:
        by_host[step.host].append(step)
    found: list[Lateness] = []
    for own in by_host.values():
        woken = _woken(own)
        before = dict(zip(woken[1:], woken, strict=False))
        woken.sort(key=lambda i: min((abs(own[i].ns - each) for each in crucial_ns), default=0))
        for rank, i in enumerate(woken):
            found += _together(own, i, rank)
            if i in before:
                found += _woken_late(own, before[i], i, rank)
                found += _swapped(own, before[i], i, rank + SWAP_RANK)
    return found


def _together(own: Sequence[StepAt], woken: int, rank: int) -> Iterator[Lateness]:
    """A step before is late until this has come, too: in one batch with what came between."""
    for back in range(1, min(woken, BACK_MAX) + 1):
        late = own[woken - back]
        ns = own[woken].ns - late.ns
        if ns > LATE_NS_MAX:
            return
        yield Lateness(rank + back, (_slow(late, ns),))


def _woken_late(own: Sequence[StepAt], first: int, second: int, rank: int) -> Iterator[Lateness]:
    """The loop sleeps on until the second has come as well. However long the sleep before was."""
    ns = own[second].ns - own[first].ns
    if ns <= LATE_NS_MAX:
        last = own[first - 1]
        yield Lateness(rank, (Slow(last.host, last.actor, last.step, ns, asleep=True),))


def _swapped(own: Sequence[StepAt], first: int, second: int, rank: int) -> Iterator[Lateness]:
    """A step that sets a timer is late, so that what comes first comes just after the second; and
    the loop is late when they come, so that both are in one batch."""
    apart_ns = own[second].ns - own[first].ns + SWAP_NS
    last = own[first - 1]
    together_ns = own[second].ns - last.ns + 2 * SWAP_NS
    if together_ns > LATE_NS_MAX:
        return
    for back in range(2, min(first, BACK_MAX) + 1):
        slows = _slow(own[first - back], apart_ns), _slow(last, together_ns - apart_ns)
        yield Lateness(rank + back, slows)


def _slow(step: StepAt, ns: int) -> Slow:
    return Slow(step.host, step.actor, step.step, ns)


def _woken(steps: Sequence[StepAt]) -> list[int]:
    """The steps of one host, by their index, before which it was idle."""
    gaps = [after.ns - before.ns for before, after in pairwise(steps)]
    busy_ns = min(gaps, default=0) * IDLE_FACTOR
    return [i for i, gap in enumerate(gaps, 1) if gap > busy_ns]
