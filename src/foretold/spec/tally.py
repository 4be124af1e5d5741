"""Counts of what a run tried: rules, invariants, faults. See `world/tally.py`, where they lie.

tally = tally_of(world)
tally.rule("buy")                       # declared: it stands in the table from now on
tally.rule("buy", "tried")              # then: precondition_false, refused, failed, succeeded
tally.invariant("stock", checked=False) # declared
tally.invariant("stock", over=3)        # checked, over three things; over=None: not known
tally.fault("request_lost", "injected")
tally.fault("request_lost", "effect")
"""

from __future__ import annotations

from foretold.world.tally import FaultCount, InvariantCount, RuleCount, Tally
from foretold.world.world import World

__all__ = ["FaultCount", "InvariantCount", "RuleCount", "Tally", "tally_of"]


def tally_of(world: World) -> Tally:
    """The counts of this run. They travel with what it reached, through workers and forks."""
    return world.tally
