"""Texts about failures and searches: notes on exceptions, and what the command prints.

The most important comes first: what broke, on one line; whether to doubt it; the story, beginning
with what decides it. Then how it was found, whether production can do it, whether it was seen again
elsewhere, and last the one command that replays it.
"""

from __future__ import annotations

import linecache
import os
import shlex
import traceback
from collections.abc import Sequence
from pathlib import Path

from foretold.errors import Deadlock
from foretold.report.terminal import harmless
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.workers.brief import first_line
from foretold.story.choices import (
    Slowness,
    random_values,
    slow_connections,
    slow_statements,
)
from foretold.story.signature import place_of, text_of
from foretold.story.words import count, short, short_path, source_line
from foretold.story.words import wrapped as wrapped_lines
from foretold.tape import WORKLOAD, Tape

FAULTS = "fault"
"""The stream, and what the names of the single faults' streams begin with."""
FRAMES_MAX = 12
_OURS = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_LOOP = f"{os.sep}asyncio{os.sep}"
_SLOTS = "machine"
"""The stream of a machine's slot, before its number."""
_OF_CALL = f"{FAULTS}/call"
"""The same of a fault that strikes together with a call of a machine."""


def failure_note(failure: Failure, *, runs: int, command: str) -> str:
    """What is added to the user's own exception; `runs` is how many were asked for. pytest prints
    it as it is, so it is made harmless here."""
    is_doubtful = failure.reproduced is False or bool(failure.doubt)
    parts = [broke_text(failure.exception), *(_replayed(failure) if is_doubtful else ())]
    parts += [failure.story] if failure.story else []
    parts += [_found(failure, runs), *_configured(failure), *_stock(failure), *_first_only(failure)]
    parts += [] if is_doubtful else _replayed(failure)
    parts += [f"Note: {note}" for note in failure.notes]
    return harmless("\n".join([*parts, f"Replay it: {command}"]))


def broke_text(error: BaseException) -> str:
    """What broke, and where, on one line."""
    said = error.why if isinstance(error, Deadlock) and error.why else first_line(error)
    what = type(error).__name__ + (f": {said}" if said else _line_of(error))
    place = place_text(error)
    return f"What broke: {what}" + (f" ({place})" if place else "")


def _line_of(error: BaseException) -> str:
    """What stands there says more than the name alone: `assert` has no text, outside of pytest."""
    line = source_line(place_of(error))
    return f" at `{line}`" if line else ""


def _found(failure: Failure, runs: int) -> str:
    if failure.run == 0:  # nothing was searched
        shape = departures(failure.tape, _calls(failure)).rstrip(",")
        return f"foretold replayed a saved failure (seed {failure.seed}; {shape})"
    settings = failure.tape.settings
    how = f"seed {failure.seed}, order {settings.get('order')}"
    if settings.get("order") == "any":
        how += f", strategy {settings.get('strategy')}"
    if mutant := settings.get("mutant"):
        how += f", with the mutant {mutant!r} on"
    if failure.changes:
        how += f", changed {count(failure.changes, 'time')} since"
    again = f" and {failure.times - 1:,} more" if failure.times > 1 else ""
    where = f"{failure.where}{again} of {runs:,}"
    return f"foretold found this in {where} ({how}); {_shrunk(failure)}"


def _configured(failure: Failure) -> list[str]:
    """What the run drew for all of it, as far as the story does not tell it: faults and knobs."""
    told = ["order", "strategy", "cost of a step", "slow steps", "rule "]
    # Who acts is told by the program of rules; of who it was drawn for, some may be gone from it.
    told += ["actors"] if failure.shrink_runs and _calls(failure) else []
    drawn = {k: v for k, v in failure.configuration.items() if not k.startswith(tuple(told))}
    on = [name for name, v in drawn.items() if v == "on"]
    faults = [name.removeprefix("fault ") for name in on if name.startswith("fault ")]
    parts = [f"{k} {v}" for k, v in drawn.items() if not k.startswith("fault ") and v != "off"]
    if failure.faults or not failure.shrink_runs:  # else it does not need any of them
        parts += [f"faults {', '.join(faults)}"] if faults else []
    return [wrapped(f"The run was configured with {'; '.join(parts)}.")] if parts else []


def _shrunk(failure: Failure) -> str:
    shape = departures(failure.tape, _calls(failure))
    if not failure.shrink_runs:
        return f"not shrunk: {shape}"
    said = f"shrunk to {shape} in {count(failure.shrink_runs, 'run')}"
    if not failure.unfinished:
        return said
    if failure.saved_as is None:
        return f"{said}, when its runs or its time were used up"
    name = shlex.quote(short_path(str(failure.saved_as)))
    return f"{said}, when its runs or its time were used up (go on: foretold shrink {name})"


def _calls(failure: Failure) -> int:
    """How many calls of rules the story tells; 0 if there is no machine."""
    return len(failure.story.calls) if failure.story.is_program else 0


def _is_numbered(name: str, stream: str) -> bool:
    """Whether it is one of several streams, told apart by a number: `machine/3`."""
    before, _, number = name.rpartition("/")
    return before == stream and number.isdigit()


def departures(tape: Tape, calls: int = 0) -> str:
    """How far a tape is from the calm one: `1 delay and 2 chosen values`. If the story of its run
    is known, so is how many calls of rules it made."""
    if not tape.scheduled_by_key:
        return "all choices come from the seed"
    chosen = sum(1 for choice in tape.choices.get(WORKLOAD, ()) if choice.value)
    counted = [
        (len(tape.schedule.holds), "delay"),
        (len(tape.schedule.slows), "late step"),
        (calls or _rule_calls(tape), "rule call"),
        (chosen, "chosen value"),
        (_faults_on(tape), "fault"),
        (_late_messages(tape), "late message"),
    ]
    counted += [(_times(slow_statements(tape.choices)), "slow statement")]
    counted += [(_times(slow_connections(tape.choices)), "slow connection")]
    parts = [count(n, noun) for n, noun in counted if n]
    return " and ".join(parts) or _other_choices(tape)


def _times(slow: Sequence[Slowness]) -> int:
    return sum(each.times for each in slow)


def _other_choices(tape: Tape) -> str:
    """Of a tape on which nothing else differs from the calm one."""
    drawn = random_values(tape.choices)
    streams = (entries for name, entries in tape.choices.items() if name.split("/")[0] != FAULTS)
    left = sum(bool(each.value) for entries in streams for each in entries) - drawn
    parts = [f"{count(drawn, 'choice')} of random values"] if drawn else []
    parts += [count(left, "other choice")] if left else []
    return " and ".join(parts) or "the calm run, where nothing is delayed,"


def _rule_calls(tape: Tape) -> int:
    """How many slots of a machine are in use; one may still find that nothing can be done, which
    only a run can tell."""
    slots = (entries for name, entries in tape.choices.items() if _is_numbered(name, _SLOTS))
    return sum(bool(entries and entries[0].value) for entries in slots)


def _late_messages(tape: Tape) -> int:
    return sum(
        1
        for name, entries in tape.choices.items()
        for choice in entries
        if name.startswith("net/") and choice.value and choice.label == "latency"
    )


def _faults_on(tape: Tape) -> int:
    """How many faults a tape asks for; one may still find nothing to strike."""
    drawn = {
        (name, choice.label)
        for name, entries in tape.choices.items()
        if name.split("/")[0] == FAULTS
        for choice in entries
        if choice.value
    }
    with_calls = sum(
        bool(entries and entries[0].value)
        for name, entries in tape.choices.items()
        if _is_numbered(name, _OF_CALL)
    )
    if (FAULTS, "any faults") not in drawn:
        return with_calls
    return with_calls + sum(
        (f"{FAULTS}/{kind}", f"{kind} at all") in drawn
        for name, label in drawn
        if label == "strikes"
        for kind in name.split("/")[1:2]
    )


def _stock(failure: Failure) -> list[str]:
    if failure.reproduced is False:
        return []  # what fails here and nowhere else says nothing about orders
    if failure.has_only_threads:
        return ["Real threads can do this."] if failure.stock_asyncio else []
    if failure.stock_asyncio:
        return ["Stock asyncio can do this."]
    if failure.stock_asyncio is False:
        return [
            wrapped(
                "Stock asyncio does not take this order for this code as it stands: "
                f"{failure.stock_reason}. One more await can change that."
            )
        ]
    if failure.stock_tries:
        tries = count(failure.stock_tries, "run")
        return [
            wrapped(
                "Whether stock asyncio can do this is not known: it was not seen to in "
                f"{tries} in its order, which were aimed at it."
            )
        ]
    return []


def _first_only(failure: Failure) -> list[str]:
    if not failure.first_only:
        return []
    return [
        wrapped(
            "Only the first run of the process failed: the same tape held when it was run again "
            "there. Something that the first run makes or loads outlives it."
        )
    ]


def _replayed(failure: Failure) -> list[str]:
    if failure.reproduced is None:
        return [f"Beware: {failure.doubt}."] if failure.doubt else []
    doubt = f", but {failure.doubt}" if failure.doubt else ""
    if failure.elsewhere:
        return [
            "Replayed in a fresh process: yes. In this process, which has run other things before, "
            "the same tape holds."
        ]
    said = f"yes{doubt}" if failure.reproduced else f"NO, {failure.doubt}"
    lines = [f"Replayed in {failure.replayed_in}: {said}."]
    if failure.first_only:
        return lines
    if not failure.reproduced or failure.leans_on_earlier:
        lines.append(
            "Does the program keep something between runs (a lock, a cache, a generator of a "
            'module)? Then isolation="fork" gives each run a fresh start.'
        )
    return lines


def wrapped(text: str, indent: str = "") -> str:
    """Prose at a width that is easy to read."""
    return "\n".join(wrapped_lines(text, indent))


# The exception


def exception_text(error: BaseException) -> str:
    """The exception as a traceback without our frames and those of the event loop.

    Not `traceback.format_exception`: its underlinings differ from one Python to the next, and
    half of its lines are how asyncio calls a task.
    """
    lines = [*_frame_lines(error), *_message_lines(error)]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and place_of(cause) is not None:
        lines += [
            f"  after {line}" if i == 0 else f"  {line}"
            for i, line in enumerate(_message_lines(cause))
        ]
    return "\n".join(lines)


def _frame_lines(error: BaseException) -> list[str]:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OURS) and _LOOP not in frame.filename
    ]
    lines = [] if len(frames) <= FRAMES_MAX else [f"  … {len(frames) - FRAMES_MAX} frames before"]
    for frame in frames[-FRAMES_MAX:]:
        lines.append(f"  {short_path(frame.filename)}:{frame.lineno}, in {frame.name}")
        source = linecache.getline(frame.filename, frame.lineno or 0).strip()
        lines += [f"    {source}"] if source else []
    return lines


def _message_lines(error: BaseException) -> list[str]:
    name, said = type(error).__name__, text_of(error).splitlines()
    lines = [f"{name}: {said[0]}" if said else name, *said[1:]]
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            lines += [f"  | {line}" for line in (*_frame_lines(inner), *_message_lines(inner))]
    return lines


# What a search gave


def outcome_text(outcome: Outcome, *, runs: int, target: str) -> str:
    """What `foretold explore` prints at the end."""
    failure = outcome.failure
    if failure is not None:
        command = f"foretold replay {replay_arguments(failure, target)}"
        note = failure_note(failure, runs=runs, command=command)
        return f"{exception_text(failure.exception)}\n\n{note}"
    notes = [f"  {note}" for note in notes_on(outcome)]
    if not outcome.runs and not outcome.interrupted:
        said = wrapped(
            f"no run of {target} was over when the time was up, so nothing was explored. Give it "
            f"more time, or look at why a run takes so long. Seed {outcome.seed}."
        )
        return "\n".join([said, *notes])
    if outcome.vacuous:
        held = "" if outcome.is_empty else "it held, but "
        why = f"{held}{outcome.why_vacuous}"
        said = wrapped(f"nothing to explore in {target}: {why}. Seed {outcome.seed}.")
        return "\n".join([said, *notes])
    lines = [
        f"{target} held in {count(outcome.runs, 'run')} "
        f"({outcome.virtual_s:,.3f} s of virtual time). Seed {outcome.seed}."
    ]
    if outcome.covered:
        calm = "Values, times and faults were the calm ones."
        lines.append(wrapped(f"Covered: {outcome.covered}. {calm}"))
    if not outcome.hollow:  # else that is told with what to do about it
        lines += [f"  never true in any run: {point}" for point in outcome.missed]
    return "\n".join(lines + notes)


def notes_on(outcome: Outcome) -> list[str]:
    """What fails nothing, and deserves a look."""
    notes = list(outcome.notes)
    if outcome.first_failed:
        notes.append(
            f"the first run in the process, which does not count, {outcome.first_failed}; the same "
            'tape did not fail so when it was run again. With isolation="fork" each run is a first '
            "one"
        )
    return notes


def interrupted_text(runs: int, seed: int, found: Sequence[Path]) -> str:
    """What was found when Ctrl-C was pressed. `found`: the tapes that were saved meanwhile."""
    stopped = f"stopped by Ctrl-C after {count(runs, 'run')}, seed {seed}"
    if not found:
        return f"{stopped}; nothing has failed so far."
    return (
        f"{stopped}, while a failure was being shrunk. Its tape is kept:\n"
        f"Replay it: foretold replay {shlex.quote(short_path(str(found[0])))}"
    )


def replay_arguments(failure: Failure, target: str) -> str:
    """What `foretold replay` needs to run this failure again."""
    if failure.saved_as is not None:  # what was changed since its seed can be had as a file alone
        return shlex.quote(short_path(str(failure.saved_as)))
    return f"{shlex.quote(target)} {seed_arguments(failure)}"


def seed_arguments(failure: Failure) -> str:
    """What names the run of a search in which it was found: its seed, and what was known then."""
    known = f" --profile {shlex.quote(failure.profile)}" if failure.profile else ""
    mutant = failure.tape.settings.get("mutant", "")
    planted = f" --mutant {shlex.quote(str(mutant))}" if mutant else ""
    return f"--seed {failure.seed}{known}{planted}"


def place_text(error: BaseException) -> str:
    """`bank.py:27`, or empty."""
    return short(place_of(error))
