"""TLS for one connection, on the server's side: bytes in, bytes out, no socket of its own."""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

RECEIVE_BYTES: Final = 1 << 16


class Secure:
    """What lies between the bytes on the wire and the messages of a session."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._begun = False

    def receive(self, data: bytes) -> bytes:
        """What the client meant by these bytes; nothing yet, perhaps."""
        self._incoming.write(data)
        found: list[bytes] = []
        try:
            if not self._begun:
                self._tls.do_handshake()
                self._begun = True
            while part := self._tls.read(RECEIVE_BYTES):
                found.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # the rest is on its way; or the client has said its last word
        return b"".join(found)

    def seal(self, data: bytes) -> None:
        """Something for the client: `take` has it, as it goes on the wire."""
        self._tls.write(data)

    def take(self) -> bytes:
        """What is to be sent: parts of the handshake, and what was sealed."""
        return self._outgoing.read()

    def end(self) -> None:
        """Say that nothing follows. The client's answer to that is not waited for."""
        with contextlib.suppress(ssl.SSLError):  # no answer yet; or it never got so far
            self._tls.unwrap()
