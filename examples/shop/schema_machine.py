"""The whole shop once more, with no rule written by hand: they come from its OpenAPI document.

    foretold explore examples.shop.schema_machine:ShopApi
    foretold explore examples.shop.schema_machine:ShopApi --plant

It knows nothing of shops; it knows what every API has to keep. Four of the eight bugs break that.
"""

from typing import Any

from hypothesis import strategies as st

import foretold
from examples.shop import api
from examples.shop.machine import FAULTS, SCHEMA


def credentials(actor: Any) -> dict[str, str]:
    who = api.CLERK if actor.role == "clerk" else actor.index + 1
    return {"authorization": f"Bearer {api.token_for(who)}"}


ACTORS = ("buyer", "buyer", "clerk", "clerk")
ITEM = {"item_id": st.integers(1, 2)}
"""Otherwise nobody could buy before they have seen the list."""
Api: Any = foretold.openapi(
    api.app, actors=ACTORS, faults=FAULTS, credentials=credentials, overrides=ITEM
)


class ShopApi(Api):  # type: ignore[misc]  # it is made at run time
    """All operations of the shop."""

    async def serve(self) -> Any:
        pg = await self.world.postgres(schema=SCHEMA)
        return await self.world.web(api.app, environment={"DATABASE_URL": pg.url("asyncpg")})
