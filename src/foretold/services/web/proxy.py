"""What stands between a client and the server, and does to requests what proxies and networks do.

It is an httpx transport around another one. Where nothing strikes it only passes on. Where
something does, the client sees exactly the exception of httpx that a real connection would give:

    closed    RemoteProtocolError   the other side has hung up without a word
    reset     ReadError             the connection is broken
    silence   ReadTimeout           by the client's own time limit, in virtual time
    refused   ConnectError          nobody is there
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx

from foretold.kernel.clock import to_ns
from foretold.services.web.answer import INCOMPLETE, NO_RESPONSE, HttpBody
from foretold.services.web.door import MARK, DoorMark
from foretold.services.web.errors import ERROR_NUMBER, OF_DUPLICATE, SERVER_ERROR
from foretold.services.web.errors import LOST as LOST_RESPONSE
from foretold.world.omens import BOUND, WEB

if TYPE_CHECKING:
    from foretold.services.web.injection import Strike
    from foretold.services.web.server import Web

LOST: Final = ("closed", "reset", "silence")
AFTER_S: Final = (0.001, 0.01, 0.1)
"""When a client hears that its request was lost."""
GAPS_S: Final = (0.0, 0.000_5, 0.002, 0.01, 0.05)
"""How far apart the two deliveries of a request are."""
LATE_S: Final = (0.001, 0.01, 0.1, 1.0, 5.0, 30.0)
SOON_US: Final = (1_000, 10_000)
AT_FIRST_US: Final = 30_000
"""As long as no request of the run has told how long one is worked on."""
PAUSES_S: Final = (0.05, 0.3, 1.0, 3.0)
PIECES_MAX: Final = 4
STUCK_S: Final = 5.0
"""So long a client that has sent half of a request waits for it to enter, before it goes."""
STEPS: Final = (0, 1, 2, 3, 0, 1, 5, 8)
"""After so many more steps a request is held while another one is let in. Most have few."""
HELD_S: Final = (0.05, 0.3, 1.0)

Make = Callable[[], httpx.AsyncBaseTransport]


class Proxy(httpx.AsyncBaseTransport):
    """The way of one client's requests."""

    def __init__(self, web: Web, name: str, make: Make) -> None:
        self._web, self._name, self._make = web, name, make
        self._inner = make()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._web.under_way += 1
        try:
            response = await self._handle(request)
        finally:
            self._web.under_way -= 1
        for told in self._web.world.on_answer:
            told(request.method, request.url.path, response.status_code)
        return response

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        if self._web.is_calm and BOUND.get() is None:
            return await self._send(request)
        if not self._web.world.trace.detail:
            return await self._pass(request)
        self._web.asked += 1
        about = self._web.asked, self._name, f"{request.method} {request.url.path}"
        self._web.keep_request(*about)
        try:
            response = await self._pass(request)
        except httpx.TransportError as error:
            self._web.keep_request(*about, type(error).__name__)
            raise
        self._web.keep_request(*about, str(response.status_code))
        return response

    async def _pass(self, request: httpx.Request) -> httpx.Response:
        strike = self._web.injection.strike(self._name, request)
        try:
            return await self._struck(request, strike)
        except httpx.TransportError as error:
            bound = BOUND.get()
            foretold = strike is not None and strike.omen is not None and strike.is_felt
            if bound is not None and bound.is_slow and isinstance(error, httpx.TimeoutException):
                foretold = True
            if bound is not None and not foretold:
                about = f"{request.method} {request.url.path} of {self._name}"
                bound.failed(WEB, f"{about} raised {type(error).__name__}")
            raise

    async def _struck(self, request: httpx.Request, strike: Strike | None) -> httpx.Response:
        if strike is None:
            world = self._web.world
            began_ns = world.now_ns()
            response = await self._send(request)
            self._web.longest_ns = max(self._web.longest_ns, world.now_ns() - began_ns)
            return response
        how: Callable[..., Awaitable[httpx.Response]] = getattr(self, f"_{strike.kind}")
        return await how(request, strike)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """To the application; what was foretold for the call goes along. An error that comes back
        is read, unless it is lost on the way to the program."""
        if BOUND.get() is None or MARK in request.headers:
            response = await self._inner.handle_async_request(request)
        else:
            with self._marked(request, DoorMark(lambda: None)):
                response = await self._inner.handle_async_request(request)
        self._seen(response)
        return response

    def _seen(self, response: httpx.Response, why_not: str = "") -> None:
        """An error came to the program, or did not come there."""
        if response.status_code >= SERVER_ERROR:
            number = self._web.caught.read(_address(response), why_not)
            response.extensions[ERROR_NUMBER] = number

    def _moment(self, strike: Strike, label: str) -> float | None:
        """How long after a request came to the application something happens to it, in seconds: in
        most cases while it is worked on. None: when something of its host's is committed."""
        longest_us = self._web.longest_ns // 1_000 or AT_FIRST_US
        last = None if self._web.world.services.get("postgres") else longest_us
        within_us = strike.choices.pick((*SOON_US, longest_us, last), f"{label}: at most, µs")
        if within_us is None:
            return None
        return strike.choices.between(0, within_us, f"{label}, µs") / 1e6

    @contextmanager
    def _at_commit(self, happens: Callable[[], object]) -> Iterator[None]:
        """Call `happens` once, when a transaction of the application is committed meanwhile."""
        watchers, name = self._web.world.at_commit, self._web.host.name

        def committed(host: str) -> None:
            if host == name and committed in watchers:
                watchers.remove(committed)
                happens()

        watchers.append(committed)
        try:
            yield
        finally:
            if committed in watchers:
                watchers.remove(committed)

    async def aclose(self) -> None:
        """The client is closed. What is late still comes."""
        await self._inner.aclose()

    # --- lost ------------------------------------------------------------------------------------

    async def _request_lost(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        how = strike.choices.pick((*LOST, "refused"), "how the client hears of it")
        after_s = strike.choices.pick(AFTER_S, "when the client hears of it")
        strike.note(how)
        strike.felt()
        await self._fail(request, how, after_s)
        raise AssertionError("it was lost")

    async def _response_lost(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        how = strike.choices.pick((*LOST, "half"), "how the client hears of it")
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self._at_commit(strike.commits):
            response = await self._send(request)
        self._seen(response, LOST_RESPONSE)
        parts = [part async for part in response.stream]  # type: ignore[union-attr]  # it is async
        await response.aclose()
        strike.felt()
        content = b"".join(parts)
        if how == "half" and len(content) > 1:
            strike.note(f"after half of the body; status {response.status_code}")
            return httpx.Response(
                response.status_code,
                headers=response.headers,
                stream=Half(content, response.headers),
                extensions=response.extensions,
            )
        strike.note(f"{how}; status {response.status_code}")
        await self._fail(request, how, 0.0, loop.time() - began)
        raise AssertionError("it was lost")

    async def _fail(
        self, request: httpx.Request, how: str, after_s: float, waited_s: float = 0.0
    ) -> None:
        """The client gets its error, at the instant at which it would."""
        timeouts = request.extensions.get("timeout") or {}
        limit_s = timeouts.get("read")
        left_s = None if limit_s is None else max(0.0, limit_s - waited_s)
        if left_s is not None and (how == "silence" or left_s <= after_s):
            await asyncio.sleep(left_s)
            raise httpx.ReadTimeout("")
        await asyncio.sleep(after_s)
        if how == "refused":
            raise httpx.ConnectError("All connection attempts failed")
        if how == "closed" or how == "half":
            raise httpx.RemoteProtocolError(NO_RESPONSE)
        raise httpx.ReadError("")  # also for who would wait for ever

    async def _response_late(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        late_s = strike.choices.pick(LATE_S, "how late")
        loop = asyncio.get_running_loop()
        began = loop.time()
        response = await self._send(request)
        limit_s = (request.extensions.get("timeout") or {}).get("read")
        strike.note(f"by {late_s:g} s; status {response.status_code}")
        strike.felt()
        if limit_s is not None and loop.time() - began + late_s >= limit_s:
            self._seen(response, LOST_RESPONSE)
            await response.aclose()
            await self._fail(request, "silence", 0.0, loop.time() - began)
        await asyncio.sleep(late_s)
        return response

    # --- repeated --------------------------------------------------------------------------------

    async def _delivered_twice(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        gap_s = strike.choices.pick(GAPS_S, "between the deliveries")
        second_counts = strike.choices.boolean("the client gets the second response")
        strike.note(f"{gap_s:g} s apart")
        if second_counts:
            self._begin(self._another(request, strike))
            await asyncio.sleep(gap_s)
        else:
            self._begin(self._another(request, strike, gap_s))
        return await self._send(request)

    async def _late_duplicate(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        late_s = strike.choices.pick(LATE_S, "how late")
        response = await self._send(request)
        self._begin(self._another(request, strike, late_s, f"{late_s:g} s later"))
        return response

    async def _another(
        self, request: httpx.Request, strike: Strike, after_s: float = 0.0, told: str = ""
    ) -> None:
        """Deliver a request once more, for nobody."""
        if after_s:
            await asyncio.sleep(after_s)
        if told:
            strike.note(told)
        transport = self._make()
        try:
            response = await transport.handle_async_request(request)
            self._seen(response, OF_DUPLICATE)
            async for _ in response.stream:  # type: ignore[union-attr]  # it is async
                pass
            await response.aclose()
            strike.felt()
        except httpx.TransportError:
            pass  # nobody waits for it
        finally:
            await transport.aclose()

    def _begin(self, coro: Any) -> None:
        task = asyncio.create_task(coro, name=f"duplicate of {self._name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- gone, or slow ---------------------------------------------------------------------------

    async def _client_gone(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        moment_s = self._moment(strike, "when the client goes")
        in_the_request = strike.choices.boolean("in the middle of the request")
        loop, world, gone = asyncio.get_running_loop(), self._web.world, ""

        def go(told: str) -> None:
            nonlocal gone
            if not sending.done() and not gone:
                gone = told
                sending.cancel()

        def go_after(seconds: float) -> None:
            when_ns = max(world.now_ns(), world.wire.now_ns) + to_ns(seconds)
            told = "when it was committed" if moment_s is None else f"after {moment_s:g} s"
            world.wire.timer(when_ns, go, told)

        # Who never hears the end of a request commits nothing.
        if moment_s is not None and in_the_request and len(getattr(request, "_content", b"")) > 1:
            # The server may be gone before the request has entered.
            leave = partial(loop.call_later, moment_s + STUCK_S, go, "half of its request sent")
            request = _like(request, Stuck(request.content, leave))
        sending = asyncio.ensure_future(self._send(request))
        with self._watched(request, moment_s, go_after):
            try:
                await asyncio.wait([sending])
            finally:
                sending.cancel()
        if not gone:
            return sending.result()
        strike.note(gone)
        strike.felt()
        raise httpx.ReadError("")

    async def _slow_client(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        pause_s = strike.choices.pick(PAUSES_S, "pause")
        pieces = 2 + strike.choices.choose(PIECES_MAX - 1, "pieces")
        strike.felt()
        content = getattr(request, "_content", b"")
        if len(content) >= pieces:
            strike.note(f"its request comes in {pieces} pieces, {pause_s:g} s apart")
            return await self._send(_like(request, Slowly(content, pieces, pause_s)))
        strike.note(f"it reads its response {pause_s:g} s late")
        response = await self._send(request)
        response.stream = LateBody(response.stream, pause_s)
        return response

    # --- the server ------------------------------------------------------------------------------

    async def _server_restart(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        moment_s = self._moment(strike, "when it is killed")
        kill = partial(self._web.injection.restart, strike)
        with self._watched(request, moment_s, kill):
            return await self._send(request)

    async def _request_inside(self, request: httpx.Request, strike: Strike) -> httpx.Response:
        steps = strike.choices.pick(STEPS, "after so many steps of the other")
        held_s = strike.choices.pick(HELD_S, "the other is held for")

        def entered() -> None:
            strike.note(f"while another one is held inside, for {held_s:g} s at most")
            strike.felt()

        with self._marked(request, DoorMark(entered, steps, held_s)):
            return await self._send(request)

    @contextmanager
    def _watched(
        self, request: httpx.Request, moment_s: float | None, happens: Callable[[float], object]
    ) -> Iterator[None]:
        """Call `happens` so many seconds before it shall happen: when the request has entered; or,
        without a moment, with 0 when something is committed after that."""
        with ExitStack() as watching:

            def entered() -> None:
                if moment_s is None:
                    watching.enter_context(self._at_commit(partial(happens, 0.0)))
                else:
                    happens(moment_s)

            with self._marked(request, DoorMark(entered)):
                yield

    @contextmanager
    def _marked(self, request: httpx.Request, mark: DoorMark) -> Iterator[None]:
        """The door knows this request."""
        marks = self._web.marks
        self._web.marked += 1
        number = str(self._web.marked)
        marks[number] = mark
        mark.bound = BOUND.get()
        request.headers[MARK] = number
        try:
            yield
        finally:
            del request.headers[MARK], marks[number]


def _address(response: httpx.Response) -> Any:
    """The client's address of the connection that this response came over."""
    stream: Any = response.stream
    if isinstance(stream, HttpBody):
        return stream.address
    network = response.extensions.get("network_stream")
    return None if network is None else network.get_extra_info("client_addr")


def _like(request: httpx.Request, stream: httpx.AsyncByteStream) -> httpx.Request:
    """The same request with another body, of the same length."""
    return httpx.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=stream,
        extensions=request.extensions,
    )


class Half(httpx.AsyncByteStream):
    """The first half of a body; then the connection is closed."""

    def __init__(self, content: bytes, headers: httpx.Headers) -> None:
        self._content, self._headers = content, headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        half = self._content[: len(self._content) // 2]
        yield half
        expected = self._headers.get("content-length")
        if expected is None:
            raise httpx.RemoteProtocolError(f"{INCOMPLETE} (incomplete chunked read)")
        raise httpx.RemoteProtocolError(
            f"{INCOMPLETE} (received {len(half)} bytes, expected {expected})"
        )


class Stuck(httpx.AsyncByteStream):
    """The first half of a body, and never the second. `leave` sets an alarm: when the client goes
    at the latest."""

    def __init__(self, content: bytes, leave: Callable[[], asyncio.TimerHandle]) -> None:
        self._content, self._leave = content, leave

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content[: len(self._content) // 2]
        alarm = self._leave()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            alarm.cancel()


class Slowly(httpx.AsyncByteStream):
    """A body in pieces, with pauses between them."""

    def __init__(self, content: bytes, pieces: int, pause_s: float) -> None:
        self._content, self._pieces, self._pause_s = content, pieces, pause_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = -(-len(self._content) // self._pieces)
        for start in range(0, len(self._content), size):
            if start:
                await asyncio.sleep(self._pause_s)
            yield self._content[start : start + size]


class LateBody(httpx.AsyncByteStream):
    """A body that the client takes its time to read."""

    def __init__(self, stream: Any, pause_s: float) -> None:
        self._stream, self._pause_s = stream, pause_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.sleep(self._pause_s)
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
