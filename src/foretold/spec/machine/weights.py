"""Swarm: what a run does often, and what not at all.

A run that does a little of everything finds less than many runs that each do much of something. So
in half of all runs each rule has a weight of its own, on top of the one that the class gives, or is
left out. Weights guide seeded tapes alone (`Stream.weighted`): what was chosen stays when the
shrinker has made them calm, which is: as the class says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foretold.tape import Stream, Tape

FACTORS = (1.0, 0.0, 0.1, 0.5, 2.0, 5.0, 20.0)
_LIKELY = (3, 3, 2, 2, 2, 2, 1)


def swarm_weights(
    tape: Tape, head: Stream, rules: Sequence[str], given: Mapping[str, float]
) -> list[float]:
    """The weights of the rules in this run, drawn from the machine's own stream."""
    weights = [float(given.get(name, 1)) for name in rules]
    if len(rules) < 2 or not head.chance(0.5, "swarm"):
        return weights
    factors = [FACTORS[head.weighted(_LIKELY, f"weight of {name}")] for name in rules]
    drawn = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    if not any(drawn):
        return weights
    for name, factor in zip(rules, factors, strict=True):
        if factor != 1:
            tape.configuration[f"rule {name}"] = f"{factor:g} times as often" if factor else "off"
    return drawn
