"""Targets by name: `module:function` or `path/to/file.py:function`, and back again."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from foretold.errors import TargetError

_HOW = "Name it as module:function, path/to/file.py:function or tests/test_x.py::test_y."


def importable_name(function: Callable[..., Any]) -> str | None:
    """`module:function` if another process can import just this object by that name."""
    module_name = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", "")
    if not module_name or module_name == "__main__" or "<" in qualname:
        return None
    found: Any = sys.modules.get(module_name)
    if found is None or not _can_be_found(module_name):
        return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    same = found is function or found is getattr(function, "foretold_machine", function)
    return f"{module_name}:{qualname}" if same else None


def _can_be_found(module_name: str) -> bool:
    """False for a module that was made by hand, or loaded from a file outside of sys.path."""
    try:
        spec = importlib.util.find_spec(module_name)
    except (ImportError, ValueError, AttributeError):
        return False
    origin = getattr(sys.modules[module_name], "__file__", None)
    return spec is not None and origin is not None and spec.origin == origin


def find_function(target: str) -> Callable[..., Any]:
    """The function that `target` names."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name or where.endswith(":"):
        raise TargetError(f"{target!r} names no function. {_HOW}")
    found: Any = _load(where, target)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise TargetError(f"{where} has no {name!r}. {_HOW}") from None
    if not callable(found):
        raise TargetError(f"{target} is no function but {type(found).__name__}. {_HOW}")
    function: Callable[..., Any] = found
    return function


def _load(where: str, target: str) -> ModuleType:
    if where.endswith(".py"):
        return _load_file(Path(where), target)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise TargetError(f"there is no module {where!r} ({target}). {_HOW}") from None
        raise


def _load_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {str(path)!r} ({target}). {_HOW}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.import_module(path.stem)
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise TargetError(
            f"{str(path)!r} cannot be imported: another module is called {path.stem!r} as well "
            f"({getattr(module, '__file__', None) or 'built in'}). Rename the file."
        )
    return module
