"""Makes `asyncio.new_event_loop()`, and so `asyncio.run`, give loops of the world inside a run.

The policy is one for the process. Threads that are not of the run are passed on to the former one.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from foretold.kernel.computer import computer_of


class WorldPolicy(asyncio.DefaultEventLoopPolicy):
    """asyncio's own policy, except where loops come from."""

    def __init__(
        self,
        make_loop: Callable[[], asyncio.AbstractEventLoop],
        former: asyncio.AbstractEventLoopPolicy | None = None,
    ) -> None:
        super().__init__()
        self._make_loop = make_loop
        self._former = former or asyncio.DefaultEventLoopPolicy()

    def _is_elsewhere(self) -> bool:
        return computer_of(get_ident()) is None

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return self._former.new_event_loop() if self._is_elsewhere() else self._make_loop()

    def get_event_loop(self) -> Any:
        return self._former.get_event_loop() if self._is_elsewhere() else super().get_event_loop()

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._is_elsewhere():
            self._former.set_event_loop(loop)
        else:
            super().set_event_loop(loop)
