"""`ssl.SSLSocket` on simulated sockets.

The real one hands its descriptor to OpenSSL, to which a simulated one means nothing. Everything
about it is CPython's own code all the same: the class below is an `ssl.SSLSocket` whose socket is
the world's, and whose OpenSSL object works in memory. What lies between the two is here: bytes that
OpenSSL wants to send or to receive pass through the simulated socket, which waits, or does not.
"""

from __future__ import annotations

import contextlib
import ssl
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from foretold.world.net.descriptors import FIRST
from foretold.world.net.sockets import WorldSocket

RECORDS_BYTES = 32 * 1024


RESET_IS_END = sys.version_info < (3, 11, 9) or (3, 12) <= sys.version_info < (3, 12, 3)
"""Whether this Python takes the end of a connection by an error for its plain end (gh-115627)."""


@contextlib.contextmanager
def _as_this_python_says() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not RESET_IS_END or isinstance(error, ssl.SSLError) or error.errno is None:
            raise
        text = "EOF occurred in violation of protocol"
        raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, text) from None


@cache
def world_class(cls: type) -> type:
    """An `SSLSocket`, or a subclass of it, whose socket is the world's."""
    return type(cls.__name__, (cls, WorldSocket), {"__module__": cls.__module__})


def class_for(cls: type, sock: Any) -> type:
    """The class of TLS socket that fits a plain one, which may be wrapped in an object of the
    program's own. A closed one has no number: then the world's, which says so."""
    simulated = isinstance(sock, WorldSocket) or sock.fileno() >= FIRST
    return world_class(cls) if simulated else cls


def wrap(
    context: Any,
    sock: Any,
    server_side: bool,
    server_hostname: str | None = None,
    *,
    owner: Any = None,
    session: Any = None,
) -> Any:
    """In place of `_ssl._SSLContext._wrap_socket`."""
    if not isinstance(sock, WorldSocket):
        return NotImplemented
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    inner = context._wrap_bio(
        incoming, outgoing, server_side, server_hostname, owner=owner, session=session
    )
    return Engine(inner, incoming, outgoing, sock)


class Engine:
    """OpenSSL in memory, driven over a socket: what `_ssl._SSLSocket` is over a descriptor."""

    def __init__(
        self, inner: Any, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, sock: WorldSocket
    ) -> None:
        self._inner = inner
        self._incoming, self._outgoing = incoming, outgoing
        self._socket = weakref.ref(sock)  # which holds this object: no circle
        self._unsent = b""
        self._written: Any = None
        """What a write has accepted that is not yet sent: it is tried again with the same data."""

    def _sock(self) -> WorldSocket:
        sock = self._socket()
        assert sock is not None, "its socket holds it"
        return sock

    # What SSLSocket reads and sets besides the calls below

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def context(self) -> Any:
        return self._inner.context

    @context.setter
    def context(self, value: Any) -> None:
        self._inner.context = value

    @property
    def session(self) -> Any:
        return self._inner.session

    @session.setter
    def session(self, value: Any) -> None:
        self._inner.session = value

    # The calls that move bytes

    def do_handshake(self) -> None:
        self._drive(self._inner.do_handshake, "handshake")

    def read(self, *args: Any) -> Any:
        with _as_this_python_says():
            return self._drive(lambda: self._inner.read(*args), "read")

    def write(self, data: Any) -> int:
        with _as_this_python_says():
            if self._written is None:
                self._flush("write")
                self._written = self._drive(lambda: self._inner.write(data), "write", flush=False)
            self._flush("write")
        written, self._written = self._written, None
        return int(written)

    def shutdown(self) -> WorldSocket:
        self._drive(self._inner.shutdown, "shutdown")
        return self._sock()

    def _drive(self, attempt: Callable[[], Any], what: str, *, flush: bool = True) -> Any:
        while True:
            try:
                result = attempt()
            except ssl.SSLWantReadError:
                self._flush(what)
                self._fill(what)
            except ssl.SSLError:
                with contextlib.suppress(OSError):  # an alert for the peer, if it still listens
                    self._flush(what)
                raise
            else:
                if flush:
                    self._flush(what)
                return result

    def _flush(self, what: str) -> None:
        """Send what OpenSSL has ready."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            try:
                sent = WorldSocket.send(self._sock(), self._unsent)
            except BlockingIOError:
                raise ssl.SSLWantWriteError(
                    ssl.SSL_ERROR_WANT_WRITE, "The operation did not complete (write)"
                ) from None
            except TimeoutError:
                raise TimeoutError(f"The {what} operation timed out") from None
            self._unsent = self._unsent[sent:]

    def _fill(self, what: str) -> None:
        """Get for OpenSSL what has arrived."""
        try:
            data = WorldSocket.recv(self._sock(), RECORDS_BYTES)
        except BlockingIOError:
            raise ssl.SSLWantReadError(
                ssl.SSL_ERROR_WANT_READ, "The operation did not complete (read)"
            ) from None
        except TimeoutError:
            raise TimeoutError(f"The {what} operation timed out") from None
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
