"""What surrounds a world in the simulation: it checks what it gets, and fails when told to.

`PowerCut` ends the process: it is no `Exception`, so that nothing in the engine catches it. The
cut comes at one of four moments of a tick. Storage may also tear the newest snapshot, or show a
list from before it was written. Never two of these at once: then a command could be lost rightly.
"""

import weakref
from collections.abc import Callable
from typing import Any

from examples.cardinal.commands import MemoryBacklog
from examples.cardinal.events import DEFAULT, Event
from examples.cardinal.snapshot import HEADER, check_whole
from examples.cardinal.stores import MemoryStore
from examples.cardinal.world import World

CUTS = ("store", "stored", "trim", "dispatch")
"""Before the snapshot is stored; after; before the backlog is trimmed; with the first event."""


class PowerCut(BaseException):
    """The machine is off."""


class Supply:
    """When the power goes."""

    def __init__(self) -> None:
        self.cut_at: str | None = None

    def reaches(self, moment: str) -> None:
        if moment == self.cut_at:
            self.cut_at = None
            raise PowerCut(moment)


class AssertingStore(MemoryStore):
    """Keeps copies, and tells the test of each snapshot."""

    def __init__(
        self, supply: Supply, stored: Callable[[int], None], deleted: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._supply = supply
        self._stored = stored
        self._deleted = deleted
        self.hides_newest = False

    async def save(self, number: int, data: bytes) -> None:
        self._supply.reaches("store")
        check_whole(data)  # that it can be read shows whenever the server starts on it
        assert number not in self.kept or number == max(self.kept), "no old one is overwritten"
        await super().save(number, data)
        self._stored(number)
        self._supply.reaches("stored")

    async def numbers(self) -> list[int]:
        known = await super().numbers()
        if self.hides_newest:
            self.hides_newest = False
            return known[:-1]
        return known

    async def delete(self, number: int) -> None:
        await super().delete(number)
        self._deleted(number)

    def tear(self, how: str, at_percent: int) -> None:
        """Cut the newest short, or change a digit of it."""
        data = self.kept[max(self.kept)] = bytearray(self.kept[max(self.kept)])
        place = HEADER.size + (len(data) - HEADER.size) * at_percent // 101
        if how == "cut":
            del data[place:]
            return
        digits = [i for i in range(HEADER.size, len(data)) if 48 <= data[i] <= 57]
        place = min(digits, key=lambda i: abs(i - place))
        data[place] ^= 1


class AssertingBacklog(MemoryBacklog):
    """Numbers ascend, and what was trimmed is not asked for again."""

    def __init__(self, supply: Supply) -> None:
        super().__init__()
        self._supply = supply

    def append(self, number: int, command: Any) -> None:
        assert number > self.last(), "numbers ascend"
        super().append(number, command)

    def trim(self, number: int) -> None:
        self._supply.reaches("trim")
        super().trim(number)


class AssertingHandlers:
    """An event is what the game has registered, and is sent once, in the tick that emitted it."""

    def __init__(self, world: World, supply: Supply, *, failing: bool) -> None:
        self._world: World = weakref.proxy(world)
        """Not the world itself, which knows us: one that was shut down is free at once, and not
        with the next collection."""
        self._supply = supply
        self.told: list[Event] = []
        """In this tick."""
        self._wrong: list[str] = []
        for kind, handlers in world.events.handlers.items():
            if failing:
                handlers.append(self._fail)
            handlers.append(self._on_event if kind == DEFAULT else self._on_message)

    def begin(self) -> None:
        """A tick begins."""
        self.told = []

    def check(self) -> None:
        """The engine goes on when a handler raises, so what was wrong is kept until here."""
        assert not self._wrong, "; ".join(self._wrong)

    def _fail(self, event: Event) -> None:
        raise ConnectionError("nobody listens")

    def _on_event(self, event: Event) -> None:
        self._note(event, self._world.event_types)

    def _on_message(self, event: Event) -> None:
        self._note(event, self._world.commands.kinds)

    def _note(self, event: Event, known: dict[str, type]) -> None:
        self._supply.reaches("dispatch")
        self.told.append(event)
        if event.height != self._world.height:
            self._wrong.append(
                f"an event of tick {event.height} was sent in tick {self._world.height}"
            )
        if type(event.payload) not in known.values():
            self._wrong.append(f"nothing is registered for {event.payload!r}")
        if not event.address:
            self._wrong.append(f"{event} is for nobody")
