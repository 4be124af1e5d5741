"""What earlier runs of a search have shown about a program: how long it is, and who does how much.

A scheduler that places a few exceptions among the steps of a run must know how many steps there
are: in a run of 20 steps, a moment that is drawn from 1,000 is wasted. A search learns it from its
first runs and puts it on the tape, as text, so that a replay needs no learning.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretold.errors import UsageError
from foretold.tape.schedule import kind_of

_SHOWN_CHARS = 100
NAMES_MAX = 40
"""So many actors are known by name, those with the most steps."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How long the runs of a program are."""

    decisions: int = 0
    """How often there was more than one candidate, on the host where that was most often; 0 if
    nothing is known."""
    steps: int = 0
    """How many steps of tasks there were, on the host that made most."""
    by_name: Mapping[str, int] = field(default_factory=dict)
    """The steps of each actor; in a large cast by the name without its number, so that `worker-2`
    is a `worker`."""

    @property
    def text(self) -> str:
        """As it stands on a tape; empty if nothing is known."""
        if not self.decisions:
            return ""
        known = [self.decisions, self.steps, dict(self.by_name)]
        return json.dumps(known, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Profile:
        """The inverse of `text`."""
        return _parse(text)

    def joined(self, other: Profile) -> Profile:
        """The longer of both, in each respect."""
        names = dict(self.by_name)
        for name, steps in other.by_name.items():
            names[name] = max(steps, names.get(name, 0))
        most = sorted(names, key=lambda name: (-names[name], name))[:NAMES_MAX]
        return Profile(
            max(self.decisions, other.decisions),
            max(self.steps, other.steps),
            {name: names[name] for name in sorted(most)},
        )


UNKNOWN = Profile()


def expected_of(profile: Profile, name: str, otherwise: int) -> int:
    """How many steps an actor of this name is expected to make."""
    names = profile.by_name
    return names[name] if name in names else names.get(kind_of(name), otherwise)


def profile_of(decisions: int | None, steps: Iterable[tuple[str, int]]) -> Profile:
    """The profile of one host in one run, from its actors' names and steps. In stock order nobody
    decides; elsewhere there might have been a decision before every step."""
    names = dict(steps)
    total = sum(names.values())
    if len(names) > NAMES_MAX:
        kinds: dict[str, int] = {}
        for name, made in names.items():
            kind = kind_of(name)
            kinds[kind] = max(made, kinds.get(kind, 0))
        names = kinds
    return UNKNOWN.joined(Profile(total if decisions is None else decisions, total, names))


@functools.lru_cache(maxsize=64)
def _parse(text: str) -> Profile:
    if not text:
        return UNKNOWN
    try:
        decisions, steps, names = json.loads(text)
        numbers: list[Any] = [decisions, steps, *names.values()]
        if all(type(number) is int and number >= 0 for number in numbers):
            return Profile(decisions, steps, names)
    except (ValueError, TypeError, AttributeError, RecursionError):  # the last if it is nested deep
        pass
    raise UsageError(f"this is not a profile that a search has written: {text[:_SHOWN_CHARS]!r}")
