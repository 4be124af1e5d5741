"""A shop of the usual kind, with mistakes that can be switched on. All of it is in memory."""

from __future__ import annotations

import asyncio
import uuid
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

State = Literal["open", "paid", "cancelled"]


class Item(BaseModel):
    """What is sold."""

    id: int
    name: str
    stock: int = Field(ge=0)


class NewOrder(BaseModel):
    """What somebody wants."""

    item_id: int
    quantity: int = Field(ge=1, le=5)


class Order(NewOrder):
    """What somebody has ordered."""

    id: str
    user: str
    state: State


class Note(BaseModel):
    """A text that users keep under a name of their own choice."""

    text: str = Field(max_length=20)


bearer = HTTPBearer(auto_error=False)


async def user(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> str:
    """Who asks."""
    if given is not None:
        return given.credentials
    if "anonymous" in request.app.state.bugs:
        return "anybody"
    raise HTTPException(401, "who are you?")


Who = Annotated[str, Depends(user)]


class Shop:
    """The state of one shop."""

    def __init__(self, bugs: frozenset[str]) -> None:
        self.bugs = bugs
        self.items = {n: Item(id=n, name=f"item {n}", stock=3) for n in (1, 2)}
        self.orders: dict[str, Order] = {}
        self.keys: dict[Any, str] = {}
        self.notes: dict[tuple[str, str], str] = {}

    async def order(self, user: str, wanted: NewOrder, key: str | None) -> Order:
        mine = key if "shared keys" in self.bugs else (user, key)
        if key is not None and mine in self.keys:
            return self.orders[self.keys[mine]]
        item = self.items.get(wanted.item_id)
        if item is None:
            raise HTTPException(404, "no such item")
        if item.stock < wanted.quantity:
            raise HTTPException(409, "sold out")
        if "oversell" in self.bugs:
            await asyncio.sleep(0.01)
        item.stock -= wanted.quantity
        made = Order(id=str(uuid.uuid4()), user=user, state="open", **wanted.model_dump())
        self.orders[made.id] = made
        if key is not None and "keys are forgotten" not in self.bugs:
            self.keys[mine] = made.id
        return made

    def own(self, user: str, order_id: str) -> Order:
        found = self.orders.get(order_id)
        if found is None or found.user != user:
            raise HTTPException(404, "no such order")
        return found


def make_app(*bugs: str) -> FastAPI:
    """A new shop with these mistakes."""
    app, shop = FastAPI(title="A small shop"), Shop(frozenset(bugs))
    app.state.bugs = bugs

    @app.get("/items")
    async def list_items() -> list[Item]:
        return [item.model_copy() for item in shop.items.values()]

    @app.post("/orders", status_code=201)
    async def create_order(
        me: Who, wanted: NewOrder, idempotency_key: Annotated[str | None, Header()] = None
    ) -> Order:
        return await shop.order(me, wanted, idempotency_key)

    @app.get("/orders")
    async def list_orders(me: Who) -> list[Order]:
        return [order for order in shop.orders.values() if order.user == me]

    @app.get("/orders/{order_id}")
    async def read_order(me: Who, order_id: str) -> Order:
        return shop.own(me, order_id)

    @app.post("/orders/{order_id}/pay")
    async def pay(me: Who, order_id: str) -> Order:
        order = shop.own(me, order_id)
        if order.state != "open":
            if "five hundred" in bugs:
                raise RuntimeError("paid twice")
            raise HTTPException(409, f"it is {order.state}")
        order.state = "paid"
        return order

    @app.delete("/orders/{order_id}")
    async def cancel(me: Who, order_id: str) -> Order:
        order = shop.own(me, order_id)
        if order.state == "cancelled" and "restocks twice" not in bugs:
            return order
        if order.state == "paid":
            raise HTTPException(409, "it is paid")
        order.state = "lost" if "odd state" in bugs else "cancelled"  # type: ignore[assignment]  # a planted mistake
        shop.items[order.item_id].stock += order.quantity
        return order

    @app.put("/notes/{name}")
    async def write_note(me: Who, name: str, note: Note) -> Note:
        shop.notes[me, name] = note.text
        return note

    @app.get("/notes/{name}")
    async def read_note(me: Who, name: str) -> Note:
        if (me, name) not in shop.notes:
            raise HTTPException(404, "no such note")
        return Note(text=shop.notes[me, name])

    return app
