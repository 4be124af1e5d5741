"""Connections of `multiprocessing` that outlive their world.

A `multiprocessing.connection.Connection` holds the number of a descriptor, and closes it when it is
freed. If it was made inside a run, the descriptor is the world's. The program may hold it for
longer than the run lasts, in the traceback of its exception for instance: a `ProcessPoolExecutor`,
which makes its pipes before it is refused a process, always does. Then the number means nothing any
more, and Python would print that it could not be closed.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from foretold.world.net.descriptors import FIRST

if TYPE_CHECKING:
    from foretold.world.world import World


def forget_at_end(world: World) -> None:
    """A descriptor was made that such a connection may hold. All are closed with the run."""
    if forget_connections not in world.at_end:
        world.at_end.append(forget_connections)


def forget_connections() -> None:
    """Connections with a descriptor of the world are closed, and know it. What was there before the
    run is frozen, so this looks at the objects of the run alone."""
    module: Any = sys.modules.get("multiprocessing.connection")
    if module is None:
        return
    for each in gc.get_objects():
        if isinstance(each, module._ConnectionBase) and (each._handle or 0) >= FIRST:
            each._handle = None
