"""Makes `asyncio.new_event_loop()`, and so `asyncio.run`, give loops of the world inside a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WorldPolicy(asyncio.DefaultEventLoopPolicy):
    """asyncio's own policy, except where loops come from."""

    def __init__(self, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        super().__init__()
        self._make_loop = make_loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return self._make_loop()
