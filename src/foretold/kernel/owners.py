"""By which name does the program know an object that has none? By whom it belongs to.

`aiohttp._websocket.writer.WebSocketWriter.__init__[0]` is the same in each process, where addresses
and the order of the heap are not. The search goes from the object up to those who refer to it,
until it meets a module, a class or a function; the shortest way counts, and of equally short ones
the first in the alphabet. Objects that belong to nobody with a name are all called `""`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_LEVELS_MAX = 6
_HOLDERS_MAX = 1_000
_FORGETFUL = (
    types.FrameType,  # some are visible to the collector, some are not, by chance
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.TracebackType,
    types.ModuleType,  # it refers to its namespace, where the way ends already
)


class _Way(NamedTuple):
    """How a root is reached from `thing`: through `path`."""

    root: int
    thing: Any
    path: str


def names_of(roots: list[Any]) -> list[str]:
    """A name for each of them, found by looking at the whole heap once for each level."""
    found: dict[int, str] = {}
    ways = [_Way(number, thing, "") for number, thing in enumerate(roots)]
    for _ in range(_LEVELS_MAX):
        if not ways or len(ways) > _HOLDERS_MAX:
            break
        ends: dict[int, list[str]] = {}
        further = [*_one_level_up(ways, ends, {id(roots), id(ways)})]
        found |= {root: min(names) for root, names in ends.items()}
        ways = [way for way in further if way.root not in found]
    return [found.get(number, "") for number in range(len(roots))]


def _one_level_up(ways: list[_Way], ends: dict[int, list[str]], ours: set[int]) -> Iterator[_Way]:
    by_id: dict[int, list[_Way]] = {}
    for way in ways:
        by_id.setdefault(id(way.thing), []).append(way)
    ours |= {id(by_id), *map(id, ways), *map(id, by_id.values())}
    for holder in gc.get_referrers(*(way.thing for way in ways)):
        if id(holder) in ours or isinstance(holder, _FORGETFUL):
            continue
        for thing_id, step in list(_steps(holder, by_id)):
            for way in by_id[thing_id]:
                name = _name_of(holder)
                if name is None:
                    yield _Way(way.root, holder, step + way.path)
                else:
                    ends.setdefault(way.root, []).append(name + step + way.path)


def _steps(holder: Any, wanted: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Which of the wanted objects this one refers to, and through what."""
    kind = type(holder)
    if issubclass(kind, dict):
        yield from ((id(v), f"[{_key(k)}]") for k, v in dict.items(holder) if id(v) in wanted)
    elif issubclass(kind, list | tuple):
        yield from ((id(v), f"[{i}]") for i, v in enumerate(holder) if id(v) in wanted)
    elif kind in (types.CellType, types.FunctionType, types.MethodType) or issubclass(kind, type):
        # What they refer to has a place of its own in them: defaults, closure, namespace.
        yield from ((id(v), "") for v in gc.get_referents(holder) if id(v) in wanted)
    else:
        label = f"({_name_of(kind)})"
        yield from ((id(v), label + k) for k, v in _attributes(holder) if id(v) in wanted)


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    """What an instance refers to, by the names that its dictionary would say if it had one yet."""
    referents = gc.get_referents(holder)  # first: a dictionary once asked for is one of them
    namespace: Any = None
    with contextlib.suppress(AttributeError):
        namespace = object.__getattribute__(holder, "__dict__")
    if not isinstance(namespace, dict):
        namespace = {}
    named = {id(value): f"[{_key(key)}]" for key, value in namespace.items()}
    return ((named.get(id(value), ""), value) for value in referents)


def _key(key: object) -> str:
    return str(key) if type(key) in (str, int) else type(key).__qualname__


def _name_of(holder: Any) -> str | None:
    """What has a name of its own: the namespace of a module, a class, a function."""
    if isinstance(holder, dict):
        name: Any = holder.get("__name__")
        module = sys.modules.get(name) if type(name) is str else None
        return None if _vars_of(module) is not holder else _module_name(holder)
    if isinstance(holder, type | types.FunctionType):
        namespace = _vars_of(sys.modules.get(holder.__module__ or ""))
        return f"{_module_name(namespace or {})}.{holder.__qualname__}"
    return None


def _vars_of(module: Any) -> dict[str, Any] | None:
    """The namespace of a module; some put other things into `sys.modules`."""
    return vars(module) if isinstance(module, types.ModuleType) else None


def _module_name(namespace: dict[str, Any]) -> str:
    """A program's main file is called as it would be if it were imported."""
    name, file = namespace.get("__name__", ""), namespace.get("__file__")
    if name == "__main__" and file:
        name = os.path.splitext(os.path.basename(file))[0]
    return str(name)
