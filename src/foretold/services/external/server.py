"""`api = world.external("api.openai.com", {…})`: a host that answers as scripted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import UsageError
from foretold.kernel.clock import to_ns
from foretold.services.external.script import ExternalCall, Script, ScriptedAnswer
from foretold.services.external.trust import make_trusted, server_context
from foretold.trace.events import Served
from foretold.world.net.stack import BoundAddress

try:
    from foretold.services.external.connection import Connection
    from foretold.services.external.injection import BREAKS, REFUSES, ExternalFailure, Injection
except ImportError as missing:  # pragma: no cover  # the tests have it
    raise UsageError(f"world.external needs h11: pip install h11 ({missing})") from None

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World

HTTP: Final = 80
HTTPS: Final = 443
BACKLOG: Final = 128
MS: Final = 1_000_000
THINKS_NS: Final = (10 * MS, 50 * MS, 200 * MS, 1_000 * MS)
"""How long the host takes for a call, as the tape picks."""
BODY_CHARS_MAX: Final = 80


class External:
    def __init__(self, world: World, host: Host, answers: Mapping[str, Any] | None) -> None:
        self.world = world
        self.host = host
        self.calls: list[ExternalCall] = []
        """All calls that came, in order."""
        self._script = Script(host.name, answers)
        self._injection = Injection(self)
        self._choices = world.tape.stream("external", host.name)
        self._tls = server_context(host.name)
        self._connections: list[Connection] = []
        self._listeners: list[Any] = []
        self._postponed: list[Callable[[], object]] = []
        self._listen()

    def __repr__(self) -> str:
        return f"<external host {self.host.name}, {len(self.calls)} calls>"

    def __await__(self) -> Generator[Any, Any, External]:
        """It is ready at once; `await world.external(…)` may be written as for other services."""
        yield from ()
        return self

    @property
    def url(self) -> str:
        """Its address for programs of the world."""
        return f"https://{self.host.name}"

    def answer(self, route: str, answer: Any) -> None:
        """From now on calls of this route (`"POST /v1/chat"`) get this answer."""
        self._script.add(route, answer)

    def fail_next(
        self, kind: str, *, method: str | None = None, path: str | None = None
    ) -> ExternalFailure:
        """The next call fails as `kind` says; with `method` or `path`, the next such call."""
        return self._injection.arm(kind, method, path)

    @property
    def failures(self) -> list[str]:
        """The kinds of faults that have struck, in order."""
        return list(self._injection.struck)

    # --- connections -----------------------------------------------------------------------------

    def _listen(self) -> None:
        stack, network = self.host.stack, self.world.network
        self._listeners = []
        for port, tls in ((HTTP, None), (HTTPS, self._tls)):
            end = network.new_end(stack, "s")
            stack.bind(end, port, BoundAddress("0.0.0.0", False, True, False))
            listener: Any = stack.listen(end, "0.0.0.0", port, BACKLOG)
            listener.on_change = functools.partial(self._accept, listener, tls)
            self._listeners.append(listener)

    def _accept(self, listener: Any, tls: Any) -> None:
        self._connections = [each for each in self._connections if not each.gone]
        while listener.queue:
            self._connections.append(Connection(listener.queue.popleft(), tls, self._called))

    # --- calls -----------------------------------------------------------------------------------

    def _called(self, connection: Connection, call: ExternalCall) -> None:
        found = self._script.route_of(call.method, call.path)
        call = replace(call, parameters={} if found is None else found[1])
        call = replace(call, fault=self._injection.strike(call))
        number = len(self.calls)
        self.calls.append(call)
        self._keep(f"is called by {call.sender}", f"{call}{_shown(call.body)}", call.body)
        wait_ns = self._choices.pick(THINKS_NS, "time to answer")
        if call.fault == "external_slow":
            self._injection.happens(call)
            wait_ns += to_ns(self._injection.slow_s())
        self._later(wait_ns, functools.partial(self._answer, connection, number))

    def _answer(self, connection: Connection, number: int) -> None:
        call = self.calls[number]
        answer = None if call.fault == "external_broken" else self._answer_of(call)
        if call.fault in (*BREAKS, *REFUSES) and not connection.gone:
            self._injection.happens(call)
        if answer is None or call.fault in BREAKS:
            connection.abort()
            return
        if not connection.gone:
            self.calls[number] = replace(call, status=answer.status)
        self._keep(f"answers {call.sender}", f"{call} → {answer.status}", answer.body)
        connection.answer(answer)

    def _answer_of(self, call: ExternalCall) -> ScriptedAnswer | None:
        """None: the script is wrong, which fails the run."""
        if call.fault in REFUSES:
            return self._injection.refusal(call.fault)
        try:
            return self._script.answer_to(call)
        except Exception as error:
            error.add_note(f"foretold: raised by the script of {self.host.name} for {call}")
            self.world.fail(error, at=self.host)
            return None

    def _keep(self, what: str, about: str, body: bytes) -> None:
        trace, name = self.world.trace, self.host.name
        trace.note(name, what, about, body.decode("latin-1"))
        if trace.detail:
            told = functools.partial(Served, service=name, what=what, about=about)
            trace.keep(told(self._now_ns(), name, name))

    # --- time ------------------------------------------------------------------------------------

    def _now_ns(self) -> int:
        clock = self.host.kernel.clock
        clock.ns = max(clock.ns, self.world.wire.now_ns)
        return clock.ns

    def _later(self, ns: int, act: Callable[[], object]) -> None:
        def acts() -> None:
            if self.host.paused:
                self._postponed.append(acts)
            elif not self.host.stack.dead:
                act()

        self.world.wire.timer(self._now_ns() + ns, acts)

    # --- what the host asks of it ----------------------------------------------------------------

    def died(self) -> None:
        """Its process is gone, or its power."""
        for connection in self._connections:
            connection.gone = True
        self._connections.clear()

    def begin_again(self) -> None:
        """It is started anew."""
        self._listen()

    def resumed(self) -> None:
        """It goes on after a pause."""
        due, self._postponed = self._postponed, []
        for act in due:
            act()

    def waiting(self) -> list[str]:
        """No task of the program waits inside of it."""
        return []


def _shown(body: bytes) -> str:
    if not body:
        return ""
    text = body.decode("utf-8", "replace")
    return f" {text if len(text) <= BODY_CHARS_MAX else f'{text[: BODY_CHARS_MAX - 1]}…'}"


def begin(world: World, name: str, answers: Mapping[str, Any] | None = None) -> External:
    """What `world.external` does."""
    if "/" in str(name):
        raise UsageError(
            f"world.external({name!r}): give the host alone, such as "
            f"world.external({name.split('//')[-1].split('/')[0]!r})"
        )
    there = world.host(name)
    if there is world.home or there.appliance is not None or there.mains:
        raise UsageError(f"world.external({name!r}): there is a program on that host already")
    made = External(world, there, answers)
    there.appliance = made
    world.outside.leave(there)
    make_trusted(world, name)
    world.services.setdefault("external", []).append(made)
    world.comes_into_use("external")
    return made
