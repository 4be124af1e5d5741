"""Bugs in shared state: what was true before an `await` is taken to be true after it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.search.programs.registry import bug, step


@bug
async def read_modify_write(fixed: bool) -> None:
    """Two deposits; the balance is read, then something is awaited, then it is written."""
    account, lock = {"balance": 0}, asyncio.Lock()

    async def deposit(delay: int) -> None:
        await step(delay)
        if fixed:
            async with lock:
                await add()
        else:
            await add()

    async def add() -> None:
        balance = account["balance"]
        await step()
        account["balance"] = balance + 1

    await asyncio.gather(deposit(0), deposit(3))
    assert account["balance"] == 2


@bug
async def check_then_act(fixed: bool) -> None:
    """The last seat is sold twice: between the look and the sale the payment is awaited."""
    seats, sold = [1], list[str]()

    async def buy(name: str, think: int) -> None:
        await step(think)
        if fixed:
            if seats[0]:
                seats[0] -= 1
                await step()
                sold.append(name)
        elif seats[0]:
            await step()
            seats[0] -= 1
            sold.append(name)

    await asyncio.gather(buy("ann", 0), buy("bob", 4))
    assert len(sold) == 1


@bug
async def made_twice(fixed: bool) -> None:
    """A connection is made when it is first needed; two need it first."""
    made, kept, lock = list[str](), dict[str, str](), asyncio.Lock()

    async def connection() -> str:
        if fixed:
            async with lock:
                return await make()
        return await make()

    async def make() -> str:
        if "it" not in kept:
            await step(2)
            made.append("connection")
            kept["it"] = made[-1]
        return kept["it"]

    async def user(delay: int) -> None:
        await step(delay)
        await connection()

    await asyncio.gather(user(0), user(5))
    assert len(made) == 1


@bug
async def stale_cache_fill(fixed: bool) -> None:
    """A reader that missed fills the cache with what it had read before the writer came."""
    store, cache, version = {"x": 1}, dict[str, int](), {"x": 0}

    async def read() -> int:
        if "x" not in cache:
            seen, value = version["x"], store["x"]
            await step()
            if not fixed or version["x"] == seen:
                cache["x"] = value
            return value
        return cache["x"]

    async def write() -> None:
        await step(3)
        store["x"] = 2
        version["x"] += 1
        cache.pop("x", None)

    await asyncio.gather(read(), write())
    assert await read() == 2


@bug
async def changed_and_changed_back(fixed: bool) -> None:
    """ABA: a stack whose head is compared by value alone. It was popped and pushed meanwhile."""
    stack = {"head": "a", "a": "b", "b": "c", "c": ""}
    used, version = set[str](), [0]

    async def pop(delay: int) -> str:
        await step(delay)
        while True:
            seen, head, rest = version[0], stack["head"], stack[stack["head"]]
            await step()
            if stack["head"] == head and (not fixed or version[0] == seen):
                stack["head"] = rest
                version[0] += 1
                return head

    def push(name: str) -> None:
        stack[name], stack["head"] = stack["head"], name
        version[0] += 1

    async def first() -> None:
        used.add(await pop(0))

    async def second() -> None:
        a = await pop(1)
        b = await pop(0)
        used.add(b)
        push(a)

    await asyncio.gather(first(), second())
    assert stack["head"] not in used, "in use and free"


@bug
async def seen_half(fixed: bool) -> None:
    """A transfer takes here and puts there; an audit in between misses the money."""
    accounts, lock, sums = {"a": 50, "b": 50}, asyncio.Lock(), list[int]()

    async def move() -> None:
        accounts["a"] -= 10
        await step()
        accounts["b"] += 10

    async def transfer() -> None:
        if fixed:
            async with lock:
                await move()
        else:
            await move()

    async def audit() -> None:
        await step(3)
        async with lock:
            sums.append(sum(accounts.values()))

    await asyncio.gather(transfer(), audit())
    assert sums == [100]


@bug
async def changed_while_walked(fixed: bool) -> None:
    """Subscribers are told one by one; one who subscribes meanwhile changes the dictionary."""
    subscribers: dict[str, list[str]] = {"ann": [], "bob": []}

    async def publish() -> None:
        for inbox in list(subscribers.values()) if fixed else subscribers.values():
            await step()
            inbox.append("news")

    async def subscribe() -> None:
        await step(6)
        subscribers["eve"] = []

    await asyncio.gather(publish(), subscribe())


@bug
async def closed_twice(fixed: bool) -> None:
    """`close` asks whether it was closed, flushes, and only then notes it."""
    state, closes = {"closed": False}, list[str]()

    async def close(who: str, delay: int) -> None:
        await step(delay)
        if state["closed"]:
            return
        state["closed"] = fixed
        await step()
        state["closed"] = True
        closes.append(who)

    await asyncio.gather(close("owner", 0), close("watchdog", 4))
    assert len(closes) == 1


@bug
async def same_number_twice(fixed: bool) -> None:
    """The next number is one more than the largest; two look before either has written."""
    orders, numbers = dict[int, str](), iter(range(1, 99))

    async def order(what: str, delay: int) -> None:
        await step(delay)
        number = next(numbers) if fixed else max(orders, default=0) + 1
        await step()
        orders[number] = what

    await asyncio.gather(order("tea", 0), order("cake", 3), order("jam", 6))
    assert len(orders) == 3


@bug
async def published_too_early(fixed: bool) -> None:
    """A session is put where others find it before it is complete."""
    sessions = dict[str, dict[str, str]]()

    async def log_in() -> None:
        session: dict[str, str] = {}
        if not fixed:
            sessions["ann"] = session
        await step()
        session["user"] = "ann"
        sessions["ann"] = session

    async def look() -> None:
        await step(5)
        if "ann" in sessions:
            assert sessions["ann"]["user"] == "ann"

    await asyncio.gather(log_in(), look())


@bug
async def summed_up_wrongly(fixed: bool) -> None:
    """`total += await value()` reads the total before it waits."""
    total = {"sum": 0}

    async def value(n: int) -> int:
        await step(n)
        return n

    async def add(n: int, delay: int) -> None:
        await step(delay)
        if fixed:
            part = await value(n)
            total["sum"] += part
        else:
            total["sum"] += await value(n)

    await asyncio.gather(add(1, 0), add(2, 5), add(1, 12))
    assert total["sum"] == 4


@bug
async def told_of_another_user(fixed: bool) -> None:
    """A module-wide "current user" is set, then something is awaited, then it is read."""
    current: dict[str, Any] = {"user": None}
    answers: dict[str, Any] = {}

    async def request(user: str, delay: int) -> None:
        await step(delay)
        current["user"] = user
        await step()
        answers[user] = user if fixed else current["user"]

    await asyncio.gather(request("ann", 0), request("bob", 4))
    assert all(user == answer for user, answer in answers.items())
