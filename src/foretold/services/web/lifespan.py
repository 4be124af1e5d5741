"""The lifespan of an application: its startup and shutdown, as uvicorn's `lifespan="auto"` does it.

An application that raises before it has said anything does not know the protocol, and is served
without it. One that says that its startup failed is not served at all.
"""

from __future__ import annotations

import asyncio
from typing import Any

SAYS_SO = "the application says so: lifespan.{}.failed"
WRONG_ORDER = "Got invalid state transition on lifespan protocol."


class StartupFailed(Exception):
    """The application says that its startup has failed."""


class ShutdownFailed(Exception):
    """The application says that its shutdown has failed."""


class Lifespan:
    def __init__(self, app: Any) -> None:
        self.app = app
        self.state: dict[str, Any] = {}
        self.unsupported = False
        self.error: BaseException | None = None
        """What the application raised on the way."""
        self.failed: str | None = None
        """What it says about its failure."""
        self._started, self._stopped = asyncio.Event(), asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def startup(self) -> None:
        """Let the application start, or raise why it can't."""
        self._task = asyncio.create_task(self._run(), name="lifespan")
        self._messages.put_nowait({"type": "lifespan.startup"})
        await self._started.wait()
        if self.failed is None:
            self.unsupported = self.error is not None
            return
        if self._task is not None:
            await asyncio.wait([self._task])  # Starlette raises after it has said so
        if self.error is not None:
            raise self.error
        raise StartupFailed(self.failed or SAYS_SO.format("startup"))

    async def shutdown(self) -> None:
        """Let it end; what goes wrong there is told, and stops nobody."""
        if self.error is not None:
            return
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        await self._stopped.wait()

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self.app(scope, self._messages.get, self._send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.error = error
        finally:
            self._started.set()
            self._stopped.set()

    async def _send(self, message: dict[str, Any]) -> None:
        stage, _, how = message["type"].removeprefix("lifespan.").partition(".")
        event = {"startup": self._started, "shutdown": self._stopped}.get(stage)
        assert event is not None, message["type"]
        assert how in ("complete", "failed"), message["type"]
        in_order = (stage == "shutdown") == self._started.is_set() and not self._stopped.is_set()
        assert in_order, WRONG_ORDER
        if how == "failed":
            self.failed = message.get("message", "")
        event.set()
