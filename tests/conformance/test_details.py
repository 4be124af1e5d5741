"""Details of asyncio's loop that our loop keeps too, and that CPython's tests do not reach."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import unittest.mock
from collections.abc import Iterator
from pathlib import Path

import pytest

import foretold
from tests.conformance.redirect import OurLoop


@pytest.fixture
def loop() -> Iterator[OurLoop]:
    """A loop of ours without a world."""
    loop = OurLoop()
    yield loop
    loop.close()


def test_a_mock_may_be_a_callback(loop: OurLoop) -> None:
    """A Mock has every attribute, each a Mock again: looking for its name must come to an end."""
    callback = unittest.mock.Mock(side_effect=loop.stop)
    loop.call_soon(callback)
    loop.run_forever()
    callback.assert_called_once_with()


def test_cancelled_alarms_do_not_pile_up(loop: OurLoop) -> None:
    """A busy loop never waits; time limits that were met must not stay in its memory meanwhile."""

    async def busy() -> int:
        for _ in range(5_000):
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
        return len(loop._alarms)

    assert loop.run_until_complete(busy()) < 300


def test_a_cancelled_alarm_leaves_the_others_in_place(loop: OurLoop) -> None:
    """Dropping the cancelled ones keeps the order of the rest."""
    fired: list[int] = []
    alarms = [loop.call_later(1 + number, fired.append, number) for number in range(500)]
    for number, alarm in enumerate(alarms):
        if number % 5:
            alarm.cancel()
    loop.call_later(1_000, loop.stop)
    loop.run_forever()
    assert fired == list(range(0, 500, 5))
    assert not loop._alarms


def test_closing_drops_what_was_scheduled(loop: OurLoop) -> None:
    """A closed loop holds no callback, and so none of what callbacks refer to."""
    loop.call_later(1, print)
    loop.call_soon(print)
    loop.close()
    assert not loop._alarms
    assert not loop._ready


@pytest.mark.parametrize("delay_s", [float("inf"), sys.float_info.max, 10**20])
def test_a_delay_without_end(loop: OurLoop, delay_s: float) -> None:
    """Programs write "for ever" in several ways; none of them overflows, and none ever ends."""
    never = loop.call_later(delay_s, pytest.fail)
    at_no_time = loop.call_at(delay_s, pytest.fail)
    assert min(never.when(), at_no_time.when()) >= 10**20
    loop.call_later(1e6, loop.stop)
    loop.run_forever()
    assert not never.cancelled()


def test_a_delay_that_is_no_number(loop: OurLoop) -> None:
    """As in asyncio a TypeError, at once: "5" times a billion is a string of a billion letters."""
    for delay in ("5", None, [1]):
        with pytest.raises(TypeError):
            loop.call_later(delay, print)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(TypeError):
            loop.call_at(delay, print)  # type: ignore[arg-type]  # that is the point


def test_texts_are_those_of_production(loop: OurLoop) -> None:
    """Logs and assertion messages show asyncio's names, not ours."""

    async def worker() -> None:
        await asyncio.sleep(0)

    task, future = loop.create_task(worker()), loop.create_future()
    assert repr(task).startswith("<Task pending name='worker' coro=<")
    assert repr(future) == "<Future pending>"
    assert repr(loop.call_soon(print)).startswith("<Handle print(")
    assert repr(loop.call_at(7.5, print)).startswith("<TimerHandle when=7.5 print(")
    loop.run_until_complete(task)


@pytest.mark.parametrize("order", ["asyncio", "any"])
def test_last_words_take_their_time(order: str) -> None:
    """A finalizer that runs as the loop is about to wait may stall it: time does not go back."""

    class Reluctant:
        def __del__(self) -> None:
            time.sleep(5)

    async def worker() -> Reluctant:
        return Reluctant()

    async def main() -> list[float]:
        loop, times = asyncio.get_running_loop(), []
        start = loop.time()
        asyncio.create_task(worker())  # noqa: RUF006 - it is forgotten on purpose
        loop.call_later(1, lambda: times.append(loop.time() - start))
        await asyncio.sleep(6)
        return [*times, loop.time() - start]

    assert foretold.run(main, order=order, exact_time=True).value == [5, 6]


def test_debug_mode_says_where_something_was_made(loop: OurLoop) -> None:
    """The line that called us, not one of ours: for callbacks, alarms and tasks."""

    async def worker() -> None:
        await asyncio.sleep(0)

    loop.set_debug(True)
    alarms = (loop.call_later(1, print), loop.call_at(2_000, print))
    for handle in (loop.call_soon(print), loop.call_soon_threadsafe(print), *alarms):
        assert handle._source_traceback is not None
        assert Path(handle._source_traceback[-1].filename).name == Path(__file__).name
        handle.cancel()
        assert "print(" in repr(handle), "a cancelled handle still says what it was"
        assert "created at" in repr(handle)
    task = loop.create_task(worker())
    assert Path(task._source_traceback[-1].filename).name == Path(__file__).name
    loop.run_until_complete(task)


def test_debug_mode_logs_slow_steps_in_virtual_time(caplog: pytest.LogCaptureFixture) -> None:
    """A step that stalls its host is logged with the time it took in the world."""

    async def stalls() -> None:
        time.sleep(2.5)

    def main() -> None:
        asyncio.run(stalls(), debug=True)

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        foretold.run(main, exact_time=True)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("Executing <Task finished name='stalls'")
    assert caplog.messages[0].endswith("took 2.500 seconds")
