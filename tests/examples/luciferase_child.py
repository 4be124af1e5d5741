"""What a fresh process does for `test_luciferase_machine.py`: runs with faults, and their digests.

python -m tests.examples.luciferase_child SEEDS
"""

from __future__ import annotations

import json
import sys

from examples.luciferase.machine import Luciferase
from tests.helpers import run_of


def main() -> None:
    """Run the machine on each seed."""
    seeds = range(int(sys.argv[1]))
    runs = {str(seed): run_of(Luciferase, seed, faults=Luciferase.faults) for seed in seeds}
    sys.stdout.write(
        json.dumps({seed: [run.digest, repr(run.error)] for seed, run in runs.items()})
    )


if __name__ == "__main__":
    main()
