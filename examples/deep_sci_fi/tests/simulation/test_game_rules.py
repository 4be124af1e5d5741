"""The rules of the game, played by several agents at once, without faults.

    pytest examples/deep_sci_fi/tests

50 runs, 200 where CI is set; DEEP_SCI_FI_RUNS names another number. A failure is told as a short
program of the rules, with the line that replays it.
"""

import os

import foretold
from examples.deep_sci_fi.machine import DeepSciFi

RUNS = int(os.environ.get("DEEP_SCI_FI_RUNS", "200" if os.environ.get("CI") else "50"))


class GameRules(DeepSciFi):
    """All rules and all invariants; whatever is lost or late is not lost or late here."""

    faults = None


TestGameRules = foretold.simulate(GameRules, runs=RUNS)
