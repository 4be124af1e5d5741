"""Values of dataclasses as plain data (JSON) and back: snapshots, and what goes over the network.

A component, a command or an event is a dataclass whose fields are numbers, strings, booleans, lists
or tuples of such, or dataclasses again. `plain` gives lists instead of objects, in the order of the
fields; `build` makes the object again and refuses what does not fit.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

Build = Callable[[Any], Any]
BASIC = (int, float, str, bool)


class BadPayload(ValueError):
    """Data from outside that is not what the type asks for."""


def base_of(hint: Any) -> Any:
    """A type without its name: `EntityId` is an int."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


@cache
def fields_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """Names and types of a dataclass' fields."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(
            f"{cls.__name__} is not a dataclass: write @dataclass(frozen=True) above it"
        )
    hints = typing.get_type_hints(cls)
    return tuple((each.name, hints[each.name]) for each in dataclasses.fields(cls))


@cache
def encoder(cls: type) -> Callable[[Any], list[Any]]:
    """How a value of a dataclass becomes a list."""
    fields = fields_of(cls)
    names = [name for name, _ in fields]
    if not names:
        return lambda value: []
    get = attrgetter(*names)
    if all(base_of(hint) in BASIC for _, hint in fields):
        return (lambda value: [get(value)]) if len(names) == 1 else (lambda value: list(get(value)))
    return lambda value: [plain(getattr(value, name)) for name in names]


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, BASIC) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    kind: type = type(value)
    return encoder(kind)(value)


@cache
def builder(hint: Any) -> Build:
    """How plain data becomes a value of this type."""
    hint = base_of(hint)
    if hint in BASIC:
        return lambda data: _basic(hint, data)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple):
        inner = builder(arguments[0])
        return lambda data: origin(inner(each) for each in _list(data))
    if origin in (typing.Union, types.UnionType) and arguments[1:] == (type(None),):
        inner = builder(arguments[0])
        return lambda data: None if data is None else inner(data)
    if not isinstance(hint, type) or not dataclasses.is_dataclass(hint):
        raise TypeError(f"{hint} cannot be stored: use numbers, strings, lists and dataclasses")
    return _builder_of_fields(hint)


def _builder_of_fields(cls: Any) -> Build:
    parts = [builder(hint) for _, hint in fields_of(cls)]
    count = len(parts)
    return lambda data: cls(
        *(make(each) for make, each in zip(parts, _list(data, count), strict=True))
    )


def build(cls: Any, data: Any) -> Any:
    """A value of a dataclass from what `plain` gave."""
    return builder(cls)(data)


def build_named(cls: type, data: Any) -> Any:
    """The same from an object with the names of the fields, as players send it."""
    names = [name for name, _ in fields_of(cls)]
    if not isinstance(data, dict) or data.keys() != set(names):
        raise BadPayload(f"{cls.__name__} has the fields {', '.join(names) or 'none'}")
    return build(cls, [data[name] for name in names])


def _basic(wanted: type, data: Any) -> Any:
    if wanted is float and type(data) is int:
        return float(data)
    if type(data) is not wanted:
        raise BadPayload(f"expected {wanted.__name__}, got {data!r}")
    return data


def _list(data: Any, length: int | None = None) -> list[Any]:
    if not isinstance(data, list) or length not in (None, len(data)):
        raise BadPayload(f"expected a list{f' of {length}' if length else ''}, got {data!r}")
    return data
