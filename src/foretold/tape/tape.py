"""The tape: the only source of decisions of one run.

A run is a function of (code, tape). A tape has one of four origins:

- *seeded*: a seed and the run's settings. Every choice comes from a generator derived from them,
  but for the streams that are given.
- *recorded*: the choices one by one, as some run made them.
- *enumerated*: every combination in turn (`enumerate_tapes`).
- *derived*: a recorded one that a search or the shrinker has changed.

A tape is read by one run at a time; `fresh()` gives one that starts from the beginning again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from foretold.arguments import check_seed, check_whole
from foretold.errors import UsageError
from foretold.tape.schedule import Key, Schedule
from foretold.tape.streams import (
    Choice,
    ContinuedStream,
    EnumeratedStream,
    Odometer,
    RecordedStream,
    SeededStream,
    Stream,
)

T = TypeVar("T")
Origin = Literal["seeded", "recorded", "enumerated", "derived"]
Setting = str | int | float | bool | None
Streams = dict[str, list[Choice]]

WORKLOAD = "workload"


class Continuation(NamedTuple):
    """From an instant on, whatever the tape does not say is drawn anew."""

    from_ns: int
    """On the monotonic clock of each host."""
    seed: int


class Tape:
    """The choices of one run, by stream, and the exceptions to its calm schedule."""

    def __init__(
        self,
        origin: Origin,
        *,
        seed: int = 0,
        settings: Mapping[str, Setting] | None = None,
        choices: Mapping[str, Sequence[Choice]] | None = None,
        schedule: Schedule | None = None,
        recording: bool = False,
        odometer: Odometer | None = None,
    ) -> None:
        self.origin: Origin = origin
        self.seed = seed
        self.settings: dict[str, Setting] = dict(settings or {})
        self.choices: dict[str, Sequence[Choice]] = dict(choices or {})
        self.schedule = schedule if schedule is not None else Schedule()
        self.recording = recording
        self.written = Schedule()
        """What this run's scheduler did, if `recording`."""
        self.cast: dict[str, Collection[str]] = {}
        """Who took part, by host; told by the run, used to find a better sentence for a hold."""
        self.configuration: dict[str, str] = {}
        """What the run drew once for all of it, in words; told by the run."""
        self.continuation: Continuation | None = None
        """Not None: the choices are the beginning of a run, which goes on by chance."""
        self.log: Any = None
        """Where the schedulers note what they do, if a search enumerates schedules; then these are
        not those of a replay (`kernel/schedulers/logged.py`)."""
        self.audit: Any = None
        """Where the run notes what it has to do with time, if a search asks (`kernel/audit.py`)."""
        self.delayed: tuple[Key, int] | None = None
        """This step comes so many nanoseconds later, if a search asks what would be then; nobody is
        held on such a tape (`kernel/schedulers/delayed.py`)."""
        self._odometer = odometer
        self._streams: dict[str, Stream] = {}

    @classmethod
    def seeded(
        cls,
        seed: int,
        settings: Mapping[str, Setting] | None = None,
        choices: Mapping[str, Sequence[Choice]] | None = None,
    ) -> Tape:
        """Streams that have `choices` are read, and zero past their end; the others are drawn."""
        check_seed(seed)
        return cls("seeded", seed=seed, settings=settings, choices=choices)

    @classmethod
    def calm(cls, settings: Mapping[str, Setting] | None = None) -> Tape:
        """The all-zero tape: no fault, calm order, smallest values."""
        return cls("derived", settings=settings)

    @property
    def scheduled_by_key(self) -> bool:
        """True if the schedule is looked up rather than made by a scheduler's algorithm."""
        return self.origin in ("recorded", "derived")

    def fresh(self, *, recording: bool = False) -> Tape:
        """The same tape, rewound, with nothing drawn yet."""
        copy = Tape(
            self.origin,
            seed=self.seed,
            settings=self.settings,
            choices=self.choices,
            schedule=self.schedule,
            recording=recording,
            odometer=self._odometer,
        )
        copy.continuation = self.continuation
        copy.log = self.log
        copy.audit = self.audit
        copy.delayed = self.delayed
        return copy

    def continued(self, draws: Mapping[str, int], from_ns: int, seed: int) -> Tape:
        """The beginning of this tape, and then chance. `draws` says how many choices of each stream
        belong to the beginning."""
        begun = {name: self.choices.get(name, ())[:count] for name, count in draws.items()}
        copy = self.derived(choices=begun)
        copy.continuation = Continuation(from_ns, seed)
        return copy

    def derived(
        self,
        *,
        choices: Mapping[str, Sequence[Choice]] | None = None,
        schedule: Schedule | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> Tape:
        """A changed copy; what is not given stays."""
        if choices is None and not self.scheduled_by_key:
            if self.origin == "seeded" and schedule is None and settings is not None:
                return Tape.seeded(self.seed, settings)
            raise UsageError(
                f"this {self.origin} tape holds no recorded choices: run "
                "tape.fresh(recording=True), and derive from its .recorded()"
            )
        copy = Tape(
            "derived",
            seed=self.seed,
            settings=self.settings if settings is None else settings,
            choices=self.choices if choices is None else choices,
            schedule=self.schedule if schedule is None else schedule,
        )
        copy.cast = self.cast
        return copy

    def recorded(self) -> Tape:
        """What the run that read this tape really chose. Needs `fresh(recording=True)`."""
        if not self.recording:
            raise UsageError("this tape was not recording: read it as tape.fresh(recording=True)")
        # Copies: what is drawn from here on belongs to neither.
        choices = {name: [*s.record] for name, s in sorted(self._streams.items()) if s.record}
        recorded = Tape(
            "recorded",
            seed=self.seed,
            settings=self.settings,
            choices=choices,
            schedule=Schedule.of(self.written),
        )
        recorded.cast = self.cast
        return recorded

    def stream(self, name: str, *keys: str | int) -> Stream:
        """The stream `name`, sub-keyed: `tape.stream("net", "api", 8000)` is its own sequence."""
        full = f"{name}/{'/'.join(map(str, keys))}" if keys else name
        found = self._streams.get(full)
        if found is None:
            found = self._streams[full] = self._open(full)
        return found

    def rewind(self, last: str) -> None:
        """The streams whose last key this is begin anew."""
        for name in [each for each in self._streams if each.endswith(f"/{last}")]:
            del self._streams[name]

    def _open(self, name: str) -> Stream:
        if self.origin == "seeded" and name not in self.choices:
            return SeededStream(name, self.seed, recording=self.recording)
        if self._odometer is not None and self._odometer.goes_through(name):
            if not any(isinstance(each, EnumeratedStream) for each in self._streams.values()):
                self._odometer.rewind()  # a fresh() one begins at the start, whoever read before
            return EnumeratedStream(name, self._odometer, recording=self.recording)
        entries = self.choices.get(name, ())
        if self.continuation is not None:
            return ContinuedStream(name, entries, self.continuation.seed, recording=self.recording)
        return RecordedStream(name, entries, recording=self.recording)

    @property
    def draws(self) -> dict[str, int]:
        """How many choices were drawn so far, by stream."""
        return {name: stream.draws for name, stream in self._streams.items()}

    @property
    def drew_bytes(self) -> bool:
        """Whether the program asked for bytes, of which an enumeration gives one kind only."""
        streams = self._streams.values()
        return any(s.gave_bytes for s in streams if not s.name.startswith("entropy/"))

    @property
    def left_at_least(self) -> int:
        """How many tapes of the same enumeration are certainly still to come."""
        return 0 if self._odometer is None else self._odometer.left_at_least

    @property
    def misfit(self) -> str | None:
        """Where a recording first stopped fitting the code that reads it, or None."""
        for stream in self._streams.values():
            if isinstance(stream, RecordedStream) and stream.misfit:
                return stream.misfit
        return None

    # The same verbs on the tape itself, for the workload stream: what a test chooses by hand.

    def choose(self, n: int, label: str | None = None) -> int:
        """A number from 0 to n - 1. 0 is the calm one."""
        return self.stream(WORKLOAD).choose(n, label)

    def chance(self, p: float, label: str | None = None) -> bool:
        """True with probability `p`. False is the calm choice."""
        return self.stream(WORKLOAD).chance(p, label)

    def between(self, low: int, high: int, label: str | None = None) -> int:
        """A whole number from `low` to `high`, both included. `low` is the calm one."""
        return self.stream(WORKLOAD).between(low, high, label)

    def boolean(self, label: str | None = None) -> bool:
        """False (calm) or True."""
        return self.stream(WORKLOAD).boolean(label)

    def pick(self, options: Sequence[T], label: str | None = None) -> T:
        """One of `options`. The first is the calm one."""
        return self.stream(WORKLOAD).pick(options, label)

    def shuffle(self, items: Sequence[T], label: str | None = None) -> list[T]:
        """The items in some order; the given one is the calm one."""
        return self.stream(WORKLOAD).shuffle(items, label)

    def bytes(self, n: int, label: str | None = None) -> bytes:
        """`n` bytes that look random."""
        return self.stream(WORKLOAD).bytes(n, label)


def enumerate_tapes(
    limit: int | None = None, *, streams: Collection[str] | None = (WORKLOAD,)
) -> Iterator[Tape]:
    """Every tape in turn: each combination of choices that the loop's body draws, exactly once.

        for tape in foretold.enumerate_tapes():
            size = tape.between(0, 3)
            flags = [tape.boolean() for _ in range(size)]
            ...

    The bounds of a choice may depend on earlier choices. A body that draws nothing is run once. A
    body that calls `foretold.run(main, tape=tape)` goes through what the program itself chooses
    (`foretold.choose`, `between`, `draw`); the world around it stays calm. `streams=("workload",
    "knob")` goes through these streams, `streams=None` through all: latencies alone are too many.
    `limit` ends an enumeration that turns out too large: one tape more raises `UsageError`.
    """
    if limit is not None:
        check_whole("limit", limit, at_least=1, example=1_000)
    odometer = Odometer(_names_of(streams))
    count = 0
    while True:
        if limit is not None and count >= limit:
            raise UsageError(
                f"there are more than {limit} combinations: choose among fewer, or raise the limit"
            )
        count += 1
        yield Tape("enumerated", odometer=odometer)
        if not odometer.turn():
            return


def _names_of(streams: Collection[str] | None) -> frozenset[str] | None:
    if streams is None:
        return None
    if isinstance(streams, str) or not all(name and isinstance(name, str) for name in streams):
        raise UsageError(
            f'streams are names, such as streams=("workload", "knob"); got {streams!r}'
        )
    return frozenset(streams)
