"""The same shop without async: `def` endpoints on threads, SQLAlchemy on psycopg.

DATABASE_URL=postgresql+psycopg://… uvicorn examples.shop.sync_service:app
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy import create_engine, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from examples.shop import service
from examples.shop.model import Charge, Item, Order
from examples.shop.service import Receipt, Wish


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = create_engine(os.environ["DATABASE_URL"], pool_size=5)
    app.state.sessions = sessionmaker(engine, expire_on_commit=False)
    yield
    engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(DBAPIError)
async def database_failed(request: Request, error: DBAPIError) -> JSONResponse:
    """The customer may try again."""
    return JSONResponse({"detail": "the shop is busy, please try again"}, 503)


def open_session(request: Request) -> Iterator[Session]:
    with request.app.state.sessions() as session:
        yield session


@app.post("/checkout")
def checkout(
    wish: Wish,
    session: Annotated[Session, Depends(open_session)],
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Receipt:
    """Buy one piece: take it from the stock, write the order, charge the customer."""
    if service.HONOUR_KEYS and idempotency_key is not None:
        known = session.scalar(select(Order).where(Order.key == idempotency_key))
        if known is not None:
            return Receipt(order=known.id)
    find = select(Item).where(Item.id == wish.item)
    found = session.scalars(find.with_for_update() if service.LOCK_ROWS else find)
    item = found.one_or_none()
    if item is None:
        raise HTTPException(404, "no such item")
    if item.stock < 1:
        raise HTTPException(409, "sold out")
    item.stock -= 1
    order = Order(item_id=item.id, customer=wish.customer)
    order.key = idempotency_key if service.HONOUR_KEYS else None
    session.add(order)
    session.flush()
    session.add(Charge(order_id=order.id, amount=item.price))
    session.commit()
    return Receipt(order=order.id)
