"""multimethod 1.9: the first calls of two threads disturb each other (coady/multimethod#77).

Threads describe values of several types; the dispatch is cached at the first call of each type.
"""

import asyncio
from typing import Any

KIND = "test"
BUGGY = ("multimethod==1.9",)
FIXED = ("multimethod==1.9.1",)
CHANCE = False


async def main() -> None:
    from multimethod import multimethod

    @multimethod
    def describe(value: object) -> str:
        return "something"

    @describe.register
    def _(value: int) -> str:
        return "a number"

    @describe.register
    def _(value: str) -> str:
        return "a text"

    def work(*values: Any) -> list[str]:
        return [describe(value) for value in values]

    first, second = await asyncio.gather(
        asyncio.to_thread(work, 1, "one", 1.0, True), asyncio.to_thread(work, [], {}, "two", 2)
    )
    assert first == ["a number", "a text", "something", "a number"], first
    assert second == ["something", "something", "a text", "a number"], second
