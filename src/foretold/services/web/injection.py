"""Which failure strikes which request: drawn with each of them, or asked for by the test.

`foretold.faults.web`: what can happen to a request between the client and the application. The run
has some of the kinds (swarm), and a share of requests that fail; each request then draws whether it
is one of them, and how. Never: a response that another request should have had, bytes that change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from foretold.arguments import known_words
from foretold.errors import UsageError
from foretold.kernel.clock import NS, to_ns
from foretold.world.faults.web import FAILURES, LATE
from foretold.world.omens import BOUND, WEB, Omen
from foretold.world.world import CALL

if TYPE_CHECKING:
    from foretold.services.web.server import Web
    from foretold.tape import Stream

SHARES: Final = (0.05, 0.15, 0.4)
"""Which part of its requests a run has failures for."""
REPEATED: Final = ("delivered_twice", "late_duplicate")
TOLD: Final = {
    "request_lost": "is lost before the request arrives",
    "response_lost": "is lost after the application has answered",
    "response_late": "comes late",
    "delivered_twice": "belongs to a request that is delivered twice",
    "late_duplicate": "belongs to a request that is delivered once more, later",
    "client_gone": "finds that the client has gone",
    "server_restart": "meets a server that restarts",
    "slow_client": "finds a client that is slow",
}
"""How a story tells that a prophecy has come true."""
LASTS_S: Final = (0.05, 0.3, 1.0, 3.0)
"""So long a server is down."""


@dataclass(slots=True)
class RequestFailure:
    """A failure that waits for its request."""

    kind: str
    method: str | None = None
    path: str | None = None

    def fits(self, request: httpx.Request) -> bool:
        """Whether this request is meant."""
        return (self.method is None or self.method.upper() == request.method) and (
            self.path is None or self.path in request.url.path
        )


class Strike:
    """A failure that strikes a request: how it does is drawn, and what came of it is told."""

    def __init__(
        self, web: Web, kind: str, choices: Stream, about: str, omen: Omen | None = None
    ) -> None:
        self.web, self.kind, self.choices, self.about = web, kind, choices, about
        self.is_felt = False
        self.omen = omen
        """It was foretold."""
        self.has_committed = False
        """Something was committed while the request was inside."""
        web.world.tally.fault(kind, "injected")
        web.world.tally.fault(kind, "effect", 0)

    def note(self, text: str) -> None:
        """It happens: it stands in the trace and in the story."""
        self.web.failures.append(self.kind)
        words = self.kind.replace("_", " ") if self.omen is None else self._foretold(self.omen)
        self.web.world.note_fault(f"{words}: {self.about}{text and f' ({text})'}")

    def felt(self) -> None:
        """It had an effect."""
        if not self.is_felt:
            self.is_felt = True
            self.web.world.tally.fault(self.kind, "effect")
            if self.omen is not None:
                self.omen.fulfil()

    def commits(self) -> None:
        """The application has committed something meanwhile."""
        self.has_committed = True

    def _foretold(self, omen: Omen) -> str:
        """`the answer is lost after the commit, as foretold`."""
        words = TOLD[self.kind]
        if self.kind == "response_lost" and self.has_committed:
            words = "is lost after the commit"
        return f"the {omen.prophecy} {words}, as foretold"


class RequestInjection:
    def __init__(self, web: Web) -> None:
        self.web = web
        self.armed: list[RequestFailure] = []
        self._share: float | None = None

    def arm(self, kind: str, method: str | None, path: str | None) -> RequestFailure:
        """The next request that fits fails in this way."""
        if kind not in (*FAILURES, LATE):
            known = known_words(kind, (*FAILURES, LATE))
            raise UsageError(f"fail_next({kind!r}): there is no such failure; there are {known}")
        failure = RequestFailure(kind, method, path)
        self.armed.append(failure)
        return failure

    def strike(self, name: str, request: httpx.Request) -> Strike | None:
        """What strikes this request, if anything does."""
        nemesis, omens = self.web.world.nemesis, _omens_for(request)
        if not self.armed and not omens and (nemesis is None or not nemesis.occasional):
            return None
        # By the call of a machine, if this is part of one: it stays when others are left out.
        key = f"{self.web.host.name}:{name}{'#' * bool(CALL.get())}{CALL.get()}"
        choices = self.web.world.tape.stream("fault", "web", key)
        about = f"{request.method} {request.url.path} of {name}"
        can_repeat = hasattr(request, "_content")
        for omen in omens:
            if can_repeat or omen.kind not in REPEATED:
                omen.is_taken = True
                if omen.kind in REPEATED:
                    omen.fulfil()  # the second delivery may come when the call is over
                return Strike(self.web, omen.kind, choices, about, omen)
        for failure in self.armed:
            if failure.fits(request) and (can_repeat or failure.kind not in REPEATED):
                self.armed.remove(failure)
                return Strike(self.web, failure.kind, choices, about)
        if nemesis is None:
            return None
        kinds = nemesis.on_occasion(FAILURES)
        if not kinds or not choices.chance(self._share_of_requests(), "this request fails"):
            return None
        kind = choices.pick(kinds, "how it fails")
        if kind in REPEATED and not can_repeat:
            return None
        nemesis.struck += 1
        return Strike(self.web, kind, choices, about)

    def _share_of_requests(self) -> float:
        if self._share is None:
            swarm = self.web.world.tape.stream("fault", "web")
            self._share = swarm.pick(SHARES, "share of requests that fail")
        return self._share

    # --- the server ------------------------------------------------------------------------------

    def restart(self, strike: Strike, after_s: float) -> None:
        """Kill the server's process a while from now, and start it again later."""
        world = self.web.world
        nemesis = world.nemesis
        after_s += max(0, world.now_ns() - world.wire.now_ns) / NS
        steps = self._outage(strike, after_s, strike.choices.pick(LASTS_S, "down for"))
        if nemesis is not None:
            nemesis.last(steps)
        else:
            self._go_on(steps)

    def _go_on(self, steps: Iterator[float]) -> None:
        """As the nemesis does, if the run has none."""
        lasts_s = next(steps, None)
        if lasts_s is not None:
            wire = self.web.world.wire
            wire.timer(wire.now_ns + to_ns(lasts_s), self._go_on, steps)

    def _outage(self, strike: Strike, after_s: float, lasts_s: float) -> Iterator[float]:
        yield after_s
        host, inside = self.web.host, len(self.web.visits)
        if host.ending is not None or host.main is None or not host.loops or host.paused:
            return
        strike.note(f"{inside} {'request' if inside == 1 else 'requests'} inside")
        if inside:
            strike.felt()
        host.kernel.clock.ns = max(host.kernel.clock.ns, self.web.world.wire.now_ns)
        host.kill()
        turns = host.turns
        try:
            yield lasts_s
        finally:
            if host.turns == turns and not self.web.world.sealed and not self._is_over():
                host.kernel.clock.ns = max(host.kernel.clock.ns, self.web.world.wire.now_ns)
                host.restart()

    def _is_over(self) -> bool:
        nemesis: Any = self.web.world.nemesis
        return self.web.world.ending or (nemesis is not None and nemesis.ground.is_over)


def _omens_for(request: httpx.Request) -> list[Omen]:
    """What was foretold for the call that sends this request, and is still to come true."""
    bound = BOUND.get()
    if bound is None:
        return []
    line = f"{request.method} {request.url.path}"
    return [each for each in bound.due(WEB) if each.aim in line]
