"""Which failure strikes which call to the outside: drawn with each of them, or asked for.

external_slow    the answer takes seconds or minutes
external_429     too many requests, with Retry-After; the call has no effect
external_500     500, 502 or 503; the call has no effect
external_broken  the connection breaks before the call has an effect
external_lost    the connection breaks after it: the caller cannot know
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from foretold.arguments import known_words
from foretold.errors import UsageError
from foretold.services.external.script import ExternalCall, ScriptedAnswer, reason_of
from foretold.world.faults.external import FAILURES

if TYPE_CHECKING:
    from foretold.services.external.server import External

SHARES: Final = (0.1, 0.3, 0.6)
"""Which part of the calls of a run fails."""
SLOW_S: Final = (2.0, 10.0, 40.0, 120.0)
RETRY_S: Final = (1, 5, 60)
STATUSES: Final = (500, 502, 503)
REFUSES: Final = ("external_429", "external_500")
TOLD: Final = {
    "external_slow": "is slow",
    "external_429": "refuses a call with 429",
    "external_500": "fails with a 5xx",
    "external_broken": "breaks the connection before a call has an effect",
    "external_lost": "breaks the connection after a call had its effect",
}
"""How a story tells them."""
BREAKS: Final = ("external_broken", "external_lost")


@dataclass(slots=True)
class ExternalFailure:
    """A failure that waits for its call."""

    kind: str
    method: str | None = None
    path: str | None = None

    def fits(self, call: ExternalCall) -> bool:
        """Whether this call is meant."""
        return (self.method is None or self.method.upper() == call.method) and (
            self.path is None or self.path in call.path
        )


class Injection:
    def __init__(self, external: External) -> None:
        self._external = external
        self._world = external.world
        self.armed: list[ExternalFailure] = []
        self.struck: list[str] = []
        self._share: float | None = None
        self._choices = self._world.tape.stream("fault", "external", external.host.name)

    def arm(self, kind: str, method: str | None, path: str | None) -> ExternalFailure:
        """The next call that fits fails in this way."""
        kind = kind if kind in FAILURES else f"external_{kind}"
        if kind not in FAILURES:
            known = known_words(kind, FAILURES)
            raise UsageError(f"fail_next({kind!r}): there is no such failure; there are {known}")
        failure = ExternalFailure(kind, method, path)
        self.armed.append(failure)
        return failure

    def strike(self, call: ExternalCall) -> str:
        """The kind that strikes this call; empty if none does. `happens` tells when it does."""
        kind = self._drawn(call)
        if kind:
            self._world.tally.fault(kind, "injected")
            self._world.tally.fault(kind, "effect", 0)
        return kind

    def happens(self, call: ExternalCall) -> None:
        """The caller gets to feel it now."""
        self.struck.append(call.fault)
        self._world.tally.fault(call.fault, "effect")
        name = self._external.host.name
        self._world.note_fault(f"{name} {TOLD[call.fault]}: {call} of {call.sender}")

    def _drawn(self, call: ExternalCall) -> str:
        for failure in self.armed:
            if failure.fits(call):
                self.armed.remove(failure)
                return failure.kind
        nemesis = self._world.nemesis
        kinds = [] if nemesis is None else nemesis.on_occasion(FAILURES)
        if nemesis is None or not kinds:
            return ""
        if self._share is None:
            self._share = self._choices.pick(SHARES, "share of calls that fail")
        if not self._choices.chance(self._share, "this call fails"):
            return ""
        nemesis.struck += 1
        return self._choices.pick(kinds, "how it fails")

    def slow_s(self) -> float:
        """How long the answer takes, in addition."""
        return self._choices.pick(SLOW_S, "slow by, s")

    def refusal(self, kind: str) -> ScriptedAnswer:
        """What a call gets that has no effect."""
        if kind == "external_429":
            after = str(self._choices.pick(RETRY_S, "retry after, s"))
            return _refused(429, (("retry-after", after),))
        return _refused(self._choices.pick(STATUSES, "status"))


def _refused(status: int, headers: tuple[tuple[str, str], ...] = ()) -> ScriptedAnswer:
    body = f'{{"error": {{"message": "{reason_of(status)}"}}}}'.encode()
    return ScriptedAnswer(status, body, "application/json", headers)
