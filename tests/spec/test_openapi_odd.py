"""`foretold.openapi` with APIs that are odd, but in order: nothing of theirs may be called wrong."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import RedirectResponse

import foretold


def held(app: Any, **settings: Any) -> dict[str, Any]:
    """A short search holds; what became of each rule."""
    machine = foretold.openapi(app, name="Odd", **settings)
    outcome = foretold.explore(machine, runs=6, seed=1, confirm=False)
    if outcome.failure is not None:
        raise outcome.failure.exception
    assert not outcome.is_vacuous
    return dict(outcome.tally.rules)


def test_operations_that_take_no_arguments() -> None:
    """Nothing is drawn for them, and yet what they answer is looked through for ids."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, bool]:
        return {"ok": True}

    assert held(app)["health"].succeeded > 10


def test_an_answer_to_head_has_no_body_to_check() -> None:
    """FastAPI documents the body that GET would have; HTTP says that HEAD gives none."""
    app = FastAPI()

    @app.head("/parcels")
    async def look() -> dict[str, bool]:
        return {"ok": True}

    assert held(app)["look"].succeeded > 10


def test_a_redirect_that_is_documented_is_a_success() -> None:
    """One that is not is a refusal: to the page where one logs in, for instance."""
    app = FastAPI()

    @app.get("/old", status_code=303, response_class=RedirectResponse)
    async def old() -> str:
        return "/new"

    @app.get("/door")
    async def door(let_in: bool) -> Any:
        return {} if let_in else RedirectResponse("/login")

    counts = held(app)
    assert (counts["old"].refused, counts["old"].succeeded > 10) == (0, True)
    assert counts["door"].refused > 10
