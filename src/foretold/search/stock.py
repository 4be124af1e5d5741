"""Can stock asyncio do this? Tapes to try in its own order, for a failure found in another.

A task that was held there may be a loop that is late here, so that a timer comes first: for each
hold, the steps around it are tried as slow ones. The rest are seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretold.kernel.pace import SLOW_NS_MAX
from foretold.tape import Schedule, Slow, Tape

SEEDS_TRIED = 60
SLOW_NS = (SLOW_NS_MAX, SLOW_NS_MAX // 8, SLOW_NS_MAX // 64)
HOLDS_TRIED_MAX = 8


def in_stock_order(tape: Tape) -> Tape:
    """The same tape without holds: what stock asyncio makes of it."""
    settings = {**tape.settings, "order": "asyncio", "strategy": "fifo"}
    return tape.derived(settings=settings)


def candidates(tape: Tape, seed: int) -> Iterator[Tape]:
    """Tapes in stock order that may fail like `tape`, the likeliest first."""
    stock = in_stock_order(tape)
    yield stock
    if stock.scheduled_by_key:
        slows = list(tape.schedule.slows.values())
        for hold in list(tape.schedule.holds.values())[:HOLDS_TRIED_MAX]:
            for step in (hold.step - 1, hold.step):
                for ns in SLOW_NS:
                    late = Slow(hold.host, hold.actor, step, ns)
                    yield stock.derived(schedule=Schedule.of([*slows, late]))
    for i in range(SEEDS_TRIED):
        yield Tape.seeded(seed + i, stock.settings)
