"""`web.errors`: exceptions and responses of 5xx count whoever was to read them, and a machine fails
for those that no rule could read."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import httpx
import pytest
import websockets
from fastapi import BackgroundTasks, FastAPI, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse

import foretold
from foretold.errors import PropertyViolated, UsageError
from foretold.services.web.errors import (
    AFTER_RESPONSE,
    CLIENT_LEFT,
    IN_RESPONSE,
    LOST,
    NAMED,
    NOT_READ,
    OF_DUPLICATE,
    OF_SOCKET,
    ON_PURPOSE,
    UNFINISHED,
)
from foretold.world.world import World

SEED = 6
"""Each failure strikes as its case says: a client may also leave too late to miss its response."""
LATE = foretold.faults.web.only("late_duplicate")
WAYS = pytest.mark.parametrize("through", ["asgi", "uvicorn"])


def application() -> FastAPI:
    """One way to fail for each path."""
    app = FastAPI()
    seen: set[int] = set()

    @app.post("/pay/{number}")
    async def pay(number: int) -> dict[str, int]:
        if number in seen:
            raise RuntimeError("unique violation")
        seen.add(number)
        return {"paid": number}

    @app.get("/broken")
    async def broken() -> None:
        await asyncio.sleep(0.01)
        raise LookupError("no such row")

    @app.get("/later")
    async def later(tasks: BackgroundTasks) -> dict[str, str]:
        tasks.add_task(fails)
        return {}

    @app.get("/half")
    async def half() -> StreamingResponse:
        async def parts() -> Any:
            yield b"one"
            raise OSError("the file is gone")

        return StreamingResponse(parts())

    @app.get("/busy")
    async def busy() -> JSONResponse:
        return JSONResponse({}, status_code=503)

    @app.get("/hidden")
    async def hidden() -> JSONResponse:
        return JSONResponse({}, status_code=500)

    return app


async def fails() -> None:
    """A task after the response."""
    raise ZeroDivisionError("by the task")


def errors_of(through: str, kind: str, method: str, path: str, **settings: Any) -> list[Any]:
    """What `web.errors` holds after one request that a failure strikes."""

    async def main(world: World) -> Any:
        web = await world.web(application(), through=through, **settings)
        if kind:
            web.fail_next(kind)
        async with web.client("ada", timeout=60) as client:
            with contextlib.suppress(httpx.TransportError):
                await client.request(method, path)
            await asyncio.sleep(40)
        return list(web.errors)

    return list(foretold.run(main, seed=SEED).value)


CASES = {
    "a late duplicate": ("late_duplicate", "POST", "/pay/1", "RuntimeError", 500, OF_DUPLICATE),
    "a second delivery": ("delivered_twice", "POST", "/pay/1", "RuntimeError", 500, OF_DUPLICATE),
    "a lost response": ("response_lost", "GET", "/broken", "LookupError", 500, LOST),
    "a client that has gone": ("client_gone", "GET", "/broken", "LookupError", 500, NOT_READ),
    "a background task": ("", "GET", "/later", "ZeroDivisionError", 200, AFTER_RESPONSE),
    "half of a response": ("", "GET", "/half", "OSError", 200, IN_RESPONSE),
    "a response that is read": ("", "GET", "/broken", "LookupError", 500, ""),
}


@WAYS
@pytest.mark.parametrize("case", CASES)
def test_what_no_client_reads_is_recorded(case: str, through: str) -> None:
    """Each error is one record, which says what happened and why no rule could judge it."""
    kind, method, path, exception, status, unread = CASES[case]
    (error,) = errors_of(through, kind, method, path)
    assert (error.method, error.path, error.client) == (method, path, "ada")
    assert (error.exception.partition(":")[0], error.status) == (exception, status)
    assert (error.unread, error.excuse) == (unread, "")
    assert error.counts == bool(unread)
    assert error.place is not None
    assert error.place[0].endswith("test_web_errors.py")


@WAYS
def test_a_status_that_was_sent_on_purpose_has_an_excuse(through: str) -> None:
    """A 503 without an exception is an answer; a plain 500 is not."""
    (busy,) = errors_of(through, "response_lost", "GET", "/busy")
    assert (busy.status, busy.unread, busy.excuse) == (503, LOST, ON_PURPOSE)
    (hidden,) = errors_of(through, "response_lost", "GET", "/hidden")
    assert (hidden.status, hidden.unread, hidden.excuse) == (500, LOST, "")


@pytest.mark.parametrize("allowed", [LookupError, Exception, "LookupError", "KeyError", 500])
def test_errors_are_allowed_by_name(allowed: Any) -> None:
    """A class, a base class or its name allows an exception; a status does not."""
    (error,) = errors_of("asgi", "response_lost", "GET", "/broken", allows=[allowed])
    assert error.excuse == (NAMED if allowed not in ("KeyError", 500) else "")


def test_a_status_allows_an_answer() -> None:
    """`allows=[500]` is for an application that answers 500 itself."""
    (error,) = errors_of("asgi", "response_lost", "GET", "/hidden", allows=[500])
    assert error.excuse == NAMED


@pytest.mark.parametrize("wrong", [503, [404], ["not a name"], [True], None])
def test_what_cannot_be_allowed_is_refused(wrong: Any) -> None:
    """A mistake is told at once."""
    with pytest.raises(UsageError, match=r"world\.web\(allows=…\)"):
        errors_of("asgi", "", "GET", "/busy", allows=wrong)


async def reads_all(scope: Any, receive: Any, send: Any) -> None:
    """As Litestar: it reads the whole request, and answers 500 if the client leaves meanwhile."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return await reads_nothing(scope, receive, send)
        more = message["more_body"]
    return await JSONResponse({})(scope, receive, send)


async def reads_nothing(scope: Any, receive: Any, send: Any) -> None:
    """It answers 500 whatever the request says: that has nothing to do with the client."""
    await asyncio.sleep(1)
    await send({"type": "http.response.start", "status": 500, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@WAYS
@pytest.mark.parametrize(("app", "excuse"), [(reads_all, CLIENT_LEFT), (reads_nothing, "")])
def test_a_500_because_the_request_was_cut_off_has_an_excuse(
    app: Any, excuse: str, through: str
) -> None:
    """The application was told that the client has left before it had the whole request. No client
    can get an answer to that, and nothing is wrong with the application."""

    async def half() -> Any:
        yield b'{"a":'
        await asyncio.sleep(0.1)
        raise httpx.WriteError("the client leaves")

    async def main(world: World) -> Any:
        web = await world.web(app, through=through)
        async with web.client("ada") as client:
            with contextlib.suppress(httpx.TransportError):
                await client.post("/", content=half(), headers={"content-type": "application/json"})
            await asyncio.sleep(5)
        return [(each.status, each.exception, each.unread, each.excuse) for each in web.errors]

    assert foretold.run(main, seed=SEED).value == [(500, "", NOT_READ, excuse)]


async def leaves(scope: Any, receive: Any, send: Any) -> Any:
    """Ways to leave an application that are no `Exception`, or no way to answer."""
    await receive()
    match scope["path"]:
        case "/cancelled":
            raise asyncio.CancelledError
        case "/exits":
            raise SystemExit(3)
        case "/group":
            raise BaseExceptionGroup("both", [ValueError("one"), SystemExit(2)])
        case "/text":
            await send({"type": "http.response.start", "status": "200", "headers": []})
        case "/half":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        case "/value":
            return 5
    return None


NO_ANSWER = {
    "/cancelled": (500, "CancelledError", OF_DUPLICATE),
    "/exits": (500, "SystemExit: 3", OF_DUPLICATE),
    "/group": (500, "BaseExceptionGroup: both (2 sub-exceptions)", OF_DUPLICATE),
    "/text": (500, "KeyError", NOT_READ),
    "/nothing": (500, "", OF_DUPLICATE),
    "/half": (200, "", UNFINISHED),
    "/value": (0, "", UNFINISHED),
}


@WAYS
@pytest.mark.parametrize("path", NO_ANSWER)
def test_every_way_to_answer_with_a_500_or_not_at_all_is_recorded(path: str, through: str) -> None:
    """The server answers 500 to a `CancelledError` that nobody has asked for, to any
    `BaseException` and to an application that returns without a response; or it hangs up. Two
    requests: one that a client reads, if there is something to read, and one that nobody reads."""

    async def main(world: World) -> Any:
        web = await world.web(leaves, through=through)
        async with web.client("ada") as client:
            for kind in ("", "late_duplicate"):
                if kind:
                    web.fail_next(kind)
                with contextlib.suppress(httpx.TransportError):
                    await client.get(path)
            await asyncio.sleep(40)
        return list(web.errors)

    *read, last = foretold.run(main, seed=SEED).value
    status, _, unread = NO_ANSWER[path]
    assert (last.status, last.exception.partition(": '")[0], last.unread) == NO_ANSWER[path]
    assert last.counts
    read_as = "" if unread == OF_DUPLICATE else unread
    assert {(each.status, each.unread) for each in read} == {(status, read_as)}


@WAYS
def test_a_client_that_leaves_is_no_mistake_of_an_application_that_ends_then(through: str) -> None:
    """Who is told that the client has left needs to answer nothing."""

    async def main(world: World) -> Any:
        web = await world.web(stops_when_the_client_leaves, through=through)
        async with web.client("ada") as client:
            with contextlib.suppress(httpx.TransportError, TimeoutError):
                await asyncio.wait_for(client.get("/"), timeout=1)
            await asyncio.sleep(5)
        return web.errors

    assert foretold.run(main, seed=SEED).value == []


async def stops_when_the_client_leaves(scope: Any, receive: Any, send: Any) -> None:
    """It waits for something that does not come, as a long poll."""
    assert scope["type"] == "http"
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_request_that_the_end_of_its_process_cancels_is_no_error() -> None:
    """A server that is killed, and the end of a run, cancel tasks: that says nothing about the
    application."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(1_000)

    async def main(world: World) -> Any:
        web = await world.web(slow)
        async with web.client("ada") as client:
            asking = asyncio.ensure_future(client.get("/"))
            await asyncio.sleep(1)
            world.host("web").kill()
            with pytest.raises(httpx.TransportError):
                await asking
        return web.errors

    assert foretold.run(main, seed=SEED).value == []


def test_a_websocket_whose_client_leaves_has_an_excuse() -> None:
    """A handler that reads until the client has left ends in Starlette's `WebSocketDisconnect`."""
    app = FastAPI()

    @app.websocket("/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        while True:
            if await socket.receive_text() == "break":
                raise LookupError("no such room")

    async def main(world: World) -> Any:
        web = await world.web(app, through="uvicorn")
        for said in ("hello", "break"):
            async with websockets.connect(f"ws://{web.host.name}:{web.port}/echo") as socket:
                await socket.send(said)
                await asyncio.sleep(1)
        await asyncio.sleep(5)
        return [(each.exception.partition(":")[0], each.unread, each.excuse) for each in web.errors]

    assert foretold.run(main, seed=SEED).value == [
        ("WebSocketDisconnect", OF_SOCKET, CLIENT_LEFT),
        ("LookupError", OF_SOCKET, ""),
    ]


def test_a_program_of_its_own_reads_for_itself() -> None:
    """What a host's own client reads is not seen, so the error is recorded and does not count."""

    async def main(world: World) -> Any:
        web = await world.web(application(), through="uvicorn")

        async def asks() -> int:
            async with httpx.AsyncClient(trust_env=False) as client:
                return (await client.get(f"{web.url}/broken")).status_code

        status = await world.host("worker").start(asks)
        return status, web.errors[0]

    status, error = foretold.run(main, seed=1).value
    assert status == 500
    assert (error.client, error.unread, error.counts) == ("", "", False)


class Shop(foretold.Machine):
    """Its rule reads every response that comes to it."""

    actors = 2
    steps = 10
    tolerates = (httpx.TransportError,)
    allows: ClassVar[list[Any]] = []

    async def setup(self) -> None:
        """Start the application."""
        self.web = await self.world.web(application(), allows=self.allows)
        self.number = 0
        actor: Any
        for actor in self.cast:
            actor.web = self.web.client(actor)

    async def teardown(self) -> None:
        """Close the clients."""
        actor: Any
        for actor in self.cast:
            await actor.web.aclose()

    @foretold.rule()
    async def pay(self, actor: Any) -> None:
        """Each payment has a number of its own, so that only a duplicate can fail."""
        self.number += 1
        response = await actor.web.post(f"/pay/{self.number}")
        assert response.status_code < 500 or self.web.failures


class Allows(Shop):
    """The same, and the test says that it may happen."""

    allows: ClassVar[list[Any]] = ["RuntimeError"]


class Reads(Shop):
    """Its rule expects an error, and reads it."""

    @foretold.rule()
    async def look(self, actor: Any) -> None:
        """A 500 that a rule reads is judged by the rule."""
        response = await actor.web.get("/broken")
        assert response.status_code == 500


def test_a_machine_fails_for_a_500_that_a_duplicate_gets() -> None:
    """No rule sees it, and the search finds it."""
    faults = foretold.faults.web.only("late_duplicate")
    found = foretold.explore(Shop, runs=60, seed=1, faults=faults, confirm=False, shrink=False)
    assert found.failure is not None
    assert isinstance(found.failure.exception, PropertyViolated)
    said = str(found.failure.exception)
    assert said.startswith("no rule could read this error: POST /pay/")
    assert "RuntimeError: unique violation" in said
    assert said.endswith(OF_DUPLICATE)


def test_a_machine_holds_if_the_error_is_allowed_or_read() -> None:
    """An allowed error does not fail it, nor does one that a rule reads."""
    faults = foretold.faults.web.only("late_duplicate")
    found = foretold.explore(Allows, runs=30, seed=1, faults=faults, confirm=False)
    assert found.failure is None
    found = foretold.explore(Reads, runs=20, seed=1, confirm=False)
    assert found.failure is None


def api(responses: dict[int | str, dict[str, Any]]) -> type[foretold.Machine]:
    """A machine from a schema. A run makes one request, so that only its duplicate fails."""

    def make() -> FastAPI:
        app, seen = FastAPI(), set[int]()

        @app.get("/tickets/{number}", responses=responses)
        async def take(number: int) -> dict[str, int]:
            if number in seen:
                raise RuntimeError("it is gone")
            seen.add(number)
            return {"taken": number}

        return app

    @foretold.invariant(when="end")
    def duplicates_have_come(self: Any) -> None:
        """Looked at when all of them are there."""

    made = foretold.openapi(make, steps=1, faults=LATE)
    return type("Api", (made,), {"quiet_s": 40, "duplicates_have_come": duplicates_have_come})


def test_a_status_that_the_schema_documents_is_allowed() -> None:
    """As in a response that is read: a documented 500 is an answer."""
    undocumented = foretold.explore(api({}), runs=60, seed=1, confirm=False, shrink=False)
    assert undocumented.failure is not None
    assert "RuntimeError: it is gone" in str(undocumented.failure.exception)
    documented = foretold.explore(api({500: {}}), runs=60, seed=1, confirm=False)
    assert documented.failure is None


class Worker(Shop):
    """A task after the response fails in each call."""

    @foretold.rule()
    async def look(self, actor: Any) -> None:
        """The response is right; what follows is not."""
        assert (await actor.web.get("/later")).status_code == 200


def test_a_machine_fails_for_a_background_task() -> None:
    """The exception of a Starlette task leaves the application after its response."""
    found = foretold.explore(Worker, runs=5, seed=1, confirm=False, shrink=False)
    assert found.failure is not None
    assert "ZeroDivisionError: by the task" in str(found.failure.exception)


def test_a_fault_of_another_kind_is_an_excuse_for_a_lost_connection() -> None:
    """After a partition a failing connection is no news; a plain mistake still is."""
    app = FastAPI()

    @app.get("/ask")
    async def ask(how: str) -> None:
        raise ConnectionResetError("by peer") if how == "lost" else ValueError("a mistake")

    async def main(world: World) -> Any:
        web = await world.web(app)
        async with web.client("ada") as client:
            for how in ("lost", "wrong"):
                web.fail_next("response_lost")
                with pytest.raises(httpx.TransportError):
                    await client.get("/ask", params={"how": how})
                world.network.partition("main", world.host("other"))
                world.network.repair("main", "other")
            web.fail_next("response_lost")
            with pytest.raises(httpx.TransportError):
                await client.get("/ask", params={"how": "lost"})
        return [(each.exception.partition(":")[0], each.counts) for each in web.errors]

    assert foretold.run(main, seed=5).value == [
        ("ConnectionResetError", True),
        ("ValueError", True),
        ("ConnectionResetError", False),
    ]
