"""What `foretold check` prints: that a program is deterministic, or where and why it is not."""

from __future__ import annotations

import re

from foretold.report.text import wrapped
from foretold.search.checking.check import Divergence, Report
from foretold.search.checking.observe import Observation
from foretold.story.words import count, duration

EVENT_CHARS_MAX = 160
_ENDED = re.compile(r"@\d+ (?P<who>.+?) (?P<how>(?:returned|raised|cancelled).*)", re.DOTALL)
_WORDS = (
    (re.compile(r"@(\d+)"), lambda m: f"time jumps to {int(m[1]) / 1e9:.6f} s"),
    (_ENDED, lambda m: f"{m['who']} ends: {m['how']}"),
    (
        re.compile(r"slow (.+) (\d+)"),
        lambda m: f"the loop is late after {m[1]}: {duration(int(m[2]))}",
    ),
    (re.compile(r"stall (.+) (\d+)"), lambda m: f"{m[1]} blocks for {duration(int(m[2]))}"),
    (re.compile(r"entropy (\d+)"), lambda m: f"{m[1]} random bytes are drawn"),
    (re.compile(r"(?:choose|between|draw) .*", re.DOTALL), lambda m: m[0]),
    (re.compile(r"(?:reached|failed|background) .*", re.DOTALL), lambda m: m[0]),
)


def event_in_words(entry: str | None) -> str:
    """An entry of the trace as a person reads it."""
    if entry is None:
        return "(the run had ended)"
    for pattern, words in _WORDS:
        if (found := pattern.fullmatch(entry)) is not None:
            return _cut(words(found))
    return _cut(f"a step of {entry}")


def _cut(text: str) -> str:
    return text if len(text) <= EVENT_CHARS_MAX else f"{text[: EVENT_CHARS_MAX - 1]}…"


def check_text(report: Report) -> str:
    """The whole report."""
    if report.divergence is not None:
        return _divergence_text(report.target, report.divergence)
    tapes = count(len(report.events), "tape")
    low, high = min(report.events), max(report.events)
    events = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    text = f"{report.target} is deterministic: {tapes}, {events} events each. Seed {report.seed}."
    more = [_first_text(report.first)] if report.first is not None else []
    more += [_failed_text(report.failed)] if report.failed is not None else []
    return "\n".join([text, *more])


def _failed_text(seen: Observation) -> str:
    said = seen.message.splitlines()
    what = f"{seen.kind.rpartition('.')[2]}: {said[0]}" if said else seen.kind
    return f"Its runs fail, though: {what}"


def _divergence_text(target: str, found: Divergence) -> str:
    cause = found.cause
    assert cause is not None, "looked for wherever a program is not deterministic"
    return "\n".join(
        [
            f"{target} is NOT deterministic: one tape (seed {found.seed}) gave two runs.",
            *_difference_lines(found),
            f"Likely cause: {cause.name}.",
            wrapped(f"{cause.why[0].upper()}{cause.why[1:]}.", "  "),
            *_changed_lines(found),
            wrapped(f"Remedy: {cause.remedy}.", ""),
        ]
    )


def _first_text(found: Divergence) -> str:
    """Of a program that is deterministic but for the first run in a process."""
    return "\n".join(
        [
            "The first run in a process differs from those after it, which agree.",
            *_difference_lines(found),
            *_changed_lines(found),
            wrapped(
                "Searches and replays begin with a run that does not count. With "
                'isolation="fork" each run is a first one.'
            ),
        ]
    )


def _difference_lines(found: Divergence) -> list[str]:
    width = max(map(len, found.sides))
    sides = zip(found.sides, (found.left, found.right), strict=True)
    before = event_in_words(found.before) if found.before is not None else "(nothing before it)"
    return [
        f"The first event that differs is number {found.number:,}:",
        f"  {'both, just before'.ljust(width)}  {before}",
        *(f"  {where.ljust(width)}  {event_in_words(event)}" for where, event in sides),
    ]


def _changed_lines(found: Divergence) -> list[str]:
    return [f"  The {found.changer} run changed {what}." for what in found.changed]
