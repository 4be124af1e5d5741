"""Connections of `sqlite3` in threads: one call at a time, and each of them a point.

SQLite locks a connection while it works on it, in C, where nobody sees it. A thread that waits for
another connection's transaction inside of that (SQLite sleeps, and so others go on) would keep a
third one, that wants the same connection, waiting in real time, for ever. So whoever calls a method
of a connection that is at work waits for it here, in virtual time. Before each call the tape may
let another thread go on, as it may before a lock: statements of several threads are interleaved.

A connection to a file that was opened before the run works on the real disk, or on that of a run
that is over. To use it raises `EscapedWorld`.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.swap import ProcessChange, Setting
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.strand import Strand

_OF_CONNECTION: Final = (
    "execute executemany executescript commit rollback close backup blobopen serialize deserialize"
    " create_function create_aggregate create_window_function create_collation set_authorizer"
    " set_progress_handler set_trace_callback enable_load_extension load_extension __exit__"
)
_OF_CURSOR: Final = "execute executemany executescript fetchone fetchmany fetchall __next__ close"
_UNCHECKED: Final = frozenset({"close"})
"""Whoever closes what is not of this run does no harm."""
_IN_MEMORY: Final = ("", ":memory:")
REAL_WHY: Final = "its file is on the real disk, or on that of an earlier run"
REAL_INSTEAD: Final = (
    "open it inside the run. For a pool at module level call engine.dispose() at the end of each"
    ' run, or use isolation="fork"'
)
_HIDDEN_WHY: Final = (
    "foretold cannot reach the SQLite of this Python build, so its files cannot be on the"
    " simulated disk"
)
_HIDDEN_INSTEAD: Final = (
    'sqlite3.connect(":memory:"), or a Python whose sqlite3 is a shared library'
)

_opened: Final[set[int]] = set()
"""Connections that may be used in this run, by id."""
_at_work: Final[dict[int, Strand]] = {}
"""Which thread works on a connection, by the connection's id."""


def _wait_for_turn(strand: Strand, key: int) -> None:
    """Until nobody else works on the connection."""
    while _at_work.get(key, strand) is not strand:
        owner = _at_work[key].actor.name
        words = f"a database connection that {owner} is using"
        strand.crew.block(strand, words, lambda: key not in _at_work)


def _in_turn(name: str, original: Callable[..., Any], *, of_cursor: bool) -> Callable[..., Any]:
    """A method as it behaves while we are installed."""
    checked = name not in _UNCHECKED

    @functools.wraps(original)
    def in_turn(self: Any, *args: Any, **names: Any) -> Any:
        ident = get_ident()
        computer = computer_of(ident)
        if computer is None:
            return original(self, *args, **names)
        connection = getattr(self, "connection", None) if of_cursor else self
        key = id(connection)
        if checked and key not in _opened and connection is not None:
            _check_origin(connection, computer)
        strand = strand_of(ident)
        if strand is None:
            return original(self, *args, **names)
        strand.crew.point(strand)
        _wait_for_turn(strand, key)
        if key in _at_work:  # a function of the program that SQLite calls
            return original(self, *args, **names)
        _at_work[key] = strand
        try:
            return original(self, *args, **names)
        finally:
            del _at_work[key]
            if strand.signals and not strand.in_c:
                strand.crew.handle_signals(strand)  # those that came while SQLite was at work

    return in_turn


def _check_origin(connection: Any, computer: Computer) -> None:
    """A connection that this run has not opened: harmless if it has no file."""
    module: Any = sys.modules["_sqlite3"]
    execute = _originals["Connection.execute"]
    former, connection.row_factory = connection.row_factory, None
    try:
        rows = _originals["Cursor.fetchall"](execute(connection, "PRAGMA database_list"))
    except module.Error:
        return  # closed, of another thread, or never opened: the call itself says so
    finally:
        connection.row_factory = former
    path = next((path for _, _, path in rows if path), None)
    if path is not None:
        call = f"a connection to {path!r} that was opened before the run"
        computer.escaped(call, REAL_WHY, REAL_INSTEAD)
    _opened.add(id(connection))


_originals: Final[dict[str, Callable[..., Any]]] = {}


def _opening(original: Callable[..., Any], *, reachable: bool) -> Callable[..., Any]:
    """`Connection.__init__`. A file of an SQLite that we could not reach is refused."""

    @functools.wraps(original)
    def opening(self: Any, *args: Any, **names: Any) -> None:
        computer = computer_of(get_ident())
        if computer is not None and not reachable:
            database = args[0] if args else names.get("database")
            if database not in _IN_MEMORY:
                computer.escaped(f"sqlite3.connect({database!r})", _HIDDEN_WHY, _HIDDEN_INSTEAD)
        original(self, *args, **names)
        if computer is not None:
            _opened.add(id(self))

    return opening


def changes(module: Any, *, reachable: bool) -> Iterator[ProcessChange]:
    """For the C module `_sqlite3`."""
    yield Setting(
        module.Connection,
        "__init__",
        _opening(module.Connection.__init__, reachable=reachable),
    )
    for kind, methods in ((module.Connection, _OF_CONNECTION), (module.Cursor, _OF_CURSOR)):
        of_cursor = kind is module.Cursor
        for name in methods.split():
            original = kind.__dict__.get(name)
            if original is not None:  # else: this Python, or its SQLite, has no such method
                _originals[f"{kind.__name__}.{name}"] = original
                yield Setting(kind, name, _in_turn(name, original, of_cursor=of_cursor))


def begin_run() -> None:
    """No connection is known."""
    _opened.clear()
    _at_work.clear()


end_run = begin_run
