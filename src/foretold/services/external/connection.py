"""One connection to a scripted host: TCP, TLS if it came to that port, HTTP/1.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h11

from foretold.services.external.script import ExternalCall, ScriptedAnswer, reason_of
from foretold.services.postgres.secure import Secure
from foretold.services.served import RECEIVE_BYTES, ServedConnection

if TYPE_CHECKING:
    from foretold.world.net.tcp import TcpEnd


class Connection(ServedConnection):
    """As the host sees it: calls come in one after the other, each is answered before the next."""

    def __init__(
        self, end: TcpEnd, tls: Any, on_call: Callable[[Connection, ExternalCall], object]
    ) -> None:
        super().__init__(end)
        self._on_call = on_call
        self._secure = Secure(tls) if tls is not None else None
        self._http = h11.Connection(h11.SERVER)
        self._request: Any = None
        self._body = b""
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
            data = self._opened(data)
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
        self.send(self._http.send(event) or b"")
