"""The log of a run: what the program itself says has happened, with virtual times.

`foretold.event(name, **data)` writes it, tests read it: `world.log.of("TicketCreated")`,
`world.log.between(0, 60)`. Each event knows which event has caused it, and to which conversation
it belongs; both follow tasks and timers by themselves, because asyncio hands contexts on.
"""

from __future__ import annotations

import contextvars
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretold.errors import PropertyViolated
from foretold.kernel.clock import NS, to_ns

CAUSE: contextvars.ContextVar[int | None] = contextvars.ContextVar("foretold_cause", default=None)
CORRELATION: contextvars.ContextVar[str] = contextvars.ContextVar(
    "foretold_correlation", default=""
)
_STATUS_OK = 1
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One thing that the program says has happened."""

    id: int
    """They are numbered from 1."""
    time_ns: int
    """Since the run began."""
    name: str
    data: Mapping[str, Any]
    cause: int | None = None
    """The id of the event in whose handling it happened."""
    correlation: str = ""
    """The conversation that it belongs to."""
    host: str = ""
    known: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """By host, the last event that its host could know of: see `foretold.causal`."""

    @property
    def time_s(self) -> float:
        """Virtual seconds since the run began."""
        return self.time_ns / NS

    def to_dict(self) -> dict[str, Any]:
        """As a line of a golden file has it."""
        found: dict[str, Any] = {"id": self.id, "t_ms": _ms(self.time_ns), "event": self.name}
        found |= {"data": dict(self.data)} if self.data else {}
        found |= {"cause": self.cause} if self.cause is not None else {}
        return found | ({"correlation": self.correlation} if self.correlation else {})

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.data.items())
        return f"[{clock_text(self.time_ns)}] {self.name}({told})"


def clock_text(ns: int) -> str:
    """`20 min`, `20 min 1.5 s`: as the story of a scenario tells times."""
    minutes, rest = divmod(ns, 60 * NS)
    seconds = f"{rest / NS:g} s" if rest or not minutes else ""
    return " ".join(filter(None, (f"{minutes} min" if minutes else "", seconds)))


def _ms(ns: int) -> float | int:
    whole, rest = divmod(ns, 1_000_000)
    return ns / 1_000_000 if rest else whole


class EventLog:
    """Events in the order in which they happened, all of them or some."""

    def __init__(self, events: Iterable[LoggedEvent] = ()) -> None:
        self._events = list(events)

    def __iter__(self) -> Iterator[LoggedEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, number: int) -> LoggedEvent:
        return self._events[number]

    def __repr__(self) -> str:
        return f"<log of {len(self)} event{'s' * (len(self) != 1)}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self._events))

    def add(self, event: LoggedEvent) -> None:
        """One more; for the engine."""
        self._events.append(event)

    def of(self, *names: str) -> EventLog:
        """Events of these names."""
        return EventLog(each for each in self if each.name in names)

    def between(self, from_s: float, to_s: float) -> EventLog:
        """Events from one virtual second on, and before the other."""
        low, high = to_ns(from_s), to_ns(to_s)
        return EventLog(each for each in self if low <= each.time_ns < high)

    def correlated(self, correlation: str) -> EventLog:
        """Events of one conversation."""
        return EventLog(each for each in self if each.correlation == correlation)

    def caused_by(self, event: LoggedEvent) -> EventLog:
        """What happened while this event was handled."""
        return EventLog(each for each in self if each.cause == event.id)

    def silence(self, from_s: float, to_s: float, *names: str) -> None:
        """Nothing was said (of these names) after one virtual second and before the other."""
        low, high = to_ns(from_s), to_ns(to_s)
        said = [
            each for each in self if low < each.time_ns < high and (not names or each.name in names)
        ]
        if said:
            raise PropertyViolated(
                f"silence was expected between {clock_text(low)} and {clock_text(high)}, and there "
                f"is {said[0]}"
            )

    def lines(self) -> list[str]:
        """As JSON, a line for each event."""
        return [json.dumps(each.to_dict(), ensure_ascii=False) for each in self]

    def otlp(self, service: str = "foretold") -> dict[str, Any]:
        """As OpenTelemetry's JSON has spans: one for each event, its cause as its parent."""
        spans = [_span(each) for each in self]
        resource = {"attributes": [_attribute("service.name", service)]}
        scope = {"scope": {"name": "foretold"}, "spans": spans}
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _span(event: LoggedEvent) -> dict[str, Any]:
    import hashlib

    trace = hashlib.blake2b(event.correlation.encode(), digest_size=16).hexdigest()
    span = {
        "traceId": trace,
        "spanId": f"{event.id:016x}",
        "name": event.name,
        "kind": 1,
        "startTimeUnixNano": str(event.time_ns),
        "endTimeUnixNano": str(event.time_ns),
        "attributes": [_attribute(name, value) for name, value in event.data.items()],
        "status": {"code": _STATUS_OK},
    }
    return span if event.cause is None else span | {"parentSpanId": f"{event.cause:016x}"}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    if isinstance(value, float):
        return {"key": name, "value": {"doubleValue": value}}
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"key": name, "value": {"stringValue": text}}


def plain(value: Any) -> Any:
    """A copy that JSON can hold: what happens to the original later does not change the log."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if type(value) in _PLAIN else str(value)
