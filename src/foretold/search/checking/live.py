"""The same machine against a running server: a smoke test of what is deployed.

In real time, on the real clock, with real connections and no faults: what happens is up to that
server, so nothing is replayed, shrunk or saved. A seed still gives the same requests, as far as the
server answers in the same way. Rules, actors, bundles, models and invariants are the machine's own;
only what looks into the database from inside (`sql=`) is left out.

A machine makes many requests that change things. So a server is asked only if it is this machine's
own (loopback), or if the user has named its host: see `live_hosts.py`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from foretold.errors import UsageError
from foretold.kernel import real
from foretold.search.checking.live_hosts import Fence, fenced, may_ask
from foretold.search.planning.portfolio import run_seed
from foretold.spec.machine.course import play
from foretold.spec.machine.invariants import COMMIT
from foretold.spec.machine.machine import Machine, blueprint_of, options_for
from foretold.tape import Tape
from foretold.trace.record import Trace
from foretold.world.current import enter, leave
from foretold.world.settings import Settings
from foretold.world.tally import Tally
from foretold.world.world import World

if TYPE_CHECKING:
    from typing import Unpack

    from foretold.keywords import PostgresSettings, WebSettings

RUNS_DEFAULT = 20
CONNECT_S = 5.0
TIMEOUT_S = 30.0
QUIET_S_MAX = 0.2
"""Real time is dear: so long is waited at most for what goes on by itself."""


# ---------------------------------------------------------------- whom to ask


def check_url(url: str, allowed: Collection[str]) -> str:
    """The URL, if it may be asked. Raises a `UsageError` otherwise."""
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # of a port that is none, and of brackets
        raise UsageError(
            f"--url {url!r} is not the URL of a server ({error}); write http://127.0.0.1:8000"
        ) from None
    if not is_server or parts.hostname is None:
        raise UsageError(f"--url {url!r} is not the URL of a server; write http://127.0.0.1:8000")
    if not may_ask(parts.hostname, allowed):
        raise UsageError(
            f"--url {url}: {parts.hostname} is not this machine. A machine makes many requests "
            "that change things. If that server may be changed, name its host:\n"
            f"  --url {url} --allow-host {parts.hostname}"
        )
    return url.rstrip("/")


def check_listening(url: str) -> None:
    """Somebody has to be there: one try, with words for what went wrong."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_S).close()
    except ConnectionRefusedError:
        raise UsageError(
            f"--url {url}: nothing listens there (connection refused). Start the application "
            f"first, for instance: uvicorn shop:app --port {port}"
        ) from None
    except socket.gaierror:
        raise UsageError(f"--url {url}: there is no host {parts.hostname!r}") from None
    except OSError as error:
        raise UsageError(f"--url {url}: no connection ({error})") from None


# ---------------------------------------------------------------- the world outside


class UrlWeb:
    """What `await world.web(app)` gives here: the server at the URL, whatever the application."""

    def __init__(self, world: World, url: str, fence: Fence) -> None:
        self.world = world
        self.url = url
        self.errors: list[Any] = []
        """What a real server logs is not seen from here."""
        self._fence = fence

    def client(self, actor: Any = None, **options: Any) -> Any:
        """A client with cookies and headers of its own."""
        import httpx

        settings = {"base_url": self.url, "trust_env": False, "timeout": TIMEOUT_S, **options}
        made = httpx.AsyncClient(**settings)
        made.event_hooks["request"] = [*made.event_hooks["request"], self._check]
        return made

    def error_of(self, response: Any) -> None:
        """Nothing is known of a response but what it says."""

    async def _check(self, request: Any) -> None:
        """Each request, also one that follows a redirect: by name, before the name is looked up."""
        self._fence.check(request.url.host, f"{request.method} {request.url}")

    def fail_next(self, kind: str, **about: Any) -> None:
        """Failures are injected in a simulated world only."""
        raise UsageError(f"web.fail_next({kind!r}): with --url there are no faults")


class RealClock:
    """The clock of a world that goes on by itself."""

    async def advance(self, seconds: float) -> None:
        """Wait, but not for long."""
        await asyncio.sleep(min(seconds, QUIET_S_MAX))

    async def settle(self) -> None:
        """Let what is ready happen."""
        await asyncio.sleep(0)


class LiveWorld(World):
    """The real world, with what a machine asks a world for."""

    def __init__(self, tape: Tape, url: str, fence: Fence) -> None:
        super().__init__(tape, Trace(), Settings())
        self.url = url
        self._web = UrlWeb(self, url, fence)

    async def web(self, app: Any = None, **settings: Unpack[WebSettings]) -> Any:
        """The server that is asked."""
        return self._web

    async def postgres(self, schema: Any = None, **settings: Unpack[PostgresSettings]) -> Any:
        """Not here: the server at the URL has a database of its own."""
        raise UsageError(
            "world.postgres(…) in a run against a URL: the server has a database of its own. In "
            "setup, ask first: if getattr(self.world, 'url', None) is None: …"
        )

    @property
    def clock(self) -> Any:
        return RealClock()

    async def heal(self) -> None:
        """There are no faults."""


# ---------------------------------------------------------------- runs


@dataclass
class Smoke:
    """What runs against a URL gave."""

    url: str
    seed: int
    runs: int = 0
    elapsed_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    error: BaseException | None = None
    program: str = ""
    failed_seed: int = 0
    reached: dict[str, int] = field(default_factory=dict)

    @property
    def idle(self) -> list[str]:
        """Rules that never succeeded."""
        return [name for name, count in self.tally.rules.items() if not count.succeeded]


def explore_url(
    machine: Any,
    url: str,
    *,
    runs: int = RUNS_DEFAULT,
    seed: int = 0,
    time_s: float | None = None,
    allowed: Collection[str] = (),
    options: str = "",
) -> Smoke:
    """Run a machine against a server until a run fails, or all are made."""
    machine = getattr(machine, "foretold_machine", None) or machine
    if not (isinstance(machine, type) and issubclass(machine, Machine)):
        raise UsageError(
            "--url needs a machine (foretold.Machine, foretold.openapi); "
            f"{getattr(machine, '__name__', machine)!r} is not one"
        )
    url = check_url(url, allowed)
    check_listening(url)
    machine.foretold_target()  # mistakes are found before any request is made
    smoke, started = Smoke(url, seed), real.monotonic()
    with fenced(allowed) as fence:
        for number in range(runs):
            _one(machine, smoke, run_seed(seed, number), fence, options)
            smoke.elapsed_s = real.monotonic() - started
            if smoke.error is not None or (time_s is not None and smoke.elapsed_s > time_s):
                break
    return smoke


def _one(machine: type[Machine], smoke: Smoke, seed: int, fence: Fence, options: str) -> None:
    world = LiveWorld(Tape.seeded(seed), smoke.url, fence)
    plan = blueprint_of(machine)
    plan = replace(plan, invariants=tuple(i for i in plan.invariants if i.when != COMMIT))
    enter(world)
    try:
        asyncio.run(play(machine, plan, options_for(machine, options), world))
    except UsageError:
        raise
    except Exception as error:
        smoke.error, smoke.failed_seed = error, seed
    finally:
        leave()
        for finish in world.at_end:
            finish()
        world.home.loop.close()  # a world has one, which nobody has used
    if fence.refused is not None:
        raise fence.refused from None
    smoke.runs += 1
    smoke.tally.add(world.tally)
    if smoke.error is None and world.failures:
        smoke.error, smoke.failed_seed = world.failures[0], seed
    if smoke.error is not None and world.opening is not None:
        smoke.program = world.opening()
