"""A loop that sleeps is woken by `call_soon_threadsafe`, a timer or a message, and by nothing else.

`Future.set_result`, `Event.set` and `Queue.put_nowait` from another thread call `call_soon`, which
appends to the loop's queue and wakes nobody. On stock asyncio the program stands until something
else happens, and so it does here: else a search would pass over one of the commonest mistakes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import foretold
from tests.helpers import run_of

ORDERS = pytest.mark.parametrize("order", ["asyncio", "any"])


async def set_by_a_thread(*, safely: bool, timer_s: float | None) -> float:
    """Another thread sets a future after 10 ms. Returns when the task that awaits it goes on."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        time.sleep(0.01)
        if safely:
            loop.call_soon_threadsafe(answer.set_result, None)
        else:
            answer.set_result(None)

    threading.Thread(target=work, name="worker").start()
    if timer_s is not None:
        loop.call_later(timer_s, int)
    began_s = loop.time()
    await answer
    return round(loop.time() - began_s, 2)


@ORDERS
@pytest.mark.parametrize("host", ["", "api"])
def test_a_thread_wakes_no_loop_by_call_soon(order: str, host: str) -> None:
    """The next timer does; `call_soon_threadsafe` would have at once. On every host."""

    def main_of(safely: bool) -> Any:
        async def work() -> float:
            return await set_by_a_thread(safely=safely, timer_s=0.5)

        async def main(world: foretold.World) -> float:
            return await (world.host(host).start(work) if host else work())

        return main

    for seed in range(5):
        done = run_of(main_of(safely=False), seed, order=order)
        assert done.value == 0.5
        (note,) = done.notes
        assert "the thread worker asked something of an event loop that was asleep" in note
        assert "test_sleeping_loops.py" in note
        safe = run_of(main_of(safely=True), seed, order=order)
        assert safe.value == 0.01
        assert not safe.notes


@ORDERS
def test_nothing_else_happens(order: str) -> None:
    """Then it stands for ever, as in production."""

    async def main() -> float:
        return await set_by_a_thread(safely=False, timer_s=None)

    with pytest.raises(foretold.Deadlock):
        foretold.run(main, order=order)


@ORDERS
def test_a_loop_that_is_awake_sees_it(order: str) -> None:
    """It need not be woken: what is appended while it runs comes in its next iteration."""

    async def main() -> bool:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=answer.set_result, args=(None,))
        thread.start()
        thread.join()  # it blocks the loop, which does not sleep
        await answer
        return True

    assert all(run_of(main, seed, order=order).value for seed in range(5))


@ORDERS
def test_the_loop_of_another_thread(order: str) -> None:
    """It is the main thread that asks here."""

    def main_of(safely: bool) -> Any:
        def main() -> float:
            loop, at_s = asyncio.new_event_loop(), list[float]()

            async def note() -> None:
                at_s.append(time.monotonic())
                loop.stop()

            def live() -> None:
                loop.call_later(0.5, int)
                loop.run_forever()
                loop.close()

            thread = threading.Thread(target=live)
            thread.start()
            time.sleep(0.1)
            began_s = time.monotonic()
            if safely:
                asyncio.run_coroutine_threadsafe(note(), loop)
            else:
                loop.create_task(note())
            thread.join()
            return round(at_s[0] - began_s, 1)

        return main

    for seed in range(5):
        assert run_of(main_of(safely=True), seed, order=order).value == 0
        assert run_of(main_of(safely=False), seed, order=order).value == 0.4


def test_a_message_wakes_it() -> None:
    """What waited unheard is done with it, and first."""

    async def main() -> list[str]:
        loop, done = asyncio.get_running_loop(), list[str]()

        async def serve(reader: Any, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.2)
            writer.write(b"x\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 8000):
            reader, writer = await asyncio.open_connection("127.0.0.1", 8000)
            threading.Timer(0.05, loop.call_soon, args=(done.append, "thread")).start()
            await reader.readline()
            done.append("message")
            writer.close()
        return done

    assert run_of(main, 1, order="asyncio").value == ["thread", "message"]
