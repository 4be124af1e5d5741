"""What a run has really tried: counts of rules, invariants and faults.

A test whose rules are always refused, or whose invariants range over nothing, holds and says
nothing. So each run counts, and a search adds up (`search/checking/vacuity.py` judges). Counts are
no part of the trace: who counts more does not change a run.

It lies this deep because faults strike here; rules and invariants are counted from `spec/`.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from typing import Any, Literal

SAID_CHARS_MAX = 100

RuleEvent = Literal["tried", "precondition_false", "refused", "failed", "succeeded"]
FaultEvent = Literal["injected", "effect"]


@dataclass(slots=True)
class RuleCount:
    """How often a rule was tried, and what came of it."""

    tried: int = 0
    """It was called."""
    precondition_false: int = 0
    """It could not be called: a precondition did not hold, or there were no arguments."""
    refused: int = 0
    """The application refused properly (`foretold.Refused`)."""
    failed: int = 0
    """It raised what the machine tolerates under faults."""
    succeeded: int = 0
    runs: int = 1
    """In how many runs the rule could have been chosen."""
    said: str = ""
    """Why it was refused or failed, the first time."""


@dataclass(slots=True)
class InvariantCount:
    """How often an invariant was checked, and over how many things it ranged."""

    checks: int = 0
    told: int = 0
    """How many checks said over how many things they ranged."""
    ranged: int = 0
    """Over how many things, all checks together."""
    runs: int = 1


@dataclass(slots=True)
class FaultCount:
    injected: int = 0
    effect: int | None = None
    """How often the program got to feel it; None if that is not known of this kind."""
    runs: int = 1


@dataclass(slots=True)
class OperationCount:
    """How often an operation of an API that a machine covers was asked for: by rules, by invariants
    and pages of mirrors, and by `setup` and `teardown`, which cover nothing."""

    asked: int = 0
    by_rules: int = 0
    """Of these, by calls of rules."""
    succeeded: int = 0
    """How often it was answered with 2xx or 3xx."""
    succeeded_in_rules: int = 0
    in_setup: int = 0
    """Of `asked`, by `setup` or `teardown`."""
    succeeded_in_setup: int = 0
    status: int | None = None
    """A status that it was answered with and that is no success: the last one."""
    runs: int = 1


@dataclass(slots=True)
class Tally:
    """The counts of one run, or of many together."""

    rules: dict[str, RuleCount] = field(default_factory=dict)
    invariants: dict[str, InvariantCount] = field(default_factory=dict)
    faults: dict[str, FaultCount] = field(default_factory=dict)
    operations: dict[str, OperationCount] = field(default_factory=dict)
    mutants: dict[str, int] = field(default_factory=dict)
    """In how many runs each declared mutant was passed."""

    def __bool__(self) -> bool:
        return bool(self.rules or self.invariants or self.faults or self.mutants)

    def rule(self, name: str, event: RuleEvent | None = None, said: str = "") -> None:
        """Something became of a rule, for which something was said; without an event it is only
        declared, so that one that is never tried stands in the table as well."""
        found = self.rules.get(name)
        if found is None:
            found = self.rules[name] = RuleCount()
        if event is not None:
            setattr(found, event, getattr(found, event) + 1)
            if said and not found.said:
                found.said = said.partition("\n")[0][:SAID_CHARS_MAX]

    def invariant(self, name: str, over: int | None = None, *, checked: bool = True) -> None:
        """An invariant was checked, over so many things if that is known; `checked=False` only
        declares it."""
        found = self.invariants.get(name)
        if found is None:
            found = self.invariants[name] = InvariantCount()
        found.checks += checked
        if over is not None:
            found.told += 1
            found.ranged += over

    def fault(self, name: str, event: FaultEvent | None = None, times: int = 1) -> None:
        """A fault was injected, or had an effect. `times=0`: no effect so far, and it would have
        been told."""
        found = self.faults.get(name)
        if found is None:
            found = self.faults[name] = FaultCount()
        if event == "injected":
            found.injected += times
        elif event == "effect":
            found.effect = (found.effect or 0) + times

    def operation(
        self, name: str, status: int | None = None, *, by_rule: bool = False, in_setup: bool = False
    ) -> None:
        """An operation was answered; without a status it is only declared."""
        found = self.operations.get(name)
        if found is None:
            found = self.operations[name] = OperationCount()
        if status is not None:
            succeeded = status < 400
            found.asked += 1
            found.by_rules += by_rule
            found.succeeded += succeeded
            found.succeeded_in_rules += succeeded and by_rule
            found.in_setup += in_setup
            found.succeeded_in_setup += succeeded and in_setup
            found.status = found.status if succeeded else status

    def add(self, other: Tally) -> None:
        """Another run."""
        for table in ("rules", "invariants", "faults", "operations"):
            counts: dict[str, Any] = getattr(self, table)
            for name, count in getattr(other, table).items():
                counts[name] = _sum(counts.get(name), count)
        for name, runs in other.mutants.items():
            self.mutants[name] = self.mutants.get(name, 0) + runs

    def as_data(self) -> dict[str, dict[str, Any]]:
        """Plain data, for a way between processes."""
        counts = {
            name: {key: list(astuple(count)) for key, count in getattr(self, name).items()}
            for name in ("rules", "invariants", "faults", "operations")
        }
        return {**counts, "mutants": self.mutants}


def _sum(one: Any, other: Any) -> Any:
    """Two counts together. What nobody knows of one is what is known of the other, and of two texts
    the first one stays."""
    if one is None:
        return type(other)(*astuple(other))
    if isinstance(one, OperationCount):
        status = one.status if other.status is None else other.status
        one, other = replace(one, status=None), replace(other, status=None)
        return replace(_added(one, other), status=status)
    return _added(one, other)


def _added(one: Any, other: Any) -> Any:
    pairs = zip(astuple(one), astuple(other), strict=True)
    return type(one)(*(_plus(a, b) for a, b in pairs))


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, str):
        return a or b
    return a if b is None else b if a is None else a + b
