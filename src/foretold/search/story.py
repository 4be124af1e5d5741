"""The story of a failing run, in the user's nouns: who was held where while who did what.

First what departs from the calm order, in sentences. Then the steps from the first interesting
moment to the failure, as lines of (virtual time, task, source line, what happened). A run has
thousands of steps and a reader has one minute, so only those who matter are shown: whom a sentence
names, who failed, main, and as many others as there is room for. The rest is counted.

Everything here is a function of the schedule and the events: the same run, the same story.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from foretold.errors import Deadlock
from foretold.kernel.threads.crew import MAIN_THREAD
from foretold.search.cast import ROOM_LINES, Cast
from foretold.search.decided import decision_text
from foretold.search.failure import Delay
from foretold.search.moments import (
    Ending,
    Moment,
    Who,
    lines_of,
    moments_of,
    who_of,
    without_conductor,
)
from foretold.search.pair import Decision
from foretold.search.places import with_telling_places
from foretold.search.signature import place_of, text_of
from foretold.search.transactions import Told
from foretold.search.wording import Wording, common_folder
from foretold.search.words import (
    callback_in_words,
    count,
    duration,
    ended_how,
    late_in_words,
    ordinal,
    pace_sentences,
    short,
    source_line,
    until_of,
)
from foretold.tape import CALLBACKS, Choice, Schedule, Slow
from foretold.trace import KEPT_EVENTS, LATE, NOBODY, REQUEST, THREAD, Event, Place, encode
from foretold.world.run import Run
from foretold.world.settings import Settings

LINES_MAX = 40
_WAITS = re.compile(r"  (?P<who>.+) waits at (?P<file>.+):(?P<line>\d+) for (?P<what>.+)")
SENTENCES_MAX = 8
REQUESTS_MAX = 24
SAID_CHARS_MAX = 100
VALUES_MAX = 12
VALUES_CHARS_MAX = 100
"""On one line."""


def tell_run(done: Run, decision: Decision | None = None) -> tuple[str, list[Delay]]:
    """The story of a run that was made with `detail=True`, and the delays in it.

    Who is part of the critical pair has a part in the story, too.
    """
    tape = done.tape
    start_ns = int(Settings.from_tape(tape.settings).monotonic_s * 1e9)
    # A seed says nothing to a reader; what was made of it is on record, if that was asked for.
    tape = tape.recorded() if tape.recording else tape
    events = done.trace.events
    pair = decision.pair if decision is not None else None
    also = {step.key[:2] for step in pair[:2]} if pair is not None else ()
    called = Wording(done.names, common_folder(events))
    story, delays = tell(
        tape.schedule,
        events,
        start_ns,
        error=done.error,
        choices=tape.choices,
        also=also,
        is_known=tape.origin != "seeded",
        called=called,
        is_conducted=done.names is not None,
        decision=decision,
    )
    if done.error is not None:
        called(text_of(done.error))  # which stands above the story, and is not changed
    parts = [done.opening, *called.legend(done.opening), story]
    return "\n".join(part for part in parts if part), delays


def faults_of(done: Run) -> list[str]:
    """The faults of a run that was made with `detail=True`, up to where it failed."""
    events = list(done.trace.events)
    cut, _ = failure_among(events, done.error)
    return [event.text for event in events[:cut] if event.kind == "fault"]


def tell(
    schedule: Schedule,
    events: Iterable[Event],
    start_ns: int,
    *,
    error: BaseException | None = None,
    choices: Mapping[str, Sequence[Choice]] | None = None,
    also: Collection[Who] = (),
    is_known: bool = True,
    called: Callable[[str], str] = str,
    is_conducted: bool = False,
    decision: Decision | None = None,
) -> tuple[str, list[Delay]]:
    """The story and the delays in it; `also` are those who have to be shown besides. `is_known` is
    False of a seed's choices: they are not on record. `called` puts texts into the words of the
    story. `is_conducted`: main is ours, and no more than calls the rules."""
    whole = with_telling_places(list(events))
    every = _without_a_flood(whole)
    cut, culprit = failure_among(every, error)
    kept = every[:cut]
    delays = delays_of(schedule, every)
    begin = _first_interesting(kept, delays, schedule)
    ending = _ending(kept, culprit, error, called)
    # If everybody was delayed (a run that was not shrunk), delays tell nobody apart.
    telling = len(delays) + len(schedule.slows) <= SENTENCES_MAX
    cast = Cast(kept, schedule if telling else Schedule(), ending.who, is_conducted=is_conducted)
    database = Told(whole[: failure_among(whole, error)[0]])
    told_below = database.tasks() - {(hold.host, hold.actor) for hold in schedule.holds.values()}
    cast.shown |= {*also, *told_below}
    numbers = [*cast.last_seen(kept[:begin]), *range(begin, cut)]
    numbers = [n for n in numbers if not _is_step_of(every[n], told_below)]
    chosen = kept[:begin]
    if is_conducted:
        chosen = [e for n, e in enumerate(kept) if n < begin or who_of(e) == cast.main]
        numbers = without_conductor(every, numbers, cast.main)
    # All events are handed over: how far a task came is known from where it went on later.
    told = moments_of(every, numbers, delays if telling else [], ending)
    moments = cast.choose(told, room_lines=0 if told_below else ROOM_LINES)
    parts = _departures(
        kept,
        every,
        delays,
        schedule,
        choices or {},
        start_ns,
        is_known=is_known,
        telling=telling,
    )
    parts += _values_before(chosen)
    parts.append("What happened, in virtual time:")
    if len(every) == KEPT_EVENTS:
        parts.append(f"  … of a long run: the last {KEPT_EVENTS:,} events")
    parts += lines_of(moments, start_ns, cast.names(), LINES_MAX, called)
    parts += [] if is_conducted and told_below else cast.others(kept[begin:])
    parts += database.lines(start_ns, called)
    # A value without which nobody would have been there does not explain what the database tells.
    weak = decision is not None and (decision.is_unknown or decision.values is not None)
    if decision is not None and not (weak and database.says_where_to_look):
        parts += filter(None, [decision_text(decision)])
    return called("\n".join(parts)), delays


def _is_step_of(event: Event, tasks: Collection[Who]) -> bool:
    """Of tasks that are told by their statements, which have lines of code, too."""
    return event.kind == "resumes" and who_of(event) in tasks


def delays_of(schedule: Schedule, events: Sequence[Event]) -> list[Delay]:
    """The holds of a schedule that held somebody, with the lines at which they did."""
    at = {(e.host, e.actor, e.step): e.place for e in events if e.kind == "resumes"}
    return [
        Delay(hold.actor, hold.step, at.get(hold.key), until_of(hold), hold)
        for hold in schedule.holds.values()
        # Who was held to the very end never made that step, but made the one before it.
        if hold.key in at or (hold.host, hold.actor, hold.step - 1) in at
    ]


def _without_a_flood(events: list[Event]) -> list[Event]:
    """If every message has a time of its own (a run that was not shrunk), none tells anything; nor
    do many requests, of which nobody knows which matters."""
    floods = {
        kind
        for kind, most in ((LATE, SENTENCES_MAX), (REQUEST, REQUESTS_MAX))
        if sum(event.kind == kind for event in events) > most
    }
    return [event for event in events if event.kind not in floods] if floods else events


# Where the story ends


def failure_among(events: Sequence[Event], error: BaseException | None) -> tuple[int, Event | None]:
    """How many events there are up to the failure, and the one that is it, if there is one."""
    for number, event in enumerate(events, 1):
        if event.kind == "failed":
            return number, event
    wanted = f"raised {encode(error)}" if error is not None else "raised "
    ends = [
        (number, event)
        for number, event in enumerate(events, 1)
        if event.kind == "ended" and event.text.startswith(wanted)
    ]
    if not ends:
        return len(events), None
    # Main only passes on what another task raised before: where it came from is what interests.
    main = who_of(events[0])
    last = next((n for n, (_, event) in enumerate(ends) if who_of(event) == main), len(ends) - 1)
    return ends[max(0, last - 1)] if who_of(ends[last][1]) == main else ends[last]


def _ending(
    events: list[Event],
    culprit: Event | None,
    error: BaseException | None,
    called: Callable[[str], str] = str,
) -> Ending:
    # Hosts have clocks of their own; what has happened before it was not later.
    time_ns = max((event.time_ns for event in events), default=None)
    who = who_of(culprit) if culprit is not None and culprit.actor != NOBODY else None
    step = culprit.step if culprit is not None else 0
    if culprit is None and error is not None and not isinstance(error, Deadlock):
        who, step = _main_thread(events)
    if error is None:
        said = ended_how(culprit.text) if culprit is not None else "the run ends"
        return Ending(who, step, Moment(time_ns, who, None, said))
    # The list that follows in a Deadlock is part of the exception, not of its first line.
    lines = [line.removesuffix(" Waiting:") for line in text_of(error).splitlines()]
    said = called(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)
    # In full it stands above the story.
    said = said if len(said) <= SAID_CHARS_MAX else f"{said[:SAID_CHARS_MAX].rpartition(' ')[0]} …"
    last_moment = Moment(time_ns, who, place_of(error), f"fails: {said}")
    return Ending(who, step, last_moment, _stuck(lines) if isinstance(error, Deadlock) else {})


def _main_thread(events: list[Event]) -> tuple[Who | None, int]:
    """Who failed if it was no task: a plain main, as far as its thread made steps."""
    steps = [event for event in events if event.text == THREAD and event.actor == MAIN_THREAD]
    return (who_of(steps[-1]), steps[-1].step) if steps else (None, 0)


def _stuck(lines: list[str]) -> dict[str, tuple[Place, str]]:
    """Who waits where for what, as the message of a Deadlock lists it."""
    found = (_WAITS.fullmatch(line) for line in lines)
    return {
        match["who"]: (Place(match["file"], int(match["line"]), ""), match["what"])
        for match in found
        if match is not None
    }


# Where it begins


def _first_interesting(events: list[Event], delays: list[Delay], schedule: Schedule) -> int:
    """The index of the first event worth telling: the step before the first departure."""
    wanted: set[tuple[str, str, int]] = {s.key for s in schedule.slows.values()}
    for delay in delays:
        hold = delay.hold
        # Held before it began: then the first one that was let past it is where it begins.
        before = (hold.actor, hold.step - 1) if hold.step > 1 else (hold.until_actor, 1)
        wanted.add((hold.host, *before))
        wanted.add(hold.key)
    for number, event in enumerate(events):
        if (event.host, event.actor, event.step) in wanted or event.kind in ("fault", LATE):
            return number
    return 0


# Sentences


def _departures(
    told: list[Event],
    events: list[Event],
    delays: list[Delay],
    schedule: Schedule,
    choices: Mapping[str, Sequence[Choice]],
    start_ns: int,
    *,
    is_known: bool,
    telling: bool,
) -> list[str]:
    at = {
        (event.host, event.actor, event.step): event
        for event in events
        if event.kind in ("resumes", "callback")
    }
    said = [
        f"at {(event.time_ns - start_ns) / 1e9:.3f} s, fault: {event.text}"
        for event in told
        if event.kind == "fault"
    ]
    said += [late_in_words(event.text, "took") for event in told if event.kind == LATE]
    late = [slow for slow in schedule.slows.values() if slow.key in at]
    if telling:
        said += [_delay_sentence(delay, at) for delay in delays]
        said += [_slow_sentence(slow, at) for slow in late]
    else:
        said += _many_sentence(delays, late)
    said += pace_sentences(choices)
    if not said:
        chosen = any(event.kind == "chose" for event in events)
        values = ", with the values that were chosen" if chosen else ""
        if not is_known:
            return [
                f"Who went on when comes from the seed; what of it matters is not known{values}."
            ]
        return [f"No task was delayed: this happens when all take turns{values}."]
    said = list(dict.fromkeys(said))  # of several hosts the same may be said
    shown = [f"  {sentence}" for sentence in said[:SENTENCES_MAX]]
    if len(said) > SENTENCES_MAX:
        shown.append(f"  … and {len(said) - SENTENCES_MAX} more")
    return ["All take turns, first come first served, except that", *shown]


def _many_sentence(delays: list[Delay], late: list[Slow]) -> list[str]:
    """In a run that was not shrunk, or not to the end, nobody knows which of them matter."""
    parts = [count(len(delays), "step") + " had to wait for others"] if delays else []
    if late:
        most = duration(max(slow.ns for slow in late))
        parts.append(f"after {count(len(late), 'step')} the event loop was late, by up to {most}")
    return [f"{', and '.join(parts)}; which of them matter is not known"] if parts else []


def _delay_sentence(delay: Delay, at: Mapping[tuple[str, str, int], Event]) -> str:
    hold = delay.hold
    callback = at.get((hold.host, hold.until_actor, hold.until_step))
    until = until_of(hold, callback.text if callback is not None else "")
    if delay.step == 1:
        return f"{delay.actor} did not start until {until}"
    before = f"its {ordinal(delay.step)} step{_quoted(delay.location)}"
    return f"{delay.actor} was held before {before}, until {until}"


def _slow_sentence(slow: Slow, at: Mapping[tuple[str, str, int], Event]) -> str:
    event = at[slow.key]
    late = f"the event loop was late by {duration(slow.ns)} (a busy machine)"
    if slow.actor == CALLBACKS:
        return f"{late} when {callback_in_words(event.text, slow.step)}"
    return f"{late} after the {ordinal(slow.step)} step of {slow.actor}{_quoted(event.place)}"


def _quoted(place: Place | None) -> str:
    if place is None:
        return ""
    text = source_line(place)
    return f", at {short(place)}" + (f" `{text}`" if text else "")


def _values_before(events: list[Event]) -> list[str]:
    values = [event.text for event in events if event.kind == "chose"]
    if not values:
        return []
    if len(said := f"Chosen before: {', '.join(values)}.") <= VALUES_CHARS_MAX:
        return [said]
    more = [f"  … {len(values) - VALUES_MAX} more"] if len(values) > VALUES_MAX else []
    return ["Chosen before:", *(f"  {value}" for value in values[:VALUES_MAX]), *more]


__all__ = ["delays_of", "faults_of", "ordinal", "short", "source_line", "tell", "tell_run"]
