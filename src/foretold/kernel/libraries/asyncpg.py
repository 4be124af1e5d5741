"""asyncpg: the names of its statements, the order in which it closes them, and its complaints."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Final

COUNTERS: Final = (("asyncpg.connection", "", "_uid", lambda: 0),)
"""It names prepared statements and cursors by that, and sends the names to the server."""
RESET: Final = frozenset(
    ("select pg_advisory_unlock_all ( )", "close all", "unlisten *", "reset all")
)
"""What its pool sends in one text when it takes a connection back: the words of each statement."""


def statement_state() -> type | None:
    """It keeps the prepared statements that it has to close in a set, and closes them in the order
    of that. They are objects of C, which can carry no number, but have a name."""
    return getattr(sys.modules.get("asyncpg.protocol.protocol"), "PreparedStatementState", None)


def hash_by_name(statement: Any) -> int:
    """As `__hash__`: from the name, which has no other like it in its connection."""
    return int.from_bytes(statement.name.encode()[-8:], "big")


def hush(protocol: Any) -> set[int]:
    """A connection of asyncpg complains when it is freed and was not closed. Of a dead process that
    may be later: a global of the program holds it until the next run. Returns whose it was."""
    found: set[int] = set()
    if type(protocol).__module__.startswith("asyncpg."):
        for each in gc.get_referents(protocol):  # it tells nobody whose it is
            connection: Any = each() if isinstance(each, weakref.ref) else None
            if hasattr(connection, "_aborted"):
                connection._aborted = True
                found.add(id(connection))
    return found
