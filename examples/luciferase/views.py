"""Views: which bubbles are there. A service numbers them; bubbles adopt the newest they hear of.

A bubble sends a beat every 100 ms and is answered with the view. One that leaves, or is silent for
half a second, is not in the next view. A bubble calls its view stable if it is itself a member and
the view has not changed for a number of its ticks.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field

from examples.luciferase.clock import Clock, SystemClock
from examples.luciferase.wire import Address, Endpoint, Message

BEAT_S = 0.1
SILENT_S = 0.5
STABLE_TICKS = 30


@dataclass(frozen=True, slots=True)
class View:
    """A numbered set of members."""

    id: int = 0
    members: dict[str, Address] = field(default_factory=dict)

    def to_message(self) -> Message:
        return {"view": self.id, "members": self.members}

    @classmethod
    def from_message(cls, message: Message) -> View:
        members = {name: (host, port) for name, (host, port) in message["members"].items()}
        return cls(message["view"], members)


class ViewMonitor:
    """The view of one bubble."""

    def __init__(self, name: str, stable_ticks: int = STABLE_TICKS) -> None:
        self.name = name
        self.stable_ticks = stable_ticks
        self.view = View()
        self._ticks = 0

    def adopt(self, view: View) -> bool:
        """Whether this view is newer than what was known."""
        if view.id <= self.view.id:
            return False
        self.view, self._ticks = view, 0
        return True

    def tick(self) -> None:
        self._ticks += 1

    @property
    def is_stable(self) -> bool:
        return self._ticks >= self.stable_ticks and self.name in self.view.members


class ViewService:
    """Counts members in and out. Number and members are on disk: a number is never used twice."""

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.path = os.path.join(folder, "view")
        os.makedirs(folder, exist_ok=True)
        self.view = self._stored()
        self._heard_ns = dict.fromkeys(self.view.members, self.clock.nanos())
        self.endpoint = Endpoint("views")
        self.endpoint.handlers = {"beat": self._beat, "leave": self._leave}

    async def run(self, address: Address) -> None:
        await self.endpoint.open(address)
        await self.watch()

    async def watch(self) -> None:
        """Expel bubbles that are silent, until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(BEAT_S)
                self._expel()
        finally:
            self.endpoint.close()

    def _beat(self, message: Message) -> None:
        name, (host, port) = message["from"], message["address"]
        self._heard_ns[name] = self.clock.nanos()
        if self.view.members.get(name) != (host, port):
            self._change({**self.view.members, name: (host, port)})
        else:
            self.endpoint.tell((host, port), "view", **self.view.to_message())

    def _leave(self, message: Message) -> Message:
        self._heard_ns.pop(message["from"], None)
        self._without(message["from"])
        return self.view.to_message()

    def _expel(self) -> None:
        now_ns = self.clock.nanos()
        silent = [n for n, then_ns in self._heard_ns.items() if now_ns - then_ns > SILENT_S * 1e9]
        for name in silent:
            del self._heard_ns[name]
        self._without(*silent)

    def _without(self, *names: str) -> None:
        left = {name: at for name, at in self.view.members.items() if name not in names}
        if left != self.view.members:
            self._change(left)

    def _change(self, members: dict[str, Address]) -> None:
        told = {**self.view.members, **members}
        self.view = View(self.view.id + 1, members)
        self._store()
        for address in told.values():
            self.endpoint.tell(address, "view", **self.view.to_message())

    def _stored(self) -> View:
        try:
            with open(self.path, encoding="utf-8") as file:
                return View.from_message(json.load(file))
        except FileNotFoundError:
            return View()

    def _store(self) -> None:
        """Beside the old one, synced, then renamed: there is always a whole one."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.view.to_message(), file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(self.path + ".new", self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
