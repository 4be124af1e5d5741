"""Actors: who takes steps. A task is an actor; the plain callbacks of a host are one together."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine
from typing import Any, Final

from foretold.arguments import printable
from foretold.kernel.numbers import numbers

_IS_HASHED_WHEN_MADE = sys.version_info < (3, 14)
"""asyncio keeps the tasks of all loops in a set, until there is a list for it."""


_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}|(?<![0-9])[0-9]{14,15}(?![0-9])")
"""As `hex(id(x))`, `repr(x)` and `id(x)` write it."""


class Stepper:
    """Someone who takes steps, named once per world and host."""

    __slots__ = ("ended", "name", "steps")

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.ended = False

    def __repr__(self) -> str:
        return f"<actor {self.name} after {self.steps} steps>"


class WorldTask(asyncio.Task[Any]):
    """A task whose hash is a sequence number.

    The stock hash is the address, so the order of a set of tasks (`asyncio.wait`, `all_tasks`)
    would differ from process to process. The number is given when it is first asked for
    (`numbers.py`).
    """

    __slots__ = ("_number", "actor")
    _number: int
    _source_traceback: Any
    actor: Stepper

    def __hash__(self) -> int:
        try:
            number = self._number
        except AttributeError:
            self._number = number = numbers.next()
            if _IS_HASHED_WHEN_MADE:
                return number
        numbers.note_asked(number)
        return number

    def set_name(self, value: object) -> None:
        super().set_name(value)
        # Until 3.12, `create_task(coro, name=…)` makes the task, and names it by this.
        if sys._getframe(1).f_code.co_name == "_set_task_name" and not self.actor.steps:
            loop: Any = self.get_loop()
            loop.kernel.register.rename(self.actor, str(value))


class WorldFuture(asyncio.Future[Any]):
    """A future whose hash is a sequence number; see `WorldTask`."""

    __slots__ = ("_number",)
    _number: int

    def __hash__(self) -> int:
        try:
            number = self._number
        except AttributeError:
            self._number = number = numbers.next()
        numbers.note_asked(number)
        return number


# In texts (`repr`, logs) they go by asyncio's names, as they would in production.
WorldTask.__name__ = WorldTask.__qualname__ = asyncio.Task.__name__
WorldFuture.__name__ = WorldFuture.__qualname__ = asyncio.Future.__name__


class Register:
    """The actors of one host, by name. Names are unique: `worker`, `worker-2`, `worker-3`."""

    def __init__(self) -> None:
        self.by_name: dict[str, Stepper] = {}
        self._taken: dict[str, int] = {}
        self._latest: tuple[Stepper | None, str, int] = (None, "", 0)

    def enrol(self, wanted: str) -> Stepper:
        actor = Stepper(wanted)
        self._enter(actor, wanted)
        return actor

    def _enter(self, actor: Stepper, wanted: str) -> None:
        wanted = printable(wanted)  # it stands in stories and on tapes, on a line of its own
        wanted = _ADDRESS.sub("…", wanted)  # Pyro5 and RPyC name threads by `id(self)`
        before = self._taken.get(wanted, 0)
        count = before + 1
        actor.name = wanted if count == 1 else f"{wanted}-{count}"
        while actor.name in self.by_name:  # someone was *called* worker-2 by hand
            count += 1
            actor.name = f"{wanted}-{count}"
        self._taken[wanted] = count
        self._latest = (actor, wanted, before)
        self.by_name[actor.name] = actor

    def rename(self, actor: Stepper, wanted: str) -> None:
        """Give another name to an actor that has just been made."""
        del self.by_name[actor.name]
        latest, former, before = self._latest
        if latest is actor:
            self._taken[former] = before  # as if it had never had that name
        self._enter(actor, wanted)


def name_of(coro: Coroutine[Any, Any, Any]) -> str:
    """What a task is called if nobody named it: its coroutine function."""
    name = getattr(coro, "__name__", None)
    return name if isinstance(name, str) and name else type(coro).__name__
