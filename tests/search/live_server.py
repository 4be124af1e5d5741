"""A real server on real loopback: a box of numbers, with mistakes that can be switched on."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NUMBER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def _answers(schema: Any) -> dict[str, Any]:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


SCHEMA: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "A box"},
    "paths": {
        "/numbers": {
            "get": {"operationId": "list_numbers", **_answers({"type": "array", "items": NUMBER})},
            "post": {"operationId": "add_number", **_answers(NUMBER)},
        },
        "/numbers/{number_id}": {
            "get": {
                "operationId": "read_number",
                "parameters": [{"name": "number_id", "in": "path", "schema": {"type": "integer"}}],
                **_answers(NUMBER),
            }
        },
    },
}


class Box(BaseHTTPRequestHandler):
    """Answers; the server holds the state."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        if self.server.redirect:
            self._answer(307, {}, Location=self.server.redirect)
        elif self.path == "/numbers":
            self._answer(200, [{"id": n} for n in self.server.numbers])
        elif self.path.rpartition("/")[2] in map(str, self.server.numbers):
            answer = {"id": int(self.path.rpartition("/")[2])}
            self._answer(500, {}) if self.server.breaks else self._answer(200, answer)
        else:
            self._answer(404, {"detail": "no such number"})

    def do_POST(self) -> None:
        self.server.numbers.append(len(self.server.numbers) + 1)
        self._answer(200, {"id": self.server.numbers[-1]})

    def _answer(self, status: int, body: Any, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Nothing is printed."""


@contextlib.contextmanager
def serving(*, breaks: bool = False, redirect: str = "") -> Iterator[Any]:
    """The server; `server.url` says where it is. It listens when this returns."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Box)
    server.daemon_threads = True
    server.numbers, server.breaks, server.redirect = [], breaks, redirect
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
