"""L3: real services under control.

Each is a package of its own, imported when a test first asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretold.world.services import provide

if TYPE_CHECKING:
    from foretold.services.external.server import External
    from foretold.services.postgres.server import Postgres
    from foretold.services.web.server import Web


async def postgres(world: Any, *args: Any, **names: Any) -> Postgres:
    """A PostgreSQL server in the world."""
    from foretold.services.postgres.server import begin

    return begin(world, *args, **names)


async def web(world: Any, *args: Any, **names: Any) -> Web:
    """An ASGI application in the world."""
    from foretold.services.web.server import begin

    return await begin(world, *args, **names)


def external(world: Any, *args: Any, **names: Any) -> External:
    """A scripted host outside of the program's own system."""
    from foretold.services.external.server import begin

    return begin(world, *args, **names)


provide("external", external)
provide("postgres", postgres)
provide("web", web)
