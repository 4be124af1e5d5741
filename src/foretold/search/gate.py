"""Does a machine reach all that it says it covers? `foretold covers`.

The search goes on until every operation was reached, every rule has succeeded and every invariant
and mirror has looked at something, or until its runs are used up: what is missing then is a gap.
Besides, each strategy that the machine names for a
model is compared with it (`foretold.drift`). A failure of a run says nothing about coverage, and
ends the search: a machine has to hold first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from foretold.errors import UsageError
from foretold.search.checking.vacuity import Hollow, idle_invariants_in, idle_rules_in, uncovered_in
from foretold.search.explore import explore
from foretold.search.failures.failure import Failure
from foretold.search.workers.targets import may_make_application
from foretold.spec.later import drift
from foretold.spec.machine.covers import operations_of, pairs_of
from foretold.world.tally import Tally

BATCH_RUNS: Final = 20
GAPS_SHOWN: Final = 3


@dataclass
class Gate:
    seed: int
    runs: int = 0
    tally: Tally = field(default_factory=Tally)
    gaps: list[Hollow] = field(default_factory=list)
    compared: int = 0
    """So many strategies were compared with their models."""
    failure: Failure | None = None


def gate(
    main: Callable[..., Any],
    *,
    runs: int,
    seed: int,
    batch_runs: int = BATCH_RUNS,
    **settings: Any,
) -> Gate:
    """Search until all is reached, at most for so many runs; it is looked at after each batch."""
    machine: Any = getattr(main, "foretold_machine", main)
    if getattr(machine, "covers", None) is None:
        raise UsageError(
            f"{getattr(main, '__name__', main)} does not say what it covers. In a machine write "
            f"covers = foretold.openapi(app). {may_make_application(main)}".rstrip()
        )
    operations_of(machine)
    found = Gate(seed)
    while found.runs < runs:
        batch = min(batch_runs, runs - found.runs)
        outcome = explore(
            main, runs=batch, seed=seed + found.runs, shrink=False, confirm=False, **settings
        )
        found.runs += outcome.runs
        found.tally.add(outcome.tally)
        found.failure = outcome.failure
        if found.failure is not None or not outcome.runs:
            break
        if not list(_gaps(found.tally)):
            break
    found.gaps = [*_gaps(found.tally), *_drifts(machine, found)]
    return found


def _gaps(tally: Tally) -> Iterator[Hollow]:
    yield from uncovered_in(tally)
    yield from idle_rules_in(tally)
    yield from idle_invariants_in(tally)


def _drifts(machine: Any, found: Gate) -> Iterator[Hollow]:
    for model, strategy in pairs_of(machine):
        found.compared += 1
        seen = drift(strategy, model)
        if seen:
            yield Hollow("drift", seen.model, _said(seen), "change the strategy, or the model")


def _said(seen: Any) -> str:
    gaps = [f"it refuses {value!r} ({why})" for value, why in seen.refused[:GAPS_SHOWN]]
    left = GAPS_SHOWN - len(gaps)
    gaps += [f"never reached: {each}" for each in seen.unreached[: max(left, 0)]]
    more = len(seen.refused) + len(seen.unreached) - len(gaps)
    rest = f"; and {more} more" if more > 0 else ""
    return f"and its strategy have drifted apart: {'; '.join(gaps)}{rest}"
