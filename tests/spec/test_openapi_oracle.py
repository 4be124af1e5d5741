"""The serial oracle of machines from an OpenAPI document: on by default, with nothing written down
about the service."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
import time
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Header, HTTPException
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
    assert explored(foretold.openapi(service(right=True)()), runs=10) is None
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

    class Often(foretold.openapi(service(right=True), faults=foretold.faults.web)):  # type: ignore[misc]  # made at run time
        """Says which runs have had a storm."""

        stormed = False

        def foretold_after_storm(self, calls: Any) -> None:
            if not self.stormed:
                foretold.reachable("a storm")
            self.stormed = True

    def share(machine: type[foretold.Machine]) -> float:
        done = foretold.explore(machine, runs=20, seed=1)
        assert done.failure is None
        return done.reached.get("a storm", 0) / done.runs

    class Never(Often):
        storms = 0

    assert 0.1 < share(Often) < 0.5
    assert share(Never) == 0


def shop(bug: str) -> Any:
    """Lamps that are sold. Buying one is answered by nothing, so that only the page shows how many
    are left. Or somebody else may buy one only at the instant at which one is bought."""

    def make() -> FastAPI:
        app = FastAPI()
        left: dict[int, int] = {}
        lock = asyncio.Lock()

        @app.post("/lamps", status_code=201)
        async def create() -> Made:
            left[len(left) + 1] = 3
            return Made(id=len(left))

        @app.post("/lamps/{lamp_id}/buy", status_code=204)
        async def buy(lamp_id: int) -> None:
            async with lock if bug == "none" else contextlib.nullcontext():
                before = left.get(lamp_id, 0)
                await asyncio.sleep(0 if bug == "in one instant" else 0.002)
                if before:
                    left[lamp_id] = before - 1

        @app.get("/lamps")
        async def lamps() -> list[dict[str, int]]:
            return [{"id": lamp, "left": number} for lamp, number in left.items()]

        return app

    return make


@pytest.mark.parametrize("bug", ["only the page shows it", "in one instant"])
def test_a_race_of_what_is_in_memory(bug: str) -> None:
    """Without a database a run ends in several storms, a request may wait until another one stands
    in the middle, and pages are read after each storm."""
    found = explored(foretold.openapi(shop(bug)), runs=15)
    assert isinstance(found, foretold.NotSerial)
    assert "together has" in str(found)
    assert "lamps()" in str(found)


def test_a_right_shop_is_silent() -> None:
    """With a lock the same shop has no race: neither storms nor pages accuse it."""
    assert explored(foretold.openapi(shop("none")), runs=10) is None


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


def test_a_key_of_an_application_without_users() -> None:
    """It has no credentials, so it cannot know that a key comes from somebody else: an answer that
    it gives again is right. With credentials the same is a mistake."""

    def make() -> FastAPI:
        app = FastAPI()
        known: dict[str, int] = {}

        @app.post("/orders", status_code=201)
        async def order(idempotency_key: Annotated[str, Header()]) -> Made:
            return Made(id=known.setdefault(idempotency_key, len(known)))

        return app

    assert explored(foretold.openapi(make, steps=8), runs=6) is None
    found = explored(foretold.openapi(make, steps=8, credentials=lambda actor: {"x": actor.name}))
    assert "keys of different users are different keys" in str(found)


@pytest.mark.parametrize("word", ["serail", True])
def test_a_misspelled_oracle_is_told(word: Any) -> None:
    """As for any machine."""
    with pytest.raises(foretold.UsageError, match='"serial" or None'):
        foretold.run(foretold.openapi(service(right=True), oracle=word))


def limited(*, right: bool) -> Any:
    """Five mails at once, one more each second. The answer says what is left, and how long it
    took; a page for how long the last one was sent."""

    def make() -> FastAPI:
        app, lock = FastAPI(), asyncio.Lock()
        bucket = {"tokens": 5.0, "at": time.monotonic(), "sent": 0.0}

        @app.post("/mails")
        async def send() -> dict[str, Any]:
            began = time.monotonic()
            async with lock if right else contextlib.nullcontext():
                sent, now = bucket["sent"], time.monotonic()
                await asyncio.sleep(0.002)
                tokens = min(5.0, bucket["tokens"] + now - bucket["at"])
                bucket.update(tokens=max(0.0, tokens - 1), at=now, sent=sent + 1)
                took = time.monotonic() - began
                return {"left": bucket["tokens"], "took_ms": round(took * 1000)}

        @app.get("/mails")
        async def mails() -> dict[str, Any]:
            return {"sent": bucket["sent"], "ago": round(time.monotonic() - bucket["at"], 3)}

        return app

    return make


def test_what_depends_on_how_soon_a_call_comes_is_not_compared() -> None:
    """Neither what a limit leaves, nor seconds that have gone or that a request took; a lost count
    beside them is found."""
    assert explored(foretold.openapi(limited(right=True)), runs=10) is None
    assert isinstance(explored(foretold.openapi(limited(right=False))), foretold.NotSerial)


def test_a_number_that_is_an_id_may_be_left_out() -> None:
    """It is drawn before the name is seen to be taken, as by a sequence. A code made of it is an id
    as well."""

    def make() -> FastAPI:
        app, numbers, lock = FastAPI(), itertools.count(1), asyncio.Lock()
        teams: dict[str, dict[str, Any]] = {}

        @app.post("/teams", status_code=201)
        async def team(name: str) -> dict[str, Any]:
            number = next(numbers)
            await asyncio.sleep(0.001)
            async with lock:
                if name in teams:
                    raise HTTPException(409)
                teams[name] = {"id": number, "name": name, "code": f"T-{number:04}"}
                return teams[name]

        @app.get("/teams")
        async def all_teams() -> list[dict[str, Any]]:
            return list(teams.values())

        return app

    assert explored(foretold.openapi(make, steps=2), runs=25) is None
