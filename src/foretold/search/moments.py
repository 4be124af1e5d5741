"""Moments: the lines of a story's second part, from events to aligned text.

One step of a task is one moment: where it went on, and how far it came. How far is known from the
line at which the same task goes on the next time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from foretold.search.failure import Delay
from foretold.search.words import (
    TIMEOUTS,
    aligned,
    count,
    duration,
    ended_how,
    instant,
    late_in_words,
    short,
    source_line,
)
from foretold.trace import IN_A_PACKAGE, LATE, REQUEST, SERVICE, Event, Place
from foretold.world.world import DEFAULT_HOST

JUMP_NS_MIN = 1_000_000
"""A step never takes that long unless the story says so: it was a jump of time."""
ROUNDS_MIN = 3
"""From so many on, steps that come back to the line where they began are told as one."""

_SAID = {
    "chose": "chooses {}",
    "slow step": "the event loop is late: this step took {}",
    "stalled": "{}",
}
"""Events that are told besides the steps, and how."""

Who = tuple[str, str]
"""Host and actor."""


class Moment(NamedTuple):
    """One line of the story."""

    time_ns: int | None
    who: Who | None
    place: Place | None
    text: str
    rounds: bool = False
    """A step that ended at the line where it began, with nothing to say about it."""
    passed_ns: int = 0
    """Not a step: so much time passed in which nobody did anything."""
    took_time: bool = False
    """It says itself how long it took."""


class Ending(NamedTuple):
    """How the run failed: who, in which of its steps, and where."""

    who: Who | None
    step: int
    moment: Moment
    stuck: Mapping[str, tuple[Place, str]] = {}
    """In a deadlock: where each task waits for ever, and for what."""


def who_of(event: Event) -> Who:
    """The host and the actor of an event."""
    return (event.host, event.actor)


def moments_of(
    events: Sequence[Event], numbers: Iterable[int], delays: list[Delay], ending: Ending
) -> list[Moment]:
    """What can be told of the events with these numbers, with rounds told as one, and the end."""
    told = list(_told(events, numbers, _Notes(delays, ending)))
    return [*_rounds_joined(told), ending.moment]


class _Notes:
    """What is said about single steps besides where they go: held, let go, failed."""

    def __init__(self, delays: list[Delay], ending: Ending) -> None:
        self._held = {(d.hold.host, d.hold.actor, d.hold.step) for d in delays}
        self._ending = ending

    def step(self, event: Event, then: Event | None) -> Moment:
        key = (event.host, event.actor, event.step)
        let_go = "let go: " if key in self._held else ""
        verb = "starts" if event.step == 1 else "goes on"
        held_next = (event.host, event.actor, event.step + 1) in self._held
        held = "  (held here)" if held_next else ""
        far = self._how_far(event, then)
        back = ", is back at this line" if event.place is not None else ""
        text = f"{let_go}{verb}{far or back}{held}"
        rounds = not (far or held or let_go)
        return Moment(event.time_ns, who_of(event), event.place, text, rounds=rounds)

    def _how_far(self, event: Event, then: Event | None) -> str:
        """Empty if it comes back to the line where it began."""
        ending = self._ending
        if (who_of(event), event.step) == (ending.who, ending.step):
            return runs_to(ending.moment.place, event.place) or ", fails"
        if then is None:
            if event.actor not in ending.stuck:
                return ", waits for ever"
            place, what = ending.stuck[event.actor]
            return f"{runs_to(place, event.place)}  (waits for {what})"
        if then.kind == "ended":
            return f", {ended_how(then.text)}"
        return "" if then.place == event.place else runs_to(then.place, event.place)


def runs_to(there: Place | None, here: Place | None) -> str:
    """How far a step came that began here: `, runs to line 39: await …`."""
    if there is None:
        return ""
    same_file = here is not None and here.file == there.file
    where = f"line {there.line}" if same_file else short(there)
    text = source_line(there)
    return f", runs to {where}" + (f": {text}" if text else "")


def _told(events: Sequence[Event], numbers: Iterable[int], notes: _Notes) -> Iterator[Moment]:
    following = _following(events)
    before: Event | None = None
    for number in numbers:
        event = events[number]
        # The texts of these say themselves how long they took.
        takes_time = event.kind in ("slow step", "stalled")
        gap_ns = 0 if before is None or takes_time else event.time_ns - before.time_ns
        if gap_ns >= JUMP_NS_MIN:
            yield Moment(event.time_ns, None, None, "", passed_ns=gap_ns)
        if event.kind == "resumes":
            moment = notes.step(event, following[number])
            if not (moment.rounds and event.text == IN_A_PACKAGE):
                yield moment
        elif event.kind in _SAID:
            text = _SAID[event.kind].format(rounded(event.text))
            yield Moment(event.time_ns, who_of(event), event.place, text, took_time=takes_time)
        elif event.kind == "fault":
            yield Moment(event.time_ns, None, None, f"fault: {event.text}")
        elif event.kind in (SERVICE, REQUEST):
            yield Moment(event.time_ns, None, event.place, event.text)
        elif event.kind == LATE:
            yield Moment(event.time_ns, None, None, late_in_words(event.text, "takes"))
        elif event.kind == "callback" and event.text in TIMEOUTS:
            yield Moment(event.time_ns, None, None, "(a timeout expires)")
        before = event


def without_conductor(
    events: Sequence[Event], numbers: Iterable[int], conductor: Who | None
) -> list[int]:
    """In the run of a machine: without the steps of who calls the rules, what it has chosen before
    the first (that is told above), and without the steps of rules that do nothing but send
    requests, which are told as such."""
    following = _following(events)
    tells_requests = any(event.kind == REQUEST for event in events)

    def is_told(number: int) -> bool:
        event, then = events[number], following[number]
        if who_of(event) == conductor and event.kind in ("resumes", "chose"):
            return False
        if event.kind != "resumes":
            return True
        asks = event.text == IN_A_PACKAGE or event.step == 1
        waits = then is None or then.kind == "ended" or then.text == IN_A_PACKAGE
        return not (tells_requests and event.host == DEFAULT_HOST and asks and waits)

    return [number for number in numbers if is_told(number)]


def rounded(text: str) -> str:
    """`took 6.69171 ms` has more digits than anybody wants to read."""
    found = re.fullmatch(r"took ([\d.e+-]+) ms", text)
    return text if found is None else duration(round(float(found[1]) * 1e6))


def _following(events: Sequence[Event]) -> list[Event | None]:
    """For each event: what the same actor did next, its next step or its end."""
    latest: dict[Who, Event] = {}
    found: list[Event | None] = []
    for event in reversed(events):
        found.append(latest.get(who_of(event)))
        if event.kind in ("resumes", "ended"):
            latest[who_of(event)] = event
    found.reverse()
    return found


def _rounds_joined(told: list[Moment]) -> Iterator[Moment]:
    """Many steps of one task round the same line become one line, at the first of them."""
    rounds = _rounds(told)
    for number, moment in enumerate(told):
        times = rounds.get(number)
        if times is None:
            yield moment
        elif times:
            round_what = "goes round this line" if moment.place is not None else "goes on"
            yield moment._replace(text=f"{round_what} {times} times")


def _rounds(told: list[Moment]) -> dict[int, int]:
    """Numbers of moments that belong to rounds: how many, at the first; 0 at the others."""
    found: dict[int, int] = {}
    running: dict[Who, list[int]] = {}

    def close(who: Who) -> None:
        numbers = running.pop(who, [])
        if len(numbers) >= ROUNDS_MIN:
            found.update(dict.fromkeys(numbers, 0))
            found[numbers[0]] = len(numbers)

    for number, moment in enumerate(told):
        if moment.who is None:
            continue
        if moment.rounds:
            running.setdefault(moment.who, []).append(number)
        else:
            close(moment.who)
    for who in list(running):
        close(who)
    return found


# Text


def lines_of(
    moments: Sequence[Moment],
    start_ns: int,
    names: dict[Who, str],
    lines_max: int,
    called: Callable[[str], str] = str,
) -> list[str]:
    """The moments as aligned columns; of too many, those in the middle are left out. `called` puts
    each cell into the words of the story."""
    moments = list(_time_joined(moments))
    rows = [tuple(map(called, _row(moment, start_ns, names))) for moment in moments]
    lines = aligned(rows)
    if len(lines) > lines_max:
        head, tail = lines_max // 3, lines_max - lines_max // 3
        lines[head:-tail] = [f"  … {count(len(lines) - lines_max, 'line')} left out"]
    return lines


def _time_joined(moments: Sequence[Moment]) -> Iterator[Moment]:
    """Time that passed in several pieces, with nothing to tell between them, is one piece."""
    shown_ns: int | None = None
    jump: Moment | None = None
    for moment in moments:
        if moment.passed_ns:
            jump = moment
            continue
        if jump is not None and jump.time_ns is not None and shown_ns is not None:
            # Up to what is shown next: what lies between has no line of its own.
            until_ns = moment.time_ns
            if until_ns is None or moment.took_time:
                until_ns = jump.time_ns
            yield Moment(None, None, None, f"({duration(until_ns - shown_ns)} later)")
        jump = None
        shown_ns = moment.time_ns
        yield moment


def _row(moment: Moment, start_ns: int, names: dict[Who, str]) -> tuple[str, str, str, str]:
    time = "" if moment.time_ns is None else instant(moment.time_ns - start_ns)
    who = names.get(moment.who, moment.who[1]) if moment.who is not None else ""
    return time, who, short(moment.place), moment.text
