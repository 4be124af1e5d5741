"""Mutants: declared bugs are off, until somebody tests the tests; then each must be caught."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.report.planted import planting_json, planting_text
from foretold.search.checking.plant import plant
from foretold.search.explore import explore

MUTANTS = ["lost update", "no check", "nobody looks", "refuses all"]


class Account(foretold.Machine):
    """An account with four bugs that can be planted, of which the machine sees three."""

    actors = 2
    steps = 8

    async def setup(self) -> None:
        self.balance = self.expected = 10
        self.fee = 0
        self.lock = asyncio.Lock()

    @foretold.rule(amount=st.integers(1, 5))
    async def withdraw(self, amount: int) -> None:
        async with self.lock:
            if foretold.mutant("refuses all"):
                raise foretold.Refused("closed")
            if amount > self.balance and not foretold.mutant("no check"):
                raise foretold.Refused("too much")
            self.fee += foretold.mutant("nobody looks")
            self.expected -= amount
            self.balance -= amount

    @foretold.rule(amount=st.integers(1, 5))
    async def deposit(self, amount: int) -> None:
        self.expected += amount
        before = self.balance
        if foretold.mutant("lost update"):
            await asyncio.sleep(0)
        self.balance = before + amount

    @foretold.invariant(when="quiet")
    def adds_up(self) -> None:
        assert self.balance == self.expected
        assert self.balance >= 0


def test_mutants_are_off() -> None:
    """Outside of a run, and in every run that does not ask for one; they are counted all along."""
    assert not foretold.mutant("lost update")
    outcome = explore(Account, runs=100, seed=1)
    assert outcome.failure is None
    assert sorted(outcome.tally.mutants) == MUTANTS


@pytest.mark.parametrize("how", [{}, {"workers": 2}])
def test_each_is_planted(how: dict[str, Any]) -> None:
    """Three are caught: by an invariant, by a race, by vacuity. One survives, and so does one that
    was named and does not exist. Workers know which one is on."""
    found = plant(Account, ["no such thing"], runs=150, seed=1, **how)
    by_name = {each.name: each for each in found.mutants}
    assert list(by_name) == [*MUTANTS, "no such thing"]
    assert by_name["lost update"].by.startswith("AssertionError")
    assert by_name["no check"].caught
    assert by_name["refuses all"].by.startswith("vacuity: rule withdraw never succeeded")
    assert [each.name for each in found.survivors] == ["nobody looks", "no such thing"]
    assert by_name["nobody looks"].by.startswith("passed in ")
    assert by_name["no such thing"].by == "never passed"
    assert found.score == 3 / 5
    lines = planting_text(found, target="bank:Account").splitlines()
    assert "SURVIVED 150 runs  passed in" in lines[2]
    assert lines[5] == "3 of 5 mutants of bank:Account caught: a mutation score of 60%"
    data = json.loads(planting_json(found, target="bank:Account", exit_code=1))
    assert (data["verdict"], data["score"]) == ("survived", 0.6)


def test_a_tape_knows_its_mutant() -> None:
    """A failure that was found with a mutant on is replayed with it on, in a fresh process too."""
    failure = explore(Account, runs=150, seed=1, mutant="no check", target=None).failure
    assert failure is not None
    assert failure.reproduced
    with pytest.raises(AssertionError):
        foretold.replay(Account, failure.tape)


def test_without_mutants_it_must_hold() -> None:
    """Else nothing is planted: what fails anyhow catches nothing."""

    def main() -> None:
        foretold.mutant("any")
        assert foretold.between(0, 9) < 5

    found = plant(main, runs=50)
    assert found.outcome.failure is not None
    assert found.mutants == []


def test_bad_input() -> None:
    """No mutant anywhere, and one without a name."""
    with pytest.raises(foretold.UsageError, match="Declare one where a bug could be"):
        plant(lambda: foretold.between(0, 9), runs=5)
    with pytest.raises(foretold.UsageError, match="mutant needs a name"):
        foretold.run(lambda: foretold.mutant(""))
