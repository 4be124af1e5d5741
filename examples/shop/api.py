"""The whole shop: customers, visits, orders and their states, mails, a limiter, tokens.

    DATABASE_URL=postgresql+asyncpg://… uvicorn examples.shop.api:app

What it does right is right with several workers, with requests that come twice, with connections
that break at any moment. `bugs.py` has eight ways to do it wrong.
"""

import asyncio
import hmac
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

import asyncpg
from fastapi import BackgroundTasks, Depends, FastAPI, Header, HTTPException, Path, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from sqlalchemy import literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from examples.shop.bugs import planted
from examples.shop.middleware import GiveUp, Limiter
from examples.shop.tables import Charge, Customer, Item, Mail, Order, Passage, Visit

SECRET = os.environ.get("SHOP_SECRET", "only for examples").encode()
CLERK = "clerk"
BUSY = (DBAPIError, PoolTimeout, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""What a database does on a bad day."""
LOOKS_EVERY_S = 10
POOL: dict[str, Any] = {"pool_size": 2, "max_overflow": 1, "connect_args": {"ssl": False}}
"""A small shop, and a database next door."""
State = Literal["placed", "paid", "packed", "shipped", "cancelled"]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    options = {"ssl": False}  # the database is next door, and a context takes its time
    engine = create_async_engine(
        os.environ["DATABASE_URL"], pool_size=2, max_overflow=1, connect_args=options
    )
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    app.state.windows = {}
    app.state.instance = uuid.uuid4().hex[:8]
    app.state.ordered = asyncio.Event()
    writing = asyncio.create_task(write_mails(app))
    yield
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    await engine.dispose()


BUSY_ANSWER: dict[int | str, Any] = {503: {"description": "The shop is busy."}}
app = FastAPI(title="shop", lifespan=lifespan, responses=BUSY_ANSWER)
app.add_middleware(GiveUp)
app.add_middleware(Limiter)


async def database_failed(request: Request, error: Exception) -> JSONResponse:
    """The customer may try again."""
    if isinstance(error, IntegrityError):
        raise error
    return JSONResponse({"detail": "the shop is busy, please try again"}, 503)


for kind in BUSY:
    app.add_exception_handler(kind, database_failed)


# ---------------------------------------------------------------- who asks


def token_for(who: int | str) -> str:
    """What somebody shows to prove who they are."""
    return f"{who}.{hmac.digest(SECRET, str(who).encode(), 'sha256').hex()[:16]}"


async def whoever(
    shown: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> str:
    who = shown.credentials.partition(".")[0]
    if not hmac.compare_digest(shown.credentials, token_for(who)):
        raise HTTPException(401, "who are you?")
    return who


async def customer(who: Annotated[str, Depends(whoever)]) -> int:
    if who == CLERK:
        raise HTTPException(403, "for customers")
    return int(who)


async def clerk(who: Annotated[str, Depends(whoever)]) -> str:
    if who != CLERK:
        raise HTTPException(403, "for our staff")
    return who


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    async with request.app.state.sessions() as session:
        yield session


Session = Annotated[AsyncSession, Depends(open_session)]
Someone = Annotated[str, Depends(whoever)]
Buyer = Annotated[int, Depends(customer)]
Clerk = Annotated[str, Depends(clerk)]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


# ---------------------------------------------------------------- customers


class Registration(BaseModel):
    email: str = Field(pattern=r"^[a-z]{1,20}@[a-z]{1,20}\.org$", examples=["ada@shop.org"])


class Account(BaseModel):
    id: int
    token: str


@app.post("/customers", status_code=201)
async def register(wish: Registration, session: Session) -> Account:
    """A new customer, under an address that nobody else has."""
    new = insert(Customer).values(email=wish.email)
    if planted("check_then_insert"):
        if await session.scalar(select(Customer.id).where(Customer.email == wish.email)):
            raise HTTPException(409, "that address is taken")
        made = await session.scalar(
            insert(Customer).values(email=wish.email).returning(Customer.id)
        )
    else:
        new = insert(Customer).values(email=wish.email).on_conflict_do_nothing()
        made = await session.scalar(new.returning(Customer.id))
    if made is None:
        raise HTTPException(409, "that address is taken")
    await session.commit()
    return Account(id=made, token=token_for(made))


# ---------------------------------------------------------------- items


class Shelf(BaseModel):
    id: int
    name: str
    price: int
    stock: int = Field(ge=0)
    visits: int


class Delivery(BaseModel):
    pieces: int = Field(ge=1, le=100)


async def item_of(session: AsyncSession, item_id: int, *, lock: bool = False) -> Item:
    find = select(Item).where(Item.id == item_id)
    item = await session.scalar(find.with_for_update() if lock else find)
    if item is None:
        raise HTTPException(404, "no such item")
    return item


@app.get("/items")
async def browse(session: Session) -> list[Shelf]:
    """All there is."""
    found = await session.scalars(select(Item).order_by(Item.id))
    return [Shelf(**_columns(item)) for item in found]


@app.get("/items/{item_id}")
async def show(item_id: Number, session: Session) -> Shelf:
    """What is left of an item."""
    return Shelf(**_columns(await item_of(session, item_id)))


@app.post("/items/{item_id}/visits", status_code=201)
async def visit(item_id: Number, buyer: Buyer, session: Session) -> Shelf:
    """Somebody looks at an item. How many have is shown to everybody."""
    item = await item_of(session, item_id, lock=not planted("lost_update"))
    item.visits += 1
    session.add(Visit(item_id=item.id, customer_id=buyer))
    await session.commit()
    return Shelf(**_columns(item))


@app.post("/items/{item_id}/deliveries", status_code=201)
async def restock(item_id: Number, delivery: Delivery, clerk: Clerk, session: Session) -> Shelf:
    """More of an item has come in."""
    item = await item_of(session, item_id, lock=True)
    item.received += delivery.pieces
    item.stock += delivery.pieces
    await session.commit()
    return Shelf(**_columns(item))


def _columns(row: Any) -> dict[str, Any]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


# ---------------------------------------------------------------- orders


class Basket(BaseModel):
    item_id: int = Field(ge=1, le=2**31 - 1)
    quantity: int = Field(ge=1, le=3)


class Receipt(BaseModel):
    id: int
    customer_id: int
    item_id: int
    quantity: int
    amount: int
    state: State


@app.post("/orders", status_code=201)
async def checkout(
    basket: Basket,
    buyer: Buyer,
    session: Session,
    tasks: BackgroundTasks,
    idempotency_key: Annotated[str | None, Header(max_length=50)] = None,
) -> Receipt:
    """Take pieces from the stock, write the order, charge the customer; once for each key."""
    key = None if planted("double_charge") else idempotency_key
    if planted("shared_key") and key is not None:
        known = await session.scalar(select(Order).where(Order.key == key))
        if known is not None:
            return again(known, basket)
    item = await item_of(session, basket.item_id, lock=not planted("oversell"))
    order = await place(session, item, basket, buyer, key)
    if order is None:
        known = await session.scalar(_by_key(buyer, key))
        if known is None:
            raise HTTPException(409, "please try again")
        return again(known, basket)
    session.add(Charge(order_id=order.id, amount=order.amount, basket=idempotency_key))
    await session.commit()
    if planted("lost_mail"):
        tasks.add_task(write_mail, order.id)
    else:
        tasks.add_task(tell_writer)
    return Receipt(**_columns(order))


async def place(
    session: AsyncSession, item: Item, basket: Basket, buyer: int, key: str | None
) -> Order | None:
    """None if this customer has an order under this key already."""
    values = {
        "customer_id": buyer,
        "item_id": item.id,
        "quantity": basket.quantity,
        "amount": item.price * basket.quantity,
        "state": "placed",
        "key": key,
    }
    new = insert(Order).values(values).on_conflict_do_nothing().returning(Order)
    order = await session.scalar(new)
    if order is None:
        return None
    if item.stock < basket.quantity:
        raise HTTPException(409, "sold out")
    item.stock = Item.stock - basket.quantity
    return order


def _by_key(buyer: int, key: str | None) -> Any:
    return select(Order).where(Order.customer_id == buyer, Order.key == key)


def again(known: Order, basket: Basket) -> Receipt:
    """The same answer as before, for the same question."""
    if (known.item_id, known.quantity) != (basket.item_id, basket.quantity):
        raise HTTPException(422, "that key was used for another basket")
    return Receipt(**_columns(known))


async def order_of(session: AsyncSession, order_id: int, who: str, *, lock: bool = False) -> Order:
    find = select(Order).where(Order.id == order_id)
    if who != CLERK:
        find = find.where(Order.customer_id == int(who))
    order = await session.scalar(find.with_for_update() if lock else find)
    if order is None:
        raise HTTPException(404, "no such order")
    return order


@app.get("/orders/{order_id}")
async def look(order_id: Number, who: Someone, session: Session) -> Receipt:
    """How far an order is."""
    return Receipt(**_columns(await order_of(session, order_id, who)))


async def pass_on(
    session: AsyncSession, order_id: int, who: str, after: State, *before: State
) -> Order:
    """From one state to the next. Who asks again gets the same answer again."""
    order = await order_of(session, order_id, who, lock=not planted("skipped_state"))
    if order.state == after:
        return order
    if order.state not in before:
        raise HTTPException(409, f"it is {order.state}")
    session.add(Passage(order_id=order.id, before=order.state, after=after))
    order.state = after
    return order


@app.post("/orders/{order_id}/pay")
async def pay(order_id: Number, clerk: Clerk, session: Session) -> Receipt:
    """The bank says that the money has come in."""
    order = await pass_on(session, order_id, clerk, "paid", "placed")
    await session.commit()
    return Receipt(**_columns(order))


@app.post("/orders/{order_id}/pack")
async def pack(order_id: Number, clerk: Clerk, session: Session) -> Receipt:
    """It lies in a box."""
    order = await pass_on(session, order_id, clerk, "packed", "paid")
    await session.commit()
    return Receipt(**_columns(order))


@app.post("/orders/{order_id}/ship")
async def ship(order_id: Number, clerk: Clerk, session: Session) -> Receipt:
    """The box has left."""
    order = await pass_on(session, order_id, clerk, "shipped", "packed")
    await session.commit()
    return Receipt(**_columns(order))


@app.post("/orders/{order_id}/cancel")
async def cancel(order_id: Number, who: Someone, session: Session) -> Receipt:
    """As long as it is not packed: the pieces go back to the shelf, the money to the customer."""
    order = await pass_on(session, order_id, who, "cancelled", "placed", "paid")
    if order in session.dirty:
        back = update(Item).values(stock=Item.stock + order.quantity)
        await session.execute(back.where(Item.id == order.item_id))
        session.add(Charge(order_id=order.id, amount=-order.amount))
    await session.commit()
    return Receipt(**_columns(order))


# ---------------------------------------------------------------- mails


async def write_mails(app: FastAPI) -> None:
    """Every order gets its confirmation, whatever became of the request that made it."""
    text = literal("Thank you for your order.").label("text")
    confirmed = select(Mail.id).where(Mail.order_id == Order.id).exists()
    orders = select(Order.id, text).where(~confirmed).order_by(Order.id)
    write = insert(Mail).from_select(["order_id", "text"], orders).on_conflict_do_nothing()
    while not planted("lost_mail"):
        app.state.ordered.clear()
        pause_s = LOOKS_EVERY_S
        try:
            async with app.state.sessions.begin() as session:
                await session.execute(write)
        except BUSY:
            pause_s = 1
        with suppress(TimeoutError):
            await asyncio.wait_for(app.state.ordered.wait(), pause_s)


async def tell_writer() -> None:
    app.state.ordered.set()


async def write_mail(order: int) -> None:
    """With `lost_mail`: part of the request. It does not mind a database on a bad day."""
    while True:
        with suppress(*BUSY):
            async with app.state.sessions.begin() as session:
                write = insert(Mail).values(order_id=order, text="Thank you for your order.")
                await session.execute(write.on_conflict_do_nothing())
            return
        await asyncio.sleep(1)
