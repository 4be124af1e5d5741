"""A weak set that remembers the order in which its members came.

asyncio keeps its asynchronous generators in a `WeakSet` and closes them in its order, which is by
address: it would differ from process to process.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator


class OrderedWeakSet:
    """As much of a `WeakSet` as `BaseEventLoop` asks of one."""

    def __init__(self) -> None:
        self._found: dict[int, weakref.KeyedRef[int, object]] = {}
        """By address, in the order in which they came. Who is freed leaves it before its address
        is given to another."""

    def add(self, item: object) -> None:
        address = id(item)
        if address not in self._found:
            self._found[address] = weakref.KeyedRef(item, self._forget, address)

    def _forget(self, reference: weakref.KeyedRef[int, object]) -> None:
        self._found.pop(reference.key, None)

    def discard(self, item: object) -> None:
        self._found.pop(id(item), None)

    def clear(self) -> None:
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[object]:
        for reference in list(self._found.values()):
            item = reference()
            if item is not None:
                yield item
