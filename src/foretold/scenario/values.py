"""Values that a step is given: as they stand, drawn by the tape, or results of earlier steps.

    {$between: [1, 5]}   a whole number, both ends included; the first is the calm one
    {$choose: [a, b]}    one of these; the first is the calm one
    {$draw: dish}        a value of the strategy that the harness declares under that name
    $ticket, $ticket.id  what an earlier step has saved, or a part of it
    $$5                  the text "$5"

A mapping with such a key has no other key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from foretold.arguments import known_words
from foretold.errors import UsageError
from foretold.scenario.source import Mark, Node, problem
from foretold.spec.workload import between, choose, draw

DRAWN = ("$between", "$choose", "$draw")


@dataclass(frozen=True, slots=True)
class Reference:
    """`$ticket.id`"""

    name: str
    path: tuple[str, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Drawn:
    """A value that the tape decides."""

    how: str
    given: Any
    mark: Mark


def read_value(node: Node, file: str, *, compares: bool = False) -> Any:
    """The value of a node, with references and drawn values in their places. An expectation
    `compares`: its keys with a dollar sign stay as they are (`matching.py`)."""
    value = node.value
    if isinstance(value, list):
        return [read_value(each, file, compares=compares) for each in value]
    if isinstance(value, dict):
        marked = [key for key in value if key.startswith("$")]
        if marked and not compares:
            return _read_drawn(node, marked[0], file)
        return {key: read_value(each, file, compares=compares) for key, each in value.items()}
    if isinstance(value, str) and value.startswith("$"):
        if value.startswith("$$"):
            return value[1:]
        name, *path = value[1:].split(".")
        if not name.isidentifier():
            raise problem(
                file, node.mark, f"{value!r} names nothing: write $ticket, or $$ for a dollar sign"
            )
        return Reference(name, tuple(path), node.mark)
    return value


def _read_drawn(node: Node, key: str, file: str) -> Drawn:
    mark = node.keys[key]
    if key not in DRAWN:
        known = known_words(key, DRAWN)
        raise problem(file, mark, f"{key!r} is not a way to draw; there are {known}")
    if len(node.value) > 1:
        raise problem(file, mark, f"a mapping with {key} has no other key")
    given = node.value[key]
    if key == "$between":
        _check_bounds(given, file)
        return Drawn(key, tuple(each.value for each in given.value), mark)
    if key == "$choose":
        if not isinstance(given.value, list) or not given.value:
            raise problem(file, given.mark, "$choose has a list with one entry at least")
        return Drawn(key, [read_value(each, file) for each in given.value], mark)
    if not isinstance(given.value, str):
        raise problem(file, given.mark, "$draw has the name of a strategy of the harness")
    return Drawn(key, given.value, mark)


def _check_bounds(given: Node, file: str) -> None:
    bounds = given.plain()
    whole = isinstance(bounds, list) and all(type(each) is int for each in bounds)
    if not whole or len(bounds) != 2 or bounds[0] > bounds[1]:
        raise problem(
            file, given.mark, "$between has two whole numbers, the smaller first, such as [1, 5]"
        )


def parts(value: Any) -> Iterator[Reference | Drawn]:
    """All references and drawn values in a value."""
    if isinstance(value, Reference | Drawn):
        yield value
    inner = value.given if isinstance(value, Drawn) else value
    if isinstance(inner, Mapping):
        inner = list(inner.values())
    if isinstance(inner, list):
        for each in inner:
            yield from parts(each)


@dataclass(frozen=True, slots=True)
class Scope:
    """What values mean where a step is played."""

    saved: Mapping[str, Any]
    strategies: Mapping[str, Any]
    place: str
    """File, line and column, for sentences."""
    drawn: dict[Mark, list[Any]]
    """What was drawn so far, by place in the file."""


def evaluate(value: Any, scope: Scope) -> Any:
    """The value as a step is given it. Draws from the tape."""
    if isinstance(value, Reference):
        return _look_up(value, scope)
    if isinstance(value, Drawn):
        found = _DRAW[value.how](value.given, scope)
        scope.drawn.setdefault(value.mark, []).append(found)
        return found
    if isinstance(value, list):
        return [evaluate(each, scope) for each in value]
    if isinstance(value, dict):
        return {key: evaluate(each, scope) for key, each in value.items()}
    return value


_DRAW: dict[str, Callable[[Any, Scope], Any]] = {
    "$between": lambda given, scope: between(*given),
    "$choose": lambda given, scope: evaluate(choose(given), scope),
    "$draw": lambda given, scope: draw(scope.strategies[given], given),
}


def _look_up(reference: Reference, scope: Scope) -> Any:
    saved = scope.saved
    try:
        found = saved[reference.name]
        for part in reference.path:
            if isinstance(found, list | tuple):
                found = found[int(part)]
            elif isinstance(found, Mapping):
                found = found[part]
            else:
                found = getattr(found, part)
    except (KeyError, IndexError, ValueError, AttributeError):
        said = ".".join((reference.name, *reference.path))
        raise UsageError(
            f"{scope.place}: ${said} is not there in {saved.get(reference.name)!r}"
        ) from None
    return found
