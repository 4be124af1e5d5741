"""Makes `asyncio.new_event_loop()`, and so `asyncio.run`, give loops of the world inside a run.

The policy is one for the process. Threads that are not of the run are passed on to the former one.

Since Python 3.14 a warning comes with each use of the public names, though asyncio itself goes on
asking its policy. So these are the names that asyncio uses.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events, unix_events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import fence

_events: Final[Any] = events  # private names, which no stub has
_unix_events: Final[Any] = unix_events  # the same
if TYPE_CHECKING or sys.version_info < (3, 14):
    StockPolicy = asyncio.DefaultEventLoopPolicy
    current_policy, set_policy = asyncio.get_event_loop_policy, asyncio.set_event_loop_policy
else:
    StockPolicy = _unix_events._DefaultEventLoopPolicy
    current_policy, set_policy = _events._get_event_loop_policy, _events._set_event_loop_policy


class WorldPolicy(StockPolicy):
    def __init__(
        self,
        make_loop: Callable[[], asyncio.AbstractEventLoop],
        former: asyncio.AbstractEventLoopPolicy | None = None,
    ) -> None:
        super().__init__()
        self._make_loop = make_loop
        self._former = former or StockPolicy()

    def _is_elsewhere(self) -> bool:
        return fence.fenced_in() is None

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return self._former.new_event_loop() if self._is_elsewhere() else self._make_loop()

    def get_event_loop(self) -> Any:
        return self._former.get_event_loop() if self._is_elsewhere() else super().get_event_loop()

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._is_elsewhere():
            self._former.set_event_loop(loop)
        else:
            super().set_event_loop(loop)
