"""`create_app(settings)`: the application, put together.

An application is cheap to start: its lifespan waits for no connection. What belongs to one running
server (connection pool, rate limits) is made by the lifespan and travels with each request, so one
application may be served several times, one after the other or at once.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from examples.deep_sci_fi.app import bugs, documents, routers
from examples.deep_sci_fi.app.callbacks import Courier
from examples.deep_sci_fi.app.failures import install_handlers
from examples.deep_sci_fi.app.middleware import RequestContext
from examples.deep_sci_fi.app.ratelimit import RateLimiter
from examples.deep_sci_fi.app.settings import Settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """The whole platform under /api, its documentation under /docs."""
    settings = settings or Settings()
    bugs.check_known(settings.bugs)
    app = FastAPI(title="Deep Sci-Fi", version="1.0", lifespan=lifespan)
    app.state.settings = settings
    app.add_middleware(RequestContext)
    install_handlers(app)
    for router in routers.ALL:
        app.include_router(router, prefix="/api")
    documents.complete(app)
    return app


def from_environment() -> FastAPI:
    """For `uvicorn --factory`."""
    return create_app(Settings.from_environment())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    settings: Settings = app.state.settings
    url = settings.database_url or os.environ["DATABASE_URL"]
    engine = create_async_engine(
        url,
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_use_lifo=True,  # the connection that was used last has our statements prepared
    )
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    courier = Courier(sessions, on=settings.callbacks)
    courier.look_again(after_s=0)
    yield {"sessions": sessions, "limiter": RateLimiter(), "courier": courier}
    await courier.close()
    await engine.dispose()
