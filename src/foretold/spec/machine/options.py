"""How long a machine runs, with how many actors and which weights.

Said by the class (`steps = 30`), changed by a call (`foretold.explore(Shop, steps=50)`) or on the
command line (`--steps 50`). What was changed stands on the tape, in the setting `machine`: a replay
needs to be told nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretold.arguments import check_number, check_whole, known_words
from foretold.errors import TapeError, UsageError
from foretold.spec.machine.actors import check_actors

STEPS_MAX = 100_000
OPTIONS = ("steps", "actors", "weights")


@dataclass(frozen=True)
class MachineOptions:
    steps: int = 50
    actors: int | Sequence[str] = 1
    weights: Mapping[str, float] = field(default_factory=dict)
    storm: int | None = None
    """Which storm a run ends in, if that is known; else the one that a rehearsal suspects."""

    def check(self, where: str, rules: Sequence[str]) -> None:
        """Raise a `UsageError` for what no run could be made with."""
        check_whole("steps", self.steps, at_least=0, example=30)
        if self.steps > STEPS_MAX:
            raise UsageError(f"{where}: steps={self.steps} is more than {STEPS_MAX:,}")
        check_actors(self.actors, where)
        self.check_kinds(where)
        for name, weight in self.weights.items():
            if name not in rules:
                raise UsageError(
                    f"{where}: weights has {name!r}, and there is no such rule; there are "
                    f"{known_words(name, rules)}"
                )
            check_number(f"the weight of {name}", weight, at_least=0)

    def check_kinds(self, where: str) -> None:
        """What must be so before anything can be read from it."""
        if not isinstance(self.weights, Mapping):
            raise UsageError(
                f'{where}: weights says how often rules are applied, such as {{"buy": 3}}; '
                f"got {self.weights!r}"
            )

    def changed(self, text: str) -> MachineOptions:
        """With what stands on a tape."""
        if not text:
            return self
        try:
            given = json.loads(text)
            weights = {**self.weights, **given.get("weights", {})}
            steps, actors = given.get("steps", self.steps), given.get("actors", self.actors)
            storm = given.get("storm")
            if not (storm is None or (type(storm) is int and storm >= 0)):
                raise ValueError(f"{storm!r} is not the number of a storm")
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise TapeError(f"the tape's setting machine cannot be read: {error}") from None
        return MachineOptions(steps, actors, weights, storm)


def aimed(text: str, storm: int) -> str:
    """What stands on a tape, and the storm that the run shall end in."""
    return json.dumps(
        {**(json.loads(text) if text else {}), "storm": storm},
        separators=(",", ":"),
        sort_keys=True,
    )


def options_text(given: Mapping[str, Any]) -> str:
    """As it stands on a tape: only what was given."""
    told = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    if not told:
        return ""
    MachineOptions(weights=told.get("weights", {})).check_kinds("settings")
    try:
        return json.dumps(told, separators=(",", ":"), sort_keys=True)
    except (TypeError, ValueError):
        raise UsageError(
            'steps is a number, actors a number or a list of roles, weights such as {"buy": 3}; '
            f"got {told!r}"
        ) from None
