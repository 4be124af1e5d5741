"""A connection to a server that is no Python program of the world: PostgreSQL, a scripted host.

Such a server has no loop. It acts when something arrives, and when an instant comes that it has
chosen. So it costs little, and it holds nobody up.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretold.services.postgres.secure import Secure
    from foretold.world.net.tcp import TcpEnd

RECEIVE_BYTES = 1 << 20


class ServedConnection:
    """The server's side. What it says waits until the client takes it."""

    def __init__(self, end: TcpEnd) -> None:
        self.end = end
        peer = end.peer
        self.sender = str(peer.stack.name) if peer is not None else "?"
        """The host that the connection came from."""
        self.gone = False
        self._secure: Secure | None = None
        self._unsent: deque[bytes] = deque()
        self._closing = False

    def send(self, data: bytes) -> None:
        """To the client, as fast as it takes it."""
        if not data or self.gone:
            return
        if self._secure is not None:
            self._secure.seal(data)
            data = self._secure.take()
        self._put(data)

    def _opened(self, data: bytes) -> bytes:
        """What the client has said; what TLS itself has to say to that is sent."""
        if self._secure is None:
            return data
        try:
            return self._secure.receive(data)
        finally:
            self._put(self._secure.take())

    def _put(self, data: bytes) -> None:
        if data and not self.gone:
            self._unsent.append(data)
            try:
                self._flush()
            except OSError:
                self._hang_up()

    def _flush(self) -> None:
        while self._unsent and not self.gone:
            data = self._unsent[0]
            try:
                size = self.end.send(data)
            except BlockingIOError:
                return
            if size < len(data):
                self._unsent[0] = data[size:]
            else:
                self._unsent.popleft()
        if self._closing:
            self.drop()
        elif not self.gone:
            self._all_is_sent()

    def _all_is_sent(self) -> None:
        """The client has room for more."""

    def _hang_up(self) -> None:
        """The other side is gone, or talks nonsense."""
        self.drop()

    def drop(self) -> None:
        """Close the connection."""
        if not self.gone:
            self.gone = True
            self.end.close()

    def abort(self) -> None:
        """Reset the connection."""
        if not self.gone:
            self.gone = True
            self.end.abort()
