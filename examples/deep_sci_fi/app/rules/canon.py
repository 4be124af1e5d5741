"""What is true in a world: its summary, its timeline, its regions.

Whoever calls these has locked the world.
"""

from typing import Any

from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Aspect, World

YEARS_AHEAD_MAX = 10


def check_year(world: World, year: int) -> None:
    """Events lie between the first step of the chain and ten years after the present; 400."""
    first, last = world.causal_chain[0]["year"], world.year_setting + YEARS_AHEAD_MAX
    if not first <= year <= last:
        refuse(400, f"in {world.name} things happen between {first} and {last}")


def add_to_timeline(world: World, entry: dict[str, Any]) -> None:
    """Put the entry where it belongs; among those of the same year it is the last."""
    first, last = world.causal_chain[0]["year"], world.year_setting
    if not first <= entry["year"] <= last:
        refuse(400, f"the timeline of {world.name} goes from {first} to {last}")
    world.causal_chain = sorted([*world.causal_chain, entry], key=lambda step: step["year"])


def add_region(world: World, name: str, description: str) -> None:
    """Names of regions are unique in their world; 400."""
    if name in {region["name"] for region in world.regions}:
        refuse(400, f"{world.name} has a region {name!r}")
    world.regions = [*world.regions, {"name": name, "description": description}]


def adopt(world: World, aspect: Aspect, summary: str | None, entry: dict[str, Any] | None) -> None:
    """Make an approved aspect part of the world."""
    if summary is not None:
        world.canon_summary = summary
    if aspect.type == "event" and entry is not None:
        add_to_timeline(world, entry)
    if aspect.type == "region":
        add_region(world, aspect.content["name"], aspect.content["description"])
