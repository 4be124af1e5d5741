"""The causality figure: how likely the failure was over the run, as a small chart in text."""

from __future__ import annotations

from collections.abc import Sequence

from foretold.report.text import wrapped
from foretold.search.failures.explain import Explanation, Point
from foretold.story.words import (
    count,
    fault_in_words,
    instant,
    late_in_words,
    ordinal,
    short,
    source_line,
)
from foretold.trace.events import Chose, Event, Fault, Late

ONE_COLD_RUN = wrapped(
    "How likely this failure was is not known: it is one of the first run of a process, and no "
    "process has two of them."
)
BAR_CHARS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


def explanation_text(explained: Explanation) -> str:
    """The chart, and the event at the jump."""
    lines = [
        wrapped(
            "How likely this failure was at each point of the run, had all that followed been left "
            f"to chance ({explained.continuations} continuations each, "
            f"{count(explained.runs, 'run')} in all):"
        ),
        *_chart(explained),
        *_jump_lines(explained),
    ]
    return "\n".join(lines)


def _chart(explained: Explanation) -> list[str]:
    jump = explained.jump[1] if explained.jump is not None else None
    return [
        f"  {_time(point, explained.start_ns):>12}  {point.share:>4.0%}  {_bar(point.share)}  "
        f"{'→ ' if point is jump else '  '}{_what(point)}".rstrip()
        for point in _without_plateaus(explained.points)
    ]


def _without_plateaus(points: Sequence[Point]) -> list[Point]:
    """What lies between two equal ones, and is as they are, says nothing."""
    return [
        point
        for number, point in enumerate(points)
        if not 0 < number < len(points) - 1
        or not points[number - 1].share == point.share == points[number + 1].share
    ]


def _bar(share: float) -> str:
    eighths = round(share * BAR_CHARS * 8)
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return bar.ljust(BAR_CHARS)


def _time(point: Point, start_ns: int) -> str:
    ns = point.mark.time_ns - start_ns if point.mark.event is not None else 0
    return instant(ns)


def _what(point: Point) -> str:
    event = point.mark.event
    if event is None:
        return "the run begins"
    if isinstance(event, Chose):
        return f"{event.actor} chooses {event}"
    if isinstance(event, Fault):
        return fault_in_words(event)
    if isinstance(event, Late):
        return late_in_words(event, "takes")
    return f"{event.actor}, {ordinal(event.step)} step" + (
        f", {short(event.place)}" if event.place is not None else ""
    )


def _jump_lines(explained: Explanation) -> list[str]:
    if explained.jump is None:
        return ["It does not rise anywhere: nothing on the way decided it."]
    before, after = explained.jump
    event = after.mark.event
    assert event is not None, "nothing comes before the begin of the run"
    lines = [f"It jumps from {before.share:.0%} to {after.share:.0%} when {_happening(event)}."]
    if not explained.is_one_event:
        lines.append(
            f"(Or at one of the {after.number - before.number - 1} events before that: the budget "
            "was spent.)"
        )
    return lines


def _happening(event: Event) -> str:
    if isinstance(event, Chose):
        return f"{event.actor} chooses {event}"
    if isinstance(event, Fault):
        return f"a fault strikes: {event.text}"
    if isinstance(event, Late):
        return late_in_words(event, "takes")
    verb = "starts" if event.step == 1 else "makes its " + ordinal(event.step) + " step"
    if event.place is None:
        return f"{event.actor} {verb}"
    text = source_line(event.place)
    return f"{event.actor} {verb}, at {short(event.place)}" + (f" `{text}`" if text else "")
