"""What a campaign has to say: how much it reached, its failures by kind, what became of old ones.

Is the exploration effective? The figures for that are counts and estimates, and are given as such
(`search/planning/feedback.py`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from foretold.report.text import (
    exception_text,
    failure_note,
    outcome_text,
    place_text,
    replay_arguments,
)
from foretold.report.vacuity import hint_lines, hollow_lines, tally_lines
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.failures.retry import RetryVerdict
from foretold.search.planning.feedback import PER_RUNS, Coverage
from foretold.story.signature import text_of
from foretold.story.words import count, short_path

GROWTH_SHOWN = 4


def campaign_text(outcome: Outcome, *, runs: int, target: str) -> str:
    """What `foretold explore` prints at the end."""
    if len(outcome.failures) > 1:
        text = _failures_text(outcome, runs, target)
    else:
        text = outcome_text(outcome, runs=runs, target=target)
    held = not outcome.failures and not outcome.vacuous
    went_on = held or any(failure.run < outcome.runs for failure in outcome.failures)
    counts = tally_lines(outcome) if went_on and (outcome.tally.rules or outcome.hollow) else []
    more = coverage_lines(outcome.coverage) if went_on else []
    more += [f"  {line}" for line in together_lines(outcome)]
    more += [f"  {note}" for note in outcome.worker_notes]
    doubts = [*hollow_lines(outcome.hollow), *hint_lines(outcome.hints)]
    return "\n".join([text, *counts, *more, *doubts])


def _failures_text(outcome: Outcome, runs: int, target: str) -> str:
    """Each kind of failure in full, and last all of them as a list."""
    parts = []
    for failure in outcome.failures:
        command = replay_command(failure, target)
        note = failure_note(failure, runs=runs, command=command)
        parts += [f"{exception_text(failure.exception)}\n\n{note}", "-" * 72]
    return "\n".join([*parts, *group_lines(outcome, target)])


def group_lines(outcome: Outcome, target: str) -> list[str]:
    """The failures of a campaign, one line each."""
    kinds = count(len(outcome.failures), "kind")
    searched = f" in {count(outcome.runs, 'run')}" if outcome.runs else ""
    lines = [f"{kinds} of failure{searched} of {target}:"]
    for failure in outcome.failures:
        lines.append(f"  {group_text(failure, replay_command(failure, target))}")
    return lines


def replay_command(failure: Failure, target: str) -> str:
    """The line that replays a failure."""
    return f"foretold replay {replay_arguments(failure, target)}"


def group_text(failure: Failure, command: str) -> str:
    """One kind of failure on one line, and how to replay it."""
    said = text_of(failure.exception).split("\n")[0]
    place = place_text(failure.exception)
    where = f" at {place}" if place else ""
    what = (
        f"{type(failure.exception).__name__}: {said}" if said else type(failure.exception).__name__
    )
    return f"{what}{where} ({_when(failure)}): {command}"


def _when(failure: Failure) -> str:
    if not failure.run:
        return "a saved failure, which fails again"
    if failure.first_only:
        return failure.where
    return f"{count(failure.times, 'run')}, the first was run {failure.run:,}"


def coverage_lines(coverage: Coverage) -> list[str]:
    """How much was reached, how that grew, and how much is unseen; nothing if nobody counted."""
    if not coverage.reached:
        return []
    lines = [f"  reached {coverage.reached:,} different {coverage.kinds}"]
    if len(coverage.growth) > 1:
        lines[0] += f"; new in each further {PER_RUNS:,} runs: {growth_text(coverage.growth)}"
    if not coverage.is_estimable:
        return lines
    ahead = min(PER_RUNS, coverage.runs)  # an estimate reaches no further than what it rests on
    expected = round(coverage.per_run * ahead)
    said = f"  the next {ahead:,} runs may reach about {expected:,} more"
    if coverage.unseen or not expected:
        seen = f"{int(coverage.share * 100)}% seen"
        said += f"; at least {coverage.unseen:,} are unseen (estimates: {seen})"
    return [*lines, said]


def growth_text(growth: Sequence[int]) -> str:
    """`812, 41, 9`; of a long one the begin and the end."""
    if len(growth) <= 2 * GROWTH_SHOWN:
        return ", ".join(f"{each:,}" for each in growth)
    first, last = growth[:GROWTH_SHOWN], growth[-GROWTH_SHOWN:]
    return f"{growth_text(first)}, …, {growth_text(last)}"


def together_lines(outcome: Outcome) -> list[str]:
    """Settings that go together with failure, if runs enough have failed to say so."""
    lines = []
    for failure in outcome.failures:
        found = outcome.swarm.together_with(failure.signature)
        if found:
            name = type(failure.exception).__name__
            place = place_text(failure.exception)
            what = f"{name} at {place}" if place else name
            lines.append(f"goes together with {what}: {'; '.join(map(str, found))}")
    return lines


def verdict_line(verdict: RetryVerdict) -> str:
    """What became of one saved failure."""
    name = shlex.quote(short_path(str(verdict.path)))
    why = f" ({verdict.why})" if verdict.why else ""
    return f"{verdict.word}: {name}{why}"


def all_text(words: Sequence[str]) -> str:
    """What became of all saved failures, in one line."""
    if not words:
        return "no failure is saved here (.foretold/failures)"
    counted = Counter(words)
    said = ", ".join(f"{n} {word}" for word, n in sorted(counted.items()))
    return f"{count(len(words), 'saved failure')}: {said}"
