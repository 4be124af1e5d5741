"""Services that stand above the world and are part of it: how `world.postgres` finds its maker.

The world knows them by name only; who makes them says so when foretold is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Maker = Callable[..., Any]
_makers: dict[str, Maker] = {}


def provide(name: str, maker: Maker) -> None:
    """From now on worlds have this service."""
    _makers[name] = maker


def maker_of(name: str) -> Maker:
    """Who makes a service: called with the world and what the test asks for."""
    return _makers[name]


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
