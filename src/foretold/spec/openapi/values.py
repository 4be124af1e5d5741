"""Strategies for JSON schemas, as OpenAPI 3.0 and 3.1 use them.

Written by hand rather than taken from hypothesis-jsonschema: references stay inside the document,
`nullable` and formats of OpenAPI count, fields that name a resource get ids that the API itself has
given out, and values stay small enough to be read. Whole numbers without bounds have 32 bits: what
an API says nothing about is seldom meant to hold 10 ** 38; `wide=True` draws all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from foretold.spec.annotations import LIST_MAX, floats, integers
from foretold.spec.hypothesis_filters import Persistent
from foretold.spec.limits import Impossible, Limits
from foretold.spec.openapi.conformity import mismatch
from foretold.spec.openapi.document import Document, Schema
from foretold.spec.openapi.formats import decimal_numbers, texts_of
from foretold.spec.openapi.uploads import UPLOADS, is_file
from foretold.spec.patterns import TEXT

Strategy = st.SearchStrategy[Any]
Special = Callable[[str, Schema], Strategy | None]

DEPTH_MAX = 4
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
EXTRA_MAX = 2
"""How many fields are made up where any are allowed."""
_KINDS = {
    "properties": "object",
    "additionalProperties": "object",
    "required": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}
"""What a schema without a type speaks about."""


class EndlessSchema(Impossible):
    """A schema that contains itself: this branch ends here."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"{reference} contains itself without end: each value needs another one")


@dataclass(slots=True)
class Values:
    document: Document
    special: Special | None = None
    """May give a strategy of its own for a field of that name."""
    wide: bool = False
    files: bool = False
    """A form has some; JSON does not."""
    _within: list[str] = field(default_factory=list)
    """The references that were followed to get here."""

    def strategy(self, schema: Any, depth: int = 0, *, needed: bool = False) -> Strategy:
        """Values that match the schema. Raises `Impossible`.

        From some depth on only what is `needed` is made, and nothing that contains itself.
        """
        if schema is True or schema == {}:
            return _any_json()
        if not isinstance(schema, Mapping):
            said = "a schema that is `false` allows no value at all"
            raise Impossible(said if schema is False else f"{schema!r} is not a schema")
        followed = _references(schema)
        depth += bool(followed)
        if depth > DEPTH_MAX:
            for each in followed:
                if not needed or each in self._within:
                    raise EndlessSchema(each)
        self._within += followed
        try:
            return self._checked(self._made(schema, depth, needed))
        finally:
            del self._within[len(self._within) - len(followed) :]

    @staticmethod
    def _checked(found: Strategy) -> Strategy:
        try:
            found.validate()
        except InvalidArgument as error:
            raise Impossible(str(error).partition(".  ")[0]) from None
        return found

    def _made(self, schema: Any, depth: int, needed: bool) -> Strategy:
        schema = self._merged(self.document.follow(schema))
        found = self._of(schema, depth, needed)
        if "not" in schema:
            document = self.document
            found = Persistent(found, lambda value: mismatch(document, schema, value) is None)
        examples = [e for e in (*_listed(schema), schema.get("example")) if e is not None]
        # After the others: an example is seldom the simplest value.
        return st.one_of(found, st.sampled_from(examples)) if examples else found

    def _of(self, schema: Schema, depth: int, needed: bool) -> Strategy:
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            if not schema["enum"]:
                raise Impossible("its `enum` is empty: no value is allowed")
            return st.sampled_from(schema["enum"])
        for union in ("oneOf", "anyOf"):
            if union in schema:
                return self._union(schema, union, depth, needed)
        kinds = schema.get("type")
        kinds = list(kinds) if isinstance(kinds, list) else [kinds or _guessed(schema)]
        if schema.get("nullable") and "null" not in kinds:
            kinds.append("null")
        kinds.sort(key=lambda kind: kind != "null")  # None is the calm one
        return st.one_of([self._of_kind(kind, schema, depth) for kind in kinds])

    def _union(self, schema: Schema, union: str, depth: int, needed: bool) -> Strategy:
        rest = {key: value for key, value in schema.items() if key not in (union, "discriminator")}
        document, arms = self.document, list[Strategy]()
        error = Impossible(f"its `{union}` is empty: no value is allowed")
        for must in (False, True) if needed else (False,):
            for arm in schema[union] if not arms else ():
                both = {"allOf": [rest, arm]} if set(rest) - _ANNOTATIONS else arm
                try:
                    arms.append(self.strategy(both, depth, needed=must))
                except EndlessSchema as deep:
                    error = deep
        if not arms:
            raise error
        if _is_decimal(schema[union]):
            number = next(arm for arm in schema[union] if arm["type"] == "number")
            written = decimal_numbers(self._limits(number, whole=False))
            fitting = Persistent(written, lambda value: mismatch(document, schema, value) is None)
            kinds = [fitting, fitting, fitting, st.one_of(arms)]  # the last is mostly refused
            return st.sampled_from(range(len(kinds))).flatmap(kinds.__getitem__)
        found = st.one_of(arms)
        if union == "oneOf" and len(arms) > 1:
            return Persistent(found, lambda value: mismatch(document, schema, value) is None)
        return found

    def _merged(self, schema: Schema) -> Schema:
        """Without `allOf`: one schema that says what all of them say."""
        if "allOf" not in schema:
            return schema
        merged: Schema = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            for key, value in self._merged(self.document.follow(part)).items():
                if key == "properties":
                    merged[key] = {**merged.get(key, {}), **value}
                elif key == "required":
                    merged[key] = list(dict.fromkeys([*merged.get(key, ()), *value]))
                elif key in ("minimum", "minLength", "minItems") and key in merged:
                    merged[key] = max(merged[key], value)
                elif key in ("maximum", "maxLength", "maxItems") and key in merged:
                    merged[key] = min(merged[key], value)
                else:
                    merged.setdefault(key, value)
        return merged

    def _of_kind(self, kind: str, schema: Schema, depth: int) -> Strategy:
        if kind == "null":
            return st.none()
        if kind == "boolean":
            return st.booleans()
        if kind == "integer":
            return integers(self._limits(schema, whole=True))
        if kind == "number":
            return floats(self._limits(schema, whole=False))
        if kind == "string":
            if schema.get("contentMediaType") == "application/json":
                return self.strategy(schema.get("contentSchema", {}), depth).map(json.dumps)
            if self.files and is_file(schema):
                return UPLOADS
            return texts_of(schema)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "object":
            return self._object(schema, depth)
        return _any_json()

    def _limits(self, schema: Schema, *, whole: bool) -> Limits:
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if isinstance(above, bool):  # of 3.0: whether `minimum` is excluded
            low, above = (None, low) if above else (low, None)
        if isinstance(below, bool):
            high, below = (None, high) if below else (high, None)
        if whole and not self.wide:
            most = INT64_MAX if schema.get("format") == "int64" else INT32_MAX
            high = max(most, low or 0, above or 0) if high is below is None else high
            low = min(-most - 1, high or 0, below or 0) if low is above is None else low
        step = schema.get("multipleOf")
        return Limits(ge=low, gt=above, le=high, lt=below, multiple_of=step)

    def _array(self, schema: Schema, depth: int) -> Strategy:
        low = schema.get("minItems", 0)
        high = schema.get("maxItems", max(low, LIST_MAX))
        if "prefixItems" in schema:
            first = [self.strategy(each, depth, needed=True) for each in schema["prefixItems"]]
            return st.tuples(*first).map(list)
        try:
            items = self.strategy(schema.get("items", {}), depth, needed=low > 0)
        except EndlessSchema:
            if low:
                raise
            return st.just([])
        key = repr if schema.get("uniqueItems") else None
        return st.lists(items, min_size=low, max_size=high, unique_by=key)

    def _object(self, schema: Schema, depth: int) -> Strategy:
        required = schema.get("required", ())
        needed: dict[str, Strategy] = {}
        optional: dict[str, Strategy] = {}
        properties = schema.get("properties", {})
        for name, part in properties.items():
            followed = self.document.follow(part)
            if isinstance(followed, Mapping) and followed.get("readOnly"):
                continue  # it is for answers alone
            try:
                found = self.field(name, part, depth, needed=name in required)
            except EndlessSchema:
                if name in required:
                    raise
                continue
            (needed if name in required else optional)[name] = found
        for name in required:
            needed.setdefault(name, _any_json())
        fixed: Strategy = st.fixed_dictionaries(needed, optional=optional)
        more = schema.get("additionalProperties")
        by_pattern = schema.get("patternProperties")
        if by_pattern and not properties:
            pattern, more = next(iter(by_pattern.items()))
            schema = {"propertyNames": {"pattern": pattern}, **schema}
        if not isinstance(more, Mapping) and not (more is True and not needed and not optional):
            return fixed
        return self._with_more(fixed, more, schema, depth)

    def _with_more(self, fixed: Strategy, more: Any, schema: Schema, depth: int) -> Strategy:
        try:
            values = self.strategy(more, depth)
        except EndlessSchema:
            return fixed
        low = schema.get("minProperties", 0)
        high = schema.get("maxProperties", max(low, EXTRA_MAX))
        names: Strategy = st.text(TEXT, max_size=8)
        if isinstance(schema.get("propertyNames"), Mapping):
            names = self.strategy({"type": "string", **schema["propertyNames"]}, depth)
        extra = st.dictionaries(names, values, min_size=low, max_size=high)
        return st.tuples(extra, fixed).map(lambda both: {**both[0], **both[1]})

    def field(self, name: str, schema: Any, depth: int = 0, *, needed: bool = False) -> Strategy:
        """Values of a field or parameter of that name. Raises `Impossible`."""
        try:
            return self._field(name, schema, depth, needed)
        except Impossible as error:
            error.field = error.field or name
            raise

    def _field(self, name: str, schema: Any, depth: int, needed: bool) -> Strategy:
        if self.special is not None:
            followed = self.document.follow(schema)
            found = self.special(name, followed if isinstance(followed, dict) else {})
            if found is not None:
                return found
        return self.strategy(schema, depth, needed=needed)


_ANNOTATIONS = {"title", "description", "example", "examples", "default", "deprecated", "nullable"}


def _references(schema: Mapping[str, Any]) -> list[str]:
    """Whom it refers to, itself or by what it consists of."""
    parts = (schema, *schema.get("allOf", ()))
    return [each["$ref"] for each in parts if isinstance(each, Mapping) and "$ref" in each]


def _is_decimal(arms: Any) -> bool:
    """A number, or a text: so Pydantic describes a `Decimal`, without its digits and places."""
    kinds = [arm.get("type") for arm in arms if isinstance(arm, Mapping)]
    return sorted(map(str, kinds)) == ["number", "string"] and len(arms) == 2


def _guessed(schema: Schema) -> str:
    return next((kind for key, kind in _KINDS.items() if key in schema), "any")


def _listed(schema: Schema) -> list[Any]:
    given = schema.get("examples")
    return given if isinstance(given, list) else []


def _any_json() -> Strategy:
    return st.none() | st.booleans() | st.integers(-99, 99) | st.text(TEXT, max_size=9)
