"""`knob`: what a run as a whole is like, drawn once from a fixed list.

    actors = foretold.knob("actors", [2, 1, 3, 8])
    weights = foretold.knob("mix of operations", ["even", "mostly reads", "mostly writes"])

Swarm testing: a run that has a little of everything finds less than many runs that each have much
of something. Faults and the pace of steps are drawn like that by themselves; a knob is the same for
what only the test knows: how many act, what they do most, how large a buffer is. A failure says how
its knobs were set, and a campaign which settings go together with failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from foretold.arguments import plain
from foretold.errors import UsageError
from foretold.trace import encode
from foretold.world.current import world_or_none

T = TypeVar("T")


def knob(name: str, options: Sequence[T]) -> T:
    """One of `options`, the same in all of the run. The first is the calm one, and what production
    gets: outside of a run it is always that."""
    if not name or not len(options):
        raise UsageError(
            "knob needs a name and a list to draw from, such as knob('actors', [2, 1, 8]); got "
            f"knob({name!r}, {options!r})"
        )
    world = world_or_none()
    if world is None or world.sealed:
        return options[0]
    name = plain(name)
    key = ("knob", name)
    if key not in world.shared:
        index = world.tape.stream("knob", name).choose(len(options), name)
        world.shared[key] = index
        world.tape.configuration[name] = text = encode(options[index])
        world.trace.note(f"knob {name} = {text}")
    index = world.shared[key]
    return options[index if index < len(options) else 0]
