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
from typing import NamedTuple

KEPT_EVENTS = 20_000
THREAD = "thread"
"""The text of an event `resumes`, if it is a thread's step and not a task's."""
IN_A_PACKAGE = "in a package"
"""The text of an event `resumes`, if the task waits inside of a package that the user's line has
called: steps between two such waits say something about the package alone."""
LATE = "late message"
"""The kind of an event: a message takes longer than it would in the calm run."""
SERVICE = "service"
"""The kind of an event: something that a service of the world says about itself."""
REQUEST = "request"
"""The kind of an event: a request was sent, or its response has come."""
ASKED_BY = "asked by"
"""The kind of an event: for whom a task of a server (a request) or a session of a database works
from now on."""
MADE_BY = "made by"
"""The kind of an event: which task has made this one."""
BROKE = "broke"
"""The kind of an event: after what this session has just committed an invariant does not hold; the
text is the invariant's query."""
NOBODY = ""
"""The actor of an event that no task of the program has a part in."""
_CONTENT_DEPTH_MAX = 6
_CONTENT_ITEMS_MAX = 1_000
_DECIMAL_BITS_MAX = 4_096
_PENDING_MAX = 20_000
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
_SEPARATOR = "\x1e"
_FOR_THE_SINK = "\x1d"


class Place(NamedTuple):
    """A line of source: where a task waits or resumes."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Event(NamedTuple):
    """One thing that happened, as a person reads it."""

    time_ns: int
    host: str
    actor: str
    step: int
    kind: str
    text: str
    place: Place | None
    callers: tuple[Place, ...] = ()
    """The lines of the user's own from which that place was reached, the nearest first."""
    values: tuple[str, ...] = ()
    """What was given with a statement."""

    def __str__(self) -> str:
        where = f" {self.place}" if self.place else ""
        return f"{self.time_ns / 1e9:.9f} {self.host}/{self.actor}{where} {self.kind} {self.text}"


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
        self._sealed = False
        self._jumps: list[int] = []
        self._jumps_hash = hashlib.blake2b(digest_size=8)
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


def _packed(numbers: list[int]) -> bytes:
    try:
        return array("q", numbers).tobytes()
    except OverflowError:  # more than 292 years
        return repr(numbers).encode()


def encode(value: object, depth: int = 0) -> str:
    """A value as text that is the same in every process.

    Only plain data is spelled out. Of other objects the type's name alone is taken: their `repr`
    may hold addresses, or be expensive, or have effects.
    """
    if value is None or type(value) in (bool, float, str):
        return repr(value)
    if isinstance(value, int):  # hex of a large one: repr refuses those of 4,300 digits
        return int.__repr__(value) if value.bit_length() < _DECIMAL_BITS_MAX else hex(value)
    for plain in (float, str):  # of a class derived from it: its own repr may do anything
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        digest = hashlib.blake2b(bytes(value), digest_size=8).hexdigest()
        return f"<{len(value)} bytes {digest}>"
    if isinstance(value, BaseException):
        return _encode_exception(value, depth + 1)
    if depth >= _CONTENT_DEPTH_MAX:
        return f"<{type(value).__name__}>"
    return _encode_container(value, depth + 1)


def _encode_exception(error: BaseException, depth: int) -> str:
    name = type(error).__name__
    if type(error) is AssertionError:
        return name  # pytest writes its text, with addresses, and more of it under -v
    return name + _ADDRESS.sub("0x…", encode(error.args, depth))


def _encode_container(value: object, depth: int) -> str:
    if type(value) in (list, tuple):
        items = [encode(item, depth) for item in value[:_CONTENT_ITEMS_MAX]]  # type: ignore[index]  # narrowed by type()
        return f"[{len(value)}: {', '.join(items)}]"  # type: ignore[arg-type]  # narrowed by type()
    if type(value) in (set, frozenset):
        # Sorted: the order of a set of strings depends on the hash seed and is no content.
        items = sorted(encode(item, depth) for item in value)  # type: ignore[attr-defined]  # narrowed by type()
        return f"{{{', '.join(items[:_CONTENT_ITEMS_MAX])}}}"
    if type(value) is dict:
        pairs = [f"{encode(k, depth)}: {encode(v, depth)}" for k, v in value.items()]
        return f"{{{', '.join(pairs[:_CONTENT_ITEMS_MAX])}}}"
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
