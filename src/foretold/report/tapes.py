"""What a person reads about one tape: its header, its schedule in words, what a replay gave."""

from __future__ import annotations

from collections.abc import Iterator

from foretold.arguments import printable
from foretold.report.text import broke_text, departures, exception_text
from foretold.search.failures.retry import noted_in_words, recorded_elsewhere, why_unlike
from foretold.search.workers.warming import ONLY_FIRST
from foretold.story.decision import Decision
from foretold.story.signature import place_of, text_of
from foretold.story.story import tell_run
from foretold.story.words import count, duration, ordinal, short_path, until_of
from foretold.tape import CALLBACKS, FailureNote, StockNote, Tape, TapeFile, environment_differences
from foretold.world.run import Run

SENTENCES_MAX = 40
_NOT_TOLD = ("profile", "cold")
"""Settings that nobody chose by their names."""
CELL_CHARS_MAX = 1_000


def header_text(file: TapeFile, name: str) -> str:
    """Where a tape comes from and what is known of its run."""
    rows = [
        ("tape", short_path(name)),
        ("target", file.target or "(not said: a function without a name that can be imported)"),
        ("stock", stock_in_words(file.stock)),
        ("failure", printable(noted_in_words(file.failure)) if file.failure else "(none noted)"),
        ("seed", f"{file.tape.seed}, {settings_in_words(file.tape)}"),
        ("departs by", departures(file.tape)),
        *([("shrinking", f"not finished: foretold shrink {name} goes on")] * file.unfinished),
        ("recorded", f"by foretold {file.foretold}, {file.implementation} {file.python}, "
         f"{file.platform}"),
    ]  # fmt: skip
    rows = [(key, _on_a_line(value)) for key, value in rows if value]
    width = max(len(key) for key, _ in rows) + 1
    return "\n".join(f"{(key + ':').ljust(width)} {value}" for key, value in rows)


def _on_a_line(text: str) -> str:
    text = printable(text)
    return text if len(text) <= CELL_CHARS_MAX else f"{text[:CELL_CHARS_MAX]}…"


def stock_in_words(stock: StockNote | None) -> str:
    """Whether stock asyncio can do it; empty if nobody asked."""
    if stock is None:
        return ""
    if stock.possible is None:
        return f"asyncio was not seen to do this in {count(stock.tries, 'run')}"
    return "asyncio can do this" if stock.possible else f"asyncio does not do this: {stock.reason}"


def settings_in_words(tape: Tape) -> str:
    """`order any, strategy pct`, and whatever else is not the default."""
    settings = sorted(tape.settings.items())
    return ", ".join(f"{name} {value}" for name, value in settings if name not in _NOT_TOLD)


def schedule_text(tape: Tape) -> str:
    """A schedule in words, for a tape that cannot be run here."""
    said = list(_sentences(tape))
    if not said:
        return "No task is delayed on this tape."
    more = [f"  … and {len(said) - SENTENCES_MAX} more"] if len(said) > SENTENCES_MAX else []
    lines = [f"  {sentence}" for sentence in said[:SENTENCES_MAX]]
    return "\n".join(["All take turns, first come first served, except that", *lines, *more])


def _sentences(tape: Tape) -> Iterator[str]:
    for hold in tape.schedule.holds.values():
        held = (
            f"is held before its {ordinal(hold.step)} step," if hold.step > 1 else "does not start"
        )
        yield printable(f"{hold.actor} {held} until {until_of(hold)}")
    for slow in tape.schedule.slows.values():
        step = "callback" if slow.actor == CALLBACKS else f"step of {printable(slow.actor)}"
        late = (
            f"wakes up {duration(slow.ns)} late"
            if slow.asleep
            else f"is late by {duration(slow.ns)}"
        )
        yield f"the event loop {late} after the {ordinal(slow.step)} {step}"


def environment_text(file: TapeFile) -> str:
    """What is different here from where the tape was recorded, or empty."""
    differences = environment_differences(file)
    if not differences:
        return ""
    return f"note: {'; '.join(differences)}. The run may differ."


# What a replay gave


def story_text(done: Run, decision: Decision | None = None) -> str:
    """The exception, what broke, and the story that leads to it."""
    assert done.error is not None, "only failing runs have a story"
    story = tell_run(done, decision)[0]
    return "\n".join([exception_text(done.error), "", broke_text(done.error), story])


def is_same_failure(expected: FailureNote, error: BaseException) -> bool:
    """The same kind of exception, with the same message or at the same line.

    Not the whole path: the tape may have been recorded in another folder.
    """
    if type(error).__qualname__ != expected.type_name:
        return False
    note = FailureNote(expected.type_name, text_of(error))
    place = place_of(error)
    ending = f"{place.file.rpartition('/')[2]}:{place.line}" if place is not None else ""
    same_line = bool(ending) and expected.place.rpartition("/")[2] == ending
    return note.message == expected.message or same_line


def verdict_text(file: TapeFile, done: Run) -> str:
    """One sentence on whether the failure was seen again."""
    expected = file.failure
    if done.error is None:
        was = f" It was {noted_in_words(expected)}" if expected is not None else ""
        if elsewhere := recorded_elsewhere(file):
            return f"The run holds here, which proves nothing: {'; '.join(elsewhere)}.{was}"
        return f"The failure is gone: the run holds.{was}"
    only = f"\n{ONLY_FIRST}" if done.first_only else ""
    if expected is None:
        return f"The run fails.{only}"
    if is_same_failure(expected, done.error):
        return f"It fails again, as recorded.{only}"
    return f"It fails differently. Recorded was {noted_in_words(expected)}{only}"


def changed_text(file: TapeFile, done: Run) -> str:
    """A warning if the run is not the recorded one any more, or empty."""
    if file.digest is None or done.digest == file.digest:
        return ""
    return f"warning: this is not the run that was recorded ({why_unlike(file, done)})."


def seeded_text(target: str, done: Run) -> str:
    """What the replay of a seed gave."""
    how = f"seed {done.tape.seed}, {settings_in_words(done.tape)}"
    if done.error is not None:
        only = f"\n{ONLY_FIRST}" if done.first_only else ""
        return f"{story_text(done)}\n\n{target} fails with {how}.{only}"
    steps = count(done.steps, "step")
    return f"{target} held with {how}: {steps}, {done.virtual_s:,.3f} s of virtual time."
