"""SQLAlchemy: the names of its cursors, and its complaints."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Final

_PSYCOPG: Final = "sqlalchemy.dialects.postgresql._psycopg_common"
COUNTERS: Final = (
    (_PSYCOPG, "", "_server_side_id", lambda: sys.modules["sqlalchemy.util"].counter()),
)
"""It names cursors of the server by that, for psycopg and psycopg2."""
ADDRESSES: Final = (_PSYCOPG,)
"""Modules that send an object's address to a server, as a part of a name (of a cursor) that a
counter makes unique. There `id` gives the same for all of them."""


def hush(connections: set[int]) -> None:
    """SQLAlchemy (2.1) complains of a connection that was not given back to its pool; its finalizer
    would even try to end it, in whatever process is there by then. Who was killed gives nothing
    back."""
    registry: Any = vars(weakref.finalize).get("_registry", {})
    for each, info in list(registry.items()):
        if getattr(info.func, "__module__", "") == "sqlalchemy.pool.base":
            record = next((a for a in info.args if hasattr(a, "driver_connection")), None)
            if record is not None and id(record.driver_connection) in connections:
                each.detach()
