"""A shop with three operations and a page, and machines that reach some of them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import foretold


class NewOrder(BaseModel):
    """What somebody wants."""

    quantity: int = Field(ge=1, le=5)


def make() -> FastAPI:
    """A shop for each run."""
    app, orders = FastAPI(), dict[int, int]()

    @app.post("/orders", status_code=201)
    async def order(wanted: NewOrder) -> dict[str, int]:
        orders[len(orders) + 1] = wanted.quantity
        return {"id": len(orders)}

    @app.get("/orders/mine")
    async def mine() -> list[int]:
        return list(orders)

    @app.get("/orders/{order_id}")
    async def look(order_id: int) -> dict[str, int]:
        if order_id not in orders:
            raise HTTPException(404)
        return {"quantity": orders[order_id]}

    @app.delete("/orders/{order_id}", status_code=204)
    async def cancel(order_id: int) -> None:
        if orders.pop(order_id, None) is None:
            raise HTTPException(404)

    return app


class Orders(foretold.Machine):
    """All operations have a rule, and the list is read by an invariant."""

    steps = 12
    covers = foretold.openapi(make())
    generates = {NewOrder: st.builds(NewOrder, quantity=st.integers(1, 5))}  # noqa: RUF012  # of the class

    async def setup(self) -> None:
        """Start the shop."""
        self.web = await self.world.web(make())
        self.client = self.web.client("ada")
        await self.client.delete("/orders/1")  # outside of rules: it does not count as covered

    async def teardown(self) -> None:
        """Close the client."""
        await self.client.aclose()

    @foretold.rule(quantity=st.integers(1, 5))
    async def order(self, quantity: int) -> None:
        """Order something."""
        answer = await self.client.post("/orders", json={"quantity": quantity})
        assert answer.status_code == 201

    @foretold.rule(number=st.integers(1, 3))
    async def look(self, number: int) -> None:
        """Look at an order."""
        await self.client.get(f"/orders/{number}")

    @foretold.rule(number=st.integers(1, 3))
    async def cancel(self, number: int) -> None:
        """Cancel one."""
        await self.client.delete(f"/orders/{number}")

    @foretold.invariant(when="quiet")
    async def orders_are_listed(self) -> None:
        """The list is a list."""
        assert isinstance((await self.client.get("/orders/mine")).json(), list)


def without(*names: str) -> type[foretold.Machine]:
    """The machine without these rules and invariants."""
    kept: dict[str, Any] = {n: v for n, v in vars(Orders).items() if n not in names}
    kept.pop("_foretold_blueprint", None)
    kept.pop("_foretold_test_case", None)
    return type("Orders", (foretold.Machine,), kept)


NoCancel = without("cancel")
NoList = without("orders_are_listed")


class Wrong(Orders):
    """Its rule is refused each time, and its strategy gives what the model refuses."""

    generates = {NewOrder: st.fixed_dictionaries({"quantity": st.integers(0, 4)})}  # noqa: RUF012  # of the class

    @foretold.rule(quantity=st.integers(1, 5))
    async def order(self, quantity: int) -> None:
        """Nobody may order a million."""
        answer = await self.client.post("/orders", json={"quantity": quantity + 1_000_000})
        raise foretold.Refused(str(answer.status_code))


class Fails(Orders):
    """A run fails."""

    @foretold.invariant()
    def no_order_is_made(self) -> bool:
        """It does not hold."""
        return self.web.requests < 5
