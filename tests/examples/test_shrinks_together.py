"""Inputs, schedule and faults lie on one tape, so they shrink together."""

from __future__ import annotations

import asyncio
from typing import Any

import fastapi
import httpx
from hypothesis import strategies as st

import foretold

LARGE = 1000
PAYMENT_S, AUDIT_S = 0.01, 0.1
app = fastapi.FastAPI()


@app.post("/payments/{key}/{amount}")
async def take(key: str, amount: int) -> None:
    """Who sends a payment again has paid already. While the auditor reads the book large payments
    go on a list, and nobody looks up their keys there: that is the bug."""
    if key not in app.state.keys:
        await asyncio.sleep(PAYMENT_S)
        app.state.book.append((key, amount))
        if amount < LARGE or not app.state.audited:
            app.state.keys.add(key)


@app.post("/audits")
async def read_book() -> None:
    """It takes a while."""
    app.state.audited = True
    await asyncio.sleep(AUDIT_S)
    app.state.audited = False


class Payments(foretold.Machine):
    """Clients that hear nothing try again."""

    actors = 3
    steps = 15
    faults = foretold.faults.web.only("request_lost", "response_lost", "slow_client")
    tolerates = (httpx.TransportError,)

    async def setup(self) -> None:
        app.state.keys, app.state.book, app.state.audited = set(), [], False
        web = await self.world.web(app)
        for actor in self.cast:
            actor.web, actor.paid = web.client(actor), 0

    @foretold.rule(amount=st.integers(1, 5_000), note=st.text(max_size=5))
    async def pay(self, actor: Any, amount: int, note: str) -> None:
        actor.paid += 1
        path = f"/payments/{actor.name}-{actor.paid}/{amount}"
        try:
            await actor.web.post(path, params={"note": note})
        except httpx.TransportError:
            await actor.web.post(path, params={"note": note})

    @foretold.rule()
    async def audit(self, actor: Any) -> None:
        await actor.web.post("/audits")

    @foretold.invariant()
    def nobody_pays_twice(self) -> int:
        keys = [key for key, _ in app.state.book]
        assert len(keys) == len(set(keys)), app.state.book
        return len(keys)


def test_amount_overlap_and_fault() -> None:
    """A payment is taken twice if it is of 1000 or more, an audit is under way meanwhile, and the
    response is lost. What is left of a failing run is just that: 1000, one overlap, one fault."""
    outcome = foretold.explore(Payments, runs=300, seed=250, confirm=False)
    failure = outcome.failure
    assert failure is not None
    print(f"found in run {failure.run}, shrunk in {failure.shrink_runs} runs")  # noqa: T201  # a figure for the log
    story = failure.story[failure.story.index("The program, ") :]
    program = story.partition("\nAll ")[0].partition("\nNo task ")[0].splitlines()
    assert program[0] == "The program, 2 calls of Payments's rules:"
    calls = [line.strip().partition("(")[0] for line in program if line.startswith("      actor")]
    assert program[1] == "  together:"
    assert sorted(call.partition(".")[2] for call in calls) == ["audit", "pay"]
    assert sum("fault: response lost" in line for line in program) == 1
    assert len(failure.faults) == 1
    assert f".pay(amount={LARGE}, note='')" in failure.story
