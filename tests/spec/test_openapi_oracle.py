"""The serial oracle of machines from an OpenAPI document: on by default, with nothing written down
about the service."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Header
from pydantic import BaseModel

import foretold


class Count(BaseModel):
    """What a counter shows."""

    count: int
    receipt: str


class Made(BaseModel):
    """An order."""

    id: int


def service(*, right: bool) -> Any:
    """A counter that is read and written later, unless it is right; each answer has a random
    receipt."""

    def make() -> FastAPI:
        app = FastAPI()
        counts = {"all": 0}

        @app.post("/visits", status_code=201)
        async def visit() -> Count:
            if right:
                await asyncio.sleep(0.001)
            before = counts["all"]
            if not right:
                await asyncio.sleep(0.001)
            counts["all"] = before + 1
            return Count(count=before + 1, receipt=secrets.token_hex(8))

        return app

    return make


def explored(made: Any, runs: int = 20, **settings: Any) -> BaseException | None:
    """What a search finds."""
    options: Any = {"seed": 1, "shrink": False, "confirm": False, **settings}
    failure = foretold.explore(made, runs=runs, **options).failure
    if failure is None:
        return None
    # What foretold has drawn for itself is none of the values that its user has chosen.
    assert not any(word in failure.story for word in ("whose ids", "new ground", "twice at once"))
    return failure.exception


def test_a_race_is_found_with_nothing_written_down() -> None:
    """The document alone: two visits at the same time are answered as no serial order answers
    them. If it is counted at once nothing is found; without the oracle neither."""
    found = explored(foretold.openapi(service(right=False)))
    assert isinstance(found, foretold.NotSerial)
    assert "at the same time end as no serial order of them ends" in str(found)
    assert re.search(
        r"together: [^:]+: gave .count = (\d+), .receipt = <id>; [^:]+: gave .count = \1,",
        str(found),
    )
    assert explored(foretold.openapi(service(right=True))) is None
    assert explored(foretold.openapi(service(right=False), oracle=None)) is None


def test_an_application_that_exists_once() -> None:
    """What it remembers of earlier runs accuses nobody, and hides nothing: the serial orders begin
    in the state in which the run began."""
    assert explored(foretold.openapi(service(right=True)())) is None
    assert isinstance(explored(foretold.openapi(service(right=False)())), foretold.NotSerial)


def test_what_a_machine_of_ones_own_remembers_accuses_nobody() -> None:
    """Nobody knows that the runs share something. The same run does not end alike when it is made
    again, so it cannot be compared."""
    seen: list[str] = []

    class Greeter(foretold.Machine):
        """Only some are welcome: as many as one run greets."""

        actors = 2
        steps = 2
        oracle = "serial"

        @foretold.rule()
        async def greet(self, actor: Any) -> str:
            seen.append(actor.name)
            return "welcome" if len(seen) <= 4 else "hello"

    assert explored(Greeter, runs=3, isolation="fork") is None


def test_a_third_of_the_runs_ends_in_a_storm() -> None:
    """The others have what storms lack: overlapping requests all the way, and faults. A machine can
    ask for another share."""
    stormed: list[bool] = []

    class Often(foretold.openapi(service(right=True), faults=foretold.faults.web)):  # type: ignore[misc]  # made at run time
        """Says which runs have had a storm."""

        async def setup(self) -> None:
            await super().setup()
            stormed.append(False)

        def foretold_after_storm(self, calls: Any) -> None:
            stormed[-1] = True

    foretold.explore(Often, runs=40, seed=1).raise_failure()
    assert 0.1 < sum(stormed) / len(stormed) < 0.5

    class Never(Often):
        storms = 0

    stormed.clear()
    foretold.explore(Never, runs=20, seed=1).raise_failure()
    assert stormed
    assert not any(stormed)


def test_one_actor_has_no_storm() -> None:
    """The oracle is a default: with one actor there is nothing to compare, and no complaint."""
    assert explored(foretold.openapi(service(right=False), actors=1), runs=5) is None


def test_a_key_that_is_used_twice_at_once() -> None:
    """Two requests of one user under one key, in a storm: serial orders make two things as well, so
    the ids in the answers are looked at."""

    def make() -> FastAPI:
        app, numbers = FastAPI(), itertools.count(1)

        @app.post("/orders", status_code=201)
        async def order(idempotency_key: Annotated[str, Header()]) -> Made:
            return Made(id=next(numbers))

        return app

    class Storms(foretold.openapi(make, steps=1)):  # type: ignore[misc]  # made at run time
        """Nothing but storms."""

        storms = 1.0
        duplicates_are_refused_or_change_nothing = None

        async def setup(self) -> None:
            await super().setup()
            self.doubles.there_are = False

    found = explored(Storms)
    assert isinstance(found, foretold.PropertyViolated)
    assert "was sent twice at the same time by actor" in str(found)
    assert "and made two things" in str(found)


@pytest.mark.parametrize("word", ["serail", True])
def test_a_misspelled_oracle_is_told(word: Any) -> None:
    """As for any machine."""
    with pytest.raises(foretold.UsageError, match='"serial" or None'):
        foretold.run(foretold.openapi(service(right=True), oracle=word))
