"""Servers of the world that are no Python programs: what their host asks of them."""

from __future__ import annotations

from typing import Protocol


class Appliance(Protocol):
    """A server that is no Python program: it acts when something arrives, and at instants."""

    def died(self) -> None:
        """Its process is gone, or its power."""

    def begin_again(self) -> None:
        """It is started anew."""

    def resumed(self) -> None:
        """It goes on after a pause."""

    def waiting(self) -> list[str]:
        """For a deadlock: lines about who waits inside of it, and for whom."""
