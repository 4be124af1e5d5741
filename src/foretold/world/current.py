"""Which world this thread is inside of, if any.

`foretold.always(...)` and its siblings stay in production code and ask nothing but this, so this
module imports next to nothing.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING

from foretold.errors import UsageError
from foretold.kernel.computer import running

if TYPE_CHECKING:
    from foretold.world.world import World

_current: World | None = None
_owner: int | None = None
_hidden: Callable[[str], UsageError] | None = None
"""What is said to those who ask for the world, while it is hidden from them."""


def hide(complaint: Callable[[str], UsageError]) -> None:
    """Nobody is to ask for the world until `show`. One thread runs at a time, and it is the one
    that hides."""
    global _hidden
    _hidden = complaint


def show() -> None:
    """The world can be asked for again."""
    global _hidden
    _hidden = None


def enter(world: World) -> None:
    """This thread is inside `world` from here on."""
    global _current, _owner
    _current, _owner = world, get_ident()


def leave() -> None:
    """The run is over."""
    global _current, _owner
    _current = _owner = None


def world_or_none() -> World | None:
    """The world of this run, if this thread is inside one."""
    if _current is None or (get_ident() != _owner and get_ident() not in running):
        return None
    if _hidden is not None:
        raise _hidden("the world, or draws from its tape")
    return _current


def current_world() -> World:
    """The world of this run."""
    world = world_or_none()
    if world is None:
        raise UsageError(
            "there is no world here: current_world() works inside foretold.run, foretold.explore "
            "and tests decorated with @foretold.simulate"
        )
    return world
