"""Module state of a host's own: two replicas of one application do not share globals.

Real hosts are processes; each has imported its own copy of the application. Hosts of a world share
one process, so for the modules that a test names, each host gets its own copy: while the host runs,
`sys.modules` holds its copies, and the others' are put away.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from foretold.arguments import nearest
from foretold.errors import UsageError


class OwnModules:
    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, str):
            raise UsageError(f"isolate is a list of modules: isolate=[{names!r}]")
        given: object = names
        if not isinstance(given, Iterable):
            raise UsageError(f'isolate is a list of modules: isolate=["myapp"]; got {names!r}')
        self._names = tuple(names)
        for name in self._names:
            text: object = name
            if not isinstance(text, str) or not name or name.split(".")[0] == "foretold":
                raise UsageError(
                    f'isolate names modules of the application, such as ["myapp"]; got {name!r}'
                )
        self._copies: dict[str, ModuleType] = {}
        self._in_place = False

    def is_own(self, module: str) -> bool:
        """Whether this host has a copy of its own of that module."""
        return any(module == name or module.startswith(f"{name}.") for name in self._names)

    @property
    def is_isolated(self) -> bool:
        """Whether there are modules of which this host has a copy."""
        return bool(self._names)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, imports of these modules give this host's copies."""
        if not self._names or self._in_place:
            yield
            return
        self._in_place = True
        others = {name: sys.modules.pop(name) for name in list(sys.modules) if self.is_own(name)}
        sys.modules.update(self._copies)
        try:
            yield
        finally:
            self._copies = {
                name: sys.modules.pop(name) for name in list(sys.modules) if self.is_own(name)
            }
            sys.modules.update(others)
            self._in_place = False

    def forget(self) -> None:
        """The process is gone; the next one imports afresh."""
        self._copies = {}

    def find(self, target: str) -> Any:
        """`module:name`, imported as this host imports it."""
        module, colon, name = target.partition(":")
        if not colon or not name:
            raise UsageError(f'a program is named as "module:function"; got {target!r}')
        with self.in_place():
            found: Any = _imported(module, target)
            for part in name.split("."):
                if not hasattr(found, part):
                    raise UsageError(
                        f"{target!r} does not name a program: {module} has no {name!r}."
                        f"{nearest(part, vars(found))}"
                    )
                found = getattr(found, part)
        return found


def _imported(module: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(
                f"{target!r} does not name a program: there is no module {error.name!r}. "
                'Write "module:function", as in an import'
            ) from None
        raise  # the module is there, and misses another one
