"""The settings of a run that decide what happens in it. They travel on the tape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from foretold.arguments import check_number, check_whole, check_word
from foretold.errors import TapeError, UsageError
from foretold.kernel.clock import EPOCH_S_DEFAULT, MONOTONIC_S_DEFAULT
from foretold.kernel.kernel import Order, RunLimits
from foretold.kernel.schedulers import SCHEDULERS
from foretold.kernel.schedulers.profile import Profile
from foretold.kernel.threads.preempt import preempt_text
from foretold.tape import Setting
from foretold.world.faults import faults_text

INSTANT_S_MAX = 1e15
"""As far as a clock may be set, thirty million years: its nanoseconds are still whole numbers."""
BackgroundErrors = Literal["fail", "ignore"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything besides the choices that a replay must repeat."""

    order: Order = "any"
    strategy: str = "random"
    profile: str = ""
    """What earlier runs of the search have shown about the program (`schedulers/profile.py`)."""
    exact_time: bool = False
    epoch_s: float = EPOCH_S_DEFAULT
    monotonic_s: float = MONOTONIC_S_DEFAULT
    background_errors: BackgroundErrors = "fail"
    faults: str = ""
    """The kinds of faults that may strike, by their names; `foretold.faults` has them."""
    preempt: str = ""
    """Between which lines threads may be interrupted: "lines" for those of all your own code, or
    "lines: a, b" for those of the modules a and b."""
    machine: str = ""
    """What was said about a machine's steps, actors and weights (`spec/machine/options.py`)."""
    mutant: str = ""
    """The declared bug that is switched on: `foretold.mutant(name)` is true for this one."""
    cold: bool = False
    """The run begins where the program was not run before (`isolation="fork"`): nothing warms it up
    (`search/workers/warming.py`)."""
    steps_max: int = RunLimits().steps
    virtual_s_max: float = RunLimits().virtual_s
    wall_s_max: float | None = RunLimits().wall_s

    def __post_init__(self) -> None:
        check_word("order", self.order, get_args(Order))
        check_word("strategy", self.strategy, SCHEDULERS)
        Profile.parse(self.profile)
        check_word("background_errors", self.background_errors, get_args(BackgroundErrors))
        object.__setattr__(self, "faults", faults_text(self.faults))  # sets are welcome as well
        object.__setattr__(self, "preempt", preempt_text(self.preempt))  # and so are lists
        for name in ("exact_time", "cold"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is True or False, got {getattr(self, name)!r}")
        check_number("epoch_s", self.epoch_s, at_least=-INSTANT_S_MAX, at_most=INSTANT_S_MAX)
        check_number("monotonic_s", self.monotonic_s, at_least=0, at_most=INSTANT_S_MAX)
        check_whole("steps_max", self.steps_max, at_least=1, example=1_000_000)
        check_number("virtual_s_max", self.virtual_s_max, above=0, finite=False)
        if self.wall_s_max is not None:
            check_number("wall_s_max", self.wall_s_max, above=0, finite=False)

    def limits(self) -> RunLimits:
        return RunLimits(self.steps_max, self.virtual_s_max, self.wall_s_max)

    def with_changes(self, **changes: Any) -> Settings:
        """A copy with what is not None changed."""
        return replace(self, **{k: v for k, v in changes.items() if v is not None})

    def on_tape(self) -> dict[str, Setting]:
        """As a tape keeps them: only what differs from the defaults, and the order always."""
        default = _DEFAULT
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        del kept["wall_s_max"]  # real time is no part of a run
        return {
            name: value
            for name, value in kept.items()
            if name in ("order", "strategy") or value != getattr(default, name)
        }

    @classmethod
    def from_tape(cls, settings: Mapping[str, Setting]) -> Settings:
        known = {f.name for f in fields(cls)}
        for name in settings:
            if name not in known:
                raise TapeError(f"the tape has a setting {name!r} that this foretold does not know")
            if not isinstance(settings[name], _TYPES.get(name, str)):
                raise TapeError(f"the tape's setting {name} cannot be {settings[name]!r}")
        try:
            return cls(**settings)  # type: ignore[arg-type]  # checked in __post_init__
        except (TypeError, UsageError) as error:
            raise TapeError(f"the tape's settings do not fit: {error}") from None


_DEFAULT = Settings()
_TYPES: dict[str, Any] = {
    "exact_time": bool,
    "cold": bool,
    "epoch_s": (int, float),
    "monotonic_s": (int, float),
    "steps_max": int,
    "virtual_s_max": (int, float),
    "wall_s_max": (int, float, type(None)),
}
"""What a setting may be that is not text."""
