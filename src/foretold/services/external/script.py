"""What a scripted host answers, and what it writes down.

    {"POST /v1/chat/completions": {"choices": []},      # 200 with this JSON
     "GET /v1/files/{name}": download,                  # a function of the call
     "DELETE /v1/files/{name}": 404,                    # a status without a body
     "POST /v1/images": (202, {"id": 7}),               # a status and a body
     "POST /v1/jobs": (202, None, {"location": "/v1/jobs/7"})}    # and headers

A function gets the call and returns one of the others. It is a plain function: the host has no
event loop. What it remembers between calls is the state of the outside world, so make it in the
test, for each run.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from foretold.arguments import METHODS
from foretold.errors import UsageError

_RIGHT: Final = (
    'answers by route, such as {"POST /v1/chat": {"text": "hello"}}; an answer is JSON, a text, '
    "bytes, a status, (status, body), (status, body, headers), or a function of the call"
)


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """One call that came to a scripted host."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """By name, in lower case."""
    body: bytes
    sender: str
    """The host that called."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What stands in the path for each `{name}` of the route."""
    status: int | None = None
    """What it was answered with. None: it was not answered, or not yet."""
    fault: str = ""
    """The kind of fault that struck it."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    status: int
    body: bytes = b""
    media: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Script:
    def __init__(self, name: str, answers: Mapping[str, Any] | None) -> None:
        self._name = name
        self.answers: dict[str, Any] = {}
        self._takes_all = answers is None
        if not isinstance(answers, Mapping | None):
            raise UsageError(f"world.external({name!r}, answers=…) takes {_RIGHT}; got {answers!r}")
        for route, answer in (answers or {}).items():
            self.add(route, answer)

    def add(self, route: str, answer: Any) -> None:
        """From now on calls of this route get this answer."""
        method, _, path = str(route).partition(" ")
        if method not in METHODS or not path.startswith("/"):
            raise UsageError(f"world.external({self._name!r}) takes {_RIGHT}; got {route!r}")
        if "?" in path:
            raise UsageError(
                f"world.external({self._name!r}): a route has no query: {route!r} would fit no "
                f'call. Write "{route.partition("?")[0]}" with a function, which finds the query '
                "in call.query"
            )
        if inspect.iscoroutinefunction(answer):
            raise UsageError(
                f"world.external({self._name!r}): the answer to {route!r} is an async function. "
                "The host has no event loop: write def"
            )
        if not callable(answer):
            as_answer(answer)  # what cannot be sent is told now, and not by the first call
        self.answers[route] = answer

    def route_of(self, method: str, path: str) -> tuple[str, dict[str, str]] | None:
        """Which route a call is, and what stands for its parameters. Fewer parameters first."""
        for route in sorted(self.answers, key=lambda route: route.count("{")):
            found = _parameters(route, f"{method} {path}")
            if found is not None:
                return route, found
        return None

    def answer_to(self, call: ExternalCall) -> ScriptedAnswer:
        """What the script says. Raises what a function of it raises."""
        found = self.route_of(call.method, call.path)
        if found is None and self._takes_all:
            return as_answer({})
        if found is None:
            known = ", ".join(self.answers) or "none"
            raise UsageError(
                f"{call.sender} called {call} of {self._name}, and no answer is scripted for it; "
                f'there are {known}. Write {self._name.split(".")[-2:][0]}.answer("{call}", …), '
                "with 404 if that is the answer"
            )
        answer = self.answers[found[0]]
        if not callable(answer):
            return as_answer(answer)
        made = answer(call)
        if made is None:
            raise UsageError(
                f"the function for {found[0]!r} of {self._name} returned nothing. Return an "
                "answer: {} for empty JSON, or a status such as 204"
            )
        return as_answer(made)


def _parameters(route: str, line: str) -> dict[str, str] | None:
    wanted, given = route.split("/"), line.split("/")
    if len(wanted) != len(given):
        return None
    found = {}
    for one, other in zip(wanted, given, strict=True):
        if one.startswith("{") and one.endswith("}"):
            found[one[1:-1]] = unquote(other)
        elif one != other:
            return None
    return found


def as_answer(given: Any) -> ScriptedAnswer:
    """What a script says, as it is sent."""
    if isinstance(given, ScriptedAnswer):
        return given
    if given is None:
        raise UsageError(
            f"world.external takes {_RIGHT}; got None. A status such as 204 has no body"
        )
    if isinstance(given, int) and not isinstance(given, bool):
        return _checked(given, b"", "")
    if isinstance(given, tuple):
        return _from_tuple(given)
    if isinstance(given, bytes):
        return ScriptedAnswer(200, given, "application/octet-stream")
    if isinstance(given, str):
        return ScriptedAnswer(200, given.encode(), "text/plain; charset=utf-8")
    try:
        return ScriptedAnswer(200, json.dumps(given).encode(), "application/json")
    except (TypeError, ValueError):
        raise UsageError(f"world.external takes {_RIGHT}; got {given!r}") from None


def _from_tuple(given: tuple[Any, ...]) -> ScriptedAnswer:
    """`(status, answer)`, or `(status, answer, headers)`."""
    if len(given) not in (2, 3):
        raise UsageError(f"world.external takes {_RIGHT}; got {given!r}. JSON arrays are lists")
    headers = given[2] if len(given) == 3 else {}
    if not isinstance(headers, Mapping) or not all(map(_is_header, headers.items())):
        raise UsageError(
            'the headers of a scripted answer are a dict of texts, such as {"retry-after": "5"}, '
            f"without content-length, which foretold sends itself; got {headers!r}"
        )
    body = as_answer(given[1]) if given[1] is not None else ScriptedAnswer(200)
    typed = any(name.lower() == "content-type" for name in headers)
    answer = _checked(given[0], body.body, "" if typed else body.media)
    return replace(answer, headers=tuple(headers.items()))


def _is_header(pair: tuple[Any, Any]) -> bool:
    if not all(isinstance(text, str) and text.isprintable() for text in pair):
        return False
    return pair[0].lower() not in ("content-length", "transfer-encoding")


def _checked(status: Any, body: bytes, media: str) -> ScriptedAnswer:
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise UsageError(f"a scripted answer has a status from 200 to 599; got {status!r}")
    return ScriptedAnswer(status, body, media)


def reason_of(status: int) -> str:
    """`Too Many Requests`."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
