"""What rules hand to each other: ids that know whose they are."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import foretold

MOODS = 11
DARING, ENVIOUS = 10, 11
"""In these moods something is tried that is bound to be refused: anything at all, or what suits
only somebody else. `rights.py` sees to it that it is refused."""
CURIOUS = 4
"""From this mood on an agent goes where somebody else is, if it can do something there."""
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


Suits = Callable[[Thing, Any], bool]
"""Whether an agent can do something to a thing, as far as the machine knows."""


def fit(values: Any, suits: Suits) -> Any:
    """Values that suit the agent who acts, as far as the machine knows; often the one that somebody
    else is busy with, since most mistakes need two for one thing; now and then any."""

    def drawn(given: tuple[Any, int]) -> Any:
        machine, mood = given
        actor = machine.drawing_for
        chosen = values
        if mood == ENVIOUS:
            rivals = [other for other in machine.agents if other is not actor.agent]
            chosen = values.filter(
                lambda thing: (
                    not suits(thing, actor.agent) and any(suits(thing, other) for other in rivals)
                )
            )
        elif mood != DARING:
            crowded = [
                thing
                for other, (kind, last) in machine.places.items()
                if other != actor.index and kind == values.name
                for thing in around(last)
                if suits(thing, actor.agent)
            ]
            if crowded and mood >= CURIOUS:
                chosen = values.filter(lambda thing: thing in crowded)
            else:
                chosen = values.filter(lambda thing: suits(thing, actor.agent))

        def note(thing: Thing) -> Thing:
            machine.places[actor.index] = (values.name, thing)
            return thing

        return chosen.map(note)

    return st.tuples(st.runner(), st.integers(1, MOODS)).flatmap(drawn)


RIVAL = st.sampled_from([False, False, True])
"""Whether somebody else does the same at the same moment, see `Platform.rush`."""


def around(thing: Thing) -> list[Thing]:
    """What is near the thing that somebody is busy with: the wishes for the same content."""
    content = thing.more.get("content")
    return [thing] if content is None else content.more["items"]


def anything(thing: Thing, agent: Any) -> bool:
    """Whatever it is."""
    return True


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
