"""`buggify`: places in production code that a simulation may make rare things happen at.

    if foretold.buggify("cache is empty"):
        cache.clear()

FoundationDB's idea. Which faults: whatever the program's own author says can happen there. Never
outside of a simulation, inside `world.calm()`, or after `world.heal()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretold.errors import UsageError
from foretold.world.world import world_or_none

if TYPE_CHECKING:
    from foretold.tape import Stream
    from foretold.world.world import World

P_SWITCHED_ON = 1 / 4
"""In so many of the runs a site is switched on."""
P_FIRES = 1 / 4
"""So often it fires then."""


def buggify(name: str) -> bool:
    """Whether the rare thing called `name` shall happen here and now. Outside of a run: False."""
    world = world_or_none()
    if world is None or world.sealed or world.is_calm or world.healed:
        return False
    site = _site(world, name)
    if site is None or not site.chance(P_FIRES, "fires"):
        return False
    world.tally.fault(f"buggify {name}", "injected")
    world.note_fault(f"buggify {name!r} fires on {world.acting_host.name}")
    return True


def _site(world: World, name: str) -> Stream | None:
    """The choices of a site that is switched on in this run."""
    key = ("buggify", name)
    if key not in world.shared:
        if not name:
            raise UsageError(
                f"buggify needs a name, such as buggify('cache is empty'); got {name!r}"
            )
        stream = world.tape.stream("buggify", name)
        world.tally.fault(f"buggify {name}")
        on = stream.chance(P_SWITCHED_ON, "switched on")
        world.tape.configuration[f"buggify {name}"] = "on" if on else "off"
        world.shared[key] = stream if on else None
    site: Stream | None = world.shared[key]
    return site
