"""L6: `@foretold.simulate`, and what the pytest plugin does once a test needs it.

The plugin's shell (`_foretold_pytest`) is loaded by pytest wherever foretold is installed, and
imports nothing of this until a simulated test is about to run.

    simulate.py    the decorator, and what a direct call does
    simulation.py  what was decorated: the function, its settings, its signature
    machines.py    machines as tests: `Shop.TestCase`
    trial.py       one test: yesterday's failures first, then the search
    item.py        the trial of a pytest item: seed, options, output
    fresh.py       function-scoped fixtures, made anew for every run
    stage.py       where fixtures and test of one run are played, in one task
    fixtures.py    what all runs share, and why that is worth a word
    replayer.py    a tape replayed by a fresh pytest process
    raising.py     what `Outcome.raise_failure` raises in a plain test
    seeds.py       where seeds come from
    tidy.py        the traceback as the user should see it
    summary.py     what stands at the end of a pytest run
    child.py       pytest in a child process, for the command `foretold`

Nothing here imports pytest when it is imported itself: `foretold.simulate` works without it.
"""

from foretold.pytest_support.fresh import shared
from foretold.pytest_support.simulate import simulate

__all__ = ["shared", "simulate"]
