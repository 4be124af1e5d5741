"""Searches that held and tested nothing: found out, with the right words; fair ones are not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.report.campaign import campaign_text
from foretold.report.data import outcome_json
from foretold.report.exports import github_annotations
from foretold.report.junit import junit_xml
from foretold.report.vacuity import tally_lines
from foretold.search.checking.vacuity import RUNS_MIN, Hollow, idle_rules_in
from foretold.search.explore import explore
from foretold.search.failures.failure import Failure, Outcome
from foretold.story.signature import signature_of
from foretold.tape import Tape
from foretold.world.faults.faultset import sets_within
from foretold.world.tally import RuleCount, Tally


class Lost(Exception):
    """Tolerated."""


class Idle(foretold.Machine):
    """Rules that come to nothing, each in its own way, and two that do not."""

    steps = 20
    tolerates = (Lost,)
    things: Any = foretold.Bundle("things")

    @foretold.rule(n=st.integers(0, 9))
    async def succeeds(self, n: int) -> None:
        if n < 5:
            raise foretold.Refused("too small")
        foretold.sometimes(n > 9, "ten")
        foretold.sometimes(n == 9, "nine")

    @foretold.rule()
    def is_refused(self) -> None:
        raise foretold.Refused("no")

    @foretold.rule()
    def is_lost(self) -> None:
        raise Lost

    @foretold.rule()
    @foretold.precondition(lambda self: False)
    def may_not(self) -> None: ...

    @foretold.rule(target=things)
    def makes_none(self) -> Any:
        return foretold.multiple()

    @foretold.rule(thing=things)
    def needs_some(self, thing: object) -> None: ...

    @foretold.invariant()
    def over_nothing(self) -> int:
        return 0

    @foretold.invariant()
    def over_something(self) -> int:
        return 2

    @foretold.invariant()
    def does_not_say(self) -> None: ...

    @foretold.invariant(when="end")
    @foretold.precondition(lambda self: False)
    def never_looked_at(self) -> None: ...


def _hollow(outcome: Outcome) -> dict[tuple[str, str], str]:
    assert outcome.failure is None, outcome.failure
    return {(each.sort, each.name): each.what for each in outcome.hollow}


def test_all_that_comes_to_nothing() -> None:
    """Each rule, invariant and point that never came to anything, and why; none that did."""
    outcome = explore(Idle, runs=RUNS_MIN, seed=2)
    found = _hollow(outcome)
    assert list(found) == [
        ("rule", "is_refused"),
        ("rule", "is_lost"),
        ("rule", "may_not"),
        ("rule", "needs_some"),
        ("invariant", "over_nothing"),
        ("invariant", "never_looked_at"),
        ("sometimes", "ten"),
    ]
    assert "the application refused it" in found["rule", "is_refused"]
    assert found["rule", "is_refused"].endswith("(the first said 'no')")
    assert "`tolerates`" in found["rule", "is_lost"]
    assert "could not be called" in found["rule", "may_not"]
    assert "could not be called" in found["rule", "needs_some"]
    assert found["invariant", "over_nothing"].startswith("ranged over nothing in ")
    assert found["invariant", "never_looked_at"] == "was never checked"


def test_a_rule_that_is_refused_or_lost_is_told_with_both_counts() -> None:
    """What was said the first time may be a refusal: it must not read as one of `tolerates`."""
    tally = Tally(rules={"pay": RuleCount(tried=13, refused=12, failed=1, said="422")})
    (found,) = idle_rules_in(tally)
    assert str(found) == (
        "rule pay never succeeded: called 13 times, the application refused it 12 times, and "
        "1 time it raised what `tolerates` names (the first said '422')"
    )


def test_few_runs_give_no_verdict_but_a_warning() -> None:
    """One run fewer than the stated number, and it is no verdict. Rules that never succeeded are
    warned about after any number of runs."""
    outcome = explore(Idle, runs=RUNS_MIN - 1, seed=2)
    assert (outcome.hollow, outcome.is_vacuous) == ([], False)
    idle = {"is_refused", "is_lost", "may_not", "needs_some"}
    assert {(each.sort, each.name) for each in outcome.hints} == {("rule", name) for name in idle}
    assert idle <= {each.name for each in explore(Idle, runs=1, seed=2).hints}
    assert explore(Idle, runs=RUNS_MIN, seed=2).hints == []
    assert str(outcome).startswith("held in 99 runs, seed 2, but rule is_refused never succeeded: ")


def test_a_fault_that_never_happened_in_few_runs() -> None:
    """It is warned about. Why it did not happen is not known, so nothing is said about that."""
    outcome = explore(_alone, runs=5, seed=3, faults=foretold.faults.network)
    [hint] = outcome.hints
    assert str(hint) == "fault network never happened in 5 runs"
    assert not outcome.is_vacuous


def test_a_search_that_failed_says_nothing() -> None:
    """It was cut short: what it had not reached may have come later."""

    async def main() -> None:
        foretold.sometimes(False, "never")
        assert foretold.between(0, 300) != 117

    outcome = explore(main, runs=5_000, seed=1, confirm=False, shrink=False)
    assert outcome.runs > RUNS_MIN, "vacuous otherwise"
    assert outcome.failure is not None
    assert outcome.hollow == []


def test_a_rule_that_nobody_wants_is_not_missed() -> None:
    """Weight 0 is a way to say so."""
    unwanted = dict.fromkeys(["is_refused", "is_lost", "may_not", "needs_some"], 0.0)
    found = _hollow(explore(Idle, runs=RUNS_MIN, seed=2, weights=unwanted))
    assert not [name for sort, name in found if sort == "rule"]


# Faults


async def _alone() -> None:
    await asyncio.sleep(foretold.between(1, 2))


async def _talks(world: foretold.World) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 80)
        await server.serve_forever()

    world.host("server").start(serve)
    for _ in range(foretold.between(20, 30)):
        try:
            reader, writer = await asyncio.open_connection("server", 80)
            await reader.read()
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(0.1)


NETWORK = foretold.faults.network


@pytest.mark.parametrize(
    ("main", "faults", "missing"),
    [
        (_alone, NETWORK, ["network"]),
        (_alone, NETWORK.only("reset", "partition"), ["partition", "reset"]),
        (_alone, foretold.faults.hosts + foretold.faults.disk_errors, ["disk_errors", "hosts"]),
        (_talks, NETWORK, []),
        (_talks, NETWORK.only("partition", "duplication"), ["duplication"]),
    ],
)
def test_faults_as_they_were_asked_for(main: Any, faults: Any, missing: list[str]) -> None:
    """Of a whole set one kind must happen (nobody sends datagrams here); a kind that was named must
    happen itself."""
    outcome = explore(main, runs=RUNS_MIN, seed=3, faults=faults, background_errors="ignore")
    assert sorted(name for _, name in _hollow(outcome)) == missing


def test_a_fault_that_is_never_felt() -> None:
    """A disk that fails while nobody uses it."""

    async def main(world: foretold.World) -> None:
        async with world.calm():
            with open("/tmp/a", "w") as file:
                file.write("a")
        await asyncio.sleep(foretold.between(50, 60))

    faults = foretold.faults.disk.only("io_error")
    found = _hollow(explore(main, runs=RUNS_MIN, seed=1, faults=faults))
    assert found["fault", "io_error"].startswith("had no effect: it was injected ")


def test_sets_within_a_setting() -> None:
    """The largest sets first; what is left are kinds by themselves."""
    disk, errors = str(foretold.faults.disk), str(foretold.faults.disk_errors)
    assert list(sets_within(disk)[0]) == ["disk"]
    assert list(sets_within(errors)[0]) == ["disk_errors"]
    assert sets_within(f"kill {errors} bit_rot") == (
        {"disk_errors": tuple(errors.split())},
        ["kill", "bit_rot"],
    )
    assert sets_within("") == ({}, [])


# What is shown


def _told() -> Outcome:
    outcome = Outcome(500, 7, virtual_s=1.0, missed=["a leader"])
    outcome.tally.rule("buy", "tried")
    outcome.tally.rule("buy", "refused")
    outcome.tally.rule("look", "tried")
    outcome.tally.rule("look", "succeeded")
    outcome.tally.invariant("stock", over=0)
    outcome.faults = "reset"
    outcome.hollow = [
        Hollow("rule", "buy", "never succeeded: the application refused it", "look at why"),
        Hollow("sometimes", "a leader", "was never true", "search longer"),
    ]
    return outcome


def test_the_table() -> None:
    """All that was counted, what came to nothing marked, and below it what to do."""
    assert campaign_text(_told(), runs=500, target="shop:Shop").splitlines() == [
        "shop:Shop held in 500 runs (1.000 s of virtual time). Seed 7.",
        "  rule  tried  precondition false  refused  failed  succeeded",
        "  buy       1                   0        1       0          0  <- nothing",
        "  look      1                   0        0       0          1",
        "  invariant  checks  ranged over",
        "  stock           1            0  <- nothing",
        "  fault  injected  had effect",
        "  reset         0   not known  <- nothing",
        "  sometimes  times true",
        "  a leader            0  <- nothing",
        "It held, and says less than it seems to:",
        "- rule buy never succeeded: the application refused it",
        "    look at why.",
        "- sometimes a leader was never true",
        "    search longer.",
    ]


def test_the_table_of_a_short_search() -> None:
    """The same, and called a warning; programs read it under a name of its own."""
    outcome = _told()
    outcome.runs, outcome.hints, outcome.hollow = 9, outcome.hollow[:1], []
    lines = campaign_text(outcome, runs=9, target="shop:Shop").splitlines()
    assert "  buy       1                   0        1       0          0  <- nothing" in lines
    assert lines[-3:] == [
        "Few runs, so this is no verdict, but worth a look:",
        "- rule buy never succeeded: the application refused it",
        "    look at why.",
    ]
    data = json.loads(outcome_json(outcome, target="shop:Shop", exit_code=0))
    assert (data["verdict"], data["vacuity"], data["hints"][0]["name"]) == ("held", [], "buy")
    [line] = [line for line in github_annotations(outcome, "shop:Shop") if "rule buy" in line]
    assert line.startswith("::warning ")


def test_why_nothing_was_explored() -> None:
    """What was seen, and no more: no choice, one schedule, no value, or no run at all."""
    one = Outcome(4, 7, vacuous=True)
    assert one.why_vacuous.startswith("no choice was made in 4 runs (no two tasks could")
    one.covered = "all schedules with at most 2 delays"
    assert one.why_vacuous.startswith("no two tasks were ever ready at the same time")
    one.discarded = 4
    assert one.why_vacuous.startswith("all of 4 runs were discarded")
    one.runs = one.discarded = 0
    assert one.why_vacuous == "no run was over when the time was up"


def test_exhaustive_over_discarded_runs_is_no_success() -> None:
    """Each of its runs says nothing, and so does the whole."""

    async def main() -> None:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        foretold.draw(st.integers().filter(lambda number: False))

    outcome = explore(main, strategy="exhaustive", delays=1)
    assert outcome.discarded == outcome.runs > 1
    assert outcome.vacuous
    with pytest.raises(foretold.Vacuous, match=r"nothing was explored: all of .* were discarded"):
        outcome.raise_failure()
    assert 'failures="1"' in junit_xml(outcome, runs=9, target="x")
    assert 'skipped="0"' in junit_xml(outcome, runs=9, target="x")


def test_a_table_beside_failures_is_short() -> None:
    """What a search that failed did not come to is not marked. Initializers, which succeed once in
    each run, are one line; what `precondition false` means is said where it was."""
    outcome = _told()
    outcome.hollow = []
    error = AssertionError("x")
    outcome.failures = [Failure(error, Tape.calm(), signature_of(error), 1, 7)]
    outcome.tally.rule("look", "precondition_false")
    for number in range(4):
        outcome.tally.rule(f"there_are_{number}", "tried")
        outcome.tally.rule(f"there_are_{number}", "succeeded")
    lines = tally_lines(outcome)
    assert not any("nothing" in line and "<-" in line for line in lines)
    assert [line for line in lines if "there_are" in line] == [
        "  (4 more rules, each once in every run, succeeded: there_are_0, …)"
    ]
    assert sum("(precondition false: it could not be called" in line for line in lines) == 1


def test_what_programs_read() -> None:
    """JSON, JUnit and annotations have it as well, and call it no success."""
    outcome = _told()
    data = json.loads(outcome_json(outcome, target="shop:Shop", exit_code=4))
    assert (data["verdict"], data["exit_code"]) == ("vacuous", 4)
    assert data["vacuity"][0] == {
        "sort": "rule",
        "name": "buy",
        "what": "never succeeded: the application refused it",
        "remedy": "look at why",
    }
    assert data["tally"]["rules"]["buy"]["refused"] == 1
    assert 'failures="1"' in junit_xml(outcome, runs=500, target="shop:Shop")
    assert [line.partition(" ")[0] for line in github_annotations(outcome, "shop:Shop")] == [
        "::error",
        "::error",
    ]
    outcome.forgiven = True
    data = json.loads(outcome_json(outcome, target="shop:Shop", exit_code=0))
    assert (data["verdict"], len(data["vacuity"])) == ("held", 2)
    assert 'failures="0"' in junit_xml(outcome, runs=500, target="shop:Shop")
    assert {line.partition(" ")[0] for line in github_annotations(outcome, "x")} == {"::warning"}
