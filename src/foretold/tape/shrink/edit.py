"""Edits of a tape's choices that several passes make, and what two equal tapes have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from foretold.tape.streams import Choice
from foretold.tape.tape import Tape

StillFails = Callable[[Tape], bool]
"""The question of a pass: does the failure remain on this tape?"""
Spot = tuple[str, int]
"""A choice: its stream, and its place there."""

_BY_MOMENT = ("buggify", "disk", "entropy", "fault", "net", "pace", "schedule", "threads")


def is_structure(name: str) -> bool:
    """Whether what is drawn from this stream builds values, so that a block of it may be cut out.

    In the others each choice belongs to a moment of the run (a message, a fault): to cut one out
    would give each later moment the choice of another one.
    """
    return name.partition("/")[0] not in _BY_MOMENT


def value_at(tape: Tape, spot: Spot) -> int:
    """What is chosen there. Past the end all is calm."""
    entries = tape.choices.get(spot[0], ())
    return entries[spot[1]].value if spot[1] < len(entries) else 0


def departures(tape: Tape) -> list[Spot]:
    """The choices that are not the calm ones."""
    return [
        (name, position)
        for name, entries in tape.choices.items()
        for position, choice in enumerate(entries)
        if choice.value
    ]


def with_values(tape: Tape, values: Mapping[Spot, int]) -> Tape:
    """The tape with other choices at some places."""
    choices = dict(tape.choices)
    changed: dict[str, list[Choice]] = {}
    for (name, position), value in values.items():
        entries = changed.setdefault(name, list(choices[name]))
        entries[position] = entries[position]._replace(value=value)
    for name, entries in changed.items():
        _put(choices, name, entries)
    return tape.derived(choices=choices)


def without(
    tape: Tape, name: str, start: int, end: int, values: Mapping[int, int] | None = None
) -> Tape:
    """The tape without a block of one stream, and with other values before it."""
    entries = list(tape.choices[name])
    for position, value in (values or {}).items():
        entries[position] = entries[position]._replace(value=value)
    choices = dict(tape.choices)
    _put(choices, name, entries[:start] + entries[end:])
    return tape.derived(choices=choices)


def _put(choices: dict[str, Sequence[Choice]], name: str, entries: Sequence[Choice]) -> None:
    """What is calm to the end need not be written, and a stream of nothing need not be there."""
    kept = list(entries)
    while kept and not kept[-1].value:
        kept.pop()
    if kept:
        choices[name] = kept
    else:
        choices.pop(name, None)


def fingerprint(tape: Tape) -> Hashable:
    """Equal for tapes that give the same run: labels and calm endings decide nothing."""
    return (
        tuple(sorted(streams_of(tape).items())),
        frozenset(tape.schedule),
        frozenset((name, repr(value)) for name, value in tape.settings.items()),
    )


def streams_of(tape: Tape) -> dict[str, tuple[int, ...]]:
    """What is chosen, by stream, without the calm endings."""
    found = {}
    for name, entries in tape.choices.items():
        values = [choice.value for choice in entries]
        while values and not values[-1]:
            values.pop()
        if values:
            found[name] = tuple(values)
    return found
