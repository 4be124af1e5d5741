"""What psycopg2 needs besides its libpq being on the simulated network.

It closes forgotten connections while it frees them, from C, even with an exception on its way; but
Python code that C calls then, as ours, would lose that exception. CPython takes care of it before
it calls a `__del__`. So while a session lasts connections have one, which closes them first. It is
their own method, in C: what was thrown at the thread is not raised in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from foretold.kernel import fence
from foretold.kernel.swap import ProcessChange, Setting, Swap, copy_of

MODULE = "psycopg2._psycopg"


def changes() -> Iterator[ProcessChange]:
    """For the module, which is imported."""
    module: Any = sys.modules[MODULE]
    yield Setting(module.connection, "__del__", module.connection.close)
    yield _connect_swap(module)
    yield Setting(module.ReplicationCursor, "consume_stream", _without_select(module))


def _connect_swap(module: Any) -> Swap:
    """Only an instance of a Python class has its `__del__` called, if the base is C's."""
    original = copy_of(module._connect)
    kind = type(
        module.connection.__name__, (module.connection,), {"__module__": "psycopg2.extensions"}
    )

    def connect(dsn: Any, connection_factory: Any = None, **names: Any) -> Any:
        return original(dsn, connection_factory or kind, **names)

    return Swap(module._connect, connect)


def _without_select(module: Any) -> Any:
    """`consume_stream` calls `select`, which has no room for the numbers of simulated sockets."""
    original = module.ReplicationCursor.consume_stream

    def consume_stream(self: Any, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        if computer is not None:
            computer.escaped(
                "ReplicationCursor.consume_stream(…)",
                "psycopg2 waits there with select(2), which can't watch a simulated socket",
                "cursor.read_message() in a loop, with select.select([cursor], [], [], seconds)",
            )
        return original(self, *args, **names)

    return consume_stream
