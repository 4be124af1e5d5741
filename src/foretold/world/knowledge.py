"""Which events of the log each host can know of: its own, and those of hosts it has heard from.

This is Lamport's happens-before between hosts, as vector clocks. Whatever a program sends carries
what its host knows at that moment; a host learns it when its program reads it, not when it arrives.
Bytes over TCP, the end of a stream, datagrams and the messages of `world.web` count; so do the
start of a host by a program, and the result of its main. It is kept from the first event on, and is
no part of the digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretold.world.net.tcp import TcpEnd

Known = Mapping[str, int]
"""By host: the id of its last event that is known."""


class Knowledge:
    def __init__(self) -> None:
        self._of: dict[str, Known] = {}
        """A host that learns something gets a new mapping: what was sent before stays as it was."""

    def of(self, host: str) -> Known | None:
        return self._of.get(host)

    def happened(self, host: str, event: int) -> Known:
        """This event was logged there."""
        known = self._of[host] = {**self._of.get(host, {}), host: event}
        return known

    def learns(self, host: str, known: Known | None) -> None:
        """A host has read what another sent while it knew this."""
        own = self._of.get(host, {})
        if known and any(event > own.get(name, 0) for name, event in known.items()):
            self._of[host] = {
                name: max(own.get(name, 0), known.get(name, 0)) for name in (*own, *known)
            }

    def sends(self, end: TcpEnd) -> None:
        """A program sends on; what it has sent on this connection before is `end.sent_bytes`."""
        known = self._of.get(end.stack.name)
        if known is not None and (not end.told or end.told[-1][1] is not known):
            end.told.append((end.sent_bytes, known))

    def reads(self, end: TcpEnd, *, to_the_end: bool = False) -> None:
        """A program has read up to `end.read_bytes`: what was known when each of them was sent."""
        told = [] if end.peer is None else end.peer.told
        while told and (told[0][0] < end.read_bytes or to_the_end):
            self.learns(end.stack.name, told.pop(0)[1])
