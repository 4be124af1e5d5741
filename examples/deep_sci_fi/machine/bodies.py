"""The bodies of requests: now and then whatever the platform's own models allow.

Rules say what matters for them, in the same few words. `Platform.worded` keeps the ids of such a
body and draws all else anew in one request of eight: long and short texts, every kind of verdict,
lists that are full. `foretold covers` compares these strategies with the models.
"""

import uuid
from typing import Any, get_args, get_origin

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app.schemas import agents, community, dwellers, worlds
from examples.deep_sci_fi.app.schemas.base import Body
from examples.deep_sci_fi.machine.scenery import REGIONS

SELDOM = (False,) * 7 + (True,)
MEANT: dict[type, dict[str, Any]] = {
    agents.NewKey: {"expires_in_hours": st.sampled_from([None, 1, 4, 8760])},
    community.NewSuggestion: {
        "field": st.sampled_from(["premise", "canon_justification", "f" * 50])
    },
    dwellers.NewCharacter: {"origin_region": st.sampled_from([*REGIONS, "r", "r" * 100])},
}
"""For some fields, texts that mean something."""


def _is_id(annotation: Any) -> bool:
    is_list = get_origin(annotation) is list
    return annotation is uuid.UUID or (uuid.UUID in get_args(annotation) and not is_list)


BODIES: dict[Any, st.SearchStrategy[Any]] = {
    model: foretold.from_model(model, **MEANT.get(model, {}))
    for module in (agents, community, dwellers, worlds)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Body) and model.__module__ == module.__name__
}
"""For each body of a request a strategy."""
IDS = {
    model: {name for name, field in model.model_fields.items() if _is_id(field.annotation)}
    for model in BODIES
}
"""What a rule has chosen on purpose, and what is no matter of wording."""


def worded(model: Any, said: dict[str, Any]) -> dict[str, Any]:
    """What the rule says, or with the same ids anything else that the model allows."""
    if not foretold.choose(SELDOM, "in other words"):
        return said
    drawn = foretold.draw(BODIES[model], "body").model_dump(mode="json", exclude_unset=True)
    ids = {name: said.get(name) for name in IDS[model] if name in said or name in drawn}
    return {**drawn, **ids}
