"""The same request twice at the same moment, by two actors or by one that is impatient.

Two requests that meet by chance seldom want the same of the same thing. In half of all runs every
third request that changes something is made by a second one as well; the answers of both are
judged, and what they are about must be readable afterwards. Such things happen: two people press
the same button, a proxy tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.spec.openapi import properties
from foretold.spec.openapi.document import ApiOperation
from foretold.spec.openapi.requests import ApiRequest
from foretold.spec.workload import choose_unseen

if TYPE_CHECKING:
    from foretold.spec.openapi.machine import ApiMachine

_RUNS = (False, True)
_CALLS = (False, False, True)


class Doubles:
    def __init__(self, machine: ApiMachine) -> None:
        self._machine = machine
        self.there_are = False

    def draw(self) -> None:
        """Once in a run."""
        self.there_are = choose_unseen(_RUNS, "requests come twice at once")

    async def send(self, actor: Any, request: ApiRequest) -> Any:
        """The answer to this actor's request, which somebody else may have made, too."""
        if not (
            self.there_are and request.operation.changes and choose_unseen(_CALLS, "twice at once")
        ):
            return await request.send(actor.web)
        cast = self._machine.cast
        other: Any = cast[choose_unseen(range(len(cast)), "by whom as well")]
        answers: tuple[Any, Any] = await asyncio.gather(
            request.send(actor.web), request.send(other.web), return_exceptions=True
        )
        mine, others = answers
        if isinstance(mine, BaseException):
            raise mine
        if not isinstance(others, BaseException):
            self._judge(request, others)
            if other is actor and request.key is not None:
                properties.compare_made(request, actor, [mine, others])
        await self._read(actor, request)
        return mine

    def _judge(self, request: ApiRequest, response: Any) -> None:
        machine = self._machine
        properties.judge(machine, request, response, strict=machine.strict)

    async def _read(self, actor: Any, request: ApiRequest) -> None:
        """What it was about, if that has a page of its own."""
        pages = (operation for operation, _ in self._machine.operations.values())
        page = page_of(request.operation, pages)
        if page is not None:
            path = "/".join(request.path.split("/")[: len(page.path.split("/"))])
            look = ApiRequest(page, path)
            self._judge(look, await look.send(actor.web))


def page_of(operation: ApiOperation, pages: Iterable[ApiOperation]) -> ApiOperation | None:
    """`GET /orders/{id}` for `POST /orders/{id}/pay`."""
    parts = operation.path.split("/")
    found = [
        page
        for page in pages
        if page.method == "GET" and "{" in page.path
        if page.path.split("/") == parts[: len(page.path.split("/"))]
        if all(p.where == "path" for p in page.parameters if p.required)
    ]
    return max(found, key=lambda page: len(page.path), default=None)
