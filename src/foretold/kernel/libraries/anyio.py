"""anyio: its cancel scopes, and its table of tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any, Final

TIMEOUT: Final = "CancelScope._timeout"
"""The callback of a scope whose time is up. The scope's task is its `_host_task`."""
_BACKEND: Final = "anyio._backends._asyncio"


def cancel_scope() -> type | None:
    """The class of scopes, once anyio is imported; its backend comes with the first use otherwise,
    that is in the middle of a run."""
    return importlib.import_module(_BACKEND).CancelScope if "anyio" in sys.modules else None


def forget_tasks(tasks: Iterable[Any]) -> None:
    """anyio's table of tasks holds their scopes, which hold the tasks. Who ends leaves it; the dead
    do not, and with them it would hold the whole world."""
    states = getattr(sys.modules.get(_BACKEND), "_task_states", None)
    if states is not None:
        for task in tasks:
            states.pop(task, None)
