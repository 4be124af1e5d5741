"""`buggify`: places in production code that a simulation may make rare things happen at.

    if foretold.buggify("cache is empty"):
        cache.clear()

FoundationDB's idea. Which faults: whatever the program's own author says can happen there. Never
outside of a simulation, inside `world.calm()`, or after `world.heal()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretold.errors import UsageError
from foretold.world.current import world_or_none

if TYPE_CHECKING:
    from foretold.tape import Stream
    from foretold.world.world import World

P_SWITCHED_ON = 1 / 4
"""In so many of the runs a site is switched on."""
P_FIRES = 1 / 4
"""So often it fires then."""


def buggify(name: str) -> bool:
    """Whether the rare thing called `name` shall happen here and now. Outside of a run: False."""
    return _fires(name) is not None


async def buggify_delay(name: str, low_s: float = 0.001, high_s: float = 0.05) -> float:
    """Wait here now and then, for so long: between a check and what relies on it, for instance.
    Returns how long it waited, in seconds. Outside of a run: 0, at once."""
    if not 0 <= low_s <= high_s:
        raise UsageError(
            f"buggify_delay({name!r}, {low_s!r}, {high_s!r}): give the shortest and the longest "
            "delay in seconds, such as buggify_delay('before the commit', 0.001, 0.05)"
        )
    site = _fires(name)
    if site is None:
        return 0.0
    import asyncio  # only who waits needs it: production imports this module

    delay_s = site.between(round(low_s * 1e6), round(high_s * 1e6), "delay, µs") / 1e6
    await asyncio.sleep(delay_s)
    return delay_s


def _fires(name: str) -> Stream | None:
    """The choices of a site, if it fires here and now."""
    world = world_or_none()
    if world is None or world.sealed or world.is_calm or world.healed:
        return None
    site = _site(world, name)
    if site is None or not site.chance(P_FIRES, "fires"):
        return None
    world.tally.fault(f"buggify {name}", "injected")
    world.note_fault(f"buggify {name!r} fires on {world.acting_host.name}")
    return site


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
