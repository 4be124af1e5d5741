"""One connection to a scripted host: TCP, TLS if it came to that port, HTTP/1.1.

The host is no Python program of the world, and has no loop: it acts when something arrives, and at
instants that it has chosen, as PostgreSQL's gateway does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h11

from foretold.services.external.script import ExternalCall, ScriptedAnswer, reason_of
from foretold.services.postgres.secure import Secure

if TYPE_CHECKING:
    from foretold.world.net.tcp import TcpEnd

RECEIVE_BYTES = 1 << 20


class Connection:
    """As the host sees it: calls come in one after the other, each is answered before the next."""

    def __init__(
        self, end: TcpEnd, tls: Any, on_call: Callable[[Connection, ExternalCall], object]
    ) -> None:
        self.end = end
        peer = end.peer
        self.sender = str(peer.stack.name) if peer is not None else "?"
        self.gone = False
        self._on_call = on_call
        self._secure = Secure(tls) if tls is not None else None
        self._http = h11.Connection(h11.SERVER)
        self._request: Any = None
        self._body = b""
        self._unsent: deque[bytes] = deque()
        self._closing = False
        end.on_change = self._changed
        self._changed()

    # --- what the program says -------------------------------------------------------------------

    def _changed(self) -> None:
        """Something has arrived, there is room again, or the connection is over."""
        try:
            self._receive()
            self._flush()
        except (OSError, h11.ProtocolError):  # also ssl.SSLError: the program does not trust us
            self.drop()

    def _receive(self) -> None:
        while not self.gone and self.end.readable():
            data = self.end.receive(RECEIVE_BYTES)
            if not data:
                self.drop()
                return
            if self._secure is not None:
                try:
                    data = self._secure.receive(data)
                finally:
                    self._put(self._secure.take())
            if data:
                self._http.receive_data(data)
                self._read()

    def _read(self) -> None:
        while not self.gone:
            event = self._http.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                if self._http.they_are_waiting_for_100_continue:
                    self._say(h11.InformationalResponse(status_code=100, headers=[]))
                return
            if isinstance(event, h11.Request):
                self._request, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._on_call(self, self._call())
            elif isinstance(event, h11.ConnectionClosed):
                self.drop()

    def _call(self) -> ExternalCall:
        request = self._request
        path, _, query = request.target.decode("latin-1").partition("?")
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        return ExternalCall(request.method.decode(), path, query, headers, self._body, self.sender)

    # --- what it is told -------------------------------------------------------------------------

    def answer(self, answer: ScriptedAnswer) -> None:
        """The response to the call that came last."""
        if self.gone:
            return
        headers = [*answer.headers, ("content-length", str(len(answer.body)))]
        if answer.media:
            headers.append(("content-type", answer.media))
        reason = reason_of(answer.status)
        self._say(h11.Response(status_code=answer.status, headers=headers, reason=reason))
        if self._request.method != b"HEAD":
            self._say(h11.Data(data=answer.body))
        self._say(h11.EndOfMessage())
        if self._http.our_state is h11.MUST_CLOSE:
            self._closing = True
            self._flush()
        else:
            self._http.start_next_cycle()
            self._read()

    def _say(self, event: Any) -> None:
        data = self._http.send(event)
        if not data:
            return
        if self._secure is not None:
            self._secure.seal(data)
            data = self._secure.take()
        self._put(data)

    def _put(self, data: bytes) -> None:
        if data and not self.gone:
            self._unsent.append(data)
            try:
                self._flush()
            except OSError:
                self.drop()

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

    # --- the end ---------------------------------------------------------------------------------

    def drop(self) -> None:
        """Close the connection."""
        if not self.gone:
            self.gone = True
            self.end.close()

    def break_off(self) -> None:
        """Reset it."""
        if not self.gone:
            self.gone = True
            self.end.abort()
