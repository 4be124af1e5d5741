"""A small blocking client for foretold's own statements: schemas, resets, who waits for whom.

It talks to the real server over its real socket, in real time, also from inside a run. Values are
text. It is no driver: the program under test brings its own.
"""

from __future__ import annotations

import _socket
import contextlib
import itertools
import select
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from foretold.errors import PostgresError, ServiceError
from foretold.kernel import real
from foretold.kernel.patches import patches

Row = list[str | None]

_PROTOCOL: Final = 196608  # 3.0
_RECEIVE_BYTES: Final = 65536
_PREPARED_MAX: Final = 500
_SYNC: Final = b"S\0\0\0\4"
_int32: Final = struct.Struct("!i")
_int16: Final = struct.Struct("!h")
_size: Final = struct.Struct("!I")
_header: Final = struct.Struct("!cI")
_ERROR, _ROW, _READY, _COMPLETE, _KEY = b"E"[0], b"D"[0], b"Z"[0], b"C"[0], b"K"[0]
_COPY_IN, _COPY_OUT, _COPY_DATA, _AUTHENTICATION = b"G"[0], b"H"[0], b"d"[0], b"R"[0]


class SideConnection:
    """One session of the server that belongs to foretold.

    It is no context of the program: nothing that is sent here is on the tape or in the trace.
    """

    def __init__(self, socket_path: str, user: str, database: str, **options: str) -> None:
        self.pid = 0
        """The process that serves this connection."""
        self.tag = ""
        """The command tag of the last statement, such as "INSERT 0 1"."""
        self._buffer = bytearray()
        self._prepared: dict[str, bytes] = {}
        """Queries that the server has planned already, and their names there."""
        self._numbers = itertools.count()
        with patches.outside():
            self._socket = real.Socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                self._socket.connect(socket_path)
                self._start({"user": user, "database": database, **options})
            except BaseException:
                self._socket.close()
                raise

    def _start(self, options: dict[str, str]) -> None:
        words = b"".join(f"{name}\0{value}\0".encode() for name, value in options.items())
        body = _size.pack(_PROTOCOL) + words + b"\0"
        self._send(_size.pack(len(body) + 4) + body)
        error: PostgresError | None = None
        for kind, content in self._messages():
            if kind == _ERROR:
                raise error_of(content)  # no ReadyForQuery follows one at the start
            if kind == _KEY:
                (self.pid,) = _size.unpack_from(content)
            elif kind == _AUTHENTICATION and _size.unpack_from(content)[0]:
                error = PostgresError("the server wants a password, though it was set up not to")
        if error is not None:
            raise error

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """End the session, and wait until the server has let go of it; no harm if it has ended."""
        with patches.outside():
            if self._socket.fileno() < 0:
                return
            try:
                self._socket.sendall(b"X\0\0\0\4")
                while self._socket.recv(_RECEIVE_BYTES):
                    pass
            except OSError:
                pass  # the server was faster
            self._socket.close()

    def is_dead(self) -> bool:
        """Whether the server has ended it: a program may end any session."""
        try:
            self.simple("select 1")
        except (PostgresError, ServiceError):
            return True
        return False

    def wait_for_end(self, seconds_max: float) -> None:
        """Wait until the server ends it by itself, so long at most."""
        with patches.outside():
            select.select([self._socket], [], [], seconds_max)

    def hang_up(self) -> None:
        """Close our end, and wait for nothing."""
        self._socket.close()

    def __del__(self) -> None:
        # Forgotten, as by a process that ends: no reason to warn anybody.
        if hasattr(self, "_socket"):
            self._socket.close()

    # --- statements --------------------------------------------------------------------------

    def simple(self, sql: str) -> list[Row]:
        """Run one or several statements, as psql would; the rows of all of them."""
        self.begin(sql)
        return self.finish()

    def begin(self, sql: str) -> None:
        """Send statements, and wait for nothing; `finish` must follow."""
        body = sql.encode()
        self._send(_header.pack(b"Q", len(body) + 5) + body + b"\0")

    def query(self, sql: str, *values: object) -> list[Row]:
        """Run one statement with values for $1, $2, …; None is NULL, all others go as text."""
        self._send(_parsed(b"", sql) + _executed(b"", values) + _SYNC)
        return self.finish()

    def again(self, sql: str) -> list[Row]:
        """The same as `simple`, for one query that comes again and again: the server plans it once,
        which takes longer than most of them run. Its columns must never change."""
        return self.all_again([sql])[0]

    def all_again(self, queries: Sequence[str]) -> list[list[Row]]:
        """The rows of several such queries, asked for at once."""
        messages: list[bytes] = []
        new: dict[str, bytes] = {}
        for sql in queries:
            name = self._prepared.get(sql) or new.get(sql)
            if name is None:
                name = b""
                if len(self._prepared) + len(new) < _PREPARED_MAX:
                    name = new[sql] = b"again%d" % next(self._numbers)
                messages.append(_parsed(name, sql))
            messages.append(_executed(name))
        self._send(b"".join(messages) + _SYNC)
        found: list[list[Row]] = [[]]
        for kind, content in self._answers():
            if kind == _ROW:
                found[-1].append(_row(content))
            elif kind == _COMPLETE:
                found.append([])
        self._prepared |= new
        return found[:-1]

    def copy_in(self, sql: str, data: bytes) -> None:
        """`COPY … FROM STDIN` with these bytes."""
        self.begin(sql)
        for kind, _ in self._answers():
            if kind == _COPY_IN:
                self._send(_header.pack(b"d", len(data) + 4) + data + b"c\0\0\0\4")

    def copy_out(self, sql: str) -> bytes:
        """What `COPY … TO STDOUT` gives."""
        return self.copies_out([sql])[0]

    def copies_out(self, statements: list[str]) -> list[bytes]:
        """What several of them give, asked for at once."""
        self.begin("; ".join(statements))
        copies: list[list[bytes]] = []
        for kind, content in self._answers():
            if kind == _COPY_OUT:
                copies.append([])
            elif kind == _COPY_DATA:
                copies[-1].append(content)
        return [b"".join(parts) for parts in copies]

    def finish(self) -> list[Row]:
        """Wait for the end of what was sent; its rows."""
        rows: list[Row] = []
        for kind, content in self._answers():
            if kind == _ROW:
                rows.append(_row(content))
            elif kind == _COMPLETE:
                self.tag = content[:-1].decode()
            elif kind == _COPY_IN:
                self._send(_header.pack(b"f", 9) + b"none\0")
        return rows

    # --- messages ----------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        # If the server has hung up, what it said before tells why: that is read next.
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_RECEIVE_BYTES)
        except ConnectionError:
            return b""

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        """All messages up to ReadyForQuery; after them, the first error among them is raised."""
        error: PostgresError | None = None
        for kind, content in self._messages():
            if kind != _ERROR:
                yield kind, content
            elif error is None:
                error = error_of(content)
        if error is not None:
            raise error

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        """All messages up to ReadyForQuery."""
        buffer, last_words = self._buffer, b""
        while True:
            start, end = 0, len(buffer)
            while end - start >= 5:
                kind = buffer[start]
                stop = start + 1 + _size.unpack_from(buffer, start + 1)[0]
                if stop > end:
                    break
                if kind == _READY:
                    del buffer[:stop]
                    return
                content = bytes(buffer[start + 5 : stop])
                if kind == _ERROR:
                    last_words = content
                yield kind, content
                start = stop
            del buffer[:start]
            data = self._receive()
            if not data:
                if last_words:
                    raise error_of(last_words)
                raise ServiceError("PostgreSQL has closed a connection of foretold's own.")
            buffer += data


def _parsed(name: bytes, sql: str) -> bytes:
    """The message that makes a statement of this name, or one for once."""
    body = name + b"\0" + sql.encode() + b"\0\0\0"
    return _header.pack(b"P", len(body) + 4) + body


def _executed(name: bytes, values: Sequence[object] = ()) -> bytes:
    """The messages that run it with these values, to its end."""
    parameters = _int16.pack(len(values)) + b"".join(map(_parameter, values))
    bind = b"\0" + name + b"\0\0\0" + parameters + b"\0\0"
    return _header.pack(b"B", len(bind) + 4) + bind + b"E\0\0\0\x09\0\0\0\0\0"


def _parameter(value: object) -> bytes:
    if value is None:
        return b"\xff\xff\xff\xff"
    text = str(value).encode()
    return _int32.pack(len(text)) + text


def _row(content: bytes) -> Row:
    (count,) = _int16.unpack_from(content)
    row: Row = []
    place = 2
    for _ in range(count):
        (length,) = _int32.unpack_from(content, place)
        place += 4
        if length < 0:
            row.append(None)
        else:
            row.append(content[place : place + length].decode())
            place += length
    return row


def error_of(content: bytes) -> PostgresError:
    """The exception for the body of an ErrorResponse."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in content.split(b"\0") if part}
    more = [f"{word}: {fields[key]}" for key, word in _DETAILS if key in fields]
    return PostgresError(fields.get(b"M", ""), fields.get(b"C", ""), "\n".join(more))


_DETAILS: Final = ((b"D", "detail"), (b"H", "hint"), (b"W", "where"), (b"P", "at character"))
