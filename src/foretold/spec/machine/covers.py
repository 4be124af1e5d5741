"""`covers`: which operations of an API the rules of a machine have to reach, and which they did.

    class Shop(foretold.Machine):
        covers = foretold.openapi(app)              # or ["POST /orders", "GET /orders/{order_id}"]
        generates = {NewOrder: orders}

An operation counts as reached if a client of `world.web` asked for it and was answered with success
(2xx or 3xx). One that changes something must be asked for by a rule. A page (GET) may be read by an
invariant or a mirror as well, but not by `setup` alone. `search/gate.py` and
`search/checking/vacuity.py` judge what was counted here.

`generates` names for models of the application the strategies that make their values; `foretold
covers` compares each pair by `foretold.drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from foretold.arguments import METHODS
from foretold.errors import UsageError
from foretold.world.world import CALL

if TYPE_CHECKING:
    from foretold.spec.machine.machine import Machine
    from foretold.world.world import World

_RIGHT: Final = (
    'covers = foretold.openapi(app), or a list such as ["POST /orders", "GET /orders/{id}"]'
)


def operations_of(cls: type[Machine]) -> list[str]:
    """What the class says that it covers, as `POST /orders`. Mistakes are found here."""
    given: Any = cls.covers
    if given is None:
        return []
    named = getattr(given, "operations", None)
    if isinstance(given, type) and isinstance(named, Mapping):
        return [str(operation) for operation, _ in named.values()]
    if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
        raise UsageError(f"{cls.__name__}.covers: {_RIGHT}; got {given!r}")
    wrong = [each for each in given if not _is_operation(each)]
    if wrong or not given:
        shown = wrong[0] if wrong else given
        raise UsageError(f"{cls.__name__}.covers: {_RIGHT}; got {shown!r}")
    return list(dict.fromkeys(given))


def pairs_of(cls: type[Machine]) -> Iterator[tuple[type, Any]]:
    """Models, and the strategies that make their values."""
    given: Any = cls.generates
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{cls.__name__}.generates names a strategy for each model, such as "
            f"{{NewOrder: orders}}; got {given!r}"
        )
    yield from given.items()


def _is_operation(given: Any) -> bool:
    """Whether it is written as `POST /orders`."""
    method, _, path = given.partition(" ") if isinstance(given, str) else ("", "", "")
    return method in METHODS and path.startswith("/") and not any(map(str.isspace, path))


class OperationCounter:
    """Counts which operations are asked for in one run. `is_set_up`: whether rules and invariants
    are at work now, and not `setup` or `teardown`."""

    def __init__(self, world: World, operations: list[str], is_set_up: Callable[[], bool]) -> None:
        self._tally = world.tally
        self._is_set_up = is_set_up
        # Fewer parameters first: `/orders/mine` is not an `/orders/{id}`.
        self._known = sorted(operations, key=lambda operation: operation.count("{"))
        for operation in operations:
            world.tally.operation(operation)
        world.on_answer.append(self._answered)

    def _answered(self, method: str, path: str, status: int) -> None:
        line = f"{method} {path}"
        found = next((each for each in self._known if fits(each, line)), None)
        if found is not None:
            by_rule = bool(CALL.get())
            in_setup = not by_rule and not self._is_set_up()
            self._tally.operation(found, status=status, by_rule=by_rule, in_setup=in_setup)


def fits(operation: str, line: str) -> bool:
    """`GET /orders/{id}` fits `GET /orders/7`; a part may have text around its parameter."""
    template, parts = operation.split("/"), line.split("/")
    return len(template) == len(parts) and all(map(_fits_part, template, parts))


def _fits_part(template: str, part: str) -> bool:
    before, has_parameter, rest = template.partition("{")
    if not has_parameter:
        return template == part
    after = rest.rpartition("}")[2]
    longer = len(part) > len(before) + len(after)
    return longer and part.startswith(before) and part.endswith(after)
