"""What is expected of a result: by value, by comparison, by subset.

A plain value expects just that value. A mapping with one key that begins with `$` compares; it may
stand anywhere inside of another expectation.

    {$gt: 3}  {$ge: 3}  {$lt: 3}  {$le: 3}  {$ne: 3}  {$eq: 3}
    {$in: [a, b]}         it is one of these
    {$contains: a}        the text or list contains it
    {$subset: {a: 1}}     the mapping, or object, has at least these keys
    {$size: 3}            so many entries; the size may be compared as well
    {$each: …} {$any: …}  all entries do, one entry at least does
    {$not: …}             the other way round
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sized
from typing import Any

from foretold.arguments import known_words
from foretold.scenario.source import Node, problem

_COMPARED: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "$gt": (operator.gt, "more than"),
    "$ge": (operator.ge, "at least"),
    "$lt": (operator.lt, "less than"),
    "$le": (operator.le, "at most"),
}
MATCHERS = (
    *_COMPARED,
    "$eq",
    "$ne",
    "$in",
    "$contains",
    "$subset",
    "$size",
    "$each",
    "$any",
    "$not",
)
_MISSING = object()


def check_expectation(node: Node, file: str) -> None:
    """Unknown comparisons are found before anything is played."""
    if isinstance(node.value, list):
        for each in node.value:
            check_expectation(each, file)
    if not isinstance(node.value, dict):
        return
    marked = [key for key in node.value if key.startswith("$")]
    for key in marked:
        if key not in MATCHERS:
            raise problem(
                file,
                node.keys[key],
                f"{key!r} compares nothing; there are {known_words(key, MATCHERS)}",
            )
        if len(node.value) > 1:
            raise problem(file, node.keys[key], f"a mapping with {key} has no other key")
        wanted = {"$in": list, "$subset": dict}.get(key)
        if wanted is not None and not isinstance(node.value[key].value, wanted):
            kind = "a list" if wanted is list else "a mapping"
            raise problem(file, node.value[key].mark, f"{key} has {kind}")
    for each in node.value.values():
        check_expectation(each, file)


def difference(seen: Any, expected: Any, where: str = "it") -> str | None:
    """What does not fit, in a sentence; None if all does."""
    if isinstance(expected, dict):
        marked = next((key for key in expected if key.startswith("$")), None)
        if marked is not None:
            return _compared(seen, marked, expected[marked], where)
        return _mapping_difference(seen, expected, where)
    if isinstance(expected, list):
        return _list_difference(seen, expected, where)
    same = seen == expected and isinstance(seen, bool) == isinstance(expected, bool)
    return None if same else f"{where} is {seen!r}, expected {expected!r}"


def _mapping_difference(seen: Any, expected: dict[str, Any], where: str) -> str | None:
    if not isinstance(seen, Mapping):
        return f"{where} is {seen!r}, expected a mapping"
    surplus = [key for key in seen if key not in expected]
    if surplus:
        return (
            f"{where} has {surplus[0]!r} besides; expected {', '.join(map(repr, expected))} alone"
        )
    return _subset_difference(seen, expected, where)


def _subset_difference(seen: Any, expected: dict[str, Any], where: str) -> str | None:
    for key, wanted in expected.items():
        found = (
            seen.get(key, _MISSING) if isinstance(seen, Mapping) else getattr(seen, key, _MISSING)
        )
        if found is _MISSING:
            return f"{where} has no {key!r}: {seen!r}"
        said = difference(found, wanted, key if where == "it" else f"{where}.{key}")
        if said:
            return said
    return None


def _list_difference(seen: Any, expected: list[Any], where: str) -> str | None:
    if not isinstance(seen, list | tuple):
        return f"{where} is {seen!r}, expected a list"
    if len(seen) != len(expected):
        return f"{where} has {len(seen)} entries, expected {len(expected)}: {list(seen)!r}"
    for number, (one, wanted) in enumerate(zip(seen, expected, strict=True)):
        said = difference(one, wanted, f"{where}[{number}]")
        if said:
            return said
    return None


def _compared(seen: Any, how: str, wanted: Any, where: str) -> str | None:
    if how in _COMPARED:
        holds, words = _COMPARED[how]
        try:
            return (
                None if holds(seen, wanted) else f"{where} is {seen!r}, expected {words} {wanted!r}"
            )
        except TypeError:
            return f"{where} is {seen!r}, which cannot be compared with {wanted!r}"
    return _OTHERS[how](seen, wanted, where)


def _not(seen: Any, wanted: Any, where: str) -> str | None:
    if difference(seen, wanted, where) is None:
        return f"{where} is {seen!r}, expected anything else than {wanted!r}"
    return None


def _in(seen: Any, wanted: Any, where: str) -> str | None:
    if any(difference(seen, each, where) is None for each in wanted):
        return None
    return f"{where} is {seen!r}, expected one of {wanted!r}"


def _contains(seen: Any, wanted: Any, where: str) -> str | None:
    if isinstance(seen, str):
        return None if str(wanted) in seen else f"{where} is {seen!r}, without {wanted!r}"
    return _any(seen, wanted, where)


def _entries(seen: Any) -> list[Any] | None:
    return list(seen) if isinstance(seen, list | tuple) else None


def _any(seen: Any, wanted: Any, where: str) -> str | None:
    entries = _entries(seen)
    if entries is None:
        return f"{where} is {seen!r}, expected a list"
    if any(difference(each, wanted, where) is None for each in entries):
        return None
    return f"{where} has no entry like {wanted!r}: {entries!r}"


def _each(seen: Any, wanted: Any, where: str) -> str | None:
    entries = _entries(seen)
    if entries is None:
        return f"{where} is {seen!r}, expected a list"
    said = (difference(each, wanted, f"{where}[{n}]") for n, each in enumerate(entries))
    return next((each for each in said if each), None)


def _size(seen: Any, wanted: Any, where: str) -> str | None:
    if not isinstance(seen, Sized):
        return f"{where} is {seen!r}, which has no size"
    return difference(len(seen), wanted, f"the size of {where}")


_OTHERS: dict[str, Callable[[Any, Any, str], str | None]] = {
    "$eq": difference,
    "$ne": _not,
    "$not": _not,
    "$in": _in,
    "$contains": _contains,
    "$subset": _subset_difference,
    "$size": _size,
    "$each": _each,
    "$any": _any,
}
