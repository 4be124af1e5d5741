"""The shop: FastAPI, SQLAlchemy and PostgreSQL, all asynchronous.

`LOCK_ROWS` and `HONOUR_KEYS` are what the two bugs of the example lack. It runs by itself too:

    DATABASE_URL=postgresql+asyncpg://… uvicorn examples.shop.service:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from examples.shop.model import Charge, Item, Order

LOCK_ROWS = False
HONOUR_KEYS = False


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = create_async_engine(os.environ["DATABASE_URL"], pool_size=5)
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(DBAPIError)
async def database_failed(request: Request, error: DBAPIError) -> JSONResponse:
    """The customer may try again."""
    return JSONResponse({"detail": "the shop is busy, please try again"}, 503)


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    async with request.app.state.sessions() as session:
        yield session


Session = Annotated[AsyncSession, Depends(open_session)]


class Wish(BaseModel):
    item: int
    customer: str


class Receipt(BaseModel):
    order: int


@app.post("/checkout")
async def checkout(
    wish: Wish, session: Session, idempotency_key: Annotated[str | None, Header()] = None
) -> Receipt:
    """Buy one piece: take it from the stock, write the order, charge the customer."""
    if HONOUR_KEYS and idempotency_key is not None:
        known = await session.scalar(select(Order).where(Order.key == idempotency_key))
        if known is not None:
            return Receipt(order=known.id)
    find = select(Item).where(Item.id == wish.item)
    item = (await session.scalars(find.with_for_update() if LOCK_ROWS else find)).one_or_none()
    if item is None:
        raise HTTPException(404, "no such item")
    if item.stock < 1:
        raise HTTPException(409, "sold out")
    item.stock -= 1
    order = Order(item_id=item.id, customer=wish.customer)
    order.key = idempotency_key if HONOUR_KEYS else None
    session.add(order)
    await session.flush()
    session.add(Charge(order_id=order.id, amount=item.price))
    await session.commit()
    return Receipt(order=order.id)


@app.get("/items/{number}")
async def show(number: int, session: Session) -> dict[str, int | str]:
    """What is left of an item."""
    item = await session.get(Item, number)
    if item is None:
        raise HTTPException(404, "no such item")
    return {"name": item.name, "stock": item.stock}
