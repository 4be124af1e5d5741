"""A request that asks for a WebSocket, and what uvicorn says to it.

There are no bytes here that a WebSocket could be made of. A client of HTTP that only says `Upgrade`
is refused as the library that uvicorn takes refuses it; one that means it needs
`through="uvicorn"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretold.errors import UsageError

if TYPE_CHECKING:
    from foretold.services.web.cycle import Refusal
    from foretold.services.web.http1 import Header

SWITCHING = 101


def refusal_of(method: str, target: bytes, headers: list[Header]) -> Refusal | None:
    """What the server answers. None: it knows no WebSockets, and the application is asked."""
    try:
        from websockets.server import ServerProtocol
    except ImportError:  # pragma: no cover  # the tests have it
        return None
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target)]
    lines += [b"%b: %b" % header for header in headers]
    protocol = ServerProtocol()
    protocol.receive_data(b"\r\n".join([*lines, b"", b""]))
    events = protocol.events_received()
    if not events:
        return ()  # it waits for more
    response = protocol.accept(events[0])  # type: ignore[arg-type]  # the first one is a request
    if response.status_code == SWITCHING:
        raise UsageError(
            'a WebSocket does not work with through="asgi".\n'
            '  right: await world.web(app, through="uvicorn")'
        )
    raw = [(n.encode(), v.encode()) for n, v in response.headers.raw_items() if n != "Date"]
    body = b"" if method == "HEAD" else bytes(response.body)
    return (response.status_code, raw, len(body)), body
