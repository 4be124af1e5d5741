"""An OpenAPI document (3.0 and 3.1) as operations, with all references followed."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretold.arguments import METHODS
from foretold.errors import UsageError

JSON_MEDIA = re.compile(r"application/([\w.+-]+\+)?json|\*/\*")
XML_MEDIA = re.compile(r"[/+]xml")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
Schema = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    name: str
    where: str
    """path, query, header or cookie"""
    required: bool
    schema: Schema


@dataclass(frozen=True)
class Body:
    """What an operation wants as its body."""

    media: str
    required: bool
    schema: Schema

    @property
    def is_json(self) -> bool:
        return JSON_MEDIA.match(self.media) is not None

    @property
    def is_form(self) -> bool:
        return self.media in FORMS


@dataclass(frozen=True)
class ApiLink:
    """An answer of one operation gives a parameter of another one."""

    operation: str
    parameter: str
    pointer: tuple[str, ...]
    """Where in the answer's body."""


@dataclass(frozen=True)
class ApiOperation:
    name: str
    """As a rule is called: a Python name."""
    operation_id: str
    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[str, Schema | None] = field(default_factory=dict)
    """By status (`200`, `4XX`, `default`): the schema of a JSON body, or None if it has none."""
    unwritten: str = ""
    """What it needs as its body, if that is nothing that can be written here."""
    secured: bool = False
    """Whether it is for those who have credentials."""
    links: tuple[ApiLink, ...] = ()

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD", "OPTIONS")

    def documented(self, status: int) -> str | None:
        """Under which key the schema speaks of this status."""
        for key in (str(status), f"{status // 100}XX"):
            if key in self.answers:
                return key
        return "default" if "default" in self.answers else None


class Document:
    """A schema, and what its references mean."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        version = str(raw.get("openapi", ""))
        if not version.startswith("3."):
            said = f"swagger {raw['swagger']}" if "swagger" in raw else f"openapi {version or '?'}"
            raise UsageError(
                f"foretold.openapi reads OpenAPI 3.0 and 3.1; this document says {said}. "
                "Convert it first, with swagger2openapi for instance"
            )
        if not raw.get("paths"):
            raise UsageError("foretold.openapi: the document has no paths, so there is no rule")

    def follow(self, schema: Any) -> Any:
        """What a reference means; with its neighbours, which 3.1 allows, added to it."""
        seen = 0
        while isinstance(schema, Mapping) and "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._at(schema["$ref"])
            schema = {**target, **rest} if rest and isinstance(target, Mapping) else target
            seen += 1
            if seen > 50:
                raise UsageError(f"foretold.openapi: {schema!r} refers to itself and nothing else")
        return schema

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise UsageError(
                f"foretold.openapi follows references inside of the document, such as "
                f"'#/components/schemas/Order'; this one is {reference!r}. Bundle it first"
            )
        found: Any = self.raw
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError):
                raise UsageError(f"foretold.openapi: there is no {reference}") from None
        return found

    # Operations

    def operations(self) -> list[ApiOperation]:
        """All operations, in the order of the document, each with a name of its own."""
        raw = [
            (path, method, shared)
            for path, item in _mapping(self.raw["paths"], "`paths`").items()
            for shared in [_mapping(self.follow(item), f"what is at the path {path}")]
            for method in map(str.lower, METHODS)
            if method in shared
        ]
        for path, method, shared in raw:
            _mapping(shared[method], f"{method.upper()} {path}")
        shorts = [_short_name(shared[method], method, path) for path, method, shared in raw]
        found: list[ApiOperation] = []
        for short, (path, method, shared) in zip(shorts, raw, strict=True):
            about = _last_fixed(path) if shorts.count(short) > 1 else ""
            taken = {each.name for each in found} | RESERVED
            with reading(f"{method.upper()} {path}"):
                found.append(self._operation(path, method, shared, _free(short, about, taken)))
        return found

    def _operation(
        self, path: str, method: str, shared: Mapping[str, Any], name: str
    ) -> ApiOperation:
        raw = shared[method]
        operation_id = raw.get("operationId") or f"{method}_{path}"
        body, unwritten = self._body(raw.get("requestBody"))
        answers = {str(status): self.follow(a) for status, a in raw.get("responses", {}).items()}
        return ApiOperation(
            name,
            operation_id,
            method.upper(),
            path,
            tuple(self._parameters(shared.get("parameters", ()), raw.get("parameters", ()))),
            body,
            {status.upper() if status != "default" else status: self._content(answer)
             for status, answer in answers.items()},
            unwritten,
            self._is_secured(raw),
            tuple(link for answer in answers.values() for link in self._links(answer)),
        )  # fmt: skip

    def _parameters(self, *lists: Any) -> Iterator[Parameter]:
        by_place: dict[tuple[str, str], Parameter] = {}
        for raw in (self.follow(each) for given in lists for each in given):
            schema: Any = raw.get("schema") or next(
                (media.get("schema", {}) for media in raw.get("content", {}).values()), {}
            )
            schema = _with_examples(self.follow(schema), raw)
            required = raw.get("required", False) or raw["in"] == "path"
            parameter = Parameter(raw["name"], raw["in"], required, schema)
            by_place[raw["name"], raw["in"]] = parameter  # an operation's own comes last
        yield from by_place.values()

    def _body(self, raw: Any) -> tuple[Body | None, str]:
        """A body that can be written, and what is needed if there is none."""
        if raw is None:
            return None, ""
        raw = self.follow(raw)
        content = raw.get("content", {})
        json_media = [media for media in content if JSON_MEDIA.match(media)]
        others = [media for media in content if not XML_MEDIA.search(media)]
        for media in (*json_media, *(form for form in FORMS if form in content), *others):
            schema = _with_examples(content[media].get("schema", {}), content[media])
            return Body(media, bool(raw.get("required")), schema), ""
        return None, ", ".join(content) if raw.get("required") else ""

    def _content(self, answer: Mapping[str, Any]) -> Schema | None:
        for media, content in answer.get("content", {}).items():
            if JSON_MEDIA.match(media):
                schema: Schema = content.get("schema", {})
                return schema
        return None

    def _is_secured(self, raw: Mapping[str, Any]) -> bool:
        required = raw.get("security", self.raw.get("security", []))
        return bool(required) and all(required)  # an empty one says: or without any

    def _links(self, answer: Mapping[str, Any]) -> Iterator[ApiLink]:
        for link in map(self.follow, answer.get("links", {}).values()):
            for name, expression in link.get("parameters", {}).items():
                if isinstance(expression, str) and expression.startswith("$response.body#/"):
                    pointer = tuple(expression.removeprefix("$response.body#/").split("/"))
                    to = link.get("operationId", "")
                    yield ApiLink(to, name.rpartition(".")[2], pointer)


def _mapping(found: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise UsageError(f"foretold.openapi: {what} has to be an object; it is {found!r}")
    return found


@contextlib.contextmanager
def reading(operation: object) -> Iterator[None]:
    """A document comes from elsewhere: whatever is wrong in it is told with the operation."""
    try:
        yield
    except UsageError as error:
        said = str(error).removeprefix("foretold.openapi: ")
        raise UsageError(f"foretold.openapi: {operation}: {said}") from None
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(
            f"foretold.openapi: {operation} is not valid OpenAPI ({type(error).__name__}: {error})"
        ) from error


def _with_examples(schema: Any, holder: Mapping[str, Any]) -> Any:
    """Examples may stand beside a schema instead of in it."""
    given = [holder["example"]] if "example" in holder else []
    for example in (holder.get("examples") or {}).values() if holder.get("examples") else ():
        given += [example["value"]] if isinstance(example, Mapping) and "value" in example else []
    if not given or not isinstance(schema, Mapping):
        return schema
    return {**schema, "examples": [*given, *schema.get("examples", [])]}


def _short_name(raw: Mapping[str, Any], method: str, path: str) -> str:
    """A Python name. FastAPI's own ids repeat path and method; what is before says enough."""
    operation_id = raw.get("operationId") or f"{method}_{path}"
    suffix = re.sub(r"\W", "_", path) + f"_{method}"
    if operation_id.endswith(suffix) and len(operation_id) > len(suffix):
        operation_id = operation_id.removesuffix(suffix)
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation_id)
    name = re.sub(r"[\W_]+", "_", spaced).strip("_").lower() or method
    return name if not name[0].isdigit() else f"{method}_{name}"


def _last_fixed(path: str) -> str:
    fixed = [part for part in path.split("/") if part and not part.startswith("{")]
    return re.sub(r"\W+", "_", "_".join(fixed[-2:])).strip("_").lower()


def _free(name: str, about: str, taken: set[str]) -> str:
    """A name that nobody has: with what it is about, if it says too little, or with a number."""
    name = f"{name}_{about}" if about and name != about else name
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


RESERVED = {"setup", "teardown", "world", "cast", "actors", "steps", "faults", "weights", "model",
            "serve", "credentials", "login", "tolerates", "web", "state", "operations",
            "import", "from", "class", "def", "return", "pass", "global", "lambda"}  # fmt: skip
"""Names that a machine has already, or that Python keeps for itself."""


# ---------------------------------------------------------------- where schemas come from


def read_document(given: Any) -> Document | None:
    """The document of an application, a mapping, a JSON text or a file; None for other things."""
    if isinstance(given, Mapping):
        return Document(given)
    if isinstance(given, Path) or (isinstance(given, str) and given.lstrip().startswith("{")):
        try:
            text = given.read_text("utf-8") if isinstance(given, Path) else given
            return Document(json.loads(text))
        except OSError as error:
            raise UsageError(f"foretold.openapi: {given} cannot be read: {error}") from None
        except ValueError as error:
            raise UsageError(f"foretold.openapi: this is not a JSON document: {error}") from None
    fastapi = getattr(given, "openapi", None)
    if callable(fastapi):
        return Document(fastapi())
    litestar: Any = getattr(given, "openapi_schema", None)
    if hasattr(litestar, "to_schema"):
        return Document(litestar.to_schema())
    return None
