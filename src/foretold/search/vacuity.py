"""Does a search that held test anything? What never came to pass, and what to do about it.

A rule that never succeeded, an invariant over nothing, a `sometimes` that was never true, a fault
that never happened: each makes a search hold that says less than it seems to.

It is fair to few runs: below `RUNS_MIN` nothing is said. What comes to pass in one run of twenty is
missed by that many with a probability of 0.6 %. Nor is anything said of `exhaustive`, which goes
through schedules and leaves values and faults calm.

Faults are judged as they were asked for. Of a whole set (`faults.network`) one kind at least has to
happen: no program has a use for all of them (who sends no datagrams has none that could be
duplicated). A kind that was asked for by its own name has to happen itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from foretold.search.failure import Outcome
from foretold.search.words import count
from foretold.world.faults.faultset import fault_kinds, sets_within
from foretold.world.tally import FaultCount, InvariantCount, RuleCount, Tally

RUNS_MIN: Final = 100
BUGGIFY: Final = "buggify "

Sort = Literal["rule", "invariant", "sometimes", "fault"]


@dataclass(frozen=True, slots=True)
class Hollow:
    """Something that never came to pass."""

    sort: Sort
    name: str
    what: str
    """`never succeeded: refused 812 of 812 times`."""
    remedy: str

    def as_data(self) -> dict[str, str]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.sort} {self.name} {self.what}"


def hollow_in(outcome: Outcome) -> list[Hollow]:
    """What never came to pass in a search that held. Nothing if it failed, was broken off, or had
    too few runs to say so."""
    if outcome.failures or outcome.interrupted or outcome.vacuous or outcome.runs < RUNS_MIN:
        return []
    tally = outcome.tally
    return [
        *(_rule(name, each) for name, each in tally.rules.items() if _is_idle(each)),
        *_invariants(tally),
        *(_point(name) for name in outcome.missed),
        *_faults(tally, outcome.faults),
    ]


# Rules


def _is_idle(rule: RuleCount) -> bool:
    return rule.runs >= RUNS_MIN and not rule.succeeded


def _rule(name: str, rule: RuleCount) -> Hollow:
    called = count(rule.tried, "time")
    said = f" (the first said {rule.said!r})" if rule.said else ""
    if not rule.tried and rule.precondition_false:
        what = (
            f"never succeeded: it could not be called at any of {rule.precondition_false:,} times"
        )
        remedy = (
            "its precondition was false, or a bundle that it draws from was empty: let an earlier "
            "rule, or setup, make what it needs"
        )
    elif not rule.tried:
        what = "never succeeded: it was never called"
        remedy = "give a run more steps, or the rule more weight: weights = {...}"
    elif rule.refused == rule.tried:
        what = f"never succeeded: the application refused it, {rule.refused:,} of {called}{said}"
        remedy = (
            "give it valid arguments, or what it needs in setup; if it is to be refused, expect "
            "that in the rule and let it return"
        )
    elif rule.failed and rule.failed + rule.refused == rule.tried:
        what = (
            f"never succeeded: it raised what `tolerates` names, {rule.failed:,} of {called}{said}"
        )
        remedy = "try it without faults; name fewer exceptions in `tolerates`"
    else:
        what = f"never succeeded: called {called}, refused {rule.refused:,}, failed {rule.failed:,}"
        remedy = "it draws or assumes what never is; give it arguments that can be"
    return Hollow("rule", name, what, remedy)


# Invariants


def _invariants(tally: Tally) -> Iterator[Hollow]:
    for name, each in tally.invariants.items():
        if each.runs >= RUNS_MIN and ranges_over_nothing(each):
            yield _invariant(name, each)


def ranges_over_nothing(each: InvariantCount) -> bool:
    """Whether it was never checked, or never had anything to look at."""
    return not each.checks or (each.told == each.checks and not each.ranged)


def _invariant(name: str, each: InvariantCount) -> Hollow:
    if not each.checks:
        remedy = "no run came to the point where it is looked at: is its precondition ever true?"
        return Hollow("invariant", name, "was never checked", remedy)
    what = f"ranged over nothing in {count(each.checks, 'check')}"
    remedy = (
        "what it looks at was never made: do the rules that make it succeed? Does it look in the "
        "right place?"
    )
    return Hollow("invariant", name, what, remedy)


def _point(name: str) -> Hollow:
    remedy = (
        "let a rule or a fault lead there, search longer, or take it out if it cannot be true here"
    )
    return Hollow("sometimes", name, "was never true", remedy)


# Faults


def happened(fault: FaultCount | None) -> bool:
    """Whether a kind of fault was felt; where that is not known, whether it was injected."""
    if fault is None:
        return False
    return bool(fault.injected if fault.effect is None else fault.effect)


def _faults(tally: Tally, asked: str) -> Iterator[Hollow]:
    sets, alone = sets_within(asked)
    for name, kinds in sets.items():
        if not any(happened(tally.faults.get(kind)) for kind in kinds):
            counts = [tally.faults[kind] for kind in kinds if kind in tally.faults]
            injected = sum(each.injected for each in counts)
            yield _fault(name, injected, fault_kinds(kinds[0])[0].strikes)
    for kind in alone:
        found = tally.faults.get(kind)
        if not happened(found):
            injected = 0 if found is None else found.injected
            yield _fault(kind, injected, fault_kinds(kind)[0].strikes)
    for name, each in tally.faults.items():
        if name.startswith(BUGGIFY) and each.runs >= RUNS_MIN and not each.injected:
            yield Hollow("fault", name, "never fired", "is it passed in calm passages alone?")


_REMEDIES: Final = {
    "network": "let hosts talk to each other: world.host(name).start(main), and long enough",
    "host": "start another host with a function, which can be started again: host.start(main)",
    "disk": "let the program use files outside of world.calm(), and long enough",
    "web": "let clients of world.web send requests outside of world.calm(), more of them",
    "postgres": "let the program use world.postgres outside of world.calm(), and long enough",
}


def _fault(name: str, injected: int, strikes: str) -> Hollow:
    remedy = _REMEDIES.get(strikes, "let the program do what it strikes, outside of world.calm()")
    if injected:
        times = count(injected, "time")
        what = f"was never felt: injected {times}, and the program met it at none of them"
    else:
        what = "never happened: there was nothing for it to strike"
    return Hollow("fault", name, what, f"{remedy}; or do not ask for it")
