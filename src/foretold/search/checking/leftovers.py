"""What a run leaves behind at module level: found by looking before it and after it.

Looked at are numbers, texts, counters and the sizes of collections that modules and their classes
hold, except those of the standard library and our own. What is hidden deeper is not found; a name
that is found is nearly always the one that matters.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import Any

SHOWN_MAX = 3
_PLAIN = (bool, int, float, str, bytes, type(None), itertools.count)
_COLLECTIONS = (list, dict, set, deque)
_OWN = {"foretold", "_foretold_pytest", "__mp_main__"}


def module_state() -> dict[str, str]:
    """Each value by its name, in words."""
    found: dict[str, str] = {}
    modules: list[tuple[str, Any]] = sorted(sys.modules.items(), key=_users_own_first)
    for name, module in modules:
        top = name.partition(".")[0]
        if isinstance(module, ModuleType) and not (top in sys.stdlib_module_names or top in _OWN):
            found |= dict(_state_of(name, vars(module)))
    return found


def _users_own_first(item: tuple[str, Any]) -> tuple[bool, str]:
    """An installed library is less likely at fault than the program, and named after it."""
    name, module = item  # some put other things than modules there
    return "site-packages" in str(getattr(module, "__file__", None)), name


def _state_of(owner: str, namespace: Any) -> Iterator[tuple[str, str]]:
    for name, value in list(namespace.items()):
        if name.startswith("__"):
            continue
        if type(value) in _COLLECTIONS:
            yield f"{owner}.{name}", f"{len(value)} item{'s' * (len(value) != 1)}"
        elif type(value) in _PLAIN:
            yield f"{owner}.{name}", repr(value)[:40]
        elif isinstance(value, type) and value.__module__ == owner and value.__name__ == name:
            yield from _state_of(f"{owner}.{name}", vars(value))


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is another one now: `bank.seen (0 items, then 1 item)`."""
    changed = [
        f"{name} ({before[name]}, then {after[name]})"
        for name in before
        if name in after and before[name] != after[name]
    ]
    return changed[:SHOWN_MAX]
