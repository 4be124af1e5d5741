"""The server's processes, kept warm between sessions and between runs.

A new one takes milliseconds to fork. One that has served a session with the same parameters is as
new after `DISCARD ALL`; only its random numbers go on, so each session sets their seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretold.services.postgres.backend import Backend, keyed
from foretold.services.postgres.protocol import IDLE, query

if TYPE_CHECKING:
    from foretold.services.postgres.cluster import Cluster

IDLE_MAX = 32
"""So many are kept."""
DISCARD = "DISCARD ALL"


class BackendPool:
    """The processes of one database that nobody uses at the moment."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._free: dict[Any, list[Backend]] = {}

    def take(self, code: int, parameters: dict[str, str]) -> Backend:
        """A process for a session. Its greeting ends with an error if the server refuses."""
        free = self._free.get((code, keyed(parameters)))
        if free:
            return free.pop()
        backend = Backend(self.cluster, code, parameters)
        backend.accepted = backend.greet()
        return backend

    def give_back(self, backend: Backend) -> None:
        """Its session is over: what it held is free when this returns."""
        free = self._free.setdefault((backend.code, keyed(backend.parameters)), [])
        idle = sum(map(len, self._free.values()))
        if not backend.is_clean or backend.has_own_settings or idle >= IDLE_MAX:
            backend.close()
            return
        if backend.state != IDLE:
            backend.ask(query("ROLLBACK"))
        if not backend.is_new:
            backend.ask(query(DISCARD))
        backend.is_new = False
        free.append(backend)

    def look_after(self) -> None:
        """Forget those that the server has ended."""
        for free in self._free.values():
            for backend in list(free):
                if not backend.is_alive():
                    free.remove(backend)
                    backend.close()

    def close(self) -> None:
        for free in self._free.values():
            for backend in free:
                backend.close()
        self._free.clear()

    def hang_up(self) -> None:
        """Close our ends of their connections, and wait for nothing."""
        for free in self._free.values():
            for backend in free:
                backend.hang_up()
        self._free.clear()
