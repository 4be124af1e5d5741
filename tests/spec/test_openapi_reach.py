"""`foretold.openapi`: how far rules get that know nothing but the schema."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import pytest
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

import foretold
from foretold.spec.openapi import machine as openapi_machine
from foretold.spec.openapi.document import Document
from foretold.spec.openapi.eagerness import Eagerness
from foretold.spec.openapi.flows import OWN
from foretold.spec.openapi.resources import Key, Resources

STAGES = ("made", "paid", "packed", "sent", "signed")
RUNS = 40


class Parcel(BaseModel):
    """It goes from stage to stage, and two of these need somebody else."""

    id: str
    stage: str
    last: str


class Pass(BaseModel):
    """What one is let in with."""

    entry_token: str


class Visit(BaseModel):
    """Only with a pass."""

    entry_token: str
    parcel_id: str | None = None


class Liked(BaseModel):
    """Whatever it is."""

    target_type: str
    target_id: str


Who = Annotated[str, Header(alias="x-api-key")]


def make_app() -> Any:
    """A post office, new for each run."""
    app = FastAPI(title="Post")
    parcels: dict[str, Parcel] = {}
    passes: set[str] = set()

    @app.post("/parcels", status_code=201)
    async def make(who: Who) -> Parcel:
        made = Parcel(id=str(uuid.uuid4()), stage=STAGES[0], last=who)
        return parcels.setdefault(made.id, made)

    async def move(who: str, parcel_id: str, to: str) -> Parcel:
        parcel = parcels.get(parcel_id)
        if parcel is None:
            raise HTTPException(404)
        if parcel.stage != STAGES[STAGES.index(to) - 1]:
            raise HTTPException(409, f"it is {parcel.stage}")
        if (parcel.last == who) != (to in ("paid", "sent")):
            raise HTTPException(403)
        parcel.stage, parcel.last = to, who
        return parcel

    @app.post("/parcels/{parcel_id}/pay")
    async def pay(who: Who, parcel_id: str) -> Parcel:
        return await move(who, parcel_id, "paid")

    @app.post("/parcels/{parcel_id}/pack")
    async def pack(who: Who, parcel_id: str) -> Parcel:
        return await move(who, parcel_id, "packed")

    @app.post("/parcels/{parcel_id}/send")
    async def send(who: Who, parcel_id: str) -> Parcel:
        return await move(who, parcel_id, "sent")

    @app.post("/parcels/{parcel_id}/sign")
    async def sign(who: Who, parcel_id: str) -> Parcel:
        return await move(who, parcel_id, "signed")

    @app.post("/likes/{target_type}/{target_id}")
    async def like(target_type: Literal["letter", "parcel"], target_id: str) -> Liked:
        if target_type != "parcel" or target_id not in parcels:
            raise HTTPException(404)
        return Liked(target_type=target_type, target_id=target_id)

    @app.post("/passes", status_code=201)
    async def give_pass() -> Pass:
        passes.add(token := str(uuid.uuid4()))
        return Pass(entry_token=token)

    @app.post("/visits")
    async def visit(wish: Visit) -> Pass:
        if wish.entry_token not in passes:
            raise HTTPException(403)
        return Pass(entry_token=wish.entry_token)

    return app


def credentials(actor: Any) -> dict[str, str]:
    """Each actor is somebody else."""
    return {"x-api-key": actor.name}


Post = foretold.openapi(make_app, name="Post", credentials=credentials, actors=3)


def reached(runs: int = RUNS) -> set[str]:
    """The operations that have succeeded."""
    outcome = foretold.explore(Post, runs=runs, seed=3, confirm=False)
    assert outcome.failure is None
    return {name for name, count in outcome.tally.rules.items() if count.succeeded}


def test_the_end_of_a_chain_is_reached() -> None:
    """Five stages, of which each needs the one before, two of them somebody else; a word that says
    of what an id is; a token that has to be shown: all within 40 runs of 30 steps."""
    assert reached() == set(Post.operations)


def test_it_takes_more_than_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without what was made for it, one's own ids and everything evenly: the last stage is
    out of reach. So the test above can fail."""
    monkeypatch.setattr(openapi_machine, "MANNERS", (OWN,))
    monkeypatch.setattr(Eagerness, "of", lambda self, name, has: 1.0)
    assert "sign" not in reached()


def test_a_tape_still_means_the_same() -> None:
    """What a run is eager for guides seeds alone: a recorded tape gives the run that it gave."""
    first, again = (foretold.run(Post, seed=5) for _ in range(2))
    assert first.digest == again.digest
    assert foretold.run(Post, tape=first.tape).digest == first.digest


# ---------------------------------------------------------------- names


def answers(schema: Any) -> dict[str, Any]:
    """A response."""
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


def takes(*fields: str) -> dict[str, Any]:
    """A body with these fields."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


def in_path(*names: str) -> dict[str, Any]:
    """Parameters."""
    return {"parameters": [{"name": n, "in": "path", "schema": {"type": "string"}} for n in names]}


def resources_of(paths: dict[str, Any]) -> tuple[Resources, list[Any]]:
    """What these paths want and give."""
    found = Document({"openapi": "3.1.0", "paths": paths})
    operations = found.operations()
    return Resources(found, operations, {}), operations


def thing(title: str, **more: Any) -> dict[str, Any]:
    """The schema of something with an id."""
    return {"title": title, "properties": {"id": {"type": "string"}, **more}}


def test_names_that_say_more_or_less() -> None:
    """A path may say more than a parameter, a title more than a path; a field may have a word more
    than its resource; a token is itself."""
    resources, operations = resources_of(
        {
            "/line-items": {"post": answers(thing("LineItemAnswer"))},
            "/line-items/{item_id}": {"get": in_path("item_id") | answers(thing("LineItem"))},
            "/big-carts/{cart_id}": {"get": in_path("cart_id") | answers({})},
            "/carts": {"post": takes("first_item_id", "entry_token") | answers(thing("Cart"))},
            "/carts/{cart_id}/line-items": {
                "get": in_path("cart_id")
                | answers({"type": "array", "items": thing("Cart", entry_token={})})
            },
        }
    )
    item, cart = Key("line_item", "id"), Key("cart", "id")
    assert resources.key_of(operations[1], operations[1].parameters[0]) == item
    assert resources.key_of(operations[2], operations[2].parameters[0]) == cart
    assert resources.key_of_field("best_line_item_id") == item
    assert resources.key_of_field("entry_token") == Key("entry_token", "id")
    assert {key for key, _ in resources.harvest(operations[-1], [{"id": "c"}])} >= {cart}
    assert item not in {key for key, _ in resources.harvest(operations[-1], [{"id": "c"}])}


class Transfer(BaseModel):
    """Two accounts, of which only one is called so."""

    src: int
    to_account_id: int


def bank() -> Any:
    """An API without a model for any answer. Accounts have numbers that nobody guesses."""
    app = FastAPI(title="Bank")
    accounts: list[int] = []

    @app.post("/accounts", status_code=201)
    async def create():  # without a model, its answer has no schema
        accounts.append(70_000 + len(accounts))
        return {"id": accounts[-1]}

    @app.post("/transfers", status_code=201)
    async def transfer(body: Transfer):
        if not {body.src, body.to_account_id} <= {*accounts}:
            raise HTTPException(404, "no such account")
        foretold.reachable("a transfer")
        return {"ok": True}

    return app


def test_answers_without_a_model_give_ids() -> None:
    """`POST /accounts` gives accounts, presumably: fields that name one get their ids, and `feeds`
    can say so of others. An operation is possible all the same if none comes."""
    machine = foretold.openapi(bank, feeds={"src": "account"}, oracle=None)
    done = foretold.explore(machine, runs=3, seed=1)
    assert done.failure is None
    assert done.reached["a transfer"] > 3
    with pytest.raises(foretold.UsageError, match="Known resources: account"):
        foretold.openapi(bank, feeds={"src": "acount"})


def test_answers_tell_of_ids_outside_of_schemas() -> None:
    """A field that is called like a resource and holds a UUID; an id beside a word."""
    resources, operations = resources_of(
        {
            "/news": {"get": answers({})},
            "/worlds": {"post": answers(thing("World"))},
            "/worlds/{world_id}": {"get": in_path("world_id") | answers(thing("World"))},
        }
    )
    one, world = "3f0819c4-5470-28c2-f569-e31f2ef6cc30", Key("world", "id")
    told = {"data": {"world": one}, "on": {"target_type": "worlds", "target_id": "w"}}
    found = list(resources.harvest(operations[0], [told, {"world": "blue"}]))
    assert (world, one) in found
    assert (world, "w") in found
    assert (world, "blue") not in found
