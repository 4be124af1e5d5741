"""Where requests enter the application: who is inside, and a second one let in meanwhile.

The door is an ASGI application around the real one, with uvicorn and without. It changes nothing
that the application could see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from foretold.kernel.abandon import steppers
from foretold.services.web.errors import SERVER_ERROR, Caught, said_by
from foretold.services.web.lifespan import SAYS_SO, ShutdownFailed
from foretold.world import errands
from foretold.world.errands import ServedRequest
from foretold.world.omens import BOUND, Bound

MARK = "x-foretold-mark"
"""A header by which the door knows a request that something shall happen to. It takes it away."""
PATIENCE_S = 0.5
"""So long a marked request waits for another one to enter."""
ENGINE = f"{__name__.partition('.')[0]}."
"""Exceptions of this package end runs and processes."""
START, BODY = "http.response.start", "http.response.body"


@dataclass(slots=True)
class DoorMark:
    """What shall happen when a request comes to the door."""

    entered: Callable[[], object]
    """Called when it has entered; if another one is to be inside, only if there is one."""
    after_steps: int | None = None
    """Not None: it enters while another one stands inside, after so many more of its steps."""
    held_s: float = 0.0
    """So long the other one is held at most."""
    bound: Bound | None = None
    """What was foretold for the call that sends it: it holds for what is done inside as well."""


class Visit:
    """A request that is inside."""

    def __init__(self) -> None:
        self.steps_left = -1
        """After so many more suspensions it is held; -1: it is not to be held."""
        self.reached: asyncio.Future[None] | None = None
        self.gate: asyncio.Future[None] | None = None
        self.status = 0
        """Of its response, once that has begun."""
        self.complete = False
        """The last of its response was sent."""
        self.error: int | None = None
        """The number of its response of 5xx, if it is one."""
        self.has_body = False
        """The application has received the whole request."""
        self.is_cut_off = False
        """It was told instead that the client has left."""
        self.client_left = False
        """It was told that the client has left: nobody waits for a response any more."""

    def hold_after(self, steps: int, held_s: float) -> None:
        """Hold it where it is suspended after so many more steps, until `release`; which comes by
        itself, should nobody be there to ask for it."""
        loop = asyncio.get_running_loop()
        self.steps_left = steps
        self.reached, self.gate = loop.create_future(), loop.create_future()
        loop.call_later(PATIENCE_S + held_s, self.release)

    def before(self, send: Any) -> Any:
        """Who has fewer steps left is held before it sends its response."""

        async def send_later(message: Any) -> None:
            if self.steps_left >= 0 and self.gate is not None:
                self.steps_left = -1
                _resolve(self.reached)
                await self.gate
            await send(message)

        return send_later

    def release(self) -> None:
        """It may go on; who waits for it does, too."""
        self.steps_left = -1
        for future in (self.reached, self.gate):
            _resolve(future)


class Stepwise:
    """Awaits a coroutine, and holds it at one of its suspensions if its visit says so."""

    def __init__(self, visit: Visit, coro: Any) -> None:
        self._visit = visit
        self.steps_through = coro

    def __await__(self) -> Generator[Any, Any, Any]:
        visit, inner = self._visit, self.steps_through.__await__()
        step: Callable[..., Any] = inner.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as end:
                return end.value
            try:
                value, step = (yield waits_for), inner.send
                if visit.steps_left >= 0:
                    yield from self._stand(visit)
            except BaseException as error:
                value, step = error, inner.throw

    def _stand(self, visit: Visit) -> Generator[Any, Any, None]:
        visit.steps_left -= 1
        if visit.steps_left >= 0:
            return
        _resolve(visit.reached)
        if visit.gate is not None:
            yield from visit.gate.__await__()


steppers.add(Stepwise)


class Door:
    """The application as the server calls it."""

    def __init__(
        self,
        app: Any,
        marks: dict[str, DoorMark],
        note_fault: Callable[..., object],
        lifespan_failed: Callable[[Exception], object],
        caught: Caught,
    ) -> None:
        self.app = app
        self.marks = marks
        self.note_fault = note_fault
        self.caught = caught
        """What went wrong in the application, whoever reads it."""
        self.lifespan_failed = lifespan_failed
        """Called if it fails once the application is up: no server makes much of that."""
        self.visits: list[Visit] = []
        self.stepwise = False
        """Requests can be held: only then their coroutines are looked after."""
        self.error: BaseException | None = None
        """What the lifespan has raised."""
        self.errand_of: Callable[[Any], ServedRequest] | None = None
        """Whose errand a request is, by its scope; for stories."""
        self._waiting: list[tuple[asyncio.Future[Visit], DoorMark]] = []
        """Who waits for another one to enter."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] == "http":
            return await self._visit(scope, receive, send)
        if scope["type"] == "lifespan":
            return await self._live(scope, receive, send)
        try:
            return await self.app(scope, receive, send)
        except BaseException as error:
            if _is_the_applications(error):
                self.caught.raised(scope, error, None, 0, complete=False)
            raise

    async def _live(self, scope: Any, receive: Any, send: Any) -> Any:
        said: dict[str, Any] = {}

        async def send_and_note(message: Any) -> None:
            await send(message)
            said[message["type"]] = message.get("message", "")

        try:
            result = await self.app(scope, receive, send_and_note)
        except BaseException as error:
            self.error = error
            if isinstance(error, Exception) and "lifespan.startup.complete" in said:
                self.lifespan_failed(error)
            raise
        why = said.get("lifespan.shutdown.failed")
        if why is not None:
            self.lifespan_failed(ShutdownFailed(why or SAYS_SO.format("shutdown")))
        return result

    async def _visit(self, scope: Any, receive: Any, send: Any) -> Any:
        if self.errand_of is None:
            return await self._inside(scope, receive, send)
        with errands.working_for(self.errand_of(scope)):
            return await self._inside(scope, receive, send)

    async def _inside(self, scope: Any, receive: Any, send: Any) -> Any:
        visit, held = Visit(), None
        if self.marks:
            mark = self._mark_of(scope)
            if mark is not None and mark.after_steps is not None:
                held = await self._another(mark, mark.after_steps)
            elif mark is not None:
                mark.entered()
            BOUND.set(None if mark is None else mark.bound)
        self._enter(visit)
        receive, send = self._listening(visit, receive), self._watching(visit, scope, send)
        try:
            if not self.stepwise:
                result = await self.app(scope, receive, send)
            else:
                result = await Stepwise(visit, self.app(scope, receive, visit.before(send)))
        except BaseException as error:
            if _is_the_applications(error):
                self._raised(visit, scope, error)
            raise
        else:
            if not visit.complete and not visit.client_left:
                self.caught.left_undone(scope, visit.status, in_silence=result is not None)
            return result
        finally:
            self.visits.remove(visit)
            visit.release()
            if held is not None:
                held.release()

    def _raised(self, visit: Visit, scope: Any, error: BaseException) -> None:
        """An exception leaves the application: the server turns it into a 500, or closes."""
        about = f"{scope['method']} {scope['path']} raised"
        self.note_fault("application", f"{about} {error!r}", f"{about} {said_by(error)}", error)
        self.caught.raised(scope, error, visit.error, visit.status, visit.complete)

    def _listening(self, visit: Visit, receive: Any) -> Any:
        """Sees whether the whole request comes in."""

        async def receive_seen() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                visit.is_cut_off, visit.client_left = not visit.has_body, True
            elif not message.get("more_body"):
                visit.has_body = True
            return message

        return receive_seen

    def _watching(self, visit: Visit, scope: Any, send: Any) -> Any:
        """Sees which response is sent, and how much of it."""

        async def send_seen(message: Any) -> None:
            kind = message["type"]
            if kind == START:
                status = message["status"]
                visit.status = status if isinstance(status, int) else 0  # `send` refuses it
                if visit.status >= SERVER_ERROR:
                    visit.error = self.caught.answered(scope, status, cut_off=visit.is_cut_off)
            elif kind == BODY and not message.get("more_body"):
                visit.complete = True
            await send(message)

        return send_seen

    def _mark_of(self, scope: Any) -> DoorMark | None:
        name = MARK.encode()
        number = next((value for key, value in scope["headers"] if key == name), None)
        if number is None:
            return None
        scope["headers"] = [header for header in scope["headers"] if header[0] != name]
        return self.marks.get(number.decode())

    def _enter(self, visit: Visit) -> None:
        self.visits.append(visit)
        if self._waiting:
            waiter, mark = self._waiting.pop(0)
            if not waiter.done():
                visit.hold_after(mark.after_steps or 0, mark.held_s)
                waiter.set_result(visit)

    async def _another(self, mark: DoorMark, steps: int) -> Visit | None:
        """Another request that stands inside, at one of its suspensions; or None if none came."""
        other = next((v for v in self.visits if v.gate is None), None)
        if other is not None:
            other.hold_after(steps, mark.held_s)
        else:
            other = await self._next(mark)
        if other is None:
            return None
        assert other.reached is not None, "it is to be held"
        await other.reached
        if other.gate is None or other.gate.done():
            return None  # it was through before
        mark.entered()
        return other

    async def _next(self, mark: DoorMark) -> Visit | None:
        """The next one that enters, if it comes soon."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Visit] = loop.create_future()
        self._waiting.append((waiter, mark))
        alarm = loop.call_later(PATIENCE_S, waiter.cancel)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._waiting = [entry for entry in self._waiting if entry[0] is not waiter]
            if not alarm.cancelled() and alarm.when() > loop.time():
                raise  # it is this task that was cancelled
            return None
        finally:
            alarm.cancel()


def _is_the_applications(error: BaseException) -> bool:
    """Whether the application has raised this, and not the engine or whoever cancels its task."""
    if isinstance(error, GeneratorExit) or type(error).__module__.startswith(ENGINE):
        return False
    if not isinstance(error, asyncio.CancelledError):
        return True
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
