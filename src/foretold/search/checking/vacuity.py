"""Does a search that held test anything? What never came to pass, and what to do about it.

A rule that never succeeded, an invariant over nothing, a `sometimes` that was never true, a fault
that never happened: each makes a search hold that says less than it seems to.

It is fair to few runs: below `RUNS_MIN` there is no such verdict. What comes to pass in one run of
twenty is missed by that many with a probability of 0.6 %. A rule that never succeeded and a fault
that never happened are worth a warning after any number of runs (`hints_in`). Nothing is said of
`exhaustive`, which goes through schedules and leaves values and faults calm.

Faults are judged as they were asked for. Of a whole set (`faults.network`) one kind at least has to
happen: no program has a use for all of them (who sends no datagrams has none that could be
duplicated). A kind that was asked for by its own name has to happen itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from foretold.search.failures.failure import Outcome
from foretold.story.words import count
from foretold.world.faults.faultset import fault_kinds, sets_within
from foretold.world.tally import FaultCount, InvariantCount, OperationCount, RuleCount, Tally

RUNS_MIN: Final = 100
BUGGIFY: Final = "buggify "
PROPHECY: Final = "prophecy "

READS: Final = ("GET", "HEAD", "OPTIONS")

Sort = Literal["rule", "invariant", "sometimes", "fault", "operation", "page", "drift"]


@dataclass(frozen=True, slots=True)
class Hollow:
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
    if _is_cut_short(outcome) or outcome.runs < RUNS_MIN:
        return []
    tally = outcome.tally
    return [
        *(_rule(name, each) for name, each in tally.rules.items() if _is_idle(each)),
        *idle_invariants_in(tally, runs_min=RUNS_MIN),
        *(_point(name) for name in outcome.missed),
        *_faults(tally, outcome.faults, outcome.runs),
        *uncovered_in(tally, runs_min=RUNS_MIN),
    ]


def hints_in(outcome: Outcome) -> list[Hollow]:
    """Which rules never succeeded and which faults never happened in a search of few runs that
    held: too few for a verdict."""
    if _is_cut_short(outcome) or outcome.runs >= RUNS_MIN:
        return []
    tally = outcome.tally
    return [
        *(_rule(name, each) for name, each in tally.rules.items() if not each.succeeded),
        *_faults(tally, outcome.faults, outcome.runs),
        *uncovered_in(tally),
    ]


def _is_cut_short(outcome: Outcome) -> bool:
    return bool(outcome.failures) or outcome.interrupted or outcome.vacuous


# Rules


def _is_idle(rule: RuleCount) -> bool:
    return rule.runs >= RUNS_MIN and not rule.succeeded


def _rule(name: str, rule: RuleCount) -> Hollow:
    called = count(rule.tried, "time")
    said = f" (the first said {rule.said!r})" if rule.said else ""
    if not rule.tried and rule.precondition_false:
        what = f"never succeeded: in {rule.precondition_false:,} attempts it could not be called"
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
            "give it valid arguments, or make what it needs in setup; if it should be refused, "
            "expect that in the rule and return"
        )
    elif rule.failed == rule.tried:
        what = (
            f"never succeeded: it raised what `tolerates` names, {rule.failed:,} of {called}{said}"
        )
        remedy = "try it without faults; name fewer exceptions in `tolerates`"
    elif rule.failed + rule.refused == rule.tried:
        refused, failed = count(rule.refused, "time"), count(rule.failed, "time")
        what = (
            f"never succeeded: called {called}, the application refused it {refused}, and {failed} "
            f"it raised what `tolerates` names{said}"
        )
        remedy = (
            "give it valid arguments, or make what it needs in setup; try it without faults; name "
            "fewer exceptions in `tolerates`"
        )
    else:
        what = f"never succeeded: called {called}, refused {rule.refused:,}, failed {rule.failed:,}"
        remedy = (
            "the other calls did not end: widen its strategies if the rule assumes more than they "
            "give, or give runs more steps or time if it was still under way"
        )
    return Hollow("rule", name, what, remedy)


def idle_rules_in(tally: Tally) -> Iterator[Hollow]:
    """Rules that never succeeded, in however many runs."""
    yield from (_rule(name, each) for name, each in tally.rules.items() if not each.succeeded)


# Operations that a machine covers


def uncovered_in(tally: Tally, runs_min: int = 0) -> Iterator[Hollow]:
    """What `Machine.covers` names and no run reached."""
    for name, each in tally.operations.items():
        reads = name.startswith(READS)
        reached = each.succeeded - each.succeeded_in_setup if reads else each.succeeded_in_rules
        if not reached and each.runs >= runs_min:
            yield _operation(name, each, reads=reads)


def _operation(name: str, each: OperationCount, *, reads: bool) -> Hollow:
    sort: Sort = "page" if reads else "operation"
    asked = each.asked - each.in_setup if reads else each.by_rules
    if asked:
        what = f"never succeeded: asked for {count(asked, 'time')}, and the last answer was "
        remedy = "give the rule valid arguments, or make what it needs in setup"
        return Hollow(sort, name, f"{what}{each.status}", remedy)
    if reads:
        outside = f", but {count(each.asked, 'time')} in setup or teardown" if each.asked else ""
        return Hollow(sort, name, f"was never read{outside}", "let a rule or an invariant read it")
    outside = f", but {count(each.asked, 'time')} outside of rules" if each.asked else ""
    remedy = "write a rule that asks for it; or leave it out: foretold.openapi(app, skip=[…])"
    return Hollow(sort, name, f"was asked for by no rule{outside}", remedy)


# Invariants


def idle_invariants_in(tally: Tally, runs_min: int = 0) -> Iterator[Hollow]:
    """Invariants and mirrors that never looked at anything, in at least so many runs."""
    for name, each in tally.invariants.items():
        if each.runs >= runs_min and ranges_over_nothing(each):
            yield _invariant(name, each)


def ranges_over_nothing(each: InvariantCount) -> bool:
    """Whether it was never checked, or never had anything to look at."""
    return not each.checks or (each.told == each.checks and not each.ranged)


def _invariant(name: str, each: InvariantCount) -> Hollow:
    if not each.checks:
        remedy = "no run reached the point where it is checked: is its precondition ever true?"
        return Hollow("invariant", name, "was never checked", remedy)
    what = f"ranged over nothing in {count(each.checks, 'check')}"
    remedy = (
        "the things that it checks were never made: do the rules that make them succeed? Does it "
        "look in the right place?"
    )
    return Hollow("invariant", name, what, remedy)


def _point(name: str) -> Hollow:
    remedy = (
        "let a rule or a fault lead there, search longer, or remove it if it cannot be true here"
    )
    return Hollow("sometimes", name, "was never true", remedy)


# Faults


def happened(fault: FaultCount | None) -> bool:
    """Whether a kind of fault was felt; where that is not known, whether it was injected."""
    if fault is None:
        return False
    return bool(fault.injected if fault.effect is None else fault.effect)


def _faults(tally: Tally, asked: str, runs: int) -> Iterator[Hollow]:
    sets, alone = sets_within(asked)
    for name, kinds in sets.items():
        if not any(happened(tally.faults.get(kind)) for kind in kinds):
            counts = [tally.faults[kind] for kind in kinds if kind in tally.faults]
            injected = sum(each.injected for each in counts)
            yield _fault(name, injected, fault_kinds(kinds[0])[0].strikes, runs)
    for kind in alone:
        found = tally.faults.get(kind)
        if not happened(found):
            injected = 0 if found is None else found.injected
            yield _fault(kind, injected, fault_kinds(kind)[0].strikes, runs)
    for name, each in tally.faults.items():
        if name.startswith(BUGGIFY) and each.runs >= RUNS_MIN and not each.injected:
            yield Hollow("fault", name, "never fired", "is it only reached inside world.calm()?")
        if name.startswith(PROPHECY) and each.runs >= RUNS_MIN and not each.effect:
            remedy = "let a rule that takes it be called more often, or take the outcome out"
            yield Hollow("fault", name, "never came true", remedy)


_REMEDIES: Final = {
    "network": "let hosts talk to each other for longer: world.host(name).start(main)",
    "host": "start another host with a function, so that it can be restarted: host.start(main)",
    "disk": "let the program use files for longer, outside world.calm()",
    "web": "let clients of world.web send more requests, outside world.calm()",
    "external": "let the program call a host of world.external, outside world.calm()",
    "postgres": "let the program use world.postgres for longer, outside world.calm()",
}


def _fault(name: str, injected: int, strikes: str, runs: int) -> Hollow:
    remedy = _REMEDIES.get(
        strikes, "let the program use what this fault affects, outside world.calm()"
    )
    if injected:
        times = count(injected, "time")
        what = f"had no effect: it was injected {times}"
    else:
        what = f"never happened in {count(runs, 'run')}"
    return Hollow("fault", name, what, f"{remedy}; or do not ask for it")
