"""`web.errors`: every exception that leaves an application, and every response of 5xx.

A rule judges the responses that it reads. Other responses have no reader: a late duplicate is
answered when its client has its response already, a response is lost, a client leaves, a background
task raises after its response. In production these errors are lines of a log. Here the server's
door records them, whether or not a client reads them, and a client's transport says what it read.

A machine fails if an error was not read, unless the error has an excuse:

- `world.web(app, allows=[…])` names its status or its exception.
- It is a 5xx other than 500, and no exception left the application: it was sent on purpose.
- The exception is of the sort that a lost connection or a failing database causes, and a fault
  other than those of `foretold.faults.web` was injected before it. The rules of a machine decide
  what such a fault may cause.
- It only says that the client has left: Starlette's `ClientDisconnect` and `WebSocketDisconnect`,
  or a 500 that the application sent itself after it was told so in place of the rest of the request
  (as Litestar).

An exception is any that the application raises, also a `CancelledError` if nobody has cancelled its
task: the server answers 500 to all of them. It also answers 500 to an application that returns
without a response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import UsageError
from foretold.kernel.waiting import raised_at
from foretold.trace import Place
from foretold.world.aftermath import is_a_librarys, is_of_a_lost_peer
from foretold.world.omens import SYSTEM_CLASSES

if TYPE_CHECKING:
    from foretold.services.web.server import Web

Allowed = int | str | type[BaseException]

ERRORS_MAX: Final = 1_000
SERVER_ERROR: Final = 500
ERROR_NUMBER: Final = "foretold_error"
"""The extension of a client's response that says which error it is."""
SAID_CHARS_MAX: Final = 120
"""Of the message of an exception, in the story."""
NOT_READ: Final = "no client got the response"
OF_DUPLICATE: Final = "it answers a duplicate, which no client reads"
LOST: Final = "the response was lost on its way to the client"
IN_RESPONSE: Final = "it was raised after the response had begun"
AFTER_RESPONSE: Final = "it was raised after the response was complete"
UNFINISHED: Final = "the application returned before its response was complete"
OF_SOCKET: Final = "it ended a WebSocket"
ON_PURPOSE: Final = "the application sent it on purpose"
NAMED: Final = "the test allows it"
OF_FAULT: Final = "a fault that was injected before can cause it"
CLIENT_LEAVES: Final = ("ClientDisconnect", "WebSocketDisconnect")
"""Exceptions of Starlette and Litestar."""
CLIENT_LEFT: Final = "it says that the client has left"
_READ_ONLY: Final = "25006"
_OF_DATABASES: Final = ("InterfaceError", "OperationalError", "InternalError")


@dataclass(frozen=True, slots=True)
class WebError:
    """One exception that left an application, or one response of 5xx, or both."""

    method: str
    path: str
    client: str
    """Who sent the request; empty if that was not a client of `world.web`."""
    status: int
    """What the client was told, or would have been."""
    exception: str
    """Its class and its message; empty if none left the application."""
    unread: str
    """Why the test did not read it. Empty: a client got it, or the reader is not known."""
    excuse: str
    """Why it does not fail a machine although it was not read. Empty: it has no excuse."""
    place: Place | None = None
    """The line of the program that raised it."""

    @property
    def counts(self) -> bool:
        """Whether it fails a machine."""
        return bool(self.unread) and not self.excuse

    def __str__(self) -> str:
        who = f" of {self.client}" if self.client else ""
        what = f"raised {self.exception}" if self.exception else f"was answered {self.status}"
        if not self.exception and self.status < SERVER_ERROR:
            what = "got no complete response"
        return f"{self.method} {self.path}{who} {what}"


class Caught:
    """What went wrong in one application, over all lives of its process."""

    def __init__(self, web: Web, allows: Sequence[Allowed]) -> None:
        self._web = web
        self._allows = tuple(allows)
        self.errors: list[WebError] = []
        self._latest: dict[Any, int] = {}
        """By the address of a connection, which error its latest response is."""

    # --- at the door -----------------------------------------------------------------------------

    def answered(self, scope: Any, status: int, *, cut_off: bool = False) -> int | None:
        """A response of 5xx begins. Gives its number, by which `raised` finds it. `cut_off`: the
        client has left before the application had the whole request."""
        number = self._add(scope, status, None, NOT_READ)
        if number is not None and cut_off and not self.errors[number].excuse:
            self.errors[number] = replace(self.errors[number], excuse=CLIENT_LEFT)
        return number

    def raised(
        self, scope: Any, error: BaseException, number: int | None, status: int, complete: bool
    ) -> None:
        """An exception left the application. `number`: that of its response of 5xx, if there was
        one."""
        if number is not None:
            told = self._facts(status, error)
            self.errors[number] = replace(self.errors[number], **told)
        elif scope["type"] != "http":
            self._add(scope, 0, error, OF_SOCKET)
        elif status:
            self._add(scope, status, error, AFTER_RESPONSE if complete else IN_RESPONSE)
        else:
            self._add(scope, SERVER_ERROR, error, NOT_READ)

    def left_undone(self, scope: Any, status: int, *, in_silence: bool) -> None:
        """The application has returned without a complete response. The server answers 500, or
        hangs up: in the middle of a response, or at once (`in_silence`)."""
        if status or in_silence:
            self._add(scope, status, None, UNFINISHED)
        else:
            self._add(scope, SERVER_ERROR, None, NOT_READ)

    def _add(self, scope: Any, status: int, error: BaseException | None, why: str) -> int | None:
        if len(self.errors) >= ERRORS_MAX:
            return None
        address = tuple(scope.get("client") or ())
        client = self._web.client_at(address)
        if why == NOT_READ and not client:
            why = ""  # the reader is a program of its own, and what it reads is not seen
        method = scope.get("method", scope["type"].upper())
        facts = self._facts(status, error)
        self.errors.append(WebError(method, scope["path"], client, status, unread=why, **facts))
        number = len(self.errors) - 1
        if status >= SERVER_ERROR:
            self._latest[address] = number
        return number

    def _facts(self, status: int, error: BaseException | None) -> dict[str, Any]:
        exception = "" if error is None else said_by(error)
        place = None if error is None else raised_at(error)
        return {"exception": exception, "place": place, "excuse": self._excuse(status, error)}

    def _excuse(self, status: int, error: BaseException | None) -> str:
        if any(_is_named(each, status, error) for each in self._allows):
            return NAMED
        struck = self._web.other_faults > 0
        if error is None:
            on_purpose = ON_PURPOSE if status > SERVER_ERROR else ""
            return on_purpose or (OF_FAULT if struck else "")
        if type(error).__name__ in CLIENT_LEAVES:
            return CLIENT_LEFT
        return OF_FAULT if struck and _is_the_systems(error) else ""

    # --- on the client's side --------------------------------------------------------------------

    def read(self, address: Any, why_not: str = "") -> int | None:
        """The response over the connection at this address came to the program, or did not. Which
        error it is."""
        number = self._latest.get(address)
        if number is not None:
            self.errors[number] = replace(self.errors[number], unread=why_not)
        return number

    def unread(self, *, settled: bool) -> Iterator[WebError]:
        """What fails a machine. Not `settled`: requests are under way, which may yet read some."""
        for each in self.errors:
            if each.counts and (settled or each.unread != NOT_READ):
                yield each


def said_by(error: BaseException) -> str:
    """`ResponseValidationError: 1 validation error: {'type': …}`: what a reader wants to know of a
    500, on a line."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:
        lines = []  # an exception that cannot say what it is
    said = lines[0] if lines else ""
    if said.endswith(":") and len(lines) > 1:
        said = f"{said} {lines[1]}"
    said = said if len(said) <= SAID_CHARS_MAX else f"{said[: SAID_CHARS_MAX - 1]}…"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def check_allows(allows: Any) -> tuple[Allowed, ...]:
    """What `world.web(allows=…)` takes."""
    given = allows if isinstance(allows, list | tuple | set | frozenset) else None
    if given is None or not all(map(_is_allowed, given)):
        raise UsageError(
            "world.web(allows=…) lists statuses from 500 to 599, exceptions or their names, such "
            f'as [503, TimeoutError, "OperationalError"]; got {allows!r}'
        )
    return tuple(given)


def _is_allowed(given: Any) -> bool:
    if isinstance(given, type):
        return issubclass(given, BaseException)
    if isinstance(given, int) and not isinstance(given, bool):
        return SERVER_ERROR <= given < 600
    return isinstance(given, str) and given.isidentifier()


def _is_named(allowed: Allowed, status: int, error: BaseException | None) -> bool:
    """A status allows what the application answered itself; an exception needs its own name, so
    that `allows=[500]` does not hide every exception."""
    if isinstance(allowed, int):
        return error is None and allowed == status
    if isinstance(allowed, str):
        return any(allowed == kind.__name__ for kind in type(error).__mro__)
    return isinstance(error, allowed)


def _is_the_systems(error: BaseException) -> bool:
    """Whether a lost connection or a failing database causes such an exception."""
    return is_of_a_lost_peer(error) or any(map(_is_of_database, _chain(error)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = getattr(found, "orig", None) or found.__cause__ or found.__context__


def _is_of_database(error: BaseException) -> bool:
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(code, str):
        return code[:2] in SYSTEM_CLASSES or code == _READ_ONLY
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & set(_OF_DATABASES)) and is_a_librarys(type(error), any_name=True)
