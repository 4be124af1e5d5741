"""Servers, databases and processes that are kept from one run to the next.

Each schema has a server of its own: roles, settings and prepared transactions belong to a whole
server, and no test may see those of another.
"""

from __future__ import annotations

import atexit
from typing import Any, Final

from foretold.errors import ServiceError
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.pool import BackendPool
from foretold.services.postgres.side import SideConnection
from foretold.services.postgres.state import Database

KEPT_MAX: Final = 6
"""So many servers are kept; the one that was used longest ago goes first."""
DATABASE: Final = "app"


class KeptServer:
    def __init__(self, schema: Any, *, superuser: bool = False) -> None:
        self.schema = schema
        self.cluster = Cluster()
        try:
            self.database = Database(self.cluster, DATABASE, schema, superuser=superuser)
        except BaseException:
            self.cluster.stop()
            raise
        self.pool = BackendPool(self.cluster)
        self.in_use = False
        """A run uses it at the moment."""
        self.is_spoiled = False
        """A run has changed what belongs to the whole server."""
        self._is_new = True
        self._generation = self.database.generation
        self.side = self._connect()

    def _connect(self) -> SideConnection:
        """A connection of our own. Its `now()` is the world's, as that of all others: invariants
        ask for it."""
        side = self.cluster.connect(self.database.name)
        if self.cluster.page is not None:
            self.cluster.page.watch(side.pid)
        return side

    def _connect_again(self) -> None:
        if self.cluster.page is not None:
            self.cluster.page.forget(self.side.pid)
        self.side.close()
        self.side = self._connect()

    def make_ready(self) -> None:
        """A run begins: the database is as it always is then."""
        if self._is_new:
            self._is_new = False
            return
        self.database.reset()
        if self.database.generation != self._generation:
            self._generation = self.database.generation
            self.pool.close()
            self._connect_again()

    def look_after(self) -> None:
        """The program has ended sessions of the server, perhaps also some of ours."""
        self.pool.look_after()
        if self.side.is_dead():
            self._connect_again()
        self.database.look_after()

    def hang_up(self) -> None:
        """Close the sockets of this process, without a word."""
        self.pool.hang_up()
        self.side.hang_up()

    def close(self) -> None:
        self.hang_up()
        self.cluster.stop()


_kept: dict[Any, KeptServer] = {}


@atexit.register
def _hang_up() -> None:
    """This process ends, and its servers with it."""
    for kept in _kept.values():
        kept.hang_up()


def ready_for(schema: Any, host: str, *, superuser: bool = False) -> KeptServer:
    """The server of this schema, as a run finds it."""
    kept = kept_for(schema, host, superuser=superuser)
    try:
        kept.make_ready()
    except ServiceError:  # it has crashed since: no doing of the run that begins
        kept.is_spoiled = True
        kept = kept_for(schema, host, superuser=superuser)
        kept.make_ready()
    return kept


def kept_for(schema: Any, host: str, *, superuser: bool = False) -> KeptServer:
    """The server of this schema for `host`."""
    key = (schema if isinstance(schema, str | None) else id(schema), host, superuser)
    found = _kept.pop(key, None)
    if found is not None and (found.is_spoiled or not found.cluster.alive()):
        found.close()  # in a forked process: nothing but its copies of our sockets
        found = None
    if found is None:
        found = KeptServer(schema, superuser=superuser)
    _kept[key] = found
    idle = [old for old, kept in _kept.items() if not kept.in_use and old != key]
    for old in idle[: max(0, len(_kept) - KEPT_MAX)]:
        _kept.pop(old).close()
    return found
