"""A power cut for coroutines: nothing of them runs again, and nothing of them is kept."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from foretold.kernel import abandon as abandoning
from foretold.kernel.abandon import abandon

pytestmark = pytest.mark.usefixtures("_others_out_of_sight")


class Thing:
    """Something a coroutine holds on to."""


class Pause:
    """Suspends whoever awaits it."""

    def __await__(self):
        yield


async def inner(ran: list[str], thing: Thing) -> None:
    """Waits inside a `try`."""
    try:
        await Pause()
    finally:
        ran.append("inner")


async def outer(ran: list[str], thing: Thing) -> None:
    """Waits for another that waits."""
    try:
        await inner(ran, thing)
    finally:
        ran.append("outer")


def test_the_state_of_a_frame_is_found_on_this_python() -> None:
    """Else crashed coroutines would be kept for ever; the three Pythons we test on have it."""
    assert abandoning._STATE_BYTE is not None


def test_no_finally_runs_in_an_abandoned_chain() -> None:
    """A host without power runs nothing, however deep it waits."""
    ran: list[str] = []
    coro = outer(ran, Thing())
    coro.send(None)
    abandon(coro)
    del coro
    gc.collect()
    assert ran == []


def test_without_it_they_do_run() -> None:
    """The check above can fail: this is what Python does by itself."""
    ran: list[str] = []
    coro = outer(ran, Thing())
    coro.send(None)
    del coro
    gc.collect()
    assert ran == ["inner", "outer"]


def test_what_it_held_is_released() -> None:
    """A thousand crashes do not fill the memory."""
    thing = Thing()
    gone = weakref.ref(thing)
    coro = outer([], thing)
    coro.send(None)
    abandon(coro)
    del coro, thing
    gc.collect()
    assert gone() is None


def test_asynchronous_generators_too() -> None:
    """A stream that was half read when the power went."""
    ran: list[str] = []

    async def numbers():
        try:
            yield 1
        finally:
            ran.append("generator")

    made = numbers()
    with pytest.raises(StopIteration):
        made.__anext__().send(None)
    abandon(made)
    del made
    gc.collect()
    assert ran == []


def test_a_finished_one_is_left_alone() -> None:
    """Nothing to cut off."""

    async def done() -> None:
        pass

    coro = done()
    asyncio.run(coro)
    abandon(coro)
