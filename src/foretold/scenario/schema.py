"""A tree against the published JSON Schema.

The schema is the only list of keys: editors and this module read the same file. Of JSON Schema it
uses, and this module knows, the few words of `KNOWN`; a test compares the two.
"""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any

from foretold.arguments import known_words, nearest
from foretold.errors import ScenarioError
from foretold.scenario.source import Mark, Node, problem

KNOWN = {
    "$ref", "type", "required", "properties", "additionalProperties", "items", "minItems",
    "minLength", "minimum", "maximum", "pattern", "const", "anyOf", "oneOf", "discriminator",
}  # fmt: skip  # one to a line would be a page
SAID_ONLY = {"$schema", "$defs", "title", "description", "default"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


@functools.cache
def published() -> dict[str, Any]:
    """The schema, as it is installed."""
    text = resources.files("foretold.scenario").joinpath("scenario.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def check(root: Node, file: str) -> None:
    """Raise a sentence about the first thing that does not fit."""
    _Check(published(), file).node(root, published(), "the scenario")


def kind_of(value: Any) -> str:
    """What a value is, in a word."""
    if value is None:
        return "nothing"
    return next(_WORDS[name] for name, types in reversed(_TYPES.items()) if _is(value, types))


def _is(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (isinstance(value, bool) == (types == (bool,)))


def _same(value: Any, wanted: Any) -> bool:
    """As JSON has it: 1 is not true."""
    return type(value) is type(wanted) and bool(value == wanted)


class _Check:
    def __init__(self, root: dict[str, Any], file: str) -> None:
        self._defs = root["$defs"]
        self._file = file

    def _error(self, mark: Mark, what: str) -> ScenarioError:
        return problem(self._file, mark, what)

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self._defs[schema["$ref"].rpartition("/")[2]]
        return schema

    def node(self, node: Node, schema: dict[str, Any], name: str) -> None:
        schema = self._resolved(schema)
        if "anyOf" in schema:
            self.node(node, self._branch(node, schema["anyOf"], name), name)
            return
        if "const" in schema and not _same(node.value, schema["const"]):
            raise self._error(node.mark, f"{name} is {json.dumps(schema['const'])}")
        wanted = schema.get("type")
        if wanted and not _is(node.value, _TYPES[wanted]):
            raise self._error(
                node.mark, f"{name} is {_WORDS[wanted]}, and here it is {kind_of(node.value)}"
            )
        if "discriminator" in schema:
            self._step(node, schema)
        elif isinstance(node.value, dict):
            self._mapping(node, schema, name)
        elif isinstance(node.value, list):
            self._list(node, schema, name)
        else:
            self._scalar(node, schema, name)

    def _branch(self, node: Node, branches: list[dict[str, Any]], name: str) -> dict[str, Any]:
        resolved = [self._resolved(each) for each in branches]
        for each in resolved:
            if _is(node.value, _TYPES[each["type"]]):
                return each
        wanted = " or ".join(_WORDS[each["type"]] for each in resolved)
        raise self._error(node.mark, f"{name} is {wanted}, and here it is {kind_of(node.value)}")

    def _step(self, node: Node, schema: dict[str, Any]) -> None:
        kinds = {each["properties"]["kind"]["const"]: each for each in self._kinds(schema)}
        given = node.value.get("kind")
        if given is None:
            known = ", ".join(kinds)
            raise self._error(node.mark, f"a step has a kind, one of {known}: write kind: act")
        if not isinstance(given.value, str) or given.value not in kinds:
            known = known_words(given.value, kinds)
            raise self._error(
                given.mark, f"{given.plain()!r} is not a kind of step; there are {known}"
            )
        self._mapping(node, kinds[given.value], f"a step of the kind {given.value}")

    def _kinds(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._resolved(each) for each in schema["oneOf"]]

    def _mapping(self, node: Node, schema: dict[str, Any], name: str) -> None:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        for key, value in node.value.items():
            if key in properties:
                self.node(value, properties[key], key)
            elif others is False:
                known = [each for each in properties if not each.startswith("$")]
                there = f"there are {', '.join(known)}.{nearest(key, known)}"
                raise self._error(node.keys[key], f"{name} has no key {key!r}; {there}")
            else:
                self.node(value, others, key)
        missing = [key for key in schema.get("required", ()) if key not in node.value]
        if missing:
            raise self._error(node.mark, f"{name} lacks the key {missing[0]!r}")
        self._one_of(node, schema, name)

    def _one_of(self, node: Node, schema: dict[str, Any], name: str) -> None:
        choices = [each["required"][0] for each in schema.get("oneOf", ())]
        given = [key for key in choices if key in node.value]
        if choices and len(given) != 1:
            found = " and ".join(given) if given else "none of them"
            mark = node.keys[given[1]] if given else node.mark
            raise self._error(
                mark, f"{name} has exactly one of {', '.join(choices)}; this one has {found}"
            )

    def _list(self, node: Node, schema: dict[str, Any], name: str) -> None:
        least = schema.get("minItems", 0)
        if len(node.value) < least:
            entries = "1 entry" if least == 1 else f"{least} entries"
            raise self._error(node.mark, f"{name} has at least {entries}, got {len(node.value)}")
        for each in node.value:
            self.node(each, schema.get("items", {}), f"an entry of {name}")

    def _scalar(self, node: Node, schema: dict[str, Any], name: str) -> None:
        value = node.value
        if "minimum" in schema and value < schema["minimum"]:
            raise self._error(node.mark, f"{name} is at least {schema['minimum']}, got {value}")
        if "maximum" in schema and value > schema["maximum"]:
            raise self._error(node.mark, f"{name} is at most {schema['maximum']}, got {value}")
        if isinstance(value, str) and len(value.strip()) < schema.get("minLength", 0):
            raise self._error(node.mark, f"{name} is empty")
        if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
            raise self._error(
                node.mark, f"{name} is a word of small letters, such as ticket; got {value!r}"
            )
