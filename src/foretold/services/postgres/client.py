"""The client's side of a session: its TCP connection, cut into groups of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from foretold.services.postgres.protocol import (
    BIND,
    CLOSE,
    COPY_DATA,
    DESCRIBE,
    EXECUTE,
    PARSE,
    Group,
    Opening,
    ProtocolError,
    split,
    take_opening,
)
from foretold.services.served import RECEIVE_BYTES, ServedConnection

if TYPE_CHECKING:
    from ssl import SSLContext

    from foretold.world.net.tcp import TcpEnd

_MORE_FOLLOWS = {PARSE, BIND, DESCRIBE, EXECUTE, CLOSE, COPY_DATA}
"""After any other message the server has something to say; be it that it does not know it."""


class Client(ServedConnection):
    def __init__(self, end: TcpEnd, on_opening: Callable[[Client, Opening], object]) -> None:
        super().__init__(end)
        self.on_opening = on_opening
        self.on_group: Callable[[Group], object] | None = None
        """Set when the session has begun; until then the connection is being opened."""
        self.on_gone: Callable[[], object] | None = None
        """The client has said its last word, or is gone altogether."""
        self.on_sent: Callable[[], object] | None = None
        """All that had to wait is sent."""
        self._said_all = False
        self._buffer = bytearray()
        self._begun: list[bytes] = []
        """Messages of a group that is not complete."""
        end.on_change = self._changed
        self._changed()

    @property
    def is_stuck(self) -> bool:
        """Whether the client does not take what it is sent."""
        return bool(self._unsent) and not self.gone

    # --- what the client says --------------------------------------------------------------------

    def _changed(self) -> None:
        """Something has arrived, there is room again, or the connection is over."""
        try:
            self._receive()
            self._read()
            if self._unsent:
                self._flush()
        except (OSError, ProtocolError):
            self._hang_up()
            return
        if self._said_all and not self.gone:
            self._is_over()

    def _receive(self) -> None:
        end = self.end
        while not self.gone and not self._said_all and end.readable():
            data = end.receive(RECEIVE_BYTES)
            if data:
                self._buffer += self._opened(data)
            else:
                self._said_all = True

    def _is_over(self) -> None:
        """The client sends no more. It may still read: the server goes on until it reads again."""
        told, self.on_gone = self.on_gone, None
        if told is not None:
            told()
        elif self.on_group is None:
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
                if message[:1] not in _MORE_FOLLOWS:
                    group, self._begun = Group(self._begun), []
                    self.on_group(group)
                if self.gone:
                    return

    def expect_groups(self, on_group: Callable[[Group], object]) -> None:
        """The session has begun."""
        self.on_group = on_group
        self._read()

    def begin_tls(self, context: SSLContext) -> None:
        """From here on all is encrypted."""
        if self._buffer:
            raise ProtocolError("the client did not wait for the answer to its request for TLS")
        from foretold.services.postgres.secure import Secure  # only who uses it pays for ssl

        self.send(b"S")
        self._secure = Secure(context)

    # --- what it is told -------------------------------------------------------------------------

    def _all_is_sent(self) -> None:
        if self.on_sent is not None:
            told, self.on_sent = self.on_sent, None
            told()

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection when all is sent."""
        if self._secure is not None and not self.gone:
            self._secure.end()
            self._put(self._secure.take())
        self._closing = True
        if not self._unsent:
            self.drop()

    def _hang_up(self) -> None:
        if self.gone:
            return
        self.drop()
        for told in (self.on_gone, self.on_sent):
            if told is not None:
                told()
