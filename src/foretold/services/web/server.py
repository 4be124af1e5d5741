"""`web = await world.web(app)`: an ASGI application on a host of its own, and clients for it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretold import handles
from foretold.arguments import check_word, signature_of
from foretold.errors import UsageError
from foretold.kernel.waiting import raised_at
from foretold.services.web.cycle import logger
from foretold.services.web.door import Door, DoorMark, Visit
from foretold.services.web.errors import ERROR_NUMBER, Allowed, Caught, WebError, check_allows
from foretold.services.web.lifespan import SAYS_SO, StartupFailed
from foretold.services.web.process import ServerProcess
from foretold.trace.events import WORLD, Request, Served, Visited
from foretold.world.errands import ServedRequest

try:
    import httpx

    from foretold.services.web.injection import RequestFailure, RequestInjection
    from foretold.services.web.proxy import Proxy
    from foretold.services.web.transport import AsgiTransport
except ImportError as missing:  # pragma: no cover  # the tests have it
    raise UsageError(
        f"world.web needs httpx, for its clients: pip install httpx ({missing})"
    ) from None

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.hosttask import HostTask
    from foretold.world.world import World

WAYS = ("asgi", "uvicorn")
INSECURE = httpx.create_ssl_context(verify=False)
"""Made once: httpx would read the authorities' file for each client."""
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20)
"""httpx's own."""
NOT_OURS: dict[str, Any] = {
    "transport": None, "mounts": None, "app": None, "proxy": None, "proxies": None,
    "http1": True, "http2": False, "trust_env": False,
}  # fmt: skip
"""Options of a client that would send its requests another way."""
RETRY_S = 1.0
"""A supervisor starts a server again that has failed to start, after so long."""
ADDRESSES = "addresses of actors"
"""Where they are in `world.shared`."""
ACTORS_NET = "10.99"
"""The addresses of actors: hosts are counted from the other end of 10.0.0.0/8."""


@handles.shown_as(handles.Web)
class Web:
    """An application and how it is reached. `handles.Web` says what is for users."""

    def __init__(
        self,
        world: World,
        app: Any,
        host: Host,
        port: int,
        through: str,
        root_path: str,
        allows: tuple[Allowed, ...] = (),
    ) -> None:
        self.world = world
        self.app = app
        self.host = host
        self.port = port
        self.through = through
        self.root_path = root_path
        self.url = f"http://{host.name}:{port}"
        self.requests = 0
        """How many requests its clients have sent."""
        self.longest_ns = 0
        """So long, of virtual time, the longest request took that nothing had struck."""
        self.was_up = False
        self.process: ServerProcess | None = None
        """The process that served last, through ASGI."""
        self.door: Door | None = None
        self.injection = RequestInjection(self)
        self.caught = Caught(self, allows)
        """Exceptions and responses of 5xx, whoever reads them."""
        self.under_way = 0
        """So many requests of programs are not answered yet; duplicates do not count."""
        self.failures: list[str] = []
        """The failures that have struck, by kind, in order."""
        self.asked = 0
        """How many requests were sent; for stories."""
        self.marked = 0
        self.marks: dict[str, DoorMark] = {}
        """What shall happen to requests that are on their way, by the number that marks them."""

    def __repr__(self) -> str:
        return f"<web at {self.url} through {self.through}>"

    def open_door(self) -> Door:
        """The application, as this process of the host has it."""
        app = self.host.modules.find(self.app) if isinstance(self.app, str) else self.app
        self.door = Door(app, self.marks, self.note, self.lifespan_failed, self.caught)
        if self.world.trace.detail:
            self.door.errand_of = self._errand_of
        nemesis = self.world.nemesis
        self.door.stepwise = nemesis is not None and "request_inside" in nemesis.occasional
        self.door.stepwise |= any(f.kind == "request_inside" for f in self.injection.armed)
        return self.door

    @property
    def errors(self) -> list[WebError]:
        return self.caught.errors

    def error_of(self, response: Any) -> WebError | None:
        """What is known of a response of 5xx that a client has read."""
        number = response.extensions.get(ERROR_NUMBER)
        return None if number is None else self.caught.errors[number]

    @property
    def other_faults(self) -> int:
        """How many faults were injected so far that are not failures of requests."""
        servers: list[Web] = self.world.services.get("web", [])
        return self.world.faults_noted - sum(len(each.failures) for each in servers)

    def client_at(self, address: tuple[Any, ...]) -> str:
        """Which of its clients has this address; empty if that is not known."""
        if not address:
            return ""
        known = self.world.shared.get(ADDRESSES, {})
        found = next((name for name, ip in known.items() if ip == address[0]), "")
        return found or ("client" if self.through == "asgi" else "")

    def listening(self) -> ServerProcess | None:
        """The process that takes connections now, if there is one."""
        process = self.process
        if process is None or not process.is_open:
            return None
        return process if self.host.loops and self.host.loop is process.loop else None

    @property
    def visits(self) -> list[Visit]:
        """The requests that are inside of the application."""
        return self.door.visits if self.door is not None and self.host.loops else []

    async def did_not_start(self, error: BaseException) -> None:
        """The first time that fails the test; later a supervisor tries again."""
        if not self.was_up:
            if _is_no_variable(error):
                raise UsageError(_NO_VARIABLE.format(error.args[0])) from error
            error.add_note(f"foretold: the application at {self.host.name} did not start")
            raise error
        logger.error("Application startup failed.", exc_info=error)
        self.note("startup failed", repr(error))
        await asyncio.sleep(RETRY_S)

    def lifespan_failed(self, error: Exception) -> None:
        """What the application does at its end went wrong, or what its lifespan does meanwhile. A
        server only logs that; here it is an error that nobody has caught."""
        self.note("lifespan failed", repr(error))
        message = f"the lifespan of the application at {self.host.name} failed"
        self.world.note_background({"message": message, "exception": error})

    def note(
        self, what: str, about: str, in_full: str = "", error: BaseException | None = None
    ) -> None:
        """Something happened to the server. `in_full`: for the story, which also says at which line
        of the application the error was raised."""
        trace, name = self.world.trace, self.host.name
        trace.note(name, what, about)
        if trace.detail:
            ns, place = self.host.kernel.clock.ns, None if error is None else raised_at(error)
            told = functools.partial(Served, service=name, what=what, about=in_full or about)
            trace.keep(told(ns, name, name, place=place))

    @property
    def is_calm(self) -> bool:
        """Nothing strikes requests in this run, and nobody wants to hear of them."""
        world = self.world
        return world.nemesis is None and not self.injection.armed and not world.trace.detail

    def keep_request(self, number: int, client: str, asks: str, answer: str = "") -> None:
        """For the story: a request was sent, or its response has come."""
        host = self.world.acting_host
        told = functools.partial(Request, number=number, client=client, asks=asks, answer=answer)
        self.world.trace.keep(told(host.kernel.clock.ns, host.name, WORLD))

    def _errand_of(self, scope: Any) -> ServedRequest:
        """For the story: whose request the task that acts now works for."""
        known = self.world.shared.get(ADDRESSES, {})
        ip, _ = scope.get("client") or ("", 0)
        client = next((name for name, its in known.items() if its == ip), "")
        asks = f"{scope['method']} {scope['path']}"
        kernel = self.host.kernel
        kernel.keep(Visited, client=client, asks=asks)
        return ServedRequest((kernel.host, kernel.current.name), client, asks)

    def forget(self) -> None:
        """The run is over. What a dead process has left open is let go of now, unseen."""
        if self.process is not None:
            self.process.app = None
        self.app = self.door = self.process = None

    # --- clients ---------------------------------------------------------------------------------

    def client(self, actor: Any = None, **options: Any) -> httpx.AsyncClient:
        name = _name_of(actor)
        _check_options(options)
        ip = address_of(self.world, name) if name is not None else None
        limits = options.pop("limits", None) or LIMITS
        cert = options.pop("cert", None)
        verify = options.pop("verify", INSECURE if cert is None else False)

        def over_the_network() -> httpx.AsyncBaseTransport:
            return httpx.AsyncHTTPTransport(
                verify=verify, cert=cert, limits=limits, local_address=ip, trust_env=False
            )

        def straight() -> httpx.AsyncBaseTransport:
            return AsgiTransport(self, name or "client", ip, over_the_network, limits)

        make = straight if self.through == "asgi" else over_the_network
        settings = {"base_url": self.url, "trust_env": False, "verify": INSECURE, **options}
        return httpx.AsyncClient(transport=Proxy(self, name or "client", make), **settings)

    # --- failures --------------------------------------------------------------------------------

    def fail_next(
        self, kind: str, *, method: str | None = None, path: str | None = None
    ) -> RequestFailure:
        failure = self.injection.arm(kind, method, path)
        if kind == "request_inside" and self.door is not None:
            self.door.stepwise = True
        return failure


def _check_options(options: Mapping[str, Any]) -> None:
    """What would have no effect is refused, unless it says what is the case."""
    for taken, given in options.items():
        if taken in NOT_OURS and given is not NOT_OURS[taken]:
            raise UsageError(
                f"web.client({taken}={given!r}): world.web decides how requests are sent"
            )


def _name_of(actor: Any) -> str | None:
    name = getattr(actor, "name", actor)
    if name is None or (isinstance(name, str) and name):
        return name
    raise UsageError(
        f"web.client(…) takes an actor or a name, such as web.client('alice'); got {actor!r}"
    )


def address_of(world: World, name: str) -> str:
    """The address of somebody who acts from the test's own host."""
    known: dict[str, str] = world.shared.setdefault(ADDRESSES, {})
    found = known.get(name)
    if found is None:
        number = len(known) + 1
        found = known[name] = f"{ACTORS_NET}.{number >> 8 & 255}.{number & 255}"
        stack = world.home.stack
        stack.aliases.add(found)
        world.network.by_ip[found] = stack
    return found


# --- beginning -----------------------------------------------------------------------------------


async def begin(
    world: World,
    app: Any,
    *,
    through: str = "asgi",
    host: str = "web",
    port: int = 8000,
    root_path: str = "",
    environment: Mapping[str, str] | None = None,
    allows: Sequence[Allowed] = (),
) -> Web:
    """What `world.web` does: the application is up when it returns."""
    check_word("through", through, WAYS)
    _check_app(app)
    _check_port(port)
    allowed = check_allows(allows)
    there = world.host(host, environment=environment)
    if there is world.home or there.appliance is not None:
        raise UsageError(
            f"world.web(host={host!r}): that host is in use. Each server needs its own:\n"
            '  right: await world.web(app, host="api")'
        )
    if there.stack.is_listening(port):
        raise UsageError(
            f"world.web(port={port}): a program listens on that port of {host} already.\n"
            f"  right: await world.web(app, port={port % 65_535 + 1}), or another host="
        )
    web = Web(world, app, there, port, through, root_path, allowed)
    world.at_end.append(web.forget)
    if through == "uvicorn":
        started = there.start(functools.partial(_serve, web))
    else:
        started = there.start(functools.partial(_live, web))
    await _until_up(web, started)
    world.services.setdefault("web", []).append(web)
    world.comes_into_use("web")
    return web


async def _live(web: Web) -> None:
    """The main of a host that is asked straight through ASGI."""
    await ServerProcess(web).live()


async def _serve(web: Web) -> None:
    """The main of a host that serves through uvicorn; a supervisor starts it again if an
    application that was up before does not start."""
    import uvicorn

    logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # as for our own logger
    settings: dict[str, Any] = {"host": "0.0.0.0", "port": web.port, "log_config": None}
    while True:
        door = web.open_door()
        config = uvicorn.Config(door, root_path=web.root_path, **settings)
        try:
            await uvicorn.Server(config).serve()
        except SystemExit:
            error = door.error or StartupFailed(SAYS_SO.format("startup"))
            await web.did_not_start(error)
        else:
            return


async def _until_up(web: Web, started: HostTask) -> None:
    up = asyncio.ensure_future(web.host.listening(web.port))
    ended = asyncio.ensure_future(started.ended())
    try:
        await asyncio.wait([up, ended], return_when=asyncio.FIRST_COMPLETED)
    finally:
        up.cancel()
        ended.cancel()
    if started.done():
        await started
        raise UsageError(f"world.web: the server at {web.host.name} ended before it listened")
    web.was_up = True


_NO_VARIABLE = """\
the application did not start: it reads {0} from os.environ, and its host does not have it. Set it:
    await self.world.web(app, environment={{"{0}": …}})
In a machine from foretold.openapi, do so in serve:
    class Shop(foretold.openapi(app)):
        async def serve(self):
            pg = await self.world.postgres(schema=SCHEMA)
            environment = {{"{0}": pg.url("asyncpg")}}
            return await self.world.web(app, environment=environment)"""


def _is_no_variable(error: BaseException) -> bool:
    """Whether it is `os.environ[…]` that has raised this."""
    if not isinstance(error, KeyError):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_code is type(os.environ).__getitem__.__code__


def _check_port(port: object) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
        raise UsageError(f"world.web(port=…): a whole number from 1 to 65535; got {port!r}")


def _check_app(app: Any) -> None:
    """Something that can be called with scope, receive and send."""
    if isinstance(app, str):
        return
    what = (
        f'world.web needs an ASGI application, such as FastAPI() or "myapp.main:app"; got {app!r}'
    )
    if inspect.isclass(app) or not callable(app):
        raise UsageError(f"{what}.")
    if _takes(app, 3):
        return
    if _takes(app, 2):
        raise UsageError(
            f"{what}, which takes environ and start_response: a WSGI application.\n"
            "  right: from a2wsgi import WSGIMiddleware; await world.web(WSGIMiddleware(app))"
        )
    raise UsageError(f"{what}, which does not take scope, receive and send.")


def _takes(app: Any, number: int) -> bool:
    try:
        signature_of(app).bind(*range(number))
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say what it wants
        return True
    return True
