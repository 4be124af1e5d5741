"""Numbers that differ from one real server to the next, and so must not reach the run.

Messages of the server name processes and transactions ("Process 4711 waits for ShareLock on
transaction 812"). Clients see those of the world instead, which repeat. Rows are the program's own
affair: what it selects (`pg_backend_pid()`, `xmin`) it gets.
"""

from __future__ import annotations

import re

from foretold.services.postgres.protocol import ERROR, KEY_DATA, NOTICE, NOTIFICATION, message

_PROCESS = re.compile(rb"([Pp]rocess |PID |pid )(\d+)")
_TRANSACTION = re.compile(rb"(transaction |xid )(\d+)")
_TUPLE_OF = re.compile(rb"(of database )(\d+)")
_PIVOT = re.compile(rb"(\bpivot )(\d+)")
_CODES = (b"\0C40P01\0", b"\0C40001\0")
"""Only deadlocks and serialization failures name processes and transactions."""
FIRST_PID = 1_000


class Scrubber:
    def __init__(self) -> None:
        self._pids: dict[bytes, bytes] = {}
        self._transactions: dict[bytes, bytes] = {}

    def know(self, pid: int, shown: int) -> None:
        """Process `pid` is shown as another one."""
        self._pids[b"%d" % pid] = b"%d" % shown

    def __call__(self, raw: bytes) -> bytes:
        """The message as the client gets it."""
        kind = raw[:1]
        if kind in (ERROR, NOTICE):
            if not any(code in raw for code in _CODES):
                return raw  # the numbers in it are the program's own
            body = _PROCESS.sub(self._process, raw[5:])
            body = _TRANSACTION.sub(self._transaction, body)
            body = _PIVOT.sub(self._transaction, body)
            body = _TUPLE_OF.sub(rb"\g<1>1", body)
            return message(kind, body)
        if kind == NOTIFICATION:
            pid = b"%d" % int.from_bytes(raw[5:9], "big")
            shown = int(self._pids.get(pid, pid))
            return message(kind, shown.to_bytes(4, "big"), raw[9:])
        return raw

    def _process(self, found: re.Match[bytes]) -> bytes:
        return found[1] + self._pids.get(found[2], b"0")

    def _transaction(self, found: re.Match[bytes]) -> bytes:
        known = self._transactions
        return found[1] + known.setdefault(found[2], b"%d" % (len(known) + 1))


def key_data(pid: int, key: bytes) -> bytes:
    """The key by which a client may ask for the cancellation of its statement."""
    return message(KEY_DATA, pid.to_bytes(4, "big"), key)
