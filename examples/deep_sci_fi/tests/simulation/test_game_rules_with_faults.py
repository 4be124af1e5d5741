"""The same rules and the same invariants, with all that can happen to requests and to the database.

    pytest examples/deep_sci_fi/tests

Answers are lost, requests come twice or late, servers restart, statements are cancelled, commits
fail. `test_game_rules.py` says how many runs there are.
"""

import os

import foretold
from examples.deep_sci_fi.machine import DeepSciFi
from examples.deep_sci_fi.machine.platform import FAULTS

RUNS = int(os.environ.get("DEEP_SCI_FI_RUNS", "200" if os.environ.get("CI") else "50"))


class GameRulesWithFaults(DeepSciFi):
    """Nothing that must hold is given up because of a fault."""

    faults = FAULTS


TestGameRulesWithFaults = foretold.simulate(GameRulesWithFaults, runs=RUNS)
