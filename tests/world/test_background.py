"""What fails where nobody is looking fails the run: asyncio would only have written a log line."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import foretold
from tests.helpers import PLANS, run_of

Mains = Callable[[], Any]
KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_kept() -> Any:
    yield
    KEPT.clear()


class Lost(Exception):
    """What would be lost."""


async def failing() -> None:
    """A coroutine that raises after a step."""
    await asyncio.sleep(0)
    raise Lost("nobody awaits me")


async def callback_raises() -> None:
    """An exception in a plain callback."""

    def broken() -> None:
        raise Lost("in a callback")

    asyncio.get_running_loop().call_soon(broken)
    await asyncio.sleep(0.1)


async def timer_raises() -> None:
    """An exception in a timer."""

    def broken() -> None:
        raise Lost("in a timer")

    asyncio.get_running_loop().call_later(0.05, broken)
    await asyncio.sleep(0.1)


async def done_callback_raises() -> None:
    """An exception in what runs when a future is done."""

    def broken(_: object) -> None:
        raise Lost("in a done callback")

    task = asyncio.create_task(asyncio.sleep(0))
    task.add_done_callback(broken)
    await task
    await asyncio.sleep(0)


async def task_never_looked_at() -> None:
    """A task that failed, and whose result nobody asked for."""
    asyncio.create_task(failing())  # noqa: RUF006  # that is the mistake
    await asyncio.sleep(0.1)


async def kept_and_never_looked_at() -> None:
    """The same, with a reference that outlives main."""
    KEPT.append(asyncio.create_task(failing()))
    await asyncio.sleep(0.1)


async def future_never_looked_at() -> None:
    """The same with a future."""
    asyncio.get_running_loop().create_future().set_exception(Lost("in a future"))


async def fails_when_cancelled() -> None:
    """A task left running, which fails while it is cancelled at the end of the run."""

    async def fragile() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise Lost("while cancelled")

    KEPT.append(asyncio.create_task(fragile()))
    await asyncio.sleep(0.001)  # in every order it has begun by then


async def generator_fails_when_closed() -> None:
    """An asynchronous generator that is left open and raises in its `finally`."""

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise Lost("in finally")

    generator = numbers()
    KEPT.append(generator)
    await anext(generator)


async def dropped_generator_fails() -> None:
    """The same, but the generator is forgotten in the middle of the run."""

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            raise Lost("in finally")

    await anext(numbers())
    await asyncio.sleep(0.1)


RAISING = (
    callback_raises,
    timer_raises,
    done_callback_raises,
    task_never_looked_at,
    kept_and_never_looked_at,
    future_never_looked_at,
    fails_when_cancelled,
    generator_fails_when_closed,
    dropped_generator_fails,
)


async def destroyed_pending() -> None:
    """A task that nobody refers to, waiting for a future that nobody refers to."""

    async def forgotten() -> None:
        await asyncio.get_running_loop().create_future()

    asyncio.create_task(forgotten())  # noqa: RUF006  # that is the mistake
    await asyncio.sleep(0.001)  # in every order it has begun by then
    gc.collect()
    await asyncio.sleep(0)


async def started_too_late() -> None:
    """A task that is started while others are cancelled: nobody waits for it any more."""

    async def forgotten() -> None:
        await asyncio.sleep(1000)

    async def starter() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            KEPT.append(asyncio.create_task(forgotten()))

    KEPT.append(asyncio.create_task(starter()))
    await asyncio.sleep(0.001)  # in every order it has begun by then


async def never_awaited() -> None:
    """A coroutine that was called and not awaited."""
    failing()  # type: ignore[unused-coroutine]  # that is the mistake
    await asyncio.sleep(0)


def never_awaited_in_plain() -> None:
    """The same in a plain main."""
    failing()  # type: ignore[unused-coroutine]  # that is the mistake


UNRAISED = {
    destroyed_pending: r"destroyed.*pending.*forgotten",
    started_too_late: r"destroyed.*pending.*forgotten",
    never_awaited: "coroutine 'failing' was never awaited",
    never_awaited_in_plain: "coroutine 'failing' was never awaited",
}
ALL = (*RAISING, *UNRAISED)


def names(mains: Any) -> list[str]:
    """Test ids."""
    return [main.__name__ for main in mains]


@pytest.mark.parametrize("main", RAISING, ids=names(RAISING))
def test_a_lost_exception_fails_the_run(main: Mains) -> None:
    """The exception itself comes out, in every order, with a note that says where it was lost."""
    for order, strategy in PLANS:
        with pytest.raises(Lost) as caught:
            foretold.run(main, order=order, strategy=strategy)
        assert any("nobody caught this" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("main", UNRAISED, ids=names(UNRAISED))
def test_what_was_forgotten_fails_the_run(main: Mains) -> None:
    """Where there is no exception, there is one of ours that names the task or coroutine."""
    for order, strategy in PLANS:
        with pytest.raises(foretold.BackgroundFailure, match=UNRAISED[main]):
            foretold.run(main, order=order, strategy=strategy)


@pytest.mark.parametrize("main", ALL, ids=names(ALL))
def test_it_can_be_ignored(main: Mains) -> None:
    """`background_errors="ignore"` is for programs that live with it."""
    for order, strategy in PLANS:
        how: dict[str, Any] = {"order": order, "strategy": strategy}
        assert run_of(main, background_errors="ignore", **how).error is None


@pytest.mark.parametrize("main", ALL, ids=names(ALL))
def test_such_a_failure_is_the_same_again(main: Mains) -> None:
    """Its message may come from asyncio, with an address in it; the trace must not have that."""
    kept = []
    digests = set()
    for _ in range(3):
        digests.add(run_of(main, 1).digest)
        kept.append([object() for _ in range(997)])  # other addresses next time
        KEPT.clear()
    assert len(digests) == 1


def test_what_is_started_late_may_end_at_once() -> None:
    """As in `asyncio.run`: a last task that needs no more than a few steps is no failure."""
    log: list[str] = []

    async def quick() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        log.append("done")

    async def starter() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            KEPT.append(asyncio.create_task(quick()))

    async def main() -> None:
        KEPT.append(asyncio.create_task(starter()))
        await asyncio.sleep(0.001)  # in every order it has begun by then

    for order, strategy in PLANS:
        assert run_of(main, order=order, strategy=strategy).error is None
    assert log == ["done"] * len(PLANS)


def test_a_note_is_added_once() -> None:
    """One exception object, raised in many runs of a search, does not collect notes."""
    error = Lost("shared")

    async def main() -> None:
        def broken() -> None:
            raise error

        asyncio.get_running_loop().call_soon(broken)
        await asyncio.sleep(0.1)

    for _ in range(3):
        assert run_of(main).error is error
    assert len(error.__notes__) == 1


def test_what_main_raises_comes_first() -> None:
    """Main's own exception is what the run is known by, whatever was lost besides."""

    async def main() -> None:
        await callback_raises()
        raise KeyError("main")

    with pytest.raises(KeyError, match="main"):
        foretold.run(main)


def test_the_programs_own_handler_is_honoured() -> None:
    """An application that handles such exceptions itself has looked at them."""
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: seen.append(str(context["exception"])))
        await callback_raises()

    assert run_of(main).error is None
    assert seen == ["in a callback"]


def test_a_handler_may_pass_things_on() -> None:
    """Many handlers filter what they know and leave the rest to the loop: that is a failure."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: loop.default_exception_handler(context))
        await callback_raises()

    with pytest.raises(Lost):
        foretold.run(main)


def test_a_handler_that_fails_itself() -> None:
    """asyncio reports that by the default handler, and so it counts."""

    async def main() -> None:
        def handler(loop: object, context: object) -> None:
            raise LookupError("in the handler")

        asyncio.get_running_loop().set_exception_handler(handler)
        await callback_raises()

    with pytest.raises(LookupError, match="in the handler"):
        foretold.run(main)


def test_runs_do_not_report_each_other() -> None:
    """What a failing run leaves behind is collected in that run, not reported by the next one."""

    async def deadlocked() -> None:
        async def stuck() -> None:
            await asyncio.get_running_loop().create_future()

        await asyncio.gather(*(stuck() for _ in range(20)))

    async def harmless() -> None:
        gc.collect()

    for _ in range(5):
        assert isinstance(run_of(deadlocked).error, foretold.Deadlock)
        assert run_of(harmless).error is None


def test_a_task_that_is_awaited_in_the_end_is_fine() -> None:
    """The exception of a task may wait for its reader: only what is never read is lost."""

    async def main() -> None:
        task = asyncio.create_task(failing())
        await asyncio.sleep(1)
        with pytest.raises(Lost):
            await task

    assert run_of(main).error is None


# --- escapes that are swallowed --------------------------------------------------------------

ESCAPES: dict[str, Callable[[], Any]] = {
    "process": lambda: subprocess.run([sys.executable, "-c", ""], check=False),
    "file": lambda: open("/etc/hostname", encoding="utf-8"),  # noqa: SIM115  # it never opens
    "fork": lambda: os.fork(),
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_a_swallowed_escape_fails_the_run(kind: str) -> None:
    """Libraries retry and fall back (`except Exception: pass`); the run was not simulated."""

    async def main() -> str:
        with contextlib.suppress(Exception):
            ESCAPES[kind]()
        await asyncio.sleep(1)
        return "all is well"

    for background in ("fail", "ignore"):
        with pytest.raises(foretold.EscapedWorld, match="would leave the simulated world"):
            foretold.run(main, background_errors=background)
