"""What an application declares.

Intents change it, queries read it, observers check it.

    class Kitchen:
        ports = ("store", "mail")

        def __init__(self, world): ...

        @intent
        async def PlaceOrder(self, actor, items): ...

        @intent(cap="chef")
        async def StartCooking(self, ticket): ...

        @query
        def GetTicket(self, ticket): ...

        @observer
        def views_agree(self): assert ...

A parameter `actor` is given by the harness; all others are the payload. `cap` is what an actor must
have been granted. Observers are called whenever nobody is at work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from foretold.errors import UsageError
from foretold.scenario.vocabulary import Parameters, parameters_of

F = TypeVar("F", bound=Callable[..., Any])
_DECLARED = "foretold_declared"
_GIVEN = ("self", "actor")


@dataclass(frozen=True)
class Declared:
    """What stands above a method."""

    sort: str
    cap: str | None = None


@dataclass(frozen=True)
class DeclaredEntry:
    """An intent, a query or an observer of an application."""

    name: str
    cap: str | None
    parameters: Parameters
    wants_actor: bool


@overload
def intent(method: F, /) -> F: ...
@overload
def intent(*, cap: str | None = None) -> Callable[[F], F]: ...
def intent(method: Any = None, /, *, cap: str | None = None) -> Any:
    """A method by which actors change the application."""
    if method is not None:
        return _declare(method, Declared("intent"))
    return lambda method: _declare(method, Declared("intent", cap))


def query(method: F) -> F:
    """A method that reads, and changes nothing."""
    return _declare(method, Declared("query"))


def observer(method: F) -> F:
    """A method that raises if what must always hold does not. It takes no arguments."""
    return _declare(method, Declared("observer"))


def _declare(method: F, declared: Declared) -> F:
    if not callable(method):
        raise UsageError(f"@{declared.sort} stands above a method, got {method!r}")
    setattr(method, _DECLARED, declared)
    return method


def declared_by(application: type, sort: str) -> Mapping[str, DeclaredEntry]:
    """The intents, queries or observers of a class, in the order in which they were written."""
    found: dict[str, DeclaredEntry] = {}
    for base in reversed(application.__mro__):
        for name in vars(base):
            method = getattr(application, name, None)
            declared = getattr(method, _DECLARED, None)
            if isinstance(declared, Declared) and declared.sort == sort:
                everything = parameters_of(method, ())
                found[name] = DeclaredEntry(
                    name,
                    declared.cap,
                    parameters_of(method, _GIVEN),
                    "actor" in everything.known,
                )
    return found
