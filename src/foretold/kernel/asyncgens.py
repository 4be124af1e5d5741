"""A weak set that remembers the order in which its members came.

asyncio keeps its asynchronous generators in a `WeakSet` and closes them in its order, which is by
address: it would differ from process to process.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator


class OrderedWeakSet:
    """As much of a `WeakSet` as `BaseEventLoop` asks of one."""

    def __init__(self) -> None:
        self._by_number: dict[int, weakref.ref[object]] = {}
        self._number_of: dict[int, int] = {}
        self._numbers = itertools.count()

    def add(self, item: object) -> None:
        if id(item) in self._number_of:
            return
        number = next(self._numbers)
        self._number_of[id(item)] = number
        self._by_number[number] = weakref.ref(item, self._forgetter(id(item), number))

    def _forgetter(self, address: int, number: int) -> Callable[[object], None]:
        def forget(_: object) -> None:
            self._by_number.pop(number, None)
            if self._number_of.get(address) == number:
                del self._number_of[address]

        return forget

    def discard(self, item: object) -> None:
        number = self._number_of.pop(id(item), None)
        if number is not None:
            self._by_number.pop(number, None)

    def clear(self) -> None:
        self._by_number.clear()
        self._number_of.clear()

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[object]:
        for reference in list(self._by_number.values()):
            item = reference()
            if item is not None:
                yield item
