"""Scenarios by hand whose steps are calls of a machine's rules."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import strategies as st

import foretold
from foretold.errors import ScenarioError
from foretold.harness.program import ScenarioProgram
from foretold.scenario.model import read_scenario


class Till(foretold.Machine):
    """Orders are made, paid once, and counted wrongly when two pay at once."""

    actors = 2
    orders = foretold.Bundle[int]("orders")

    def __init__(self) -> None:
        self.made = self.paid = 0

    @foretold.rule(target=orders, price=st.integers(1, 9))
    async def order(self, price: int) -> int:
        """One more."""
        if price > 9:
            raise foretold.Refused("too dear")
        self.made += 1
        return self.made

    @foretold.rule(order=foretold.consumes(orders))
    async def pay(self, order: int) -> int:
        """Read, wait, write."""
        known = self.paid
        await asyncio.sleep(0.01)
        self.paid = known + 1
        return self.paid

    @foretold.rule()
    @foretold.precondition(lambda self: self.paid > 0)
    def close(self) -> int:
        """Only after somebody has paid."""
        return self.paid


def played(*steps):
    """A run of these steps; `rule`, arguments, and what else a step has."""
    given = {"name": "x", "actors": ["actor1", "actor2"], "steps": list(steps)}
    program = ScenarioProgram(read_scenario(json.dumps(given), "x.scenario.json"), Till)
    return foretold.run(program)


def act(rule, actor="actor1", **more):
    """One call."""
    payload = {key: more.pop(key) for key in ("price", "order") if key in more}
    return {"kind": "act", "actor": actor, "intent": rule, "payload": payload, **more}


TWO = (act("order", price=1), act("order", price=2))


def test_calls_one_after_the_other():
    """Results are compared, and what a call has made is named by its bundle."""
    played(
        *TWO,
        act("pay", order="$orders_1", expect=1),
        {"kind": "wait", "seconds": 1},
        act("pay", order="$orders_2", expect={"$gt": 1}),
        {"kind": "look"},
        act("close", expect=2),
        act("order", price=10, expect_error={"type": "Refused", "message": "dear"}),
    )


def test_calls_that_overlap():
    """The second payment begins while the first is under way, and is lost."""
    second = act("pay", "actor2", order="$orders_2", overlap={"ms": 1})
    played(*TWO, act("pay", order="$orders_1"), second, act("close", expect=1))
    with pytest.raises(foretold.PropertyViolated, match="it is 1, expected 2"):
        played(*TWO, act("pay", order="$orders_1"), second, act("close", expect=2))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([act("shut")], "Till has no intent 'shut'"),
        ([act("order")], "order needs 'price'"),
        ([act("order", "actor3", price=1)], "no actor 'actor3'"),
        ([act("close")], "its precondition is false"),
        ([act("order", price=1), act("pay", order="$orders_2")], "no earlier call has made"),
        (
            [*TWO, act("pay", order="$orders_1"), act("pay", order="$orders_1")],
            "no earlier call has made",
        ),
        ([act("order", price={"$between": [1, 2]})], "draws nothing"),
        ([{"kind": "repeat", "times": 2, "steps": []}], "steps act, wait and look alone"),
        ([{"kind": "assert", "query": "x", "expect": 1}], "has no query 'x'"),
    ],
)
def test_what_cannot_be_played(steps, said):
    """Each is a sentence with its place; a value that was consumed is not there any more."""
    with pytest.raises(ScenarioError, match=r"x\.scenario\.json:1:\d+: ") as raised:
        played(*steps)
    assert said in str(raised.value)


def test_what_was_expected_and_did_not_come():
    """A refusal instead of a result, a result instead of a refusal."""
    with pytest.raises(foretold.PropertyViolated, match="it gave Refused: too dear"):
        played(act("order", price=10, expect=1))
    with pytest.raises(foretold.PropertyViolated, match="it gave 1, expected Refused"):
        played(act("order", price=1, expect_error="Refused"))
