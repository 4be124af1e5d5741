"""What rules hand to each other: ids that know whose they are."""

from typing import Any

import foretold


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
