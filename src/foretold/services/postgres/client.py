"""The client's side of a session: its TCP connection, cut into groups of messages.

The server is no Python program of the world: it has no loop. It acts when something arrives, and
when an instant comes that it has chosen. So it costs little, and it holds nobody up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.services.postgres.protocol import (
    COPY_DONE,
    COPY_FAIL,
    FLUSH,
    FUNCTION_CALL,
    QUERY,
    SYNC,
    TERMINATE,
    Group,
    Opening,
    ProtocolError,
    split,
    take_opening,
)

if TYPE_CHECKING:
    from foretold.world.net.tcp import TcpEnd

RECEIVE_BYTES = 1 << 20
_ENDS = {QUERY, SYNC, FLUSH, FUNCTION_CALL, COPY_DONE, COPY_FAIL, TERMINATE}


class Client:
    """One connection, as the server sees it."""

    def __init__(self, end: TcpEnd, on_opening: Callable[[Client, Opening], object]) -> None:
        self.end = end
        self.on_opening = on_opening
        self.on_group: Callable[[Group], object] | None = None
        """Set when the session has begun; until then the connection is being opened."""
        self.on_gone: Callable[[], object] | None = None
        self.gone = False
        self._buffer = bytearray()
        self._begun: list[bytes] = []
        """Messages of a group that is not complete."""
        self._unsent: deque[bytes] = deque()
        self._closing = False
        end.on_change = self._changed
        self._changed()

    def _changed(self) -> None:
        """Something has arrived, there is room again, or the connection is over."""
        end = self.end
        try:
            while not self.gone and end.readable():
                data = end.receive(RECEIVE_BYTES)
                if not data:
                    self._hang_up()
                    return
                self._buffer += data
            self._read()
            if self._unsent:
                self._flush()
        except (OSError, ProtocolError):
            self._hang_up()

    def _read(self) -> None:
        while self.on_group is None and not self.gone:
            opening = take_opening(self._buffer)
            if opening is None:
                return
            self.on_opening(self, opening)
        if self.on_group is not None and len(self._buffer) >= 5:
            for message in split(self._buffer):
                self._begun.append(message)
                if message[:1] in _ENDS:
                    group, self._begun = Group(self._begun), []
                    self.on_group(group)
                if self.gone:
                    return

    def expect_groups(self, on_group: Callable[[Group], object]) -> None:
        """The session has begun."""
        self.on_group = on_group
        self._read()

    def send(self, data: bytes) -> None:
        """To the client, as fast as it takes it."""
        if data and not self.gone:
            self._unsent.append(data)
            try:
                self._flush()
            except OSError:
                self._hang_up()

    def _flush(self) -> None:
        unsent = self._unsent
        while unsent:
            data = unsent[0]
            try:
                size = self.end.send(data)
            except BlockingIOError:
                return
            if size < len(data):
                unsent[0] = data[size:]
            else:
                unsent.popleft()
        if self._closing:
            self._leave()

    def close(self) -> None:
        """End the connection when all is sent."""
        self._closing = True
        if not self._unsent:
            self._leave()

    def _leave(self) -> None:
        if not self.gone:
            self.gone = True
            self.end.close()

    def abort(self) -> None:
        """Reset the connection."""
        if not self.gone:
            self.gone = True
            self.end.abort()

    def _hang_up(self) -> None:
        """The other side is gone, or talks nonsense."""
        if self.gone:
            return
        self.gone = True
        self.end.close()
        if self.on_gone is not None:
            self.on_gone()


def name_of(end: Any) -> str:
    """The host a connection came from."""
    peer = end.peer
    return str(peer.stack.name) if peer is not None else "?"
