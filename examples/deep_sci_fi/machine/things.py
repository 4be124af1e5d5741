"""What rules hand to each other: ids that know whose they are."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import foretold

SELDOM = 8
"""One in so many times something is tried that is bound to be refused."""
OPEN = ("draft", "validating")


class Thing(str):
    """The id of a proposal, a dweller, …, and what the machine has last heard of it."""

    owner: str
    """The id of the agent whose it is; empty for what belongs to nobody."""
    status: str
    more: dict[str, Any]

    def __new__(cls, key: str, owner: str = "", status: str = "", **more: Any) -> "Thing":
        thing = super().__new__(cls, key)
        thing.owner, thing.status, thing.more = owner, status, more
        return thing

    __hash__ = str.__hash__


def bundle(name: str) -> Any:
    """Values of one kind."""
    return foretold.Bundle(name)


proposals = bundle("proposals")
worlds = bundle("worlds")
aspects = bundle("aspects")
dweller_proposals = bundle("dweller_proposals")
dwellers = bundle("dwellers")
actions = bundle("actions")
events = bundle("events")
stories = bundle("stories")
story_reviews = bundle("story_reviews")
feedback = bundle("feedback")
suggestions = bundle("suggestions")
items = bundle("items")
keys = bundle("keys")
notes = bundle("notifications")


def fit(values: Any, suits: Callable[[Thing, Any], bool]) -> Any:
    """Values that suit the agent who acts, as far as the machine knows; now and then any."""

    def drawn(given: tuple[Any, int]) -> Any:
        machine, daring = given
        agent = machine.drawing_for.agent
        return values if daring == SELDOM else values.filter(lambda thing: suits(thing, agent))

    return st.tuples(st.runner(), st.integers(1, SELDOM)).flatmap(drawn)


def mine(values: Any, *statuses: str) -> Any:
    """What belongs to the agent who acts, and is in one of these states."""
    return fit(
        values, lambda t, agent: t.owner == agent.id and t.status in (statuses or (t.status,))
    )


def others(values: Any, *statuses: str) -> Any:
    """What belongs to somebody else, and is in one of these states."""
    return fit(
        values, lambda t, agent: t.owner != agent.id and t.status in (statuses or (t.status,))
    )
