"""`foretold.openapi` with odd APIs. Nothing is called wrong that is in order; what is wrong in a
document is told in words, with the operation and what to write instead."""

from __future__ import annotations

import asyncio
import email
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from pydantic import Field

import foretold
from foretold.errors import UsageError
from foretold.spec.hypothesis_adapter import draw
from foretold.spec.openapi.conformity import mismatch
from foretold.spec.openapi.document import Document
from foretold.spec.openapi.values import Values
from foretold.tape import Tape


def held(given: Any, **settings: Any) -> dict[str, Any]:
    """A short search holds; what became of each rule."""
    machine = foretold.openapi(given, name="Odd", **settings)
    outcome = foretold.explore(machine, runs=12, seed=1, confirm=False)
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


KINDS: dict[str, Any] = {
    "uuid4": pydantic.UUID4,
    "uuid5": pydantic.UUID5,
    "address": pydantic.IPvAnyAddress,
    "network": pydantic.IPvAnyNetwork,
    "interface": pydantic.IPvAnyInterface,
    "money": Annotated[Decimal, Field(max_digits=6, decimal_places=2, ge=0)],
    "debt": Annotated[Decimal, Field(max_digits=7, decimal_places=2, lt=Decimal("-0.5"))],
    "json": pydantic.Json,
    "json_numbers": pydantic.Json[list[int]],
    "named": dict[Literal["a", "b"], int],
    "patterned": dict[Annotated[str, Field(pattern="^x[0-9]+$")], int],
    "base64": pydantic.Base64Bytes,
    "base64_url": pydantic.Base64UrlBytes,
    "letters": Annotated[str, Field(pattern=r"^\p{L}+$")],
}


def test_pydantics_own_formats_are_made_as_it_wants_them() -> None:
    """A body of each kind: most are taken. Numbers of digits stand in no schema, so of decimals
    only more than half."""
    app = FastAPI()

    def take(name: str, kind: Any) -> None:
        async def taken(value: Any) -> dict[str, bool]:
            return {"ok": True}

        taken.__annotations__["value"] = pydantic.create_model(f"A{name}", value=(kind, ...))
        app.post(f"/{name}", name=name)(taken)

    for name, kind in KINDS.items():
        take(name, kind)
    counts = held(app, actors=1, steps=40)
    for name, count in counts.items():
        share = count.succeeded / count.tried
        assert share > (0.5 if name in ("money", "debt") else 0.99), (name, count)


def test_a_refusal_names_the_field() -> None:
    """FastAPI says which field it did not like: that is what somebody needs who mends it."""
    app = FastAPI()

    @app.get("/parcels")
    async def parcels(born: pydantic.PastDate) -> dict[str, bool]:
        return {"ok": True}

    counts = held(app)
    assert counts["parcels"].said == "422 query.born: Date should be in the past"


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


# ---------------------------------------------------------------- bodies that are no JSON


def bodies(**content: Any) -> dict[str, Any]:
    """A document with an operation for each; its body has to be of that media."""
    return of(
        {
            f"/{name}": {
                "post": {
                    "requestBody": {"required": True, "content": {media: {"schema": schema}}},
                    "responses": {"200": {}},
                }
            }
            for name, (media, schema) in content.items()
        }
    )


class Receiver:
    """An application that keeps what it is sent, and refuses a form without a file."""

    def __init__(self) -> None:
        self.got: dict[str, list[Any]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for answer in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{answer}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        media = dict(scope["headers"])[b"content-type"].decode()
        told = self.read(media, body)
        self.got.setdefault(scope["path"], []).append(told)
        refused = scope["path"] == "/form" and not any(isinstance(e, tuple) for _, e in told)
        await send({"type": "http.response.start", "status": 422 if refused else 200})
        await send({"type": "http.response.body", "body": b""})

    def read(self, media: str, body: bytes) -> Any:
        """A form as fields, files as pairs of name and content; others as they are."""
        if not media.startswith("multipart/"):
            return media, body
        form: Any = email.message_from_bytes(f"Content-Type: {media}\r\n\r\n".encode() + body)
        fields = []
        for part in form.get_payload():
            name, file = (
                part.get_param(word, header="content-disposition") for word in ("name", "filename")
            )
            content = part.get_payload(decode=True)
            fields.append((name, content if file is None else (file, content)))
        return fields


def test_files_are_uploaded() -> None:
    """In a form, as OpenAPI 3.0 and 3.1 write it, alone and several; beside fields that are
    repeated, and some that are left out."""
    form = having(
        old={"type": "string", "format": "binary"},
        new={"type": "string", "contentMediaType": "application/octet-stream"},
        many={"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 2},
        tags={"type": "array", "items": {"enum": ["x"]}, "minItems": 2, "maxItems": 2},
    )
    form["properties"]["maybe"] = {"type": ["null", "string"], "format": "binary"}
    app = Receiver()
    counts = held(bodies(form=("multipart/form-data", form)), app=app)
    assert (counts["post_form"].refused, counts["post_form"].succeeded > 10) == (0, True)
    for fields in app.got["/form"]:
        files = [name for name, content in fields if isinstance(content, tuple)]
        assert files.count("old") == files.count("new") == 1 < files.count("many")
        assert [content for name, content in fields if name == "tags"] == [b"x", b"x"]
    contents = {str(content) for fields in app.got["/form"] for _, content in fields}
    assert len(contents) > 20


def test_a_body_may_be_a_file_or_a_text() -> None:
    """With the media that the schema names, or one that it may be."""
    app = Receiver()
    held(
        bodies(
            picture=("image/*", {"type": "string", "format": "binary"}),
            note=("text/plain", {"type": "string", "pattern": "^[ab]+$"}),
        ),
        app=app,
    )
    assert {media for media, _ in app.got["/picture"]} == {"image/png"}
    assert len({content for _, content in app.got["/picture"]}) > 5
    assert all(set(content) <= set(b"ab") for _, content in app.got["/note"])


def test_what_cannot_be_written_is_left_out_with_a_word() -> None:
    """XML: an operation that needs it could only be refused. Who knows, says so by `skip`."""
    schema = bodies(old=("application/xml", {}), new=("application/json", {}))
    with pytest.warns(UserWarning, match=r"POST /old needs a body of application/xml.*post_old"):
        machine = foretold.openapi(schema, app=Receiver())
    assert list(machine.operations) == ["post_new"]
    foretold.openapi(schema, app=Receiver(), skip=["post_old"])


# ---------------------------------------------------------------- documents that are wrong


def of(paths: Any, **schemas: Any) -> dict[str, Any]:
    """A document."""
    return {"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}


def taking(schema: Any, **schemas: Any) -> dict[str, Any]:
    """A document with one operation, which takes such a body."""
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return of({"/a": {"post": {"requestBody": body, "responses": {}}}}, **schemas)


def having(**properties: Any) -> dict[str, Any]:
    """The schema of an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def ref(name: str) -> dict[str, str]:
    """The schema of that name."""
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Path("/nowhere/openapi.json"), "cannot be read.*No such file"),
        (of({"/a": []}), r"at the path /a has to be an object; it is \[\]"),
        (of({"/a": {"get": None}}), "GET /a has to be an object; it is None"),
        (
            of({"/a": {"get": {"parameters": [{"in": "query"}]}}}),
            "GET /a is not valid OpenAPI .*'name'",
        ),
        (taking(having(x={"enum": []})), r'POST /a, x: its `enum` is empty.*\n.*"post_a.x": st'),
        (taking({"anyOf": []}), "POST /a, its body: its `anyOf` is empty"),
        (taking(False), "allows no value"),
        (taking(having(x=[])), r"POST /a, x: \[\] is not a schema"),
        (taking({"type": "array", "minItems": 10_000}), "POST /a, its body: .*min_size is larger"),
        (taking(having(y={"type": "string", "minLength": 100_000})), "POST /a, y: .*is larger"),
        (
            taking(having(y={"type": "string", "pattern": "("})),
            "POST /a, y: Python cannot read the pattern '\\('",
        ),
        (taking({"type": "integer", "minimum": 5, "maximum": 3}), "its body: no number can keep"),
        (taking({"type": "string", "minLength": "3"}), "POST /a"),
        (taking(ref("A"), A=having(x=ref("A"))), "POST /a, x: .*/A contains itself without end"),
        (taking(ref("A"), A={"allOf": [ref("A")]}), "is not valid OpenAPI"),
    ],
)
def test_a_document_that_is_wrong_is_refused_in_words(wrong: Any, said: str) -> None:
    """As a `UsageError` that says where, and not as whatever our reading stumbles over."""
    with pytest.raises(UsageError, match=said):
        foretold.openapi(wrong, app=FastAPI())


def test_a_machine_without_operations_is_refused() -> None:
    """All were left out: there is nothing that anybody could do."""
    with pytest.raises(UsageError, match=r"no operation.*all of them were left out"):
        foretold.openapi(of({"/a": {"get": {}}}), skip=["GET /a"])


def test_credentials_are_headers_or_what_httpx_takes() -> None:
    """A bare token is neither; a dict is by actor, and headers for all are said by a function."""
    schema = of({"/a": {"get": {}}})
    with pytest.raises(UsageError, match=r"function of the actor.*got 'token'"):
        foretold.openapi(schema, credentials="token")  # type: ignore[arg-type]  # the mistake
    for given, said in (
        (lambda actor: "token", "credentials of actor1: 'token' cannot be used"),
        ({"Authorization": "x"}, "none of the actors: .*actor1, actor2, actor3"),
    ):
        machine = foretold.openapi(schema, app=FastAPI(), credentials=given)
        with pytest.raises(UsageError, match=said):
            foretold.run(machine)


def test_schemas_that_are_deep_but_not_endless() -> None:
    """Six kinds of things, each of which needs the next; and one that contains itself by `allOf`,
    as OpenAPI 3.0 wrote references with a description."""
    chain = {f"L{n}": having(next=ref(f"L{n + 1}")) for n in range(6)}
    chain["L6"] = {"type": "integer"}
    tree = {"type": "object", "properties": {"kid": {"allOf": [ref("T")]}}}
    known = Document(of({"/a": {}}, **chain, T=tree))
    for schema in (ref("L0"), ref("T")):
        strategy = Values(known).strategy(schema)
        values = [draw(strategy, Tape.seeded(n).stream("x")) for n in range(20)]
        assert [wrong for each in values if (wrong := mismatch(known, schema, each))] == []
        assert any("next" in str(each) or "kid" in str(each) for each in values)


def slow_at_times() -> FastAPI:
    """Each third change takes longer than clients wait, and is made all the same."""
    app, notes = FastAPI(), dict[str, str]()
    asked = itertools.count()

    @app.put("/notes/{name}")
    async def write(name: str, text: str) -> None:
        if next(asked) % 3 == 1:
            await asyncio.sleep(12)
        notes[name] = text

    @app.get("/notes")
    async def read() -> dict[str, str]:
        await asyncio.sleep(3)
        return notes

    return app


def test_what_outlives_its_client_is_no_work_of_a_test() -> None:
    """Neither the timeout of a repeated request is a failure, nor what the first one does later."""
    machine = foretold.openapi(slow_at_times, name="Slow", actors=2)
    outcome = foretold.explore(machine, runs=30, seed=1, confirm=False, shrink=False)
    assert outcome.failure is None, outcome.failure.exception
    assert outcome.tally.rules["write"].failed > 10
    assert outcome.tally.invariants["duplicates_are_refused_or_change_nothing"].ranged > 10


def test_an_id_of_an_undocumented_answer_has_one_name() -> None:
    """Nothing says of which kind it is. The program that is told calls it as it was made."""
    app = FastAPI()

    @app.post("/wallets", status_code=201)
    async def open_wallet() -> Any:
        return {"id": 17}

    @app.post("/wallets/{wallet_id}/close")
    async def close(wallet_id: int) -> Any:
        if wallet_id == 17:
            raise RuntimeError("it cannot be closed")
        return {}

    machine = foretold.openapi(app, actors=1)
    failure = foretold.explore(machine, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert "wallet_1 = open_wallet()" in failure.story
    assert "close(wallet_id=wallet_1)  # fails" in failure.story
