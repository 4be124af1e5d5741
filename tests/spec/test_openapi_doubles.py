"""`foretold.openapi`: the same request twice at once, or with another's key; what was made."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Annotated, Any

import pytest
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

import foretold
from foretold.spec.openapi.document import Document
from foretold.spec.openapi.doubles import page_of
from foretold.spec.openapi.requests import ApiRequest

RUNS = 40
FOUND = {
    "forgets_others": "keys of different users are different keys",
    "late_note": "was sent twice at the same time by actor., and made two things",
    "commits_later": "POST /letters was answered with 201 and .*; GET /letters/.* with 404 right",
    "no_lock": "GET /letters/.* was answered with 500",
}


class Letter(BaseModel):
    """Is answered once."""

    id: str
    answers: int = 0


Who = Annotated[str, Header(alias="x-api-key")]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]


def office(*bugs: str) -> Any:
    """What makes an office, new for each run, with these mistakes."""

    def make_app() -> Any:
        app = FastAPI(title="Office")
        letters: dict[str, Letter] = {}
        done: dict[Any, Letter | None] = {}

        @app.post("/letters", status_code=201)
        async def write(who: Who, key: Key = None) -> Letter:
            seen = key if "forgets_others" in bugs else (who, key)
            if key is not None and seen in done:
                if (known := done[seen]) is None:
                    raise HTTPException(409, "it is being written")
                return known
            if "late_note" not in bugs:
                done[seen] = None
            await asyncio.sleep(0.001)
            made = done[seen] = Letter(id=str(uuid.uuid4()))
            if "commits_later" in bugs:
                asyncio.get_running_loop().call_later(0.05, letters.setdefault, made.id, made)
            else:
                letters[made.id] = made
            return made

        @app.post("/letters/{letter_id}/answer")
        async def answer(letter_id: str) -> Letter:
            letter = letters.get(letter_id)
            if letter is None or letter.answers:
                raise HTTPException(400)
            if "no_lock" in bugs:
                await asyncio.sleep(0.001)
            letter.answers += 1
            return letter

        @app.get("/letters/{letter_id}")
        async def show(letter_id: str) -> Letter:
            if letter_id not in letters:
                raise HTTPException(404)
            assert letters[letter_id].answers <= 1
            return letters[letter_id]

        return app

    return make_app


def outcome_of(*bugs: str, reads_back: bool = True) -> foretold.Outcome:
    """What a search finds in such an office."""
    machine = foretold.openapi(
        office(*bugs), credentials=lambda actor: {"x-api-key": actor.name}, actors=3
    )
    machine.reads_back = reads_back
    return foretold.explore(machine, runs=RUNS, seed=1, shrink=False, confirm=False)


@pytest.mark.parametrize("bug", FOUND)
def test_planted_mistakes_are_found(bug: str) -> None:
    """A key that is everybody's, one that is noted too late, a check before an await; an answer
    that comes before what it tells is done."""
    failure = outcome_of(bug).failure
    assert failure is not None
    assert re.search(FOUND[bug], str(failure.exception)), failure.exception


def test_an_office_may_show_its_letters_later() -> None:
    """On purpose, and then nobody looks at once."""
    outcome = outcome_of("commits_later", reads_back=False)
    assert outcome.failure is None, outcome.failure.story


def test_a_correct_office_is_silent() -> None:
    """Who sends twice is refused, gets the same again, or writes another letter of their own."""
    outcome = outcome_of()
    assert outcome.failure is None, outcome.failure.story
    assert all(count.succeeded for count in outcome.tally.rules.values())


def test_where_to_look() -> None:
    """The page of a thing is the longest path that begins the request's; lists are none."""
    paths = ("/a", "/a/{id}", "/a/{id}/b/{n}", "/c/{id}")
    found = Document(
        {
            "openapi": "3.1.0",
            "paths": {path: {"get": {"responses": {}}} for path in paths}
            | {path: {"post": {"responses": {}}} for path in ("/a/{id}/b/{n}/go", "/a/x", "/d")},
        }
    ).operations()
    pages, posts = found[:4], found[4:]
    found_pages = [page_of(post, pages) for post in posts]
    assert [page and page.path for page in found_pages] == ["/a/{id}/b/{n}", None, None]


def test_another_key_is_of_the_same_kind() -> None:
    """A UUID stays one, and no two are the same."""
    (operation,) = Document(
        {"openapi": "3.1.0", "paths": {"/a": {"post": {"responses": {}}}}}
    ).operations()
    old = str(uuid.UUID(int=7))
    request = ApiRequest(operation, "/a", headers={"Idempotency-Key": old, "x": "y"})
    one, two = (request.under_another_key(number) for number in (1, 2))
    assert str(uuid.UUID(one.key or "")) == one.key
    assert len({old, one.key, two.key}) == 3
    assert one.headers["x"] == "y"
    plain = ApiRequest(operation, "/a", headers={"Idempotency-Key": "key-1"})
    assert (plain.under_another_key(1).key or "").startswith("key-1-")
