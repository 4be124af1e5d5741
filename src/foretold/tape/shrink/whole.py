"""Whole streams at once: most of what a run drew has nothing to do with the failure."""

from __future__ import annotations

from collections.abc import Callable

from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.tape import Tape


def calm_streams(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """Leave out every stream that is not needed: all of its choices become calm."""
    best = tape

    def fails_with(names: list[str]) -> bool:
        nonlocal best
        candidate = tape.derived(choices={name: tape.choices[name] for name in names})
        if still_fails(candidate):
            best = candidate
            return True
        return False

    names = [name for name, entries in tape.choices.items() if any(c.value for c in entries)]
    smallest_sublist(names, fails_with)
    return best
