"""A Django application under `world.web`, unmodified: its ASGI handler, middleware, both sorts of
views."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import django
from django.conf import settings

from tests.compat.scene import check, for_each
from tests.compat.web import NOTES, TOKENS, Limiter, commit, scenarios_of

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        LOGGING_CONFIG=None,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", f"{__name__}.limited"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="not secret",
    )
    django.setup()

from django.core.handlers.asgi import ASGIHandler  # Django wants its settings first
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse  # as above
from django.urls import path  # as above
from django.utils.decorators import async_only_middleware  # as above

LATE: set[asyncio.Task[None]] = set()


@async_only_middleware
def limited(get_response: Any) -> Any:
    """The limiter, for every request."""
    limiter = Limiter()

    async def middleware(request: HttpRequest) -> Any:
        if not limiter.allows(request.META["REMOTE_ADDR"]):
            return JsonResponse({"detail": "slowly, please"}, status=429)
        return await get_response(request)

    return middleware


def name_of(request: HttpRequest) -> str | None:
    """Who asks."""
    return TOKENS.get(request.headers.get("authorization", ""))


async def me(request: HttpRequest) -> JsonResponse:
    """Who asks, and from where."""
    name = name_of(request)
    if name is None:
        return JsonResponse({}, status=401)
    return JsonResponse({"name": name, "address": request.META["REMOTE_ADDR"]})


async def notes(request: HttpRequest) -> JsonResponse:
    """A note that is written after the response."""
    data = json.loads(request.body)
    task = asyncio.create_task(commit(data["text"]))
    LATE.add(task)
    task.add_done_callback(LATE.discard)
    return JsonResponse(data, status=201)


def count(request: HttpRequest) -> JsonResponse:
    """A plain view: Django runs it in a thread."""
    return JsonResponse({"count": len(NOTES)})


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    """A body in five parts."""

    async def parts() -> AsyncIterator[str]:
        for number in range(5):
            yield str(number)
            await asyncio.sleep(0.01)

    return StreamingHttpResponse(parts())


async def fails(request: HttpRequest) -> JsonResponse:
    """A bug."""
    raise ValueError("a bug")


async def slow(request: HttpRequest) -> JsonResponse:
    """Takes a second."""
    await asyncio.sleep(1)
    return JsonResponse({})


urlpatterns = [
    path("me", me),
    path("notes", notes),
    path("count", count),
    path("stream", stream),
    path("fails", fails),
    path("slow", slow),
]

ALL = scenarios_of(__name__, ASGIHandler)


@for_each(*ALL)
def test_django(main: Any) -> None:
    """Credentials, a limiter, work after the response, streams and a restart, on every tape."""
    check(main)
