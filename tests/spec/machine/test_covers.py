"""`Machine.covers`: operations without a rule, rules that never succeed, pages that are never read
and strategies that have drifted are gaps, for the command, for a search and for pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.errors import UsageError
from foretold.report.covered import covered_text
from foretold.search.checking.vacuity import RUNS_MIN
from foretold.search.gate import gate
from foretold.spec.machine.covers import operations_of
from tests.spec.machine import covered_shop as shop

ALL = {"POST /orders", "GET /orders/{order_id}", "DELETE /orders/{order_id}", "GET /orders/mine"}


def gaps_of(machine: Any, runs: int = 40) -> list[str]:
    """What is left open."""
    return [str(each) for each in gate(machine, runs=runs, seed=1).gaps]


def test_a_machine_that_reaches_all_has_no_gap() -> None:
    """The search ends as soon as all is reached."""
    found = gate(shop.Orders, runs=200, seed=1)
    assert found.gaps == []
    assert found.runs < 100
    assert set(found.tally.operations) == ALL
    assert found.compared == 1
    assert "All is covered: 4 operations, 1 strategy compared" in covered_text(found, "shop:Orders")


def test_an_operation_without_a_rule_is_a_gap() -> None:
    """That setup asks for it does not count."""
    (gap,) = gaps_of(shop.NoCancel)
    assert gap.startswith("operation DELETE /orders/{order_id} was asked for by no rule, but 40 ")


class Ends(shop.NoCancel):  # type: ignore[valid-type,misc]  # it is made by a function
    """A rule that does not wait, and an invariant that asks for what no rule asks for."""

    @foretold.rule()
    def think(self) -> None:
        """Nothing is sent."""

    @foretold.invariant(when="end")
    async def orders_are_cancelled(self) -> None:
        """All, at the end."""
        await self.client.delete("/orders/1")


def test_what_an_invariant_asks_for_is_no_rules_doing() -> None:
    """Also if the last call before it was one that does not wait."""
    (gap,) = gaps_of(Ends)
    assert gap.startswith("operation DELETE /orders/{order_id} was asked for by no rule, but ")


def test_a_page_that_is_never_read_is_a_gap() -> None:
    """A request for `/orders/2` is none for `/orders/mine`."""
    (gap,) = gaps_of(shop.NoList)
    assert gap == "page GET /orders/mine was never read"


class ReadsInSetup(shop.NoList):  # type: ignore[valid-type,misc]  # it is made by a function
    """The list is read where nothing is compared with it."""

    async def setup(self) -> None:
        """Start the shop, and wait until it answers."""
        await super().setup()
        await self.client.get("/orders/mine")

    async def teardown(self) -> None:
        """Read it once more."""
        await self.client.get("/orders/mine")
        await super().teardown()


def test_a_page_that_only_setup_reads_is_a_gap() -> None:
    """Nobody would notice what it says."""
    (gap,) = gaps_of(ReadsInSetup, runs=20)
    assert gap == "page GET /orders/mine was never read, but 40 times in setup or teardown"


class Idle(shop.Orders):
    """Its invariants are there, and look at nothing."""

    things = foretold.Mirror()

    @foretold.precondition(lambda self: False)
    @foretold.invariant()
    def never(self) -> None:
        """Its precondition does not come true."""

    @foretold.invariant(when="end")
    def over_nothing(self) -> int:
        """There are no such things."""
        return 0


def test_invariants_and_mirrors_that_look_at_nothing_are_gaps() -> None:
    """A rule that is switched off is told, and so is a check that is."""
    assert set(gaps_of(Idle, runs=20)) == {
        "invariant never was never checked",
        "invariant over_nothing ranged over nothing in 20 checks",
        "invariant things was never checked",
    }


def test_what_never_succeeds_and_what_drifts_are_gaps() -> None:
    """An operation that is only refused, pages behind it, its rule, and its strategy."""
    found = gate(shop.Wrong, runs=20, seed=1)
    told = {f"{each.sort} {each.name}": each.what for each in found.gaps}
    assert told["operation POST /orders"].startswith("never succeeded: asked for ")
    assert told["operation POST /orders"].endswith("the last answer was 422")
    assert told["page GET /orders/{order_id}"].endswith("the last answer was 404")
    assert told["rule order"].startswith("never succeeded: the application refused it")
    assert "drifted apart: it refuses {'quantity': 0}" in told["drift NewOrder"]
    assert "5 gaps: 4 operations" in covered_text(found, "shop:Wrong")


def test_a_failing_machine_gets_no_verdict() -> None:
    """It has to hold first."""
    found = gate(shop.Fails, runs=20, seed=1)
    assert found.failure is not None
    said = covered_text(found, "shop:Fails")
    assert "A run failed, so coverage says nothing: PropertyViolated" in said
    assert "foretold explore shop:Fails --seed" in said


def test_a_search_judges_coverage() -> None:
    """From 100 runs on a gap makes a search vacuous; before that it is a hint."""
    few = foretold.explore(shop.NoCancel, runs=5, seed=1, confirm=False)
    assert not few.is_vacuous
    assert "operation" in {each.sort for each in few.hints}
    many = foretold.explore(shop.NoCancel, runs=RUNS_MIN, seed=1, confirm=False)
    assert many.is_vacuous
    assert [each.name for each in many.hollow] == ["DELETE /orders/{order_id}"]


def test_pytest_judges_coverage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The test case of the machine fails with the table."""
    monkeypatch.chdir(tmp_path)
    case = foretold.simulate(shop.NoCancel, runs=RUNS_MIN, seed=1)
    with pytest.raises(foretold.Vacuous) as raised:
        case("runTest").debug()
    said = str(raised.value)
    assert "operation DELETE /orders/{order_id} was asked for by no rule" in said
    assert "  operation                  asked  by rules  succeeded" in said


def test_a_list_names_operations_as_well() -> None:
    """With the same words as a document."""
    made = type("Listed", (shop.Orders,), {"covers": ["POST /orders", "PUT /orders/{id}"]})
    assert operations_of(made) == ["POST /orders", "PUT /orders/{id}"]
    assert gaps_of(made, runs=20) == ["operation PUT /orders/{id} was asked for by no rule"]


@pytest.mark.parametrize("wrong", ["POST /orders", ["/orders"], ["post /orders"], [], 7])
def test_what_cannot_be_covered_is_refused(wrong: Any) -> None:
    """A mistake is told before any run."""
    made = type("Listed", (shop.Orders,), {"covers": wrong})
    with pytest.raises(UsageError, match=r"Listed\.covers: covers = foretold\.openapi\(app\)"):
        foretold.explore(made, runs=1)


def test_a_machine_that_covers_nothing_is_refused() -> None:
    """The command needs something to judge."""
    made = type("Plain", (shop.Orders,), {"covers": None})
    with pytest.raises(UsageError, match="does not say what it covers"):
        gate(made, runs=1, seed=1)
