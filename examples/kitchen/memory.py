"""Ports in memory, and the same as asserting fakes, which check all that they are given."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import foretold
from examples.kitchen.kitchen import Conflict, History
from examples.kitchen.tickets import Event, folded


class MemoryStore:
    """Events by ticket. Each call lets others go first, as one across a network would."""

    def __init__(self) -> None:
        self._events: dict[str, History] = {}

    async def load(self, ticket: str) -> History:
        await asyncio.sleep(0)
        return copy.deepcopy(self._events.get(ticket, []))

    async def append(self, ticket: str, version: int, events: list[Event], command: str) -> None:
        await asyncio.sleep(0)
        stored = self._events.setdefault(ticket, [])
        if len(stored) != version and not foretold.mutant("no_optimistic_lock"):
            raise Conflict(ticket)
        stored += [(name, copy.deepcopy(data), command) for name, data in events]

    async def all_tickets(self) -> list[str]:
        return sorted(self._events)


class MemoryMail:
    """Keeps what it was given."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, str]] = []

    async def send(self, to: str, subject: str) -> None:
        await asyncio.sleep(0)
        self._sent.append((to, subject))

    def sent(self) -> list[tuple[str, str]]:
        return list(self._sent)


class AssertingStore(MemoryStore):
    """A store that is given nonsense says so."""

    async def load(self, ticket: str) -> History:
        assert ticket.startswith("ticket-"), f"no id of a ticket: {ticket!r}"
        return await super().load(ticket)

    async def append(self, ticket: str, version: int, events: list[Event], command: str) -> None:
        assert events, "an append of nothing"
        assert command.startswith("command-"), f"no id of a command: {command!r}"
        for _, data in events:
            assert data["ticket"] == ticket, f"{data} is about another ticket than {ticket}"
            _assert_plain(data)
        await super().append(ticket, version, events, command)
        folded(ticket, self._events[ticket])  # it can be read back


class AssertingMail(MemoryMail):
    """Mail that nobody could deliver is a mistake."""

    async def send(self, to: str, subject: str) -> None:
        assert to, "a mail to nobody"
        assert "\n" not in subject, "a subject of two lines"
        assert (to, subject) not in self._sent, "the same mail twice"
        await super().send(to, subject)


def _assert_plain(value: Any) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            assert isinstance(key, str)
            _assert_plain(each)
    elif isinstance(value, list):
        for each in value:
            _assert_plain(each)
    else:
        assert isinstance(value, str | int), f"the store cannot keep {value!r}"
