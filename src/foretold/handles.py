"""What tests hold: the world, its hosts, their clocks and disks, the network, servers.

The classes behind these names belong to the engine, and most of their members are for the engine
alone. Each handle here is a protocol with the members that are for users. To type checkers and
editors `foretold.World` and what it gives are handles; at run time they are the engine's own
objects, and `@shown_as` lists the same members in `dir`. The docstrings of these members stand here
and nowhere else: `shown_as` copies them to the engine's class.

`_engine_fits`, at the end, has mypy compare each of the engine's classes with its handle.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload, runtime_checkable

if TYPE_CHECKING:
    import datetime
    from contextlib import AbstractAsyncContextManager
    from os import PathLike
    from typing import Unpack

    import httpx

    from foretold.keywords import ClientOptions, PostgresSettings, WebSettings
    from foretold.services.external.server import External
    from foretold.services.postgres.server import Postgres
    from foretold.services.web.errors import WebError
    from foretold.services.web.injection import RequestFailure as WebFailure
    from foretold.services.web.server import Web as EngineWeb
    from foretold.world.clock import CancelToken, WorldClock
    from foretold.world.disk.disk import Disk as EngineDisk
    from foretold.world.host import Host as EngineHost
    from foretold.world.hosttask import HostTask as EngineHostTask
    from foretold.world.log import EventLog
    from foretold.world.net.network import Network as EngineNetwork
    from foretold.world.world import World as EngineWorld

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type)


@runtime_checkable
class World(Protocol):
    """The world of one run."""

    @property
    def network(self) -> Network:
        """The network between the hosts."""

    @property
    def clock(self) -> HostClock:
        """The clock of the host that the test runs on."""

    @property
    def log(self) -> EventLog:
        """What the program says has happened: see `foretold.event`."""

    def host(
        self,
        name: str,
        *,
        isolate: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Host:
        """The host of that name. The first call creates it.

        With `isolate=["myapp"]` the host imports its own copy of these modules, so that two
        replicas of one application share no globals. Start its program by name then:
        `host.start("myapp.run:main")`. `environment={"PORT": "80"}` adds to its `os.environ`, which
        no other host shares.
        """

    async def postgres(self, schema: Any = None, **settings: Unpack[PostgresSettings]) -> Postgres:
        """Start a real PostgreSQL server with this schema at host `postgres`. Its `dsn` is the
        address for programs. docs/postgres.md describes the settings."""

    async def web(self, app: Any, **settings: Unpack[WebSettings]) -> Web:
        """Start an ASGI application at host `web`. Its `client(actor)` is an `httpx.AsyncClient`.
        docs/web.md describes the settings."""

    def external(self, name: str, answers: Mapping[str, Any] | None = None) -> External:
        """A host outside of the program's own system, such as `"api.openai.com"`, that answers
        HTTPS and HTTP as scripted. docs/external.md describes it."""

    def calm(self) -> AbstractAsyncContextManager[None]:
        """No faults inside: for set-up and final checks."""

    async def heal(self) -> None:
        """Stop all faults, repair the network and resume paused hosts. Dead hosts stay dead, and
        clocks that the test has set wrong stay wrong."""

    def supervise(self, *names: str, after_s: float = 1.0) -> None:
        """Start hosts again that are killed or crash, `after_s` virtual seconds after that, as a
        supervisor does. `names` are host names or patterns ("worker*"). What the test stops with
        `await host.stop()` stays down, and a main that raises fails the run."""

    def drive(self, seconds: float) -> None:
        """In a plain (not async) test: let virtual time pass."""

    def drive_until_idle(self) -> None:
        """In a plain test: let time pass until nothing is scheduled."""


@runtime_checkable
class Host(Protocol):
    """One computer of the world: a loop, a clock, addresses, a process that can die."""

    @property
    def name(self) -> str:
        """The name by which other hosts reach it."""

    @property
    def ip(self) -> str:
        """The host's IPv4 address."""

    @property
    def clock(self) -> HostClock:
        """The host's clock. A test may set it wrong."""

    @property
    def disk(self) -> Disk:
        """The host's disk. The first use creates it."""

    @overload
    def start(self, main: str) -> HostTask[Any]: ...
    @overload
    def start(self, main: Coroutine[Any, Any, T]) -> HostTask[T]: ...
    @overload
    def start(self, main: Callable[[], Coroutine[Any, Any, T]]) -> HostTask[T]: ...
    @overload
    def start(self, main: Callable[[], T]) -> HostTask[T]: ...
    def start(self, main: Any) -> HostTask[Any]:
        """Run `main` on this host: an async function, its name ("module:function") or a coroutine.
        The result can be awaited.

        The host stays up after its main has returned, until it is stopped. If a main raises and the
        test does not await it, the run fails.
        """

    def standby(self, main: Any) -> None:
        """Keep `main`, an async function or its name, for later: the fault `join` starts it at some
        moment of the run. `host.start(main)` starts it as well."""

    async def stop(self, grace_s: float = 60.0) -> bool:
        """End the process as SIGTERM does: its handler runs, or its mains are cancelled. The
        remaining tasks are cancelled as in `asyncio.run`.

        After `grace_s` virtual seconds, or 10,000 steps, the process is killed. Returns whether it
        ended by itself. With `math.inf` it may take as long as the run.
        """

    def signal(self, number: int) -> None:
        """Send a signal to the process: its handler runs, or Linux's default applies. SIGKILL is
        `kill()`, SIGSTOP and SIGCONT are `pause()` and `resume()`. Any other signal that ends a
        process cancels its mains."""

    def kill(self) -> None:
        """The process dies at once. Its kernel closes its sockets; none of its code runs again."""

    def crash(self) -> None:
        """Power cut: no `finally` runs, no FIN is sent, peers see silence."""

    def restart(self, main: Any = None) -> HostTask[Any]:
        """Start the process again after `kill`, `crash` or `stop`: all mains that ran, in their
        order, or only `main`. Mains that were given as coroutines run once and are not started
        again. Returns the task that was started last.
        """

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does. Its kernel continues. A process that is started after
        a `kill` or a `crash` is a new one, and is not paused."""

    def resume(self) -> None:
        """Continue after `pause`."""

    async def listening(self, port: int) -> None:
        """Wait until a program on this host listens on `port`."""

    def serve(self, app: Any, port: int = 8000, **config: Any) -> HostTask[None]:
        """Serve an ASGI application under uvicorn. Each process has its own server. Pass the name
        of the application ("module:app") if each process should import it, as with `isolate`.
        `config` holds further settings of `uvicorn.Config`."""


class HostTask(Protocol[T_co]):
    """What `host.start` returns. Awaiting it gives the main's result or raises its exception. It
    raises `HostDied` if the process was killed or crashed before the main ended."""

    def __await__(self) -> Generator[Any, None, T_co]: ...

    def done(self) -> bool:
        """Whether it has ended, or its process has died."""

    def cancel(self) -> None:
        """Ask the main to end."""

    async def ended(self) -> None:
        """Wait until it has ended, without raising."""


class HostClock(Protocol):
    """A host's clock, in seconds. Satisfies `foretold.Clock`."""

    def now(self) -> float:
        """Seconds since 1970 on the wall clock, as `time.time()`."""

    def now_ns(self) -> int:
        """The same in nanoseconds, as `time.time_ns()`."""

    def monotonic(self) -> float:
        """Seconds on the clock that never goes back, as `time.monotonic()`."""

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, as `time.monotonic_ns()`."""

    def datetime(self) -> datetime.datetime:
        """The wall clock as an aware UTC datetime."""

    def set_time(self, epoch_s: float) -> None:
        """Set the wall clock, forwards or back. The monotonic clock is not affected."""

    def skew(self, seconds: float) -> None:
        """Make the wall clock wrong by this much. This replaces an earlier skew and the drift so
        far. 0 corrects the clock."""

    def drift(self, ppm: float) -> None:
        """Make the wall clock gain `ppm` microseconds per second from now on, or lose them (below
        0). With 0 it runs at the right speed again, but keeps the drift so far; `skew(0)` corrects
        that. The monotonic clock and all timers are not affected."""

    def schedule(self, callback: Callable[[], object], delay_s: float) -> CancelToken:
        """Call `callback` after `delay_s` virtual seconds. An async function becomes a task.

        Callbacks for the same instant run in the order of scheduling. If a callback raises, the
        run fails.
        """

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass. Everything that falls due happens in order of time, and so does
        the work that follows from it, before this returns."""

    async def settle(self) -> None:
        """Wait until nothing is left to do at this instant. Virtual time does not jump."""

    async def run_until_idle(self, limit_s: float = 86_400) -> None:
        """Let time pass until nothing is scheduled.

        Work that renews itself forever never ends. After `limit_s` virtual seconds (a day) this is
        an error.
        """


class Disk(Protocol):
    """The disk of one host. It outlives the host's processes."""

    @property
    def used(self) -> int:
        """How many bytes are in use."""

    def read(self, path: str | PathLike[str]) -> bytes:
        """What the file holds, as programs on this host see it."""

    def write(self, path: str | PathLike[str], data: bytes | str) -> None:
        """Put a file there, with its parent directories. It is durable, as if it had been there
        before the programs started."""

    def exists(self, path: str | PathLike[str]) -> bool:
        """Whether the path exists. The program's own source files count."""

    def tree(self, below: str | PathLike[str] = "/") -> dict[str, bytes | str | None]:
        """Everything that was written: the content of a file as bytes, the target of a symbolic
        link as text, None for an empty directory that a program made."""

    def space(self, n: int | None) -> None:
        """Limit the disk to `n` bytes in all; None: no limit. Space is allocated in 4 KiB pages."""

    def sync(self) -> None:
        """Make everything durable, as if a long time had passed."""

    def unsynced(self) -> list[str]:
        """What a power cut could lose now."""


class Network(Protocol):
    """The network of a world. Hosts are given as objects or by name."""

    def latency(
        self, low_s: float, high_s: float | None = None, between: Pair | None = None
    ) -> None:
        """How long messages take: between all hosts (also on the loopback, as long as there is only
        one host), or for one pair. With one number all messages take equally long."""

    def loss(self, p: float, between: Pair | None = None) -> None:
        """Which share of packets is lost. TCP sends them again, UDP does not."""

    def duplication(self, p: float, between: Pair | None = None) -> None:
        """Which share of datagrams arrives twice."""

    def reordering(self, p: float, between: Pair | None = None) -> None:
        """Which share of datagrams is delayed, so that later ones overtake them."""

    def bandwidth(self, bytes_per_s: float | None, between: Pair | None = None) -> None:
        """How many bytes pass in a second, in each direction; None for no limit."""

    def buffers(self, send: int, receive: int) -> None:
        """The buffers of connections and datagram sockets made from now on, in bytes."""

    def partition(self, a: Host | str, b: Host | str, *, one_way: bool = False) -> None:
        """Cut the path: nothing passes from a to b (and back). Neither host is notified."""

    def repair(self, a: Host | str, b: Host | str) -> None:
        """End a partition. TCP gets through again with its next retransmission."""

    def hold(self, a: Host | str, b: Host | str) -> None:
        """Hold what is sent between two hosts until `release`."""

    def release(self, a: Host | str, b: Host | str) -> None:
        """Deliver what was held, in its order."""

    def clog(self, a: Host | str, b: Host | str, seconds: float) -> None:
        """Nothing passes between two hosts for a while; then everything does."""

    def slow(self, a: Host | str, b: Host | str, factor: float) -> None:
        """Multiply the latency between two hosts; 1 restores it."""

    def reset(self, a: Host | str, b: Host | str) -> None:
        """Break every connection between two hosts, as a firewall does that lost its state."""


Pair = tuple[Host | str, Host | str]
"""Two hosts, or their names."""


class Named(Protocol):
    """An actor of a machine, or another object with a name."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class Web(Protocol):
    """A web application in the world."""

    @property
    def host(self) -> Host:
        """The host that it runs on."""

    @property
    def port(self) -> int:
        """The port that it listens on."""

    @property
    def url(self) -> str:
        """The address for programs of the world."""

    @property
    def requests(self) -> int:
        """How many requests its clients have sent."""

    @property
    def failures(self) -> list[str]:
        """The kinds of faults that have struck, in order."""

    @property
    def errors(self) -> list[WebError]:
        """Every exception that left the application and every response of 5xx, in order, whoever
        was to read it."""

    def client(
        self, actor: Named | str | None = None, **options: Unpack[ClientOptions]
    ) -> httpx.AsyncClient:
        """A client with its own address, cookies and headers, for an actor of a machine or for a
        name. `options` are those of `httpx.AsyncClient`."""

    def fail_next(
        self, kind: str, *, method: str | None = None, path: str | None = None
    ) -> WebFailure:
        """The next request fails as `kind` says. With `method` or `path` this applies to the next
        request with this method, or with this text in its path."""


def shown_as(handle: type) -> Callable[[C], C]:
    """Decorate the engine's class: `dir` and completion show the members of its handle, and each of
    these has the docstring that stands there."""
    shown = members(handle)

    def decorate(cls: C) -> C:
        def listed(self: object) -> list[str]:
            return sorted({*shown, *dir(object)})

        setattr(cls, "__dir__", listed)  # noqa: B010  # mypy knows no assignment to a method
        for name in shown:
            own = vars(cls).get(name)
            if own is not None:
                own.__doc__ = vars(handle)[name].__doc__
        return cls

    return decorate


def members(handle: type) -> list[str]:
    """The names of a handle that are for users."""
    return [name for name in vars(handle) if not name.startswith("_")]


if TYPE_CHECKING:

    def _engine_fits(  # mypy compares
        world: EngineWorld,
        host: EngineHost,
        task: EngineHostTask,
        clock: WorldClock,
        disk: EngineDisk,
        network: EngineNetwork,
        web: EngineWeb,
    ) -> tuple[World, Host, HostTask[Any], HostClock, Disk, Network, Web]:
        return world, host, task, clock, disk, network, web
