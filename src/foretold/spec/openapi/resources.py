"""Which fields of answers feed which parameters of later requests.

`POST /orders` answers `{"id": 7}`; `{order_id}` in `/orders/{order_id}/pay` is such an id. That is
known from names: the path before a parameter, fields called `id` or `order_id`, the title of an
answer's schema; and from the document's links, where it has some. `sender_account_id` is the id of
an account, if there are accounts and nothing is called a sender account; a token that an answer has
under the name that a request wants is that token. What is not known this way can be said:
`foretold.openapi(app, feeds={"basket": "order"})`, of fields in requests and in answers. Which of
the ids is taken: `flows.py`.

An answer without a schema may have any fields. `POST /accounts` then presumably gives an account;
its ids are taken where one is wanted, and where none has come, ids of whatever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from foretold.arguments import known_words
from foretold.errors import UsageError
from foretold.spec.openapi.document import ApiOperation, Document, Parameter

WRAPPERS = {"data", "results", "result", "content", "entries", "records", "rows", "list", "page"}
IDS = ("id", "uuid", "pk")
_ID_OF = re.compile(r"(.+?)[_-]?(?:id|uuid|pk)s?$", re.IGNORECASE)
_SUFFIXES = re.compile(
    r"(_?(out|read|response|answer|result|public|schema|model|detail|details|view|dto|list|page"
    r"|created))+$"
)
_TOKEN = re.compile(r"(.+_)?(token|nonce|ticket)$")
"""What one is given, and has to show."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
HARVEST_MAX = 10


class Key(NamedTuple):
    """One field of one kind of resource: the id of an order."""

    resource: str
    field: str

    @property
    def name(self) -> str:
        return self.resource if self.field == "id" else f"{self.resource}_{self.field}"


ANYTHING = Key("thing", "id")
"""Ids of whatever: for parameters like `{target_id}`, which may mean this or that."""


def words(name: str) -> str:
    """`orderItemId`, `Order-Item-Id`: order_item_id."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", spaced).strip("_").lower()


def singular(name: str) -> str:
    """One of them: `orders` is order, `categories` category, `boxes` box."""
    name = words(name)
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if re.search(r"(ss|x|z|ch|sh)es$", name):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "us", "is")) else name


def _endings(name: str) -> list[str]:
    """`sender_account` may be a sender account, or an account."""
    parts = name.split("_")
    return ["_".join(parts[start:]) for start in range(len(parts))]


def resource_of(operation: ApiOperation) -> str:
    """What the path is about: its last part that is no parameter."""
    fixed = [part for part in operation.path.split("/") if part and not part.startswith("{")]
    return singular(fixed[-1]) if fixed else "root"


class Resources:
    """What a document's operations want and give."""

    def __init__(
        self, document: Document, operations: Iterable[ApiOperation], feeds: Mapping[str, str]
    ) -> None:
        self._document = document
        self._feeds = {words(name): singular(resource) for name, resource in feeds.items()}
        self._fed: set[str] = set()
        """Those that were asked for."""
        self._taken: dict[str, frozenset[str]] = {}
        self._operations = list(operations)
        self.reads = {each.name for each in self._operations if each.method == "GET"}
        self.given: set[Key] = set()
        """What some operation's answer, or request, really has."""
        self.wanted: set[Key] = {
            key
            for operation in self._operations
            for parameter in operation.parameters
            if parameter.where == "path"
            for key in self._keys_of(operation, parameter)
        }
        self.wanted |= set(self._named_in_requests())
        self.wanted |= {Key(resource, "id") for resource in self._feeds.values()}
        self.links: dict[str, list[tuple[tuple[str, ...], Key]]] = {}
        self._read_links()
        self.givers: dict[Key, set[str]] = {}
        """Which operations give out which ids."""
        for operation in self._operations:
            for key in self._gives(operation):
                self.givers.setdefault(key, set()).add(operation.name)
        self.presumed: set[Key] = set()
        """Of these, operations give ids whose answers have no schema: perhaps."""
        for operation in self._operations:
            key = Key(resource_of(operation), "id")
            answers = [schema for status, schema in operation.answers.items() if status[0] == "2"]
            is_about_many = not operation.path.rstrip("/").endswith("}")
            if key in self.wanted and is_about_many and any(map(self._is_open, answers)):
                self.presumed |= {key} - self.givers.keys()
        self.given = {*self.givers, *self.presumed}

    def check_feeds(self) -> None:
        """When the rules are made. One that leads nowhere is a mistake."""
        known = {key.resource for key in self.given if key.field == "id"}
        for name, resource in self._feeds.items():
            if name not in self._fed:
                raise UsageError(
                    f"foretold.openapi(feeds=…): no parameter and no field is called "
                    f"{name!r}. Write the name as in the schema"
                )
            if resource not in known:
                raise UsageError(
                    f"foretold.openapi(feeds=…): {name!r} should name a {resource!r}, but no "
                    f"response has the id of one. Known resources: "
                    f"{known_words(resource, sorted(known))}"
                )

    def _named_in_requests(self) -> Iterator[Key]:
        """Fields of bodies and parameters in queries that look like ids of something."""
        for operation in self._operations:
            schema = operation.body.schema if operation.body is not None else {}
            for name in (*self._properties(schema), *(p.name for p in operation.parameters)):
                plain = words(name)
                found = _ID_OF.fullmatch(plain) if plain not in IDS else None
                if found:
                    yield from (Key(each, "id") for each in _endings(singular(found[1])))
                elif _TOKEN.fullmatch(plain):
                    yield Key(plain, "id")

    def chosen_by_client(self, operation: ApiOperation) -> list[tuple[Parameter, Key]]:
        """`PUT /notes/{name}`: who writes a thing chooses what it is called."""
        last = operation.path.rstrip("/").rpartition("/")[2]
        return [
            (parameter, key)
            for parameter in operation.parameters
            if operation.method == "PUT" and last == "{" + parameter.name + "}"
            if (key := self.key_of(operation, parameter)) is not None
        ]

    def _read_links(self) -> None:
        by_id = {operation.operation_id: operation for operation in self._operations}
        for operation in self._operations:
            for link in operation.links:
                other = by_id.get(link.operation)
                for parameter in other.parameters if other is not None else ():
                    if parameter.name == link.parameter and other is not None:
                        key = self.key_of(other, parameter)
                        if key is not None:
                            self.wanted.add(key)
                            self.links.setdefault(operation.name, []).append((link.pointer, key))

    def key_of(self, operation: ApiOperation, parameter: Parameter) -> Key | None:
        """What a parameter in the path names; None if it is one of a few words."""
        keys = self._keys_of(operation, parameter)
        return next((key for key in keys if key in self.given), keys[-1] if keys else None)

    def _keys_of(self, operation: ApiOperation, parameter: Parameter) -> list[Key]:
        """What it may name, the likeliest first."""
        name = words(parameter.name)
        if "enum" in parameter.schema or "const" in parameter.schema:
            return []
        if name in self._feeds:
            self._fed.add(name)
            return [Key(self._feeds[name], "id")]
        before = operation.path.partition("{" + parameter.name)[0]
        fixed = [part for part in before.split("/") if part and not part.startswith("{")]
        around = singular(fixed[-1]) if fixed else "root"
        if name in IDS:
            return [Key(around, "id")]
        found = _ID_OF.fullmatch(name)
        if found is None:
            return [Key(around, name)]
        what = singular(found[1])
        # `/line-items/{item_id}`: the path says more than the name.
        wider = [Key(around, "id")] if around.endswith(f"_{what}") else []
        return [*wider, Key(what, "id")]

    def key_of_field(self, name: str) -> Key | None:
        """What a field of a body, or a parameter in the query, names; None if it names nothing."""
        plain = words(name)
        if plain in self._feeds:
            self._fed.add(plain)
            return Key(self._feeds[plain], "id")
        if _TOKEN.fullmatch(plain):
            key = Key(plain, "id")
            return key if key in self.given else None
        found = _ID_OF.fullmatch(plain) if plain not in IDS else None
        endings = _endings(singular(found[1])) if found else []
        return next((key for each in endings if (key := Key(each, "id")) in self.given), None)

    def taken_by(self, operation: ApiOperation) -> frozenset[str]:
        """By their names: the kinds of ids that an operation has a place for."""
        if operation.name not in self._taken:
            self._taken[operation.name] = frozenset(key.name for key in self._takes(operation))
        return self._taken[operation.name]

    def _takes(self, operation: ApiOperation) -> Iterator[Key]:
        of_body = self._properties(operation.body.schema) if operation.body is not None else {}
        for parameter in operation.parameters:
            if parameter.where == "path":
                yield from filter(None, [self.key_of(operation, parameter)])
        names = (*of_body, *(p.name for p in operation.parameters if p.where == "query"))
        yield from (key for name in names if (key := self.key_of_field(name)) is not None)
        fields = {words(p.name): p.schema for p in operation.parameters} | of_body
        for about in self.sorted_in(operation):
            kinds = self._document.follow(fields[f"{about}_type"])["enum"]
            yield from (Key(singular(str(kind)), "id") for kind in kinds)

    def named_in(self, schema: Any) -> list[Key]:
        """The resources that a body has to name."""
        followed = self._document.follow(schema)
        required = followed.get("required", ()) if isinstance(followed, Mapping) else ()
        return [key for name in required if (key := self.key_of_field(name)) is not None]

    # What answers have

    def _gives(self, operation: ApiOperation) -> Iterator[Key]:
        for status, schema in operation.answers.items():
            if schema is not None and status.startswith("2"):
                yield from self._in_schema(schema, self.names_of(operation, schema), 0)
        yield from (key for _, key in self.links.get(operation.name, ()))
        yield from (key for _, key in self.chosen_by_client(operation))
        if operation.method in ("POST", "PUT") and operation.body is not None:
            fields = self._properties(operation.body.schema)
            about = resource_of(operation)
            yield from (k for k in self.wanted if k.resource == about and k.field in fields)

    def _is_open(self, schema: Any) -> bool:
        """Whether an answer in JSON may have any fields."""
        schema = self._document.follow(schema)
        if not isinstance(schema, Mapping):
            return False
        if "items" in schema:
            return self._is_open(schema["items"])
        return schema.get("type", "object") == "object" and not self._properties(schema)

    def names_of(self, operation: ApiOperation, schema: Any) -> set[str]:
        """What the things in an answer may be called: by the path, and by the schema's title."""
        names: set[str] = set()
        while isinstance(schema, Mapping):
            title = schema.get("title") or str(schema.get("$ref", "")).rpartition("/")[2]
            names.add(singular(_SUFFIXES.sub("", words(title))))
            followed = self._document.follow(schema)
            schema = followed.get("items") if isinstance(followed, Mapping) else None
        # A title says more than a path: what `POST /worlds/{id}/notes` answers is a note.
        known = names & {key.resource for key in self.wanted}
        return known or (names | {resource_of(operation)}) - {""}

    def sorted_in(self, operation: ApiOperation) -> set[str]:
        """What has its kind said beside its id: `target`, if there is a `target_type`."""
        of_body = self._properties(operation.body.schema) if operation.body is not None else {}
        fields = {words(p.name): p.schema for p in operation.parameters} | of_body
        return {
            name.removesuffix("_type")
            for name, schema in fields.items()
            if name.endswith("_type") and "enum" in self._document.follow(schema)
        }

    def _properties(self, schema: Any) -> dict[str, Any]:
        schema = self._document.follow(schema)
        if not isinstance(schema, Mapping):
            return {}
        found = {words(name): part for name, part in schema.get("properties", {}).items()}
        for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())):
            found |= self._properties(part)
        return found

    def _in_schema(self, schema: Any, names: set[str], depth: int) -> Iterator[Key]:
        schema = self._document.follow(schema)
        if depth > 4 or not isinstance(schema, Mapping):
            return
        if "items" in schema:
            yield from self._in_schema(schema["items"], names, depth + 1)
        fields = self._properties(schema)
        yield from self._keys(fields, names)
        for name, part in fields.items():
            yield from self._in_schema(part, self._inside(name, names), depth + 1)

    def _keys(self, fields: Iterable[str], names: set[str]) -> Iterator[Key]:
        for name in fields:
            if name in self._feeds:
                self._fed.add(name)
                yield Key(self._feeds[name], "id")
            elif name in IDS:
                yield from (Key(each, "id") for each in names if Key(each, "id") in self.wanted)
            elif any(Key(each, name) in self.wanted for each in names):
                yield from (Key(each, name) for each in names if Key(each, name) in self.wanted)
            elif _TOKEN.fullmatch(name) and Key(name, "id") in self.wanted:
                yield Key(name, "id")
            elif found := _ID_OF.fullmatch(name):
                key = Key(singular(found[1]), "id")
                if key in self.wanted:
                    yield key

    def _inside(self, name: str, names: set[str]) -> set[str]:
        """What is in a field: a resource of the field's name, or still the same one."""
        inner = singular(name)
        if any(key.resource == inner for key in self.wanted):
            return {inner}
        return names if name in WRAPPERS or name == "items" else {inner}

    @staticmethod
    def is_id(name: str) -> bool:
        """Whether a parameter of that name is somebody's id, of whatever."""
        return words(name) in IDS or _ID_OF.fullmatch(words(name)) is not None

    def harvest(self, operation: ApiOperation, answer: Any) -> Iterator[tuple[Key, Any]]:
        """The ids in an answer."""
        schema = next((s for k, s in operation.answers.items() if k[0] == "2" and s), {})
        yield from self._in_value(answer, self.names_of(operation, schema), 0)
        for pointer, key in self.links.get(operation.name, ()):
            found = answer
            for part in pointer:
                found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                yield key, found

    def _in_value(self, value: Any, names: set[str], depth: int) -> Iterator[tuple[Key, Any]]:
        if depth > 6:
            return
        if isinstance(value, list):
            for each in value[:HARVEST_MAX]:
                yield from self._in_value(each, names, depth + 1)
        elif isinstance(value, Mapping):
            for name, each in value.items():
                plain = words(name)
                if isinstance(each, str | int) and not isinstance(each, bool):
                    yield from ((key, each) for key in self._keys([plain], names))
                    yield from ((key, each) for key in self._told(plain, each, value))
                    if plain in IDS or _ID_OF.fullmatch(plain):
                        yield ANYTHING, each
                elif isinstance(each, list | Mapping):
                    yield from self._in_value(each, self._inside(plain, names), depth + 1)

    def _told(self, name: str, value: str | int, around: Mapping[str, Any]) -> Iterator[Key]:
        """`"action": "3f08…"`, and `"target_id"` beside a `"target_type"`: fields of no schema."""
        kind = name if isinstance(value, str) and _UUID.fullmatch(value) else ""
        if name.endswith("_id"):
            kind = str(around.get(f"{name.removesuffix('_id')}_type", ""))
        key = Key(singular(kind), "id")
        if kind and key in self.wanted:
            yield key
