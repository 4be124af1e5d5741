"""The platform once more, with no rule written by hand: they come from its OpenAPI document.

    foretold explore examples.deep_sci_fi.schema_machine:DeepSciFiApi
    foretold explore examples.deep_sci_fi.schema_machine:DeepSciFiApi --plant

It knows nothing of worlds and dwellers; it knows what every API has to keep.
"""

from typing import Any

from hypothesis import strategies as st

import foretold
from examples.deep_sci_fi.app import Settings, bugs
from examples.deep_sci_fi.machine import scenery
from examples.deep_sci_fi.machine.platform import APP, FAULTS

AGENTS = 4
ADMINS = frozenset({scenery.api_key(AGENTS)})
"""The last of them is an administrator as well."""


def credentials(actor: Any) -> dict[str, str]:
    """The keys that the scenery has given to the first four agents."""
    return {"x-api-key": scenery.api_key(actor.index + 1)}


WORDS_THAT_MEAN_SOMETHING = {
    "origin_region": st.sampled_from(scenery.REGIONS),
    "field": st.sampled_from(["premise", "canon_justification"]),
    "suggested_value": st.sampled_from([scenery.WORDS, scenery.WORDS * 2]),
}
"""The document calls them texts."""
Api: Any = foretold.openapi(
    APP.openapi(),
    app=APP,
    actors=AGENTS,
    faults=FAULTS,
    credentials=credentials,
    overrides=WORDS_THAT_MEAN_SOMETHING,
)


class DeepSciFiApi(Api):  # type: ignore[misc]  # it is made at run time
    """All operations of the platform."""

    async def serve(self) -> Any:
        wrong = {name for name in bugs.KNOWN if foretold.mutant(name)}
        APP.state.settings = Settings(bugs=frozenset(wrong), admin_keys=ADMINS)
        schema = scenery.STRICT if bugs.WITHOUT.keys().isdisjoint(wrong) else scenery.LAX
        pg = await self.world.postgres(schema=schema)
        return await self.world.web(APP, environment={"DATABASE_URL": pg.url("asyncpg")})
