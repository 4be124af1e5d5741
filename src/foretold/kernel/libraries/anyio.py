"""anyio: its cancel scopes, and its table of tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any, Final

TIMEOUT: Final = "CancelScope._timeout"
"""The callback of a scope whose time is up. The scope's task is its `_host_task`."""
_BACKEND: Final = "anyio._backends._asyncio"


def load_backend() -> None:
    """Before a run: otherwise it comes with the first use of anyio, in the middle of one."""
    if "anyio" in sys.modules:
        importlib.import_module(_BACKEND)


def cancel_scope() -> type | None:
    """The class of scopes, once it is there."""
    return getattr(sys.modules.get(_BACKEND), "CancelScope", None)


def forget_tasks(tasks: Iterable[Any]) -> None:
    """anyio's table of tasks holds their scopes, which hold the tasks. Who ends leaves it; the dead
    do not, and with them it would hold the whole world."""
    states = getattr(sys.modules.get(_BACKEND), "_task_states", None)
    if states is not None:
        for task in tasks:
            states.pop(task, None)
