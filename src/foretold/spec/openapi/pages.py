"""Which pages are read to see whether a request has changed something.

Every GET of the API can be asked for that has no required parameter, whose path follows from that
of the request (`GET /orders/7` and `GET /orders/7/items` for `PUT /orders/7`), or that the same
actor has asked for before. A request seldom changes a page that is far from it; so the tape draws
a few of them, and the nearer a page is, the more likely it is drawn. The calm choice is the
nearest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.spec.openapi.document import ApiOperation
from foretold.spec.openapi.requests import ApiRequest, request_for
from foretold.spec.openapi.rows import is_record

if TYPE_CHECKING:
    from foretold.spec.openapi.machine import ApiMachine

READS_MAX = 3
STREAM = ("machine", "pages")
"""Of its own: an API with one more page draws no other arguments."""


def drawn_pages(machine: ApiMachine, request: ApiRequest, actor: Any) -> list[ApiRequest]:
    """Pages around a request, as this actor may read them."""
    left = nearest_first(request, _readable(machine, request, actor))
    world: Any = machine.world  # the engine's, which has the tape
    stream = world.tape.stream(*STREAM)
    drawn: list[ApiRequest] = []
    while left and len(drawn) < READS_MAX:
        weights = [1 / (place + 1) for place in range(len(left))]
        drawn.append(left.pop(stream.weighted(weights, "which page")))
    return drawn


def nearest_first(request: ApiRequest, pages: Iterable[ApiRequest]) -> list[ApiRequest]:
    """By how much of the path they share with the request; then by how much more they have."""
    asked = _parts(request.path)

    def distance(page: ApiRequest) -> tuple[int, int]:
        parts = _parts(page.path)
        shared = 0
        for one, other in zip(asked, parts, strict=False):
            if one != other:
                break
            shared += 1
        return -shared, abs(len(parts) - len(asked))

    return sorted(pages, key=distance)


def _readable(machine: ApiMachine, request: ApiRequest, actor: Any) -> list[ApiRequest]:
    found: dict[str, ApiRequest] = {}
    for operation, names in machine.operations.values():
        if operation.method == "GET" and not is_record(_parts(operation.path)[-1]):
            path = path_within(operation, request)
            if not any(p.required for p in operation.parameters):
                found[operation.name] = request_for(operation, {}, names)
            elif path is not None:
                found[operation.name] = ApiRequest(operation, path)
    for other in reversed(machine.sent):
        name = other.request.operation.name
        operation = other.request.operation
        if is_record(_parts(operation.path)[-1]):
            continue
        if operation.method == "GET" and other.actor is actor:
            found.setdefault(name, other.request)
    return list(found.values())


def path_within(page: ApiOperation, request: ApiRequest) -> str | None:
    """The path of a page, with the ids that stand at the same place of the request's path. None if
    there are others, or if the page needs more than a path."""
    if any(p.required and p.where != "path" for p in page.parameters):
        return None
    template, asked = _parts(request.operation.path), _parts(request.path)
    filled = []
    for place, part in enumerate(_parts(page.path)):
        same = template[: place + 1] == _parts(page.path)[: place + 1]
        if part.startswith("{") and not same:
            return None
        filled.append(asked[place] if same else part)
    return "/".join(filled)


def _parts(path: str) -> list[str]:
    return path.split("/")
