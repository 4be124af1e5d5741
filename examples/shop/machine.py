"""The whole shop as a machine: what customers and clerks do at the same time, and what must hold.

    foretold explore examples.shop.machine:Shop
    foretold explore examples.shop.machine:Shop --plant

The second line shows whether it would find anything: it plants eight bugs (`bugs.py`), one by one.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import httpx
from hypothesis import strategies as st

import foretold
from examples.shop import api
from examples.shop.middleware import LIMITS
from examples.shop.tables import schema

ITEMS = st.integers(1, 2)
TRIES = 3
MOST, WITHIN_S = LIMITS["/customers"]
FAULTS = foretold.faults.web + foretold.faults.postgres.without("db_lost_notification")
"""All that can happen to requests and to the database; nobody listens to notifications here."""
SCHEMA = schema(
    "INSERT INTO item VALUES (1, 'lamp', 30, 4, 4, 0), (2, 'desk', 200, 2, 2, 0)",
    "INSERT INTO customer (email) VALUES ('one@shop.org'), ('two@shop.org')",
)


F = TypeVar("F", bound=Callable[..., Any])


class Busy(Exception):
    """The shop asks to try again later."""


def by(role: str) -> Callable[[F], F]:
    """A rule for actors of this role alone."""
    return foretold.precondition(lambda self, actor: actor.role == role)


class Shop(foretold.Machine):
    """Two customers, two clerks, two items, and all that can go wrong between them."""

    actors = ("buyer", "buyer", "clerk", "clerk")
    steps = 14
    weights: ClassVar = {"register": 2, "buy": 3, "pay": 3, "pack": 3, "ship": 3, "restock": 0.5}
    faults = FAULTS
    tolerates = (httpx.TransportError, Busy)
    orders: Any = foretold.Bundle("orders")
    paid: Any = foretold.Bundle("paid")
    packed: Any = foretold.Bundle("packed")

    async def setup(self) -> None:
        self.pg = await self.world.postgres(schema=SCHEMA)
        url = self.pg.url("asyncpg")
        self.web = await self.world.web(api.app, environment={"DATABASE_URL": url})
        for actor in self.cast:
            actor.number = actor.index + 1
            actor.baskets = 0
            actor.admitted = []
            who = api.CLERK if actor.role == "clerk" else actor.number
            headers = {"authorization": f"Bearer {api.token_for(who)}"}
            actor.web = self.web.client(actor, headers=headers)

    async def ask(self, actor: Any, method: str, path: str, **more: Any) -> Any:
        """One request; the answer if it is a good one."""
        return self.judge(await actor.web.request(method, path, **more), path)

    def judge(self, answer: httpx.Response, path: str) -> Any:
        """A good answer, a proper refusal, or a shop that breaks."""
        if answer.status_code == 503:
            raise Busy(answer.text)
        foretold.always(
            answer.status_code < 500, "the shop never breaks", status=answer.status_code, path=path
        )
        if answer.status_code >= 400:
            raise foretold.Refused(str(answer.json()["detail"]))
        return answer.json()

    # --- what customers do -----------------------------------------------------------------------

    @by("buyer")
    @foretold.rule(
        name=st.sampled_from(["ada", "bob", "cleo"]),
        forwarded=st.sampled_from([None, "192.0.2.1", "192.0.2.2", "192.0.2.3"]),
    )
    async def register(self, actor: Any, name: str, forwarded: str | None) -> None:
        headers = {"x-forwarded-for": forwarded} if forwarded else {}
        sent_s = asyncio.get_running_loop().time()
        json = {"email": f"{name}@shop.org"}
        answer = await actor.web.post("/customers", json=json, headers=headers)
        now_s = asyncio.get_running_loop().time()
        if answer.status_code not in (429, 500):
            actor.admitted.append((answer.headers["x-instance"], sent_s, now_s))
        self.judge(answer, "/customers")

    @by("buyer")
    @foretold.rule(item=ITEMS)
    async def visit(self, actor: Any, item: int) -> None:
        await self.ask(actor, "POST", f"/items/{item}/visits")

    @by("buyer")
    @foretold.rule(target=orders, item=ITEMS, quantity=st.integers(1, 3))
    async def buy(self, actor: Any, item: int, quantity: int) -> int:
        """One basket. A client that hears nothing tries again, under the same key."""
        actor.baskets += 1
        headers = {"idempotency-key": f"basket {actor.baskets}"}
        json = {"item_id": item, "quantity": quantity}
        order: Any = None
        for left in reversed(range(TRIES)):
            try:
                order = await self.ask(actor, "POST", "/orders", json=json, headers=headers)
                break
            except (httpx.TransportError, Busy):
                if not left:
                    raise
        foretold.always(
            order["customer_id"] == actor.number,
            "who orders gets an order of their own",
            customer=actor.number,
            order=order,
        )
        return int(order["id"])

    @foretold.rule(order=orders)
    async def cancel(self, actor: Any, order: int) -> None:
        await self.ask(actor, "POST", f"/orders/{order}/cancel")

    @foretold.rule(order=orders)
    async def look(self, actor: Any, order: int) -> None:
        await self.ask(actor, "GET", f"/orders/{order}")

    # --- what clerks do --------------------------------------------------------------------------

    @by("clerk")
    @foretold.rule(target=paid, order=orders)
    async def pay(self, actor: Any, order: int) -> int:
        await self.ask(actor, "POST", f"/orders/{order}/pay")
        return order

    @by("clerk")
    @foretold.rule(target=packed, order=paid)
    async def pack(self, actor: Any, order: int) -> int:
        await self.ask(actor, "POST", f"/orders/{order}/pack")
        return order

    @by("clerk")
    @foretold.rule(order=packed)
    async def ship(self, actor: Any, order: int) -> None:
        await self.ask(actor, "POST", f"/orders/{order}/ship")

    @by("clerk")
    @foretold.rule(item=ITEMS, pieces=st.integers(1, 3))
    async def restock(self, actor: Any, item: int, pieces: int) -> None:
        await self.ask(actor, "POST", f"/items/{item}/deliveries", json={"pieces": pieces})

    # --- what must hold --------------------------------------------------------------------------

    @foretold.invariant(
        sql="""select * from (
                 select order_id, lag(after, 1, 'placed') over (partition by order_id order by id)
                 as is_in, before, after from passage) p
               where is_in <> before""",
        over="select count(*) from passage",
    )
    def no_state_is_skipped(self, rows: Any) -> None:
        """An order passes from the state that it is in."""

    @foretold.invariant(
        sql="""select item.id, received, stock, sold from item join lateral (
                 select coalesce(sum(quantity), 0) as sold from orders
                 where item_id = item.id and state <> 'cancelled') s on true
               where stock < 0 or received <> stock + sold""",
        over="select count(*) from orders",
    )
    def nothing_is_oversold(self, rows: Any) -> None:
        """No stock is below zero; what was received is sold or on the shelf."""

    @foretold.invariant(
        sql="""select customer_id, basket, count(*) as charges from charge
               join orders on orders.id = order_id where charge.amount > 0
               group by customer_id, basket having count(*) > 1""",
        over="select count(*) from charge",
    )
    def a_basket_is_charged_once(self, rows: Any) -> None:
        """A basket is charged once, however often it was sent."""

    @foretold.invariant(
        sql="""select orders.id, state, orders.amount, sum(charge.amount) as charged
               from orders left join charge on order_id = orders.id group by orders.id
               having coalesce(sum(charge.amount), 0) <>
                      case state when 'cancelled' then 0 else orders.amount end""",
        over="select count(*) from orders",
    )
    def an_order_is_paid_for(self, rows: Any) -> None:
        """A customer pays what the order costs, and nothing if it was cancelled."""

    @foretold.invariant(
        sql="""select item.id, item.visits, seen from item join lateral (
                 select count(*) as seen from visit where item_id = item.id) v on true
               where item.visits <> seen""",
        over="select count(*) from visit",
    )
    def every_visit_counts(self, rows: Any) -> None:
        """The counter of an item says how many visits there were."""

    @foretold.invariant()
    def nobody_asks_too_often(self) -> int:
        """Of one address no more requests are admitted than the limit says."""
        for actor in self.cast:
            for _, begin_s, _ in actor.admitted:
                within: dict[str, int] = {}
                for instance, sent_s, done_s in actor.admitted:
                    if sent_s >= begin_s and done_s <= begin_s + WITHIN_S:
                        within[instance] = within.get(instance, 0) + 1
                most = max(within.values(), default=0)
                assert most <= MOST, f"{actor.name} was let in {most} times within {WITHIN_S:g} s"
        return sum(len(actor.admitted) for actor in self.cast)

    @foretold.invariant(within_s=60)
    def every_order_is_confirmed(self) -> bool:
        """Every customer gets a mail for every order."""
        orders = "select count(*) from orders"
        left = self.pg.sql(f"{orders} where id not in (select order_id from mail)")
        return bool(left[0][0] == 0)
