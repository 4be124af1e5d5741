"""Causal order: which events of several hosts could have influenced which others.

`a` is before `b` (Lamport) if both are of one process and `a` came first, if `a` sent what `b`
received, or by a chain of these. Two events neither of which is before the other are concurrent: no
clock that is right can say which came first, and a program must not depend on it.

An order in virtual time is not enough to say "before": what happened earlier elsewhere, and of
which no message has come, has influenced nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from foretold.errors import UsageError
from foretold.world.log import LoggedEvent

E = TypeVar("E")
Field = str | Callable[[Any], Any]
"""A field of an event, by its name or as a function of the event."""


class Violation(NamedTuple):
    """A process has seen an effect before its cause."""

    process: Hashable
    effect: Any
    """The event by which the process saw the effect."""
    cause: Any
    """The event by which it saw the cause, later; or, of a message, the event that sent it."""
    why: str

    def __repr__(self) -> str:
        return f"{self.process} saw {self.effect} before {self.cause}: {self.why}"

    def __str__(self) -> str:
        return repr(self)


def causal(
    history: Iterable[E],
    *,
    process: Field | None = None,
    messages: Iterable[tuple[E, E]] = (),
    about: Field | None = None,
) -> Causal[E]:
    """The causal order of a history: events in the order in which they were recorded.

        order = foretold.causal(world.log)
        assert order.before(sent, applied) and order.concurrent(left, right)
        assert not foretold.causal(world.log, about="message").violations

    The history is `world.log` or a part of it: then hosts are the processes, and the messages are
    those that really passed between them. For other events `process` says of which process each is
    (a field or a function; by default its `host` or `actor`), and `messages` are pairs of events
    (sent, received).

    `about` names the thing that an event makes or shows. The first event about a thing makes it,
    the others show that their process has seen it. Then only this counts as a message: a process
    that has not seen a thing is not influenced by it. `violations` are things that a process has
    seen before others that had influenced them.
    """
    return Causal(list(history), process, list(messages), about)


class Causal(Generic[E]):
    """The causal order of some events."""

    def __init__(
        self,
        events: list[E],
        process: Field | None,
        messages: list[tuple[E, E]],
        about: Field | None,
    ) -> None:
        self.events = events
        self.violations: list[Violation] = []
        """Effects that a process has seen before their causes."""
        self._number = {id(event): number for number, event in enumerate(events)}
        of_world = process is None and about is None
        of_world = of_world and all(isinstance(each, LoggedEvent) for each in events)
        self._processes = [_process_of(event, process) for event in events]
        # What a world knows is told in ids, so that a part of its log will do.
        self._places = [getattr(e, "id", 0) if of_world else n + 1 for n, e in enumerate(events)]
        keys = [None if about is None else _field_of(event, about) for event in events]
        causes = self._causes(messages, keys)
        self._clocks: list[dict[Hashable, int]] = []
        latest: dict[Hashable, dict[Hashable, int]] = {}
        for number, event in enumerate(events):
            clock = dict(latest.get(self._processes[number], {}))
            for other in (self._clocks[cause] for cause in causes.get(number, ())):
                _merge(clock, other)
            if of_world and isinstance(event, LoggedEvent):
                _merge(clock, event.known)
            clock[self._processes[number]] = self._places[number]
            latest[self._processes[number]] = clock
            self._clocks.append(clock)
        self._find_violations(keys)

    def before(self, a: E, b: E) -> bool:
        """Whether `a` could have influenced `b`."""
        one, other = self._at(a), self._at(b)
        return one != other and self._precedes(one, other)

    def concurrent(self, a: E, b: E) -> bool:
        """Whether neither could have influenced the other."""
        return a is not b and not self.before(a, b) and not self.before(b, a)

    @property
    def concurrent_pairs(self) -> list[tuple[E, E]]:
        """All pairs of events that are concurrent, in the order in which they were recorded."""
        numbers = range(len(self.events))
        return [
            (self.events[one], self.events[other])
            for one in numbers
            for other in numbers[one + 1 :]
            if not self._precedes(one, other)  # the later one is never before the earlier one
        ]

    def _precedes(self, one: int, other: int) -> bool:
        return self._clocks[other].get(self._processes[one], 0) >= self._places[one]

    def _at(self, event: E) -> int:
        found = self._number.get(id(event))
        if found is None:
            raise UsageError(
                f"{event!r} is not an event of this history. Take the events from the history "
                "itself: first, second = world.log.of('Sent', 'Received')"
            )
        return found

    def _causes(self, messages: list[tuple[E, E]], keys: list[Any]) -> dict[int, list[int]]:
        """By event, those that were sent to it."""
        found: dict[int, list[int]] = {}
        for sent, received in messages:
            cause, effect = self._at(sent), self._at(received)
            if cause < effect:
                found.setdefault(effect, []).append(cause)
            else:
                why = "it is recorded as received before it was sent"
                self.violations.append(Violation(self._processes[effect], received, sent, why))
        made: dict[Any, int] = {}
        for number, key in enumerate(keys):
            if key is not None and made.setdefault(key, number) != number:
                found.setdefault(number, []).append(made[key])
        return found

    def _find_violations(self, keys: list[Any]) -> None:
        """A cause that a process sees after its effect. One that it never sees may be none of its
        business."""
        made: dict[Any, int] = {}
        seen: dict[Hashable, dict[Any, int]] = {}
        for number, key in enumerate(keys):
            if key is not None:
                made.setdefault(key, number)
                seen.setdefault(self._processes[number], {}).setdefault(key, number)
        for process, sights in seen.items():
            for effect, at in sights.items():
                for cause, later in sights.items():
                    first, second = made[cause], made[effect]
                    if later > at != second and first < second and self._precedes(first, second):
                        why = f"{self.events[first]} is before {self.events[second]}"
                        violation = Violation(process, self.events[at], self.events[later], why)
                        self.violations.append(violation)


def _merge(clock: dict[Hashable, int], other: Mapping[Any, int]) -> None:
    for process, place in other.items():
        clock[process] = max(clock.get(process, 0), place)


def _field_of(event: Any, field: Field) -> Any:
    if callable(field):
        return field(event)
    for holder in (event, getattr(event, "data", None), getattr(event, "arguments", None)):
        if isinstance(holder, Mapping) and field in holder:
            return holder[field]
    return getattr(event, field, None)


def _process_of(event: Any, process: Field | None) -> Hashable:
    names: tuple[Field, ...] = ("host", "actor", "process") if process is None else (process,)
    for name in names:
        found: Hashable = _field_of(event, name)
        if found is not None:
            return found
    raise UsageError(
        f"causal does not know of which process {event!r} is. Write causal(history, "
        "process='node'), with a field of the events, or process=lambda event: …"
    )
