"""Does a JSON value match its schema? The first mismatch, in words.

Written by hand: about what APIs describe, in a fiftieth of the time that general validators take
to be imported, and in words that name the field. Unknown keywords are taken as they are meant: as
no restriction.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from foretold.spec.openapi.document import Document

DEPTH_MAX = 60


def mismatch(
    document: Document, schema: Any, value: Any, where: str = "", depth: int = 0
) -> str | None:
    """What is wrong with `value`; None if it matches."""
    if depth > DEPTH_MAX or schema is True or schema == {}:
        return None
    if schema is False:
        return _said(where, "nothing is allowed here")
    schema = document.follow(schema)
    if value is None and schema.get("nullable"):
        return None
    checks: tuple[Callable[..., str | None], ...] = (
        _constant, _combined, _kind, _number, _text, _array, _object,
    )  # fmt: skip
    for check in checks:
        found = check(document, schema, value, where, depth + 1)
        if found is not None:
            return found
    return None


def _said(where: str, what: str) -> str:
    return f"{where.lstrip('.') or 'the body'}: {what}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _constant(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    if "const" in schema and not _same(value, schema["const"]):
        return _said(where, f"{_shown(value)} instead of {_shown(schema['const'])}")
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        return _said(where, f"{_shown(value)} is none of {_shown(schema['enum'])}")
    return None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _combined(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    for part in schema.get("allOf", ()):
        found = mismatch(document, part, value, where, depth)
        if found is not None:
            return found
    for union in ("anyOf", "oneOf"):
        arms = schema.get(union)
        if arms:
            wrong = [mismatch(document, arm, value, where, depth) for arm in arms]
            fitting = wrong.count(None)
            if not fitting:
                told = "; ".join(dict.fromkeys(each for each in wrong if each is not None))
                return _said(where, f"{_shown(value)} fits none of {union} ({told})")
            if union == "oneOf" and fitting > 1:
                return _said(where, f"{_shown(value)} fits {fitting} of oneOf, not one")
    if "not" in schema and mismatch(document, schema["not"], value, where, depth) is None:
        return _said(where, f"{_shown(value)} is what must not be")
    return None


_KINDS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
}


def _kind(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    wanted = schema.get("type")
    if wanted is None:
        return None
    kinds = wanted if isinstance(wanted, list) else [wanted]
    if any(_KINDS.get(kind, lambda value: True)(value) for kind in kinds):
        return None
    return _said(where, f"{_shown(value)} is no {' or '.join(kinds)}")


def _number(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and (value < low or (above is True and value == low)):
        return _said(where, f"{value} is less than {low}, the minimum")
    if high is not None and (value > high or (below is True and value == high)):
        return _said(where, f"{value} is more than {high}, the maximum")
    if above is not None and not isinstance(above, bool) and value <= above:
        return _said(where, f"{value} is not more than {above}")
    if below is not None and not isinstance(below, bool) and value >= below:
        return _said(where, f"{value} is not less than {below}")
    step = schema.get("multipleOf")
    if step and abs(value / step - round(value / step)) > 1e-9:
        return _said(where, f"{value} is no multiple of {step}")
    return None


def _text(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) < schema.get("minLength", 0):
        return _said(where, f"{_shown(value)} is shorter than {schema['minLength']}")
    if len(value) > schema.get("maxLength", len(value)):
        return _said(where, f"{_shown(value)} is longer than {schema['maxLength']}")
    if "pattern" in schema and not _matches(schema["pattern"], value):
        return _said(where, f"{_shown(value)} does not match {schema['pattern']}")
    parse = _FORMATS.get(schema.get("format", ""))
    if parse is not None:
        try:
            parse(value)
        except ValueError:
            return _said(where, f"{_shown(value)} is no {schema['format']}")
    return None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:  # ECMA has some that Python lacks
        return None


def _matches(pattern: str, value: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(value) is not None


_FORMATS: dict[str, Callable[[str], Any]] = {
    "date-time": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "uuid": uuid.UUID,
}


def _array(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    if not isinstance(value, list):
        return None
    if len(value) < schema.get("minItems", 0):
        return _said(where, f"has {len(value)} items, fewer than {schema['minItems']}")
    if len(value) > schema.get("maxItems", len(value)):
        return _said(where, f"has {len(value)} items, more than {schema['maxItems']}")
    if schema.get("uniqueItems") and len({repr(each) for each in value}) < len(value):
        return _said(where, "has the same item twice")
    first = schema.get("prefixItems", ())
    for number, each in enumerate(value):
        inner = first[number] if number < len(first) else schema.get("items", True)
        found = mismatch(document, inner, each, f"{where}[{number}]", depth)
        if found is not None:
            return found
    return None


def _object(document: Document, schema: Any, value: Any, where: str, depth: int) -> str | None:
    if not isinstance(value, Mapping):
        return None
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        part = document.follow(properties.get(name, {}))
        if name not in value and not (isinstance(part, Mapping) and part.get("writeOnly")):
            return _said(where, f"has no {name!r}")
    more = schema.get("additionalProperties", True)
    by_pattern = schema.get("patternProperties", {})
    for name, each in value.items():
        found = mismatch(document, schema.get("propertyNames", True), name, where, depth)
        if found is not None:
            return found
        inners = [inner for pattern, inner in by_pattern.items() if _matches(pattern, name)]
        inners += [properties[name]] if name in properties else []
        if not inners and more is False and "allOf" not in schema:
            return _said(where, f"has {name!r}, which is not documented")
        for inner in inners or [more]:
            found = mismatch(document, inner, each, f"{where}.{name}", depth)
            if found is not None:
                return found
    return None
