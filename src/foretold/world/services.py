"""Services that stand above the world and are part of it: how `world.postgres` finds its maker.

The world knows them by name only; who makes them says so when foretold is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Maker = Callable[..., Any]
_makers: dict[str, Maker] = {}


def provide(name: str, maker: Maker) -> None:
    """From now on worlds have this service."""
    _makers[name] = maker


def maker_of(name: str) -> Maker:
    """Who makes a service: called with the world and what the test asks for."""
    return _makers[name]
