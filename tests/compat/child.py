"""What one fresh process does: run all scenarios on some tapes, and print their digests.

python -m tests.compat.child SEEDS [FIRST_LETTERS]
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import foretold
from tests.compat.scene import ORDERS, SCENARIOS


def load() -> None:
    """Import every test file of this folder: they enter their scenarios."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.stem != "test_processes":
            importlib.import_module(f"tests.compat.{path.stem}")


def digests(seeds: int, beginning: str = "") -> dict[str, str]:
    """One digest for each scenario, order and seed."""
    return {
        f"{name} {order} {seed}": foretold.run(main, seed=seed, order=order).digest
        for name, main in SCENARIOS.items()
        if name.startswith(beginning)
        for order in ORDERS
        for seed in range(seeds)
    }


if __name__ == "__main__":
    load()
    sys.stdout.write(json.dumps(digests(int(sys.argv[1]), *sys.argv[2:])))
