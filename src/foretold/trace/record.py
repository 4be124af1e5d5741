"""The trace: what happened in a run, and a running digest of it.

Each step, each jump of time and each content that crosses a seam (bytes, arguments, results) goes
into the digest in the order in which it happened; two runs with equal digests did the same.
Memory stays bounded: the digest is kept, not its input. On demand (`detail=True`, used when a
failing run is replayed for its story) the last events are kept with their source lines as well;
that changes neither the run nor the digest.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from foretold.trace.events import CalledBack, Event, Fault, Late, Resumed, SlowStep, Who
from foretold.trace.places import Place

KEPT_EVENTS = 20_000
UNUSUAL_MAX = 100
_PENDING_MAX = 20_000
_INSTANT = re.compile(r"\A@\d+ ")
SLOW = "slow"
"""How the entry of a slow step begins."""
_SLOW = f"{SLOW} "
_SEPARATOR = "\x1e"
_FOR_THE_SINK = "\x1d"


@dataclass(slots=True)
class Gone:
    """What a long run leaves of the events that are no longer kept."""

    steps: dict[Who, int] = field(default_factory=dict)
    """The last step of each actor among them: it has made all up to that one."""
    unusual: deque[Event] = field(default_factory=lambda: deque(maxlen=UNUSUAL_MAX))
    """Faults, messages that were late, and late steps."""

    def note(self, event: Event) -> None:
        """This event is dropped."""
        if isinstance(event, Resumed | CalledBack):
            self.steps[event.who] = event.step
        elif isinstance(event, Late | Fault | SlowStep):
            self.unusual.append(event)

    def has_made(self, host: str, actor: str, step: int) -> bool:
        """Whether this step was made, among the events that were dropped."""
        return step <= self.steps.get((host, actor), 0)


class Trace:
    """What happened so far. `steps.append` is the hot path; everything else goes via `note`."""

    def __init__(
        self,
        *,
        detail: bool = False,
        sink: Callable[[str], object] | None = None,
        watched: Collection[tuple[str, str, int]] = (),
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self.pending: list[str] = []
        self.detail = detail
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.gone = Gone()
        self.watched = watched
        """Steps (host, actor, number) whose stacks are kept, too."""
        self.stacks: dict[tuple[str, str, int], list[Place]] = {}
        """The lines at which who makes such a step waits, the outermost first."""
        self._on_event = on_event
        self.entries = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._sink = sink
        self.listener: Callable[[list[str]], object] | None = None
        """Who else wants to see what goes into the digest, in parts."""
        self.accesses: list[Any] | None = None
        """What statements touch, if a search wants to know (`kernel/conflicts.py`)."""
        self.in_turn = False
        """Calls that do not overlap wait for each other: a machine makes them."""
        self._sealed = False
        self._jumps: list[int] = []
        self._jumps_hash = hashlib.blake2b(digest_size=8)
        self._path_hash: Any = None
        self.jump: Callable[[int], object] = self._jumps.append if sink is None else self._jump_told
        """Virtual time jumps to this instant. As hot as a step, and numbers are cheaper than text:
        jumps have a hash of their own, in their own order."""

    def _jump_told(self, ns: int) -> None:
        self._jumps.append(ns)
        self.pending.append(f"{_FOR_THE_SINK}@{ns}")

    def note(self, *parts: str) -> None:
        """Put a fact into the digest."""
        self.pending.append(" ".join(parts))
        if len(self.pending) > _PENDING_MAX:
            self.flush()  # one step that draws a million numbers

    def keep(self, event: Event) -> None:
        """Keep an event for the story. Only called when `detail` is on."""
        if len(self.events) == KEPT_EVENTS:
            self.gone.note(self.events[0])
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def flush(self) -> None:
        """Feed what is pending to the digest."""
        pending, jumps = self.pending, self._jumps
        if not self._sealed:
            if self._sink is not None:
                pending = self._told(self._sink)
            if pending:
                if self.listener is not None:
                    self.listener(pending)
                text = _SEPARATOR.join(pending) + _SEPARATOR
                self._hash.update(text.encode("utf-8", "surrogatepass"))
                if self._path_hash is not None:
                    self._path_hash.update(_timeless(pending))
            if jumps:
                self._jumps_hash.update(_packed(jumps))
            self.entries += len(pending) + len(jumps)
        self.pending.clear()
        jumps.clear()

    def _told(self, sink: Callable[[str], object]) -> list[str]:
        """Give all that is pending to the sink; what was meant for it alone is left out."""
        for entry in self.pending:
            sink(entry.removeprefix(_FOR_THE_SINK))
        return [entry for entry in self.pending if not entry.startswith(_FOR_THE_SINK)]

    def seal(self) -> None:
        """The run is over: what still happens while it is taken down is no part of it."""
        self.flush()
        self._sealed = True
        self.detail = False

    @property
    def digest(self) -> str:
        """A fingerprint of all that has happened so far."""
        self.flush()
        return self._hash.hexdigest() + self._jumps_hash.hexdigest()

    def keep_path(self) -> None:
        """Also keep a fingerprint of what happens without its times; before anything has."""
        self._path_hash = hashlib.blake2b(digest_size=16)

    @property
    def path(self) -> str:
        """A fingerprint of what has happened, without when: steps and contents in their order.
        Empty if that was not asked for."""
        self.flush()
        return "" if self._path_hash is None else self._path_hash.hexdigest()


def _timeless(entries: list[str]) -> bytes:
    """Without the instants at which tasks ended, and without slow steps: both are the pace's."""
    told = (_INSTANT.sub("", entry) for entry in entries if not entry.startswith(_SLOW))
    return (_SEPARATOR.join(told) + _SEPARATOR).encode("utf-8", "surrogatepass")


def _packed(numbers: list[int]) -> bytes:
    try:
        return array("q", numbers).tobytes()
    except OverflowError:  # more than 292 years
        return repr(numbers).encode()
