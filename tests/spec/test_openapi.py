"""`foretold.openapi`: a machine from a schema alone reaches the API and finds its mistakes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from hypothesis import strategies as st
from pydantic import BaseModel

import foretold
from foretold.errors import UsageError
from foretold.report.text import failure_note
from foretold.spec.hypothesis_adapter import CalmSource, draw
from foretold.spec.openapi.conformity import mismatch
from foretold.spec.openapi.document import Document, read_document
from foretold.spec.openapi.properties import steady
from foretold.spec.openapi.requests import request_for
from foretold.spec.openapi.resources import ANYTHING, Key, Resources, singular
from foretold.spec.openapi.values import Values
from foretold.tape import Tape
from tests.spec.small_shop import make_app


def credentials(actor: Any) -> dict[str, str]:
    """Each actor is a user."""
    return {"Authorization": f"Bearer {actor.name}"}


def shop_with(*bugs: str, **settings: Any) -> type[foretold.Machine]:
    """The machine of a shop with these mistakes; for each run a new shop."""

    def app() -> Any:
        return make_app(*bugs)

    return foretold.openapi(app, name="Shop", credentials=credentials, **settings)


def document(
    schemas: dict[str, Any] | None = None, paths: dict[str, Any] | None = None
) -> Document:
    """A document of these parts."""
    paths = paths or {"/x": {"get": {"responses": {}}}}
    return Document({"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas or {}}})


# ---------------------------------------------------------------- the machine


def test_every_operation_succeeds_and_a_correct_shop_is_silent() -> None:
    """From the schema alone: ids flow, each actor has credentials, nothing is invented."""
    outcome = foretold.explore(shop_with(), runs=15, seed=1)
    assert outcome.failure is None
    assert outcome.tally.rules
    assert [name for name, count in outcome.tally.rules.items() if not count.succeeded] == []
    assert all(count.ranged > 10 for count in outcome.tally.invariants.values())


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        ("five hundred", ["was answered with 500"]),
        # The pause in which others buy is also one in which the same key comes again.
        ("oversell", ["sent twice at the same time by actor., and made", "-[123] is less than 0"]),
        ("odd state", ["'lost' is none of"]),
        ("anonymous", ["without credentials was answered with 20"]),
        ("shared keys", ["keys of different users are different keys"]),
        ("keys are forgotten", ["and made two things"]),
        ("restocks twice", ["sent once more by actor., changed something"]),
    ],
)
def test_the_built_in_properties_find_planted_mistakes(bug: str, said: list[str]) -> None:
    """Each property is proved by a mistake that it sees. What else comes of the mistake is known,
    and nothing besides is found. No more runs are made than it takes, 60 at most."""
    settings: Any = {"shrink": False, "confirm": False, "keep_going": True}
    found: list[BaseException] = []
    for seed in range(1_000, 1_006):
        outcome = foretold.explore(shop_with(bug), runs=10, seed=seed, **settings)
        found += [each.exception for each in outcome.failures]
        if all(any(re.search(each, str(error)) for error in found) for each in said):
            break
    assert all(isinstance(each, foretold.PropertyViolated) for each in found)
    for each in said:
        assert any(re.search(each, str(error)) for error in found), found
    assert all(any(re.search(each, str(error)) for each in said) for error in found), found


def test_a_failure_is_told_as_a_short_program() -> None:
    """Shrunk: who has ordered, paid and paid again, with the names of values."""
    shop = shop_with("five hundred", steps=10, actors=1, only=["list_items", "create_order", "pay"])
    found = foretold.explore(shop, runs=90, confirm=False).failure
    assert found is not None
    program = found.story.partition("No task was")[0]
    assert len([line for line in program.splitlines() if "(" in line]) <= 5
    assert "pay(order_id=order_1)  # fails: PropertyViolated: POST /orders/" in program
    assert str(found.exception).endswith(
        "was answered with 500: the application raised RuntimeError: paid twice"
    )
    raised = re.search(r"(\S+small_shop\.py:\d+) +web, application: .* raised", found.story)
    assert raised is not None
    report = failure_note(found, runs=90, command="foretold replay")
    assert report.splitlines()[0].endswith(f"RuntimeError: paid twice ({raised[1]})")
    assert re.search(r"pay-\d+ +goes on, fails\n", found.story), "it was not there itself"


def test_equal_seeds_give_equal_runs() -> None:
    """Applications made anew, ids drawn from the tape: one digest for one seed."""
    shop = shop_with()
    digests = [foretold.run(shop, seed=seed).digest for seed in (3, 4, 3, 4)]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]


def test_hooks_make_the_machine_ones_own() -> None:
    """`serve` and `login` of a derived class, and a rule of its own beside those of the API."""
    seen = []

    class Own(shop_with()):  # type: ignore[misc]  # a class that is made in the test
        async def serve(self) -> Any:
            seen.append("serve")
            return make_app()

        async def login(self, actor: Any) -> None:
            answer = await actor.web.get("/orders")
            seen.append(f"{actor.name} {answer.status_code}")

        @foretold.rule()
        async def look(self, actor: Any) -> None:
            seen.append("rule")

    assert foretold.run(Own, seed=5).error is None
    assert seen[:4] == ["serve", "actor1 200", "actor2 200", "actor3 200"]
    assert "rule" in seen


def test_operations_are_chosen_and_strategies_replaced_by_name() -> None:
    """`only`, `skip` and `overrides`; a name that is not there is a mistake."""
    few = shop_with(only=["list_items", "POST /orders"], overrides={"quantity": st.just(2)})
    assert list(few.operations) == ["list_items", "create_order"]  # type: ignore[attr-defined]  # it has them
    with pytest.raises(UsageError, match=r"no operation 'list_item'.*list_items"):
        shop_with(skip=["list_item"])
    with pytest.raises(UsageError, match="no parameter or field is called 'quantities'"):
        shop_with(overrides={"quantities": st.just(2)})


def baskets() -> Any:
    """A shop whose names say nothing: a receipt has a `ref`, and a body names it `about`."""
    app, receipts = FastAPI(), list[str]()

    @app.post("/receipts", status_code=201)
    async def buy() -> Receipt:
        receipts.append(f"R{len(receipts)}")
        return Receipt(ref=receipts[-1])

    @app.post("/complaints", status_code=201)
    async def complain(complaint: Complaint) -> None:
        if complaint.inner.about not in receipts:
            raise HTTPException(404)

    return app


class Receipt(BaseModel):
    """What one gets."""

    ref: str


class Subject(BaseModel):
    """What a complaint is about."""

    about: str


class Complaint(BaseModel):
    """What one writes."""

    inner: Subject


def test_feeds_tell_what_names_do_not() -> None:
    """Of a field of an answer and of one deep in a body; one that leads nowhere is a mistake."""
    silent = foretold.explore(foretold.openapi(baskets, actors=1), runs=10, seed=1)
    assert silent.tally.rules["complain"].succeeded == 0
    fed = foretold.openapi(baskets, actors=1, feeds={"about": "receipt", "ref": "receipts"})
    outcome = foretold.explore(fed, runs=10, seed=1)
    assert outcome.failure is None
    assert outcome.tally.rules["complain"].succeeded > 10
    with pytest.raises(UsageError, match="no parameter and no field is called 'above'"):
        foretold.openapi(baskets, feeds={"above": "receipt"})
    with pytest.raises(UsageError, match=r"a 'recipe', but no response.*Did you mean 'receipt'"):
        foretold.openapi(baskets, feeds={"about": "recipe", "ref": "receipt"})
    for wrong in ("about", ["about"], {"about": 3}):
        with pytest.raises(UsageError, match="takes a dict of names"):
            foretold.openapi(baskets, feeds=wrong)  # type: ignore[arg-type]  # the mistake


def test_what_is_no_schema_is_refused() -> None:
    """With a word on what would be one."""
    for wrong, said in (
        (3, "takes an application that knows its schema"),
        ({"swagger": "2.0", "paths": {"/": {}}}, "says swagger 2.0"),
        ({"openapi": "3.0.3", "paths": {}}, "has no paths"),
        ("{not json", "not a JSON document"),
    ):
        with pytest.raises(UsageError, match=said):
            foretold.openapi(wrong)
    alone = foretold.openapi(make_app().openapi())
    with pytest.raises(UsageError, match="made from a schema alone"):
        foretold.run(alone)


# ---------------------------------------------------------------- reading


def test_a_document_is_read_from_wherever_it_is(tmp_path: Path) -> None:
    """An application, a dict, a text and a file are the same document."""
    schema = make_app().openapi()
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(schema), "utf-8")
    for given in (make_app(), schema, json.dumps(schema), file):
        found = read_document(given)
        assert found is not None
        assert [str(each) for each in found.operations()][:2] == ["GET /items", "GET /orders"]


def test_operations_have_what_the_document_says() -> None:
    """Parameters of the path and the operation, the more special first; security; statuses."""
    both = document(
        paths={
            "/a/{id}": {
                "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
                "get": {
                    "operationId": "getThing",
                    "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}],
                    "security": [{"key": []}],
                    "responses": {
                        "200": {"content": {"application/json": {"schema": {}}}},
                        "4xx": {},
                    },
                },
                "delete": {"security": [{"key": []}, {}], "responses": {"default": {}}},
            }
        }
    ).operations()
    get, delete = both
    assert (get.name, get.parameters[0].schema) == ("get_thing", {"type": "integer"})
    assert (get.secured, delete.secured) == (True, False)
    assert (get.documented(200), get.documented(404), get.documented(500)) == ("200", "4XX", None)
    assert delete.documented(500) == "default"


def test_ids_are_known_by_names_and_by_links() -> None:
    """Paths, fields called `x_id`, titles of schemas, wrapped lists; and links where there are."""
    order = {"title": "OrderOut", "type": "object", "properties": {"id": {}, "customer_id": {}}}
    page = {"type": "object", "properties": {"items": {"type": "array", "items": order}}}
    link = {"operationId": "track", "parameters": {"code": "$response.body#/tracking"}}

    def answers(schema: Any, **more: Any) -> dict[str, Any]:
        return {"responses": {"200": {"content": {"application/json": {"schema": schema}}, **more}}}

    def named(name: str) -> list[dict[str, Any]]:
        return [{"name": name, "in": "path", "schema": {"type": "string"}}]

    found = document(
        paths={
            "/orders": {"get": answers(page), "post": answers(order, links={"t": link})},
            "/orders/{orderId}": {"get": {"parameters": named("orderId"), **answers(order)}},
            "/customers/{id}": {"get": {"parameters": named("id"), **answers({})}},
            "/parcels/{code}": {
                "get": {"operationId": "track", "parameters": named("code"), **answers({})}
            },
        }
    )
    operations = found.operations()
    resources = Resources(found, operations, {})
    assert resources.given == {Key("order", "id"), Key("customer", "id"), Key("parcel", "code")}
    body = {"items": [{"id": 7, "customer_id": "c"}]}
    assert list(resources.harvest(operations[0], body)) == [
        (Key("order", "id"), 7),
        (ANYTHING, 7),
        (Key("customer", "id"), "c"),
        (ANYTHING, "c"),
    ]
    assert (Key("parcel", "code"), "T1") in list(
        resources.harvest(operations[1], {"id": 1, "tracking": "T1"})
    )


def test_one_of_many() -> None:
    """Plurals as APIs write them."""
    plurals = {"orders": "order", "categories": "category", "boxes": "box", "addresses": "address",
               "status": "status", "orderItems": "order_item", "news": "new"}  # fmt: skip
    assert {name: singular(name) for name in plurals} == plurals


def test_requests_are_written_as_http_wants_them() -> None:
    """Quoted paths, repeated queries, lower-case booleans, cookies and headers."""
    places = [
        ("id", "path"),
        ("tag", "query"),
        ("deep", "query"),
        ("X-A", "header"),
        ("c", "cookie"),
    ]
    parameters = [{"name": n, "in": where, "schema": {}} for n, where in places]
    (operation,) = document(
        paths={"/a/{id}": {"get": {"parameters": parameters, "responses": {}}}}
    ).operations()
    names = {f"{where}:{name}": name for name, where in places}
    given = {"id": "a/b ü", "tag": ["x", "y"], "deep": True, "X-A": "ä\n1", "c": "k v"}
    request = request_for(operation, given, names)
    assert request.path == "/a/a%2Fb%20%C3%BC"
    assert request.query == [("tag", "x"), ("tag", "y"), ("deep", "true")]
    assert (request.headers, request.cookies) == ({"X-A": "??1"}, {"c": "k%20v"})


def test_names_of_rules_tell_operations_apart() -> None:
    """FastAPI's ids without path and method; where that is the same for two, with the path."""
    ids = {"/a": "show_a_get", "/x/b": "show_x_b_get", "/c": "get-C things", "/d/{id}": None}
    found = document(
        paths={
            path: {"get": {"responses": {}} | ({"operationId": given} if given else {})}
            for path, given in ids.items()
        }
    )
    names = [operation.name for operation in found.operations()]
    assert names == ["show_a", "show_x_b", "get_c_things", "get_d_id"]


class Client:
    """Takes a request and keeps it."""

    async def request(self, method: str, path: str, **options: Any) -> Any:
        return method, path, options


def test_credentials_are_those_of_the_client() -> None:
    """A header for a key is a parameter in many schemas; none is made up."""
    parameters: list[Any] = [
        {"name": n, "in": "header", "schema": {}} for n in ("X-API-Key", "X-Page")
    ]
    (operation,) = document(
        paths={"/a": {"get": {"parameters": parameters, "responses": {}}}}
    ).operations()
    names = {"header:X-API-Key": "key", "header:X-Page": "page"}
    request = request_for(operation, {"key": "guess", "page": "3"}, names)
    sent = asyncio.run(request.send(Client()))
    assert sent == ("GET", "/a", {"headers": {"X-Page": "3"}, "params": None})


def test_what_changes_by_itself_is_not_compared() -> None:
    """Times and versions, at any depth."""
    body = {"id": 1, "updated_at": 3, "parts": [{"version": 2, "state": "x"}]}
    assert steady(body) == {"id": 1, "parts": [{"state": "x"}]}


# ---------------------------------------------------------------- JSON schemas

SCHEMAS: list[Any] = [
    {"type": "integer", "minimum": 3, "exclusiveMaximum": 5},
    {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "maximum": 9},
    {"type": "integer", "multipleOf": 7, "minimum": 10},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": "^[a-z]{2}-[0-9]+$"},
    {"type": "string", "pattern": r"^[^\x00\n]*$", "minLength": 30, "maxLength": 90},
    {"type": "string", "pattern": r"^\w+$", "minLength": 8},
    {"type": "string", "pattern": "^[ab]{2,5}$", "minLength": 4},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "nullable": True, "maxLength": 2},
    {"type": ["string", "null"], "maxLength": 2},
    {"enum": ["a", 1, None]},
    {"const": {"a": 1}},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
    {"$ref": "#/components/schemas/Pet"},
    {"$ref": "#/components/schemas/Tree"},
    {"allOf": [{"$ref": "#/components/schemas/Cat"}, {"properties": {"age": {"type": "integer"}},
                                                      "required": ["age"]}]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"type": "integer", "not": {"const": 0}, "minimum": 0, "maximum": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1,
     "propertyNames": {"enum": ["a", "b"]}},
    {"type": "object", "patternProperties": {"^x+$": {"type": "integer"}},
     "additionalProperties": False},
    {"anyOf": [{"type": "number", "minimum": 3}, {"type": "string", "pattern": "^[3-9]$"}]},
    {"minimum": 3, "maximum": 4},
    {},
]  # fmt: skip

COMPONENTS = {
    "Cat": {
        "type": "object",
        "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer", "minimum": 1}},
        "required": ["kind"],
    },
    "Dog": {
        "type": "object",
        "properties": {"kind": {"const": "dog"}},
        "required": ["kind"],
    },
    "Pet": {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind"},
    },
    "Tree": {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        },
        "required": ["value", "children"],
    },
}


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_values_match_their_schema(schema: Any) -> None:
    """Drawn by one module, judged by another one that shares no code with it."""
    known = document(COMPONENTS)
    strategy = Values(known).strategy(schema)
    values = [draw(strategy, Tape.seeded(n).stream("x")) for n in range(40)]
    assert [wrong for value in values if (wrong := mismatch(known, schema, value))] == []
    assert mismatch(known, schema, draw(strategy, CalmSource())) is None
    assert values == json.loads(json.dumps(values))


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "integer"}, "x", "the body: 'x' is no integer"),
        ({"type": "integer"}, True, "the body: True is no integer"),
        ({"type": "integer", "maximum": 5}, 6, "6 is more than 5"),
        ({"type": "integer", "exclusiveMinimum": 5}, 5, "5 is not more than 5"),
        ({"type": "integer", "multipleOf": 5}, 7, "7 is no multiple of 5"),
        ({"type": "string", "minLength": 2}, "a", "is shorter than 2"),
        ({"type": "string", "maxLength": 2}, "abc", "is longer than 2"),
        ({"type": "string", "pattern": "^a"}, "b", "does not match"),
        ({"type": "string", "format": "date-time"}, "soon", "is no date-time"),
        ({"type": "array", "minItems": 1}, [], "has 0 items, fewer than 1"),
        ({"type": "array", "uniqueItems": True}, [1, 1], "the same item twice"),
        ({"type": "array", "items": {"type": "null"}}, [None, 1], r"\[1\]: 1 is no null"),
        ({"type": "object", "required": ["a"]}, {}, "has no 'a'"),
        ({"properties": {}, "additionalProperties": False}, {"b": 1}, "has 'b', which is not"),
        ({"properties": {"a": {"properties": {"b": {"enum": [1]}}}}}, {"a": {"b": 2}}, "a.b: 2 is"),
        ({"$ref": "#/components/schemas/Pet"}, {"kind": "cow"}, "fits none of oneOf"),
        ({"not": {"type": "null"}}, None, "what must not be"),
        ({"const": 1}, True, "True instead of 1"),
        ({"propertyNames": {"enum": ["a"]}}, {"b": 1}, "'b' is none of"),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"x1": 1}, "x1: 1 is no null"),
    ],
)
def test_mismatches_are_found_and_named(schema: Any, value: Any, said: str) -> None:
    """Each keyword refuses something, and says where."""
    found = mismatch(document(COMPONENTS), schema, value)
    assert found is not None
    with pytest.raises(ValueError, match=said):
        raise ValueError(found)
