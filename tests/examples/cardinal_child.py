"""What a fresh process does for `test_cardinal_kit.py`: runs of both games, and their digests.

python -m tests.examples.cardinal_child SEEDS TICKS
"""

from __future__ import annotations

import json
import sys

import foretold
from examples.cardinal.games import adventure, market
from examples.cardinal.testing import machine_of


def main() -> None:
    """Run each game on each seed."""
    seeds, ticks = int(sys.argv[1]), int(sys.argv[2])
    seen = {}
    for game in (adventure, market):
        machine = machine_of(game.setup, ticks=ticks)
        for seed in range(seeds):
            seen[f"{machine.__name__} {seed}"] = foretold.run(machine, seed=seed).trace.digest
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
