"""A host's environment variables: what `os.environ` is for its programs.

A process begins with the real environment, as it was when the run began, and what the test gives
the host. What the process itself changes is gone with it; no other host and no other run sees it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from foretold.errors import UsageError
from foretold.kernel.environment_patches import real_table


class Environment(MutableMapping[str, str]):
    """`host.environment`, as a test sees and changes it. What is set here is seen by the process
    that runs, and by those that the host starts later."""

    def __init__(self) -> None:
        self._given: dict[bytes, bytes | None] = {}
        """What the test has set; None for what it took away."""
        self._table: dict[bytes, bytes] | None = None

    def table(self) -> dict[bytes, bytes]:
        """That of the process, made when it is first used."""
        if self._table is None:
            self._table = real_table()
            for key, value in self._given.items():
                if value is None:
                    self._table.pop(key, None)
                else:
                    self._table[key] = value
        return self._table

    def begin_process(self) -> None:
        """What the last process has changed is gone."""
        self._table = None

    def give(self, variables: Mapping[str, str]) -> None:
        """Add to it."""
        given: Any = variables
        if not isinstance(given, Mapping):
            raise UsageError(f'environment is a mapping, such as {{"PORT": "80"}}; got {given!r}')
        for name, value in variables.items():
            self[name] = value

    def __setitem__(self, name: str, value: str) -> None:
        given: tuple[object, ...] = (name, value)
        if not all(isinstance(each, str) for each in given) or not name or "=" in name:
            raise UsageError(
                "names and values of environment variables are strings, and no name is empty or "
                f'has a "=" in it: {{"PORT": "80"}}; got {name!r} and {value!r}'
            )
        key = os.fsencode(name)
        self.table()[key] = self._given[key] = os.fsencode(value)

    def __delitem__(self, name: str) -> None:
        key = os.fsencode(name)
        if key not in self.table():
            raise KeyError(name)
        del self.table()[key]
        self._given[key] = None

    def __getitem__(self, name: str) -> str:
        try:
            return os.fsdecode(self.table()[os.fsencode(name)])
        except KeyError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return map(os.fsdecode, list(self.table()))

    def __len__(self) -> int:
        return len(self.table())
