"""What one fresh process does: run all programs on many tapes, and print digests and results.

    python -m tests.determinism.child NUMBER SEEDS [planted]

NUMBER tells processes apart: each takes the programs in another order, and every other one makes
the interpreter's tables large first, because a run must not depend on those before it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import foretold
from foretold.kernel.session import session
from tests.determinism.programs import PLANTED, PROGRAMS, Program
from tests.helpers import PLANS

Seen = dict[str, tuple[str, str]]


def main() -> None:
    """Run what the command line asks for."""
    number, seeds = int(sys.argv[1]), int(sys.argv[2])
    if number % 2:
        foretold.run(many_tasks)
    chosen = in_another_order(PLANTED if "planted" in sys.argv else PROGRAMS, number)
    with session():  # the parent makes one for each run: both must give the same
        seen = dict(observed(chosen, seeds))
    sys.stdout.write(json.dumps(seen))


async def many_tasks() -> None:
    """Leaves every table of the interpreter larger than it was."""
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(3_000)))


def in_another_order(programs: dict[str, Program], number: int) -> dict[str, Program]:
    """The programs, rotated by as many as `number`, and backwards if it is odd."""
    names = list(programs)
    names = names[number % len(names) :] + names[: number % len(names)]
    if number % 2:
        names.reverse()
    return {name: programs[name] for name in names}


def observed(programs: dict[str, Program], seeds: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Digest and result of each program on each tape."""
    for name, program in programs.items():
        for order, strategy in PLANS:
            for seed in range(seeds):
                done = foretold.run(program, seed=seed, order=order, strategy=strategy)
                yield f"{name} {order} {strategy} {seed}", (done.trace.digest, repr(done.value))


if __name__ == "__main__":
    main()
