"""Small machines, most of them with a bug. Three are classics of stateful testing, told anew, once
for foretold and once for Hypothesis: what the two say about them is compared."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

from hypothesis import stateful
from hypothesis import strategies as st

import foretold

# ---------------------------------------------------------------- two jugs


class Jugs:
    """A jug for 3 litres and one for 5; there are 4 litres to be measured."""

    def __init__(self) -> None:
        super().__init__()
        self.small = self.big = 0

    def into_big(self) -> None:
        moved = min(self.small, 5 - self.big)
        self.small, self.big = self.small - moved, self.big + moved

    def into_small(self) -> None:
        moved = min(self.big, 3 - self.small)
        self.big, self.small = self.big - moved, self.small + moved


class DieHard(Jugs, foretold.Machine):
    """That it cannot be done is the wrong claim."""

    @foretold.rule()
    def fill_small(self) -> None:
        self.small = 3

    @foretold.rule()
    def fill_big(self) -> None:
        self.big = 5

    @foretold.rule()
    def empty_small(self) -> None:
        self.small = 0

    @foretold.rule()
    def empty_big(self) -> None:
        self.big = 0

    @foretold.rule()
    def pour_into_big(self) -> None:
        self.into_big()

    @foretold.rule()
    def pour_into_small(self) -> None:
        self.into_small()

    @foretold.invariant()
    def never_four(self) -> None:
        assert self.big != 4


class HypothesisDieHard(Jugs, stateful.RuleBasedStateMachine):
    """The same for Hypothesis."""

    @stateful.rule()
    def fill_small(self) -> None:
        self.small = 3

    @stateful.rule()
    def fill_big(self) -> None:
        self.big = 5

    @stateful.rule()
    def empty_small(self) -> None:
        self.small = 0

    @stateful.rule()
    def empty_big(self) -> None:
        self.big = 0

    @stateful.rule()
    def pour_into_big(self) -> None:
        self.into_big()

    @stateful.rule()
    def pour_into_small(self) -> None:
        self.into_small()

    @stateful.invariant()
    def never_four(self) -> None:
        assert self.big != 4


# ---------------------------------------------------------------- a store beside a plain one


class Store:
    """Keeps values under keys. It forgets what was saved twice, as soon as one is deleted."""

    def __init__(self) -> None:
        self._saved: dict[bytes, list[bytes]] = {}

    def save(self, key: bytes, value: bytes) -> None:
        self._saved.setdefault(key, []).append(value)

    def delete(self, key: bytes, value: bytes) -> None:
        values = self._saved.get(key, [])
        if value in values:
            values.remove(value)  # only the first of them: the bug

    def fetch(self, key: bytes) -> set[bytes]:
        return set(self._saved.get(key, []))


class StoreComparison(foretold.Machine):
    """A store beside a dict of sets."""

    keys = foretold.Bundle[bytes]("keys")
    values = foretold.Bundle[bytes]("values")

    def __init__(self) -> None:
        self.store = Store()
        self.expected: dict[bytes, set[bytes]] = {}

    @foretold.rule(target=keys, key=st.binary())
    def add_key(self, key: bytes) -> bytes:
        return key

    @foretold.rule(target=values, value=st.binary())
    def add_value(self, value: bytes) -> bytes:
        return value

    @foretold.rule(key=keys, value=values)
    def save(self, key: bytes, value: bytes) -> None:
        self.expected.setdefault(key, set()).add(value)
        self.store.save(key, value)

    @foretold.rule(key=keys, value=values)
    def delete(self, key: bytes, value: bytes) -> None:
        self.expected.setdefault(key, set()).discard(value)
        self.store.delete(key, value)

    @foretold.rule(key=keys)
    def both_agree(self, key: bytes) -> None:
        assert self.store.fetch(key) == self.expected.get(key, set())


class HypothesisStoreComparison(stateful.RuleBasedStateMachine):
    """The same for Hypothesis."""

    keys = stateful.Bundle("keys")
    values = stateful.Bundle("values")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.expected: dict[bytes, set[bytes]] = {}

    @stateful.rule(target=keys, key=st.binary())
    def add_key(self, key: bytes) -> bytes:
        return key

    @stateful.rule(target=values, value=st.binary())
    def add_value(self, value: bytes) -> bytes:
        return value

    @stateful.rule(key=keys, value=values)
    def save(self, key: bytes, value: bytes) -> None:
        self.expected.setdefault(key, set()).add(value)
        self.store.save(key, value)

    @stateful.rule(key=keys, value=values)
    def delete(self, key: bytes, value: bytes) -> None:
        self.expected.setdefault(key, set()).discard(value)
        self.store.delete(key, value)

    @stateful.rule(key=keys)
    def both_agree(self, key: bytes) -> None:
        assert self.store.fetch(key) == self.expected.get(key, set())


# ---------------------------------------------------------------- trees that should be balanced

Leaf = tuple[()]
Tree = Any
"""A leaf is (), a branch a pair of trees."""


def size(tree: Tree) -> int:
    """The number of leaves."""
    return sum(map(size, tree)) if tree else 1


def is_balanced(tree: Tree) -> bool:
    """Whether, everywhere, one side has at most one leaf more than the other."""
    if not tree:
        return True
    left, right = tree
    return abs(size(left) - size(right)) <= 1 and is_balanced(left) and is_balanced(right)


class BalancedTrees(foretold.Machine):
    """Wrong: two balanced trees need not make a balanced one."""

    trees = foretold.Bundle[Tree]("trees")

    @foretold.rule(target=trees, x=st.booleans())
    def leaf(self, x: bool) -> Tree:
        return ()

    @foretold.rule(target=trees, left=trees, right=trees)
    def branch(self, left: Tree, right: Tree) -> Tree:
        return (left, right)

    @foretold.rule(tree=trees)
    def check_balanced(self, tree: Tree) -> None:
        assert is_balanced(tree)


class HypothesisBalancedTrees(stateful.RuleBasedStateMachine):
    """The same for Hypothesis."""

    trees = stateful.Bundle("trees")

    @stateful.rule(target=trees, x=st.booleans())
    def leaf(self, x: bool) -> Tree:
        return ()

    @stateful.rule(target=trees, left=trees, right=trees)
    def branch(self, left: Tree, right: Tree) -> Tree:
        return (left, right)

    @stateful.rule(tree=trees)
    def check_balanced(self, tree: Tree) -> None:
        assert is_balanced(tree)


# ---------------------------------------------------------------- several at once


class Till(foretold.Machine):
    """Takes out of a till what was there when it looked."""

    actors = 3
    steps = 15
    opens_with: ClassVar[int] = 2

    def __init__(self) -> None:
        self.money = self.opens_with

    @foretold.rule(amount=st.integers(1, 3))
    async def take(self, amount: int) -> None:
        if self.money < amount:
            raise foretold.Refused("not enough")
        await asyncio.sleep(0.01)
        self.money -= amount

    @foretold.rule()
    async def count(self) -> int:
        await asyncio.sleep(0.001)
        return self.money

    @foretold.invariant()
    def never_below_zero(self) -> None:
        assert self.money >= 0, f"{self.money} left"


class GuardedTill(Till):
    """The same with a lock: nothing to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()

    @foretold.rule(amount=st.integers(1, 3))
    async def take(self, amount: int) -> None:
        async with self.lock:
            await Till.take(self, amount)


class Transfer(foretold.Machine):
    """Needs a large amount, a second transfer at the same time, and an answer that is lost."""

    actors = 2
    steps = 10
    faults = foretold.faults.network.only("reset")
    tolerates = (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError)

    def __init__(self) -> None:
        self.large = 0

    async def setup(self) -> None:
        async def answer(reader: Any, writer: Any) -> None:
            with contextlib.suppress(OSError):
                line = await reader.readline()
                await asyncio.sleep(0.01)
                writer.write(line)
            writer.close()

        async def serve() -> None:
            server = await asyncio.start_server(answer, "bank", 80)
            await server.serve_forever()

        self.world.host("bank").start(serve)
        await asyncio.sleep(0.1)

    @foretold.rule(amount=st.integers(0, 5000))
    async def pay(self, amount: int) -> None:
        if amount >= 1000:
            self.large += 1
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("bank", 80)
                try:
                    writer.write(f"{amount}\n".encode())
                    if await reader.readline() == b"":
                        raise ConnectionResetError
                finally:
                    writer.close()
        except (TimeoutError, OSError):
            if amount >= 1000 and self.large > 1:
                raise AssertionError("paid twice") from None
            raise
        finally:
            if amount >= 1000:
                self.large -= 1
