"""The story of a failing run, in the user's nouns: who was held where while who did what.

First what decides it, as far as that is known: two steps, two transactions, and where to look. Then
what departs from the calm order, in sentences. Then the steps from the first interesting moment to
the failure, as lines of (virtual time, task, source line, what happened). A run has thousands of
steps and a reader has one minute, so only those who matter are shown: whom a sentence names, who
failed, main, and as many others as there is room for. The rest is counted.

Everything here is a function of the schedule and the events: the same run, the same story.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from foretold.errors import Deadlock, NotSerial
from foretold.kernel.threads.crew import MAIN_THREAD
from foretold.kernel.waiting import raised_at
from foretold.services.postgres.rows import Catalogue
from foretold.story.cast import ROOM_LINES, Cast
from foretold.story.choices import calm_sentence, service_sentences
from foretold.story.database.transactions import Told
from foretold.story.decided import decision_text, sides_of
from foretold.story.decision import Decision
from foretold.story.moments import (
    FailingStep,
    Moment,
    lines_of,
    moments_of,
    without_conductor,
)
from foretold.story.places import with_telling_places
from foretold.story.signature import place_of, text_of
from foretold.story.tale import Delay, Side, Story
from foretold.story.wording import Wording, common_folder
from foretold.story.words import (
    callback_in_words,
    count,
    duration,
    ended_how,
    fault_in_words,
    late_in_words,
    ordinal,
    pace_sentences,
    short,
    source_line,
    uncaught_in_words,
    until_of,
    wrapped,
)
from foretold.tape import CALLBACKS, Choice, Schedule, Slow, Tape
from foretold.tape.schedule import Key
from foretold.trace import RAISED, Place, TaskOutcome, raised
from foretold.trace.events import (
    NOBODY,
    CalledBack,
    Chose,
    Ended,
    Event,
    Failed,
    Fault,
    Late,
    Request,
    Resumed,
    Schema,
    Uncaught,
    Who,
)
from foretold.trace.record import KEPT_EVENTS, Gone
from foretold.world.run import Run
from foretold.world.settings import Settings

LINES_MAX = 40
SENTENCES_MAX = 8
REQUESTS_MAX = 24
SAID_CHARS_MAX = 100
VALUES_MAX = 12
VALUES_CHARS_MAX = 100
"""On one line."""


def has_only_threads(done: Run) -> bool:
    """Whether threads made all steps of a run in detail: asyncio had no part in it."""
    made = [event for event in done.trace.events if isinstance(event, Resumed)]
    return bool(made) and all(event.is_thread for event in made)


def tell_run(done: Run, decision: Decision | None = None) -> tuple[Story, list[Delay]]:
    """The story of a run that was made with `detail=True`, and the delays in it.

    Who is part of the critical pair has a part in the story, too.
    """
    tape = done.tape
    start_ns = int(Settings.from_tape(tape.settings).monotonic_s * 1e9)
    # A seed says nothing to a reader; what was made of it is on record, if that was asked for.
    tape = tape.recorded() if tape.recording else tape
    events = done.trace.events
    called = Wording(done.names, common_folder(events))
    told = told_of(
        tape.schedule,
        events,
        start_ns,
        error=done.error,
        choices=_made(tape),
        is_known=tape.origin != "seeded",
        called=called,
        is_conducted=done.names is not None,
        decision=decision,
        gone=done.trace.gone,
    )
    if done.error is not None:
        called(text_of(done.error))  # which stands above the story, and is not changed
    parts = [*told.head, done.opening, *called.legend(done.opening), *told.rest]
    requests = [str(event) for event in events if isinstance(event, Request) and event.answer]
    story = Story(
        "\n".join(part for part in parts if part),
        calls=requests if done.calls is None else map(called, done.calls),
        is_program=done.calls is not None,
        pair=told.accused,
        faults=faults_of(done),
    )
    return story, told.delays


def _made(tape: Tape) -> dict[str, Sequence[Choice]]:
    """The choices of a tape that its run has made. Others may stand behind them."""
    draws = tape.draws  # empty of a recording, which has just those that were made
    return {
        name: each[: draws.get(name, 0) if draws else None] for name, each in tape.choices.items()
    }


def faults_of(done: Run) -> list[str]:
    """The faults of a run that was made with `detail=True`, up to where it failed."""
    events = list(done.trace.events)
    cut, _ = failure_among(events, done.error)
    return [
        event.text for event in events[:cut] if isinstance(event, Fault) and not event.is_setting
    ]


class Parts(NamedTuple):
    """A story in the order in which it is told."""

    head: list[str]
    """The two that decide it, and where to look."""
    rest: list[str]
    delays: list[Delay]
    accused: tuple[Side, Side] | None


def tell(
    schedule: Schedule, events: Iterable[Event], start_ns: int, **more: Any
) -> tuple[str, list[Delay]]:
    """The text and the delays in it; `more` goes to `told_of`."""
    told = told_of(schedule, events, start_ns, **more)
    return "\n".join([*told.head, *told.rest]), told.delays


def told_of(
    schedule: Schedule,
    events: Iterable[Event],
    start_ns: int,
    *,
    error: BaseException | None = None,
    choices: Mapping[str, Sequence[Choice]] | None = None,
    is_known: bool = True,
    called: Callable[[str], str] = str,
    is_conducted: bool = False,
    decision: Decision | None = None,
    gone: Gone | None = None,
) -> Parts:
    """The story and the delays in it. `is_known` is False of a seed's choices: they are not on
    record. `called` puts texts into the words of the story. `is_conducted`: main is ours, and no
    more than calls the rules. `gone`: what is known of earlier events, which are not kept."""
    gone = Gone() if gone is None else gone
    catalogue = Catalogue(events := list(events))
    whole = with_telling_places([event for event in events if not isinstance(event, Schema)])
    every = _without_a_flood(whole)
    cut, culprit = failure_among(every, error)
    kept = every[:cut]
    delays = delays_of(schedule, every, gone)
    begin = _first_interesting(kept, delays, schedule)
    ending = _ending(kept, culprit, error, called)
    # If everybody was delayed (a run that was not shrunk), delays tell nobody apart.
    telling = len(delays) + len(schedule.slows) <= SENTENCES_MAX
    cast = Cast(kept, schedule if telling else Schedule(), ending.who, is_conducted=is_conducted)
    # One run that tried many orders, the database put back before each: whoever read their
    # statements as one history would see conflicts between tries. The error tells the odd one.
    is_of_tries = isinstance(error, NotSerial) and error.is_of_tries
    begin = begin or cast.first_call(kept)
    database = Told([] if is_of_tries else whole[: failure_among(whole, error)[0]], catalogue)
    told_below = database.tasks() - {(hold.host, hold.actor) for hold in schedule.holds.values()}
    deciding = decision.steps if decision is not None else frozenset()
    cast.shown |= {*(key[:2] for key in deciding), *told_below}
    before = {*cast.last_seen(kept[:begin]), *_told_always(kept[:begin], deciding)}
    numbers = [*sorted(before), *range(begin, cut)]
    numbers = [n for n in numbers if not _is_step_of(every[n], told_below)]
    chosen = kept[:begin]
    if is_conducted:
        chosen = [e for n, e in enumerate(kept) if n < begin or e.who == cast.main]
        numbers = without_conductor(every, numbers, cast.main)
    # All events are handed over: how far a task came is known from where it went on later.
    told = moments_of(every, numbers, delays if telling else [], ending, deciding)
    moments = cast.choose(told, room_lines=0 if told_below else ROOM_LINES)
    known = choices or {}
    more = {"is_known": is_known, "telling": telling}
    parts = _departures(kept, every, delays, schedule, known, start_ns, gone, **more)
    parts += _values_before(chosen)
    parts.append("What happened, in virtual time:")
    if len(every) == KEPT_EVENTS:
        parts.append(f"  … of a long run: the last {KEPT_EVENTS:,} events")
    parts += lines_of(moments, start_ns, names := cast.names(), LINES_MAX, called)
    parts += [] if is_conducted and told_below else cast.others(kept[begin:])
    parts += database.rest(start_ns, called)
    head = database.head(start_ns, called)
    # A value without which nobody would have been there does not explain what the database tells.
    weak = decision is not None and (decision.is_unknown or decision.values is not None)
    if decision is not None and not (weak and database.says_where_to_look):
        # The statements say better than steps what met at that time.
        is_told = database.pair is not None and decision.times is not None
        decision = replace(decision, pair=None) if is_told else decision
        said = decision_text(decision, names)
        (parts if decision.orders_tried else head).extend(filter(None, [said]))
    accused = database.pair or _accused_steps(decision, names)
    head = [*map(called, head), *_uncaught_lines(kept, error)]
    return Parts(head, list(map(called, parts)), delays, accused)


def _uncaught_lines(events: Iterable[Event], error: BaseException | None) -> list[str]:
    """What nobody has caught before the failure, unless that is the failure."""
    failed = raised(error) if error is not None else None
    found = [e for e in events if isinstance(e, Uncaught) and e.error != failed]
    said = []
    for each in found[:1]:
        where = f" ({short(each.place)})" if each.place is not None else ""
        text = f"Before the failure {uncaught_in_words(each)}{where}. It may be the cause."
        said = wrapped(text)
    return said


def _accused_steps(decision: Decision | None, names: Mapping[Who, str]) -> tuple[Side, Side] | None:
    pair = decision.pair if decision is not None else None
    return None if pair is None else sides_of(pair, names)


def _told_always(events: Sequence[Event], deciding: Collection[Key]) -> Iterator[int]:
    """What is told although it comes before the story begins."""
    for number, event in enumerate(events):
        decides = isinstance(event, Resumed) and event.key in deciding
        if decides or isinstance(event, Fault):
            yield number


def _is_step_of(event: Event, tasks: Collection[Who]) -> bool:
    """Of tasks that are told by their statements, which have lines of code, too."""
    return isinstance(event, Resumed) and event.who in tasks


def delays_of(schedule: Schedule, events: Sequence[Event], gone: Gone) -> list[Delay]:
    """The holds of a schedule that held somebody, with the lines at which they did, if the steps
    are still kept."""
    at = {event.key: event.place for event in events if isinstance(event, Resumed)}
    return [
        Delay(hold.actor, hold.step, at.get(hold.key), until_of(hold), hold)
        for hold in schedule.holds.values()
        # Who was held to the very end never made that step, but made the one before it.
        if hold.key in at
        or (hold.host, hold.actor, hold.step - 1) in at
        or gone.has_made(*hold.key)
    ]


def _without_a_flood(events: list[Event]) -> list[Event]:
    """If every message has a time of its own (a run that was not shrunk), none tells anything; nor
    do many requests, of which nobody knows which matters."""
    floods = {
        kind
        for kind, most in ((Late, SENTENCES_MAX), (Request, REQUESTS_MAX))
        if sum(isinstance(event, kind) for event in events) > most
    }
    return [event for event in events if type(event) not in floods] if floods else events


# Where the story ends


def failure_among(events: Sequence[Event], error: BaseException | None) -> tuple[int, Event | None]:
    """How many events there are up to the failure, and the one that is it, if there is one."""
    return end_among(events, raised(error) if error is not None else None)


def end_among(events: Sequence[Event], wanted: TaskOutcome | None) -> tuple[int, Event | None]:
    """The same, where all that is known of the exception is how a task ends that raises it."""
    for number, event in enumerate(events, 1):
        if isinstance(event, Failed):
            return number, event
    ends = [
        (number, event)
        for number, event in enumerate(events, 1)
        if isinstance(event, Ended)
        and event.outcome.how == RAISED
        and wanted in (None, event.outcome)
    ]
    if not ends:
        return len(events), None
    # Main only passes on what another task raised before: where it came from is what interests.
    main = events[0].who
    last = next((n for n, (_, event) in enumerate(ends) if event.who == main), len(ends) - 1)
    return ends[max(0, last - 1)] if ends[last][1].who == main else ends[last]


def _ending(
    events: list[Event],
    culprit: Event | None,
    error: BaseException | None,
    called: Callable[[str], str] = str,
) -> FailingStep:
    # Hosts have clocks of their own; what has happened before it was not later.
    time_ns = max((event.time_ns for event in events), default=None)
    who = culprit.who if culprit is not None and culprit.actor != NOBODY else None
    step = culprit.step if culprit is not None else 0
    if culprit is None and error is not None and not isinstance(error, Deadlock):
        who, step = _main_thread(events)
    if error is None:
        said = ended_how(culprit.outcome) if isinstance(culprit, Ended) else "the run ends"
        return FailingStep(who, step, Moment(time_ns, who, None, said))
    # The list that follows in a Deadlock is part of the exception, not of its first line.
    why = error.why if isinstance(error, Deadlock) else ""
    lines = [why] if why else text_of(error).splitlines()
    said = called(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)
    # In full it stands above the story.
    said = said if len(said) <= SAID_CHARS_MAX else f"{said[:SAID_CHARS_MAX].rpartition(' ')[0]} …"
    # A property may be stated elsewhere than where the task that fails has come to.
    place = place_of(error) if who is None else raised_at(error)
    last_moment = Moment(time_ns, who, place, f"fails: {said}")
    return FailingStep(who, step, last_moment, _stuck(error) if isinstance(error, Deadlock) else {})


def _main_thread(events: list[Event]) -> tuple[Who | None, int]:
    """Who failed if it was no task: a plain main, as far as its thread made steps."""
    threads = [event for event in events if isinstance(event, Resumed) and event.is_thread]
    steps = [event for event in threads if event.actor == MAIN_THREAD]
    return (steps[-1].who, steps[-1].step) if steps else (None, 0)


def _stuck(error: Deadlock) -> dict[Who, tuple[Place, str]]:
    """Who waits where for what."""
    known = ((each, each.place) for each in error.waiting)
    return {each.who: (Place(*place), each.what) for each, place in known if place is not None}


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
        departs = isinstance(event, Late) or (isinstance(event, Fault) and not event.is_setting)
        if departs or event.key in wanted:
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
    gone: Gone,
    *,
    is_known: bool,
    telling: bool,
) -> list[str]:
    at = {event.key: event for event in events if isinstance(event, Resumed | CalledBack)}
    earlier = _without_a_flood(list(gone.unusual))
    told = [*earlier, *told]
    said = [
        f"at {(event.time_ns - start_ns) / 1e9:.3f} s, {fault_in_words(event)}"
        for event in told
        if isinstance(event, Fault) and not event.is_setting
    ]
    said += [late_in_words(event, "took") for event in told if isinstance(event, Late)]
    late = [slow for slow in schedule.slows.values() if slow.key in at or gone.has_made(*slow.key)]
    if telling:
        said += [_delay_sentence(delay, at) for delay in delays]
        said += [_slow_sentence(slow, at) for slow in late]
    else:
        said += _many_sentence(delays, late)
    said += pace_sentences(choices)
    # Of a seed every session has times of its own: many, of which nobody knows which matter.
    said += service_sentences(choices) if is_known else []
    if not said:
        chosen = any(isinstance(event, Chose) for event in events)
        values = ", with the values that were chosen" if chosen else ""
        if not is_known:
            return [
                f"The order came from the seed{values}. foretold did not find out which part of it "
                "matters."
            ]
        return wrapped(calm_sentence(choices, chosen))
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


def _delay_sentence(delay: Delay, at: Mapping[Key, Resumed | CalledBack]) -> str:
    hold = delay.hold
    callback = at.get((hold.host, hold.until_actor, hold.until_step))
    until = until_of(hold, callback if isinstance(callback, CalledBack) else None)
    if delay.step == 1:
        return f"{delay.actor} did not start until {until}"
    before = f"its {ordinal(delay.step)} step{_quoted(delay.location)}"
    return f"{delay.actor} was held before {before}, until {until}"


def _slow_sentence(slow: Slow, at: Mapping[Key, Resumed | CalledBack]) -> str:
    event = at.get(slow.key)
    late = f"the event loop was late by {duration(slow.ns)} (a busy machine)"
    if isinstance(event, Resumed) and event.is_thread:
        verb = "woke up {} late" if slow.asleep else "were late by {}"
        late = f"threads {verb.format(duration(slow.ns))} (a busy machine)"
    elif slow.asleep and event is None:  # which of the two it was is not kept
        late = f"the program woke up {duration(slow.ns)} late (a busy machine)"
    elif slow.asleep:
        late = f"the event loop woke up {duration(slow.ns)} late (a busy machine)"
    if isinstance(event, CalledBack):
        return f"{late} when {callback_in_words(event, slow.step)}"
    if slow.actor == CALLBACKS:
        return f"{late} after the {ordinal(slow.step)} callback"
    where = "" if event is None else _quoted(event.place)
    return f"{late} after the {ordinal(slow.step)} step of {slow.actor}{where}"


def _quoted(place: Place | None) -> str:
    if place is None:
        return ""
    text = source_line(place)
    return f", at {short(place)}" + (f" `{text}`" if text else "")


def _values_before(events: list[Event]) -> list[str]:
    values = [str(event) for event in events if isinstance(event, Chose)]
    if not values:
        return []
    if len(said := f"Chosen before: {', '.join(values)}.") <= VALUES_CHARS_MAX:
        return [said]
    more = [f"  … {len(values) - VALUES_MAX} more"] if len(values) > VALUES_MAX else []
    return ["Chosen before:", *(f"  {value}" for value in values[:VALUES_MAX]), *more]
