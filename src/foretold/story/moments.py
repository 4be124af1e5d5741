"""Moments: the lines of a story's second part, from events to aligned text.

One step of a task is one moment: where it went on, and how far it came. How far is known from the
line at which the same task goes on the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from foretold.kernel.waiting import is_library
from foretold.story.tale import Delay
from foretold.story.words import (
    aligned,
    count,
    duration,
    ended_how,
    fault_in_words,
    instant,
    late_in_words,
    short,
    source_line,
    uncaught_in_words,
)
from foretold.tape import CALLBACKS
from foretold.tape.schedule import Key
from foretold.trace import RAISED, Place
from foretold.trace.events import (
    WORLD,
    CalledBack,
    Chose,
    Ended,
    Event,
    Fault,
    Late,
    Logged,
    Request,
    Resumed,
    Served,
    SlowStep,
    Stalled,
    Uncaught,
    Who,
)
from foretold.world.world import DEFAULT_HOST

JUMP_NS_MIN = 1_000_000
"""A step never takes that long unless the story says so: it was a jump of time."""
CYCLES_MIN, PERIOD_MAX = 3, 4
"""From so many times on, what a task does again and again is told once; so many lines at most."""
ROUNDS_MIN = 3
"""From so many on, steps that come back to the line where they began are told as one."""


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
    must: bool = False
    """It is told however long the story is."""
    client: str = ""
    """If it is a request: whose."""


class FailingStep(NamedTuple):
    """How the run failed: who, in which of its steps, and where."""

    who: Who | None
    step: int
    moment: Moment
    stuck: Mapping[Who, tuple[Place, str]] = {}
    """In a deadlock: where each task waits for ever, and for what."""


def moments_of(
    events: Sequence[Event],
    numbers: Iterable[int],
    delays: list[Delay],
    ending: FailingStep,
    deciding: Collection[Key] = (),
) -> list[Moment]:
    """What can be told of the events with these numbers, with rounds told as one, and the end. The
    `deciding` steps are told in any case."""
    told = list(_told(events, numbers, _Notes(delays, ending, deciding)))
    return [*_cycles_joined(list(_rounds_joined(told))), ending.moment]


class _Notes:
    """What is said about single steps besides where they go: held, let go, failed."""

    def __init__(self, delays: list[Delay], ending: FailingStep, deciding: Collection[Key]) -> None:
        self._deciding = deciding
        self._held = {(d.hold.host, d.hold.actor, d.hold.step) for d in delays}
        self._ending = ending

    def step(self, event: Resumed, then: Resumed | Ended | None) -> Moment:
        let_go = "let go: " if event.key in self._held else ""
        verb = "starts" if event.step == 1 else "goes on"
        held_next = (event.host, event.actor, event.step + 1) in self._held
        held = "  (held here)" if held_next else ""
        far = self._how_far(event, then)
        back = ", is back at this line" if event.place is not None else ""
        text = f"{let_go}{verb}{far or back}{held}"
        must = event.key in self._deciding
        rounds = not (far or held or let_go or must)
        return Moment(event.time_ns, event.who, event.place, text, rounds=rounds, must=must)

    def _how_far(self, event: Resumed, then: Resumed | Ended | None) -> str:
        """Empty if it comes back to the line where it began."""
        ending = self._ending
        if (event.who, event.step) == (ending.who, ending.step):
            return runs_to(ending.moment.place, event.place) or ", fails"
        if then is None:
            if event.who not in ending.stuck:
                return ", waits forever"
            place, what = ending.stuck[event.who]
            return f"{runs_to(place, event.place)}  (waits for {what})"
        if isinstance(then, Ended):
            return f", {ended_how(then.outcome)}"
        if _in_library(then) and not _in_library(event):
            return ", and leaves the lines of the program"
        return "" if then.place == event.place else runs_to(then.place, event.place)

    def is_plain(self, event: Resumed) -> bool:
        """Nobody was held here, nothing failed, and it decides nothing."""
        is_held = (
            event.key in {*self._held, *self._deciding}
            or (*event.who, event.step + 1) in self._held
        )
        return not is_held and (event.who, event.step) != (self._ending.who, self._ending.step)


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
    of_users = _with_own_lines(events)
    threads = {event.who for event in events if isinstance(event, Resumed) and event.is_thread}
    before: Event | None = None
    for number in numbers:
        event = events[number]
        # The texts of these say themselves how long they took.
        takes_time = isinstance(event, SlowStep | Stalled)
        gap_ns = 0 if before is None or takes_time else event.time_ns - before.time_ns
        if gap_ns >= JUMP_NS_MIN:
            yield Moment(event.time_ns, None, None, "", passed_ns=gap_ns)
        if isinstance(event, Resumed):
            moment = notes.step(event, following[number])
            leads = not _in_library(event) or _leads_on(following[number])
            is_inside = event.who in of_users and notes.is_plain(event) and not leads
            if not (is_inside or (moment.rounds and (event.in_package or event.is_thread))):
                yield moment
        elif (said := _said(event, event.who in threads)) is not None:
            text, is_actors = said
            is_actors = is_actors and event.actor != CALLBACKS
            who = event.who if is_actors else _struck(event)
            must = isinstance(event, Fault | Uncaught)
            client = event.client if isinstance(event, Request) else ""
            moment = Moment(event.time_ns, who, event.place, text, took_time=takes_time, must=must)
            yield moment._replace(client=client)
        before = event


def _with_own_lines(events: Iterable[Event]) -> set[Who]:
    """Tasks that have made steps in lines of the user's own."""
    steps = (event for event in events if isinstance(event, Resumed) and event.place is not None)
    return {event.who for event in steps if not _in_library(event)}


def _in_library(event: Event) -> bool:
    return event.place is not None and is_library(event.place.file)


def _leads_on(then: Resumed | Ended | None) -> bool:
    """Whether a step in a package is worth a line: to one of the user's own, to an error, or to
    nothing more."""
    if isinstance(then, Ended):
        return then.outcome.how == RAISED
    return then is None or not _in_library(then)


def _struck(event: Event) -> Who | None:
    """The host that a fault strikes, if it is one."""
    alone = isinstance(event, Fault) and len(event.hosts) == 1
    return (event.hosts[0], WORLD) if isinstance(event, Fault) and alone else None


def _late_step(event: SlowStep, of_thread: bool) -> str:
    """A thread has no event loop that could be late."""
    took = duration(event.ns)
    if of_thread:
        what = f"threads wake up {took} after they should"
        return f"the machine is late: {what if event.asleep else f'this step took {took}'}"
    what = f"it wakes up {took} after it should" if event.asleep else f"this step took {took}"
    return f"the event loop is late: {what}"


def _said(event: Event, of_thread: bool) -> tuple[str, bool] | None:
    """What is told of an event besides the steps, and whether the actor did it; None if nothing."""
    match event:
        case Chose():
            return f"chooses {event}", True
        case Logged():
            return f"event {event}", True
        case SlowStep():
            return _late_step(event, event.threads or of_thread), True
        case Stalled():
            return f"blocked its host for {event.ns / 1e9:g} s (time.sleep)", True
        case Fault(is_setting=True):
            return f"the test sets: {event.text}", False
        case Fault():
            return fault_in_words(event), False
        case Uncaught():
            return uncaught_in_words(event), not event.is_of_task
        case Served() | Request():
            return str(event), False
        case Late():
            return late_in_words(event, "takes"), False
        case CalledBack(is_timeout=True):
            return f"(a timeout{f' of {_whose(event)}' * bool(event.whose)} expires)", False
    return None


def _whose(event: CalledBack) -> str:
    """With its host, if that is not the test's own."""
    return event.whose if event.host == DEFAULT_HOST else f"{event.host}/{event.whose}"


def without_conductor(
    events: Sequence[Event], numbers: Iterable[int], conductor: Who | None
) -> list[int]:
    """In the run of a machine: without the steps of who calls the rules, what it has chosen before
    the first (that is told above), and without the steps of rules that do nothing but send
    requests, which are told as such."""
    following = _following(events)
    tells_requests = any(isinstance(event, Request) for event in events)

    def is_told(number: int) -> bool:
        event, then = events[number], following[number]
        if event.who == conductor and isinstance(event, Resumed | Chose):
            return False
        if not isinstance(event, Resumed):
            return True
        asks = event.in_package or event.step == 1
        waits = then is None or isinstance(then, Ended) or then.in_package
        return not (tells_requests and event.host == DEFAULT_HOST and asks and waits)

    return [number for number in numbers if is_told(number)]


def _following(events: Sequence[Event]) -> list[Resumed | Ended | None]:
    """For each event: what the same actor did next, its next step or its end."""
    latest: dict[Who, Resumed | Ended] = {}
    found: list[Resumed | Ended | None] = []
    for event in reversed(events):
        found.append(latest.get(event.who))
        if isinstance(event, Resumed | Ended):
            latest[event.who] = event
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


def _cycles_joined(told: list[Moment]) -> Iterator[Moment]:
    """A poll or a heartbeat does the same again and again: it is told once, with how often."""
    dropped: set[int] = set()
    times: dict[int, str] = {}
    groups: dict[Who | str, list[int]] = {}
    for number, moment in enumerate(told):
        key = moment.who or moment.client or moment.text
        if key and not moment.must:
            groups.setdefault(key, []).append(number)
    for numbers in groups.values():
        said = [(told[n].place, told[n].text) for n in numbers]
        for begin, period, count_of in _cycles(said):
            these = "" if period == 1 else f", these {period} lines"
            times[numbers[begin]] = f"  (× {count_of}{these})"
            dropped.update(numbers[begin + period : begin + period * count_of])
    for number, moment in enumerate(told):
        if number not in dropped:
            yield moment._replace(text=moment.text + times.get(number, ""))


def _cycles(said: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """Where something is said again and again: from where on, how many lines it has, how often."""
    begin = 0
    while begin < len(said):
        for period in range(1, PERIOD_MAX + 1):
            first, times = said[begin : begin + period], 1
            while said[begin + times * period : begin + (times + 1) * period] == first:
                times += 1
            if times >= CYCLES_MIN and len(first) == period:
                yield begin, period, times
                begin += period * times - 1
                break
        begin += 1


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
    moments = list(_time_joined(list(_never_backwards(moments))))
    rows = [tuple(map(called, _row(moment, start_ns, names))) for moment in moments]
    return _without_the_middle(aligned(rows), [m.must for m in moments], lines_max)


def _without_the_middle(lines: list[str], must: list[bool], lines_max: int) -> list[str]:
    """Of too many, as many as there is room for from both ends, and all that must be told."""
    kept = sum(must)
    room = max(lines_max - kept, lines_max // 2)
    free = [n for n, told in enumerate(must) if not told]
    dropped = set(free[room // 3 : len(free) - (room - room // 3)]) if len(free) > room else set()
    found: list[str] = []
    left_out = 0
    for n, line in enumerate(lines):
        left_out += n in dropped
        if n not in dropped:
            found += [f"  … {count(left_out, 'line')} left out"] if left_out else []
            found.append(line)
            left_out = 0
    return found


def _never_backwards(moments: Iterable[Moment]) -> Iterator[Moment]:
    """Hosts have clocks of their own; what is told later was not earlier."""
    now_ns = 0
    for moment in moments:
        if moment.time_ns is not None:
            now_ns = max(now_ns, moment.time_ns)
            moment = moment._replace(time_ns=now_ns)
        yield moment


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
    who = "" if moment.who is None else names.get(moment.who, moment.who[moment.who[1] != WORLD])
    return time, who, short(moment.place), moment.text
