"""Events: what the world tells others when a tick is over.

Events go through a channel of fixed capacity. One that finds it full goes into an overflow list,
because nobody empties the channel before the tick is over.
"""

import inspect
import queue
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from examples.cardinal.bugs import planted

DEFAULT = "event"
INTER_SHARD = "inter-shard"


@dataclass(frozen=True, slots=True)
class Event:
    """For all players (`*`), for one persona, or for another shard."""

    kind: str
    address: str
    payload: Any
    height: int = -1
    """The tick that has emitted it."""


Handler = Callable[[Event], Awaitable[None] | None]


class EventManager:
    """Collects the events of a tick and hands them to the handlers of their kind."""

    def __init__(self, capacity: int) -> None:
        self.handlers: dict[str, list[Handler]] = {DEFAULT: [], INTER_SHARD: []}
        self._channel: queue.Queue[Event] = queue.Queue(capacity)
        self._overflow: list[Event] = []
        self._blocks = planted("event_queue_blocks")

    def enqueue(self, event: Event) -> None:
        if self._blocks:
            self._channel.put(event)
        elif self._overflow:
            self._overflow.append(event)  # behind those that came before
        else:
            try:
                self._channel.put_nowait(event)
            except queue.Full:
                self._overflow.append(event)

    def waiting(self) -> list[Event]:
        """In the order in which they were emitted."""
        return [*self._channel.queue, *self._overflow]

    async def dispatch(self) -> list[Exception]:
        """Each event to each handler of its kind. A handler that fails keeps no other from its
        events: what they raised is the result."""
        errors: list[Exception] = []
        for event in self._taken():
            for handler in self.handlers[event.kind]:
                try:
                    result = handler(event)
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:
                    errors.append(error)
        return errors

    def _taken(self) -> list[Event]:
        taken = self.waiting()
        self.clear()
        return taken

    def clear(self) -> None:
        while not self._channel.empty():
            self._channel.get_nowait()
        self._overflow = []
