"""Databases and processes of the server that are kept from one run to the next."""

from __future__ import annotations

import atexit
import hashlib
from typing import Any, Final

from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.pool import Pool
from foretold.services.postgres.side import SideConnection
from foretold.services.postgres.state import Database

KEPT_MAX: Final = 8
"""So many databases are kept; the one that was used longest ago goes first."""


class Kept:
    """A database with its schema, and the processes that served earlier runs."""

    def __init__(self, cluster: Cluster, name: str, schema: Any) -> None:
        self.cluster = cluster
        self.schema = schema
        self.database = Database(cluster, name, schema)
        self.pool = Pool(cluster)
        self._is_new = True
        self._generation = self.database.generation
        self.side = self._connect()

    def _connect(self) -> SideConnection:
        return self.cluster.connect(self.database.name)

    def make_ready(self) -> None:
        """A run begins: the database is as it always is then."""
        if self._is_new:
            self._is_new = False
            return
        self.database.reset()
        if self.database.generation != self._generation:
            self._generation = self.database.generation
            self.pool.close()
            self.side.close()
            self.side = self._connect()

    def look_after(self) -> None:
        """The program has ended sessions of the server, perhaps also some of ours."""
        self.pool.look_after()
        if self.side.is_dead():
            self.side.close()
            self.side = self._connect()
        self.database.look_after()

    def hang_up(self) -> None:
        """Close the sockets of this process, without a word."""
        self.pool.hang_up()
        self.side.hang_up()

    def close(self) -> None:
        """It is needed no more."""
        self.pool.close()
        self.side.close()
        self.database.close()


_kept: dict[Any, Kept] = {}


@atexit.register
def _hang_up() -> None:
    """This process ends, and its server with it; that one was forked with its parent's is not."""
    for kept in _kept.values():
        kept.hang_up()


def kept_for(schema: Any, host: str) -> Kept:
    """The database of this schema for the server at `host`."""
    cluster = Cluster.shared()
    key = (schema if isinstance(schema, str | None) else id(schema), host)
    found = _kept.pop(key, None)
    if found is None or found.cluster is not cluster:
        taken = {kept.database.name for kept in _kept.values() if kept.cluster is cluster}
        found = Kept(cluster, _name_for(schema, host, taken), schema)
    _kept[key] = found
    for old in list(_kept)[:-KEPT_MAX]:
        gone = _kept.pop(old)
        if gone.cluster is cluster:
            gone.close()
    return found


def _name_for(schema: Any, host: str, taken: set[str]) -> str:
    """The same in every process, whatever other schemas there were before."""
    words = schema if isinstance(schema, str) else getattr(schema, "__qualname__", "")
    name = "app_" + hashlib.sha256(f"{host}\n{words}".encode()).hexdigest()[:12]
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
