"""What one fresh process does: run all scenarios on some tapes, and print their digests.

python -m tests.compat.child SEEDS [FIRST_LETTERS]
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path

import foretold
from tests.compat.scene import ORDERS, SCENARIOS, Scenario

NOT_SCENARIOS = ("test_processes",)


def load() -> None:
    """Import every test file of this folder: they enter their scenarios."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.stem not in NOT_SCENARIOS:
            importlib.import_module(f"tests.compat.{path.stem}")


async def planted(world: foretold.World) -> None:
    """Not one of them: it lets the order of a set decide, which differs from process to process."""
    for word in {f"word {number}" for number in range(20)}:
        await asyncio.create_task(asyncio.sleep(0), name=word)


def digests(seeds: int, beginning: str = "") -> dict[str, str]:
    """One digest for each scenario, order and seed; and for the planted one."""
    chosen: dict[str, Scenario] = {n: m for n, m in SCENARIOS.items() if n.startswith(beginning)}
    chosen["planted"] = planted
    return {
        f"{name} {order} {seed}": foretold.run(main, seed=seed, order=order).digest
        for name, main in chosen.items()
        for order in ORDERS
        for seed in range(seeds)
    }


if __name__ == "__main__":
    load()
    sys.stdout.write(json.dumps(digests(int(sys.argv[1]), *sys.argv[2:])))
