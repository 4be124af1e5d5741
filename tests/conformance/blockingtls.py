"""`SSLContext.wrap_socket` for blocking sockets of a world: OpenSSL in memory over such a socket.

The real `SSLSocket` gives its descriptor to OpenSSL, to which a simulated one means nothing.
CPython's tests use it in the threads that play the other side.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

from foretold.world.net.sockets import WorldSocket
from foretold.world.world import world_or_none

RECORD = 32 * 1024


class BlockingTls:
    """What the tests ask of an `SSLSocket`."""

    def __init__(self, sock: Any, context: ssl.SSLContext, **how: Any) -> None:
        timeout = sock.gettimeout()
        self._sock = WorldSocket(fileno=sock.detach())
        self._sock.settimeout(timeout)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, **how)
        self._io_refs, self._closing = 0, False

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._sock.sendall(data)

    def _patiently(self, attempt: Callable[[], Any]) -> Any:
        while True:
            try:
                result = attempt()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._sock.recv(RECORD)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            except BaseException:
                self._flush_if_it_can()
                raise
            else:
                self._flush()
                return result

    def _flush_if_it_can(self) -> None:
        with contextlib.suppress(OSError):  # an alert, mostly
            self._flush()

    handshake_on_connect = False

    def is_connected(self) -> bool:
        try:
            self._sock.getpeername()
        except OSError:
            return False
        return True

    def connect(self, address: Any) -> None:
        self._sock.connect(address)
        if self.handshake_on_connect:
            self.do_handshake()

    def do_handshake(self, block: bool = False) -> None:
        self._patiently(self._object.do_handshake)

    def recv(self, size: int = 1024, flags: int = 0) -> bytes:
        try:
            return bytes(self._patiently(lambda: self._object.read(size)))
        except ssl.SSLEOFError:
            return b""  # suppress_ragged_eofs
        except ssl.SSLZeroReturnError:
            return b""

    read = recv

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        data = self.recv(nbytes or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        return int(self._patiently(lambda: self._object.write(data)))

    write = send

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]

    def unwrap(self) -> socket.socket:
        self._patiently(self._object.unwrap)
        return self._sock

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        self._closing = True
        if self._io_refs <= 0:
            self._sock.close()

    def makefile(self, *args: Any, **names: Any) -> Any:
        enough_of_a_socket: Any = self
        return socket.socket.makefile(enough_of_a_socket, *args, **names)

    def _decref_socketios(self) -> None:
        self._io_refs -= 1
        if self._closing:
            self.close()

    def __getattr__(self, name: str) -> Any:
        for thing in (self._object, self._sock):
            if hasattr(thing, name):
                return getattr(thing, name)
        raise AttributeError(name)

    def __enter__(self) -> BlockingTls:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Tls:
    """In place of the class `SSLSocket`, where a context makes one."""

    @classmethod
    def _create(
        cls,
        sock: socket.socket,
        context: ssl.SSLContext,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | None = None,
        session: Any = None,
    ) -> Any:
        how = {"server_side": server_side, "server_hostname": server_hostname, "session": session}
        if world_or_none() is None:
            return _original(
                sock,
                context=context,
                do_handshake_on_connect=do_handshake_on_connect,
                suppress_ragged_eofs=suppress_ragged_eofs,
                **how,
            )
        made = BlockingTls(sock, context, **how)
        made.handshake_on_connect = do_handshake_on_connect
        if do_handshake_on_connect and made.is_connected():
            made.do_handshake()
        return made


_original: Any = ssl.SSLSocket._create  # type: ignore[attr-defined]  # what wrap_socket calls


def lead_tls() -> None:
    """From here on contexts wrap sockets of a world too."""
    ssl.SSLContext.sslsocket_class = Tls  # type: ignore[assignment]  # this process ends soon
