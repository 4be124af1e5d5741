"""`eventually` and `converges`: seen at the instant at which it is true, told if it never is."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

import foretold
from foretold.kernel.session import session
from foretold.world.world import World

EXACT: dict[str, Any] = {"exact_time": True}


def later(after_s: float, callback: Any, *args: Any) -> None:
    """Something happens in a while."""
    asyncio.get_running_loop().call_later(after_s, callback, *args)


def test_it_returns_at_the_instant() -> None:
    """Not at the next look of a timer: there is none. The value is what the predicate gave."""

    async def main(world: World) -> tuple[Any, float]:
        leader: list[str] = []
        later(1.2345, leader.append, "b")
        return await foretold.eventually(lambda: leader, within_s=5), world.virtual_s

    for order in ("any", "asyncio"):
        value, at_s = foretold.run(main, order=order, **EXACT).value
        assert value == ["b"]
        assert at_s == pytest.approx(1.2345, abs=1e-6)


def test_what_lasts_for_one_turn_is_seen() -> None:
    """A condition that holds for a microsecond, on another host: a timer would miss it."""

    async def blink(box: list[int]) -> None:
        await asyncio.sleep(1)
        box.append(1)
        await asyncio.sleep(1e-6)
        box.clear()
        await asyncio.sleep(100)

    async def main(world: World) -> float:
        box: list[int] = []
        world.host("b").start(lambda: blink(box))
        await foretold.eventually(lambda: bool(box), within_s=5)
        return world.virtual_s

    with session():
        for seed in range(10):
            assert foretold.run(main, seed=seed).value == pytest.approx(1, abs=0.05)


def test_it_says_what_was_seen_last_and_since_when() -> None:
    """In virtual time; the assertion of the predicate is the cause of the failure."""

    async def main() -> None:
        stock = [3]
        later(1, stock.__setitem__, 0, 2)

        def sold_out() -> bool:
            """Everything is sold."""
            assert stock[0] == 0, f"{stock[0]} left"
            return True

        await foretold.eventually(sold_out, within_s=4)

    with pytest.raises(foretold.PropertyViolated) as raised:
        foretold.run(main, **EXACT)
    said = str(raised.value).splitlines()
    assert said[0] == "Everything is sold: not so within 4 s of virtual time."
    assert said[1].startswith("  last seen, from 1 s to 4 s (")
    assert said[1].endswith(": AssertionError: 2 left")
    assert isinstance(raised.value.__cause__, AssertionError)


def test_a_predicate_that_returns_nothing_gets_a_hint() -> None:
    """`def f(): x == 1` without `return` is a mistake that would look like a bug of the program."""

    async def main() -> None:
        def settled() -> None: ...

        await foretold.eventually(settled, within_s=1)

    with pytest.raises(
        foretold.PropertyViolated, match=r"returned None\n.*returns whether it is so"
    ):
        foretold.run(main)


def test_it_fails_the_run_even_if_swallowed() -> None:
    """As `always` does."""

    async def main() -> None:
        with contextlib.suppress(AssertionError):
            await foretold.eventually(lambda: False, "a leader is elected", within_s=1)

    with pytest.raises(foretold.PropertyViolated, match="a leader is elected: not so within 1 s"):
        foretold.run(main)


def test_an_async_predicate_is_asked_again() -> None:
    """It may wait, and ask a server; a last look is made when the time is up."""
    asked = 0

    async def main(world: World) -> None:
        box: list[int] = []

        async def is_there() -> list[int]:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0.001)
            assert box is not None
            return box

        later(3, box.append, 1)
        assert await foretold.eventually(is_there, within_s=4) == [1]
        assert world.virtual_s < 3.2
        box.clear()
        await foretold.eventually(is_there, "late", within_s=4)

    with pytest.raises(foretold.PropertyViolated, match="late: not so within 4 s"):
        foretold.run(main)
    assert asked < 200


def test_a_mistake_of_the_predicate_is_raised() -> None:
    """Another exception than an AssertionError is none of "not yet", at the first look or later."""

    async def main(at: int) -> None:
        looks = 0

        def broken() -> bool:
            nonlocal looks
            looks += 1
            if looks == at:
                raise KeyError("typo")
            return False

        later(1, int)
        await foretold.eventually(broken, within_s=2)

    for at in (1, 2, 3):
        with pytest.raises(KeyError, match="typo"):
            foretold.run(lambda at=at: main(at))


def test_threads_and_other_hosts_may_wait_for_it() -> None:
    """A thread makes it true; a program of another host waits for it, and goes on at its time."""

    async def main(world: World) -> tuple[float, float]:
        box: list[int] = []

        def work() -> None:
            time.sleep(0.5)
            box.append(1)

        async def elsewhere() -> float:
            await foretold.eventually(lambda: len(box) == 2, within_s=5)
            return time.monotonic()

        waiting = world.host("b").start(elsewhere)
        thread = threading.Thread(target=work)
        thread.start()
        await foretold.eventually(lambda: box, within_s=5)
        first_s, began_s = world.virtual_s, time.monotonic()
        later(1, box.append, 2)
        second_s = await waiting - began_s
        thread.join()
        return first_s, second_s

    with session():
        for seed in range(5):
            first_s, second_s = foretold.run(main, seed=seed).value
            assert first_s == pytest.approx(0.5, abs=0.1)
            assert second_s == pytest.approx(1, abs=0.1)


def test_wrong_calls_are_told() -> None:
    """A value is not a function; a time is a number; and there must be a world."""

    async def main(predicate: Any, within_s: Any) -> None:
        await foretold.eventually(predicate, within_s=within_s)

    with pytest.raises(foretold.UsageError, match="eventually takes a function"):
        foretold.run(lambda: main(True, 1))
    with pytest.raises(foretold.UsageError, match="within_s must be above 0"):
        foretold.run(lambda: main(bool, 0))
    with pytest.raises(foretold.UsageError, match="there is no world here"):
        asyncio.run(main(bool, 1))


# --- converges


def flapping(times: int, period_s: float = 0.4) -> Any:
    """A condition that becomes true, and false again, so many times, before it stays true."""

    async def main(world: World) -> float:
        box: list[int] = []
        for number in range(times):
            later(0.2 + number * period_s, box.append, 1)
            later(0.2 + (number + 0.5) * period_s, box.clear)
        later(0.2 + times * period_s, box.append, 1)
        await foretold.converges(lambda: box == [1], "one owner", within_s=2, stays_s=0.5)
        return world.virtual_s

    return main


def test_to_converge_is_to_stay() -> None:
    """True for a moment is not enough, where `eventually` would be content."""
    assert foretold.run(flapping(0), **EXACT).value == pytest.approx(0.7, abs=1e-3)
    assert foretold.run(flapping(3), **EXACT).value == pytest.approx(1.9, abs=1e-3)
    with pytest.raises(foretold.PropertyViolated) as raised:
        foretold.run(flapping(50), **EXACT)
    said = str(raised.value).splitlines()[0]
    assert said.startswith("one owner: so within 2 s of virtual time after faults had stopped, but")
    assert "only from 1.8 s to 2 s" in said


PORT = 80


class Replicas:
    """Two replicas that gossip their value; the one that does not retry loses it in a partition."""

    def __init__(self, retries: bool) -> None:
        self.values = {"a": 7, "b": 0}
        self.retries = retries

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            line = await reader.readline()
            if line:
                self.values["b"] = int(line)
                writer.write(b"ok\n")

    async def serve(self) -> None:
        await asyncio.start_server(self.take, "0.0.0.0", PORT)
        await asyncio.Event().wait()

    async def gossip(self) -> None:
        done = False
        while not done:
            try:
                async with asyncio.timeout(0.3):
                    reader, writer = await asyncio.open_connection("b", PORT)
                    with contextlib.closing(writer):
                        writer.write(b"%d\n" % self.values["a"])
                        done = await reader.readline() == b"ok\n"
            except OSError:
                pass
            if not self.retries:
                return
            await asyncio.sleep(0.05)
        await asyncio.Event().wait()

    async def main(self, world: World) -> None:
        world.host("b").start(self.serve)
        await world.host("b").listening(PORT)
        world.host("a").start(self.gossip)
        await world.clock.advance(1)
        await foretold.converges(self.agree, within_s=3)

    def agree(self) -> bool:
        """Both replicas have the same value."""
        return self.values["a"] == self.values["b"]


def test_faults_stop_before_it_counts() -> None:
    """Replicas that retry converge after any fault; the planted bug does not, in some run. Hosts
    that a fault has killed are started again when faults stop."""
    faults = foretold.faults.network.only("partition", "hold") + foretold.faults.hosts.only("kill")

    async def right(world: World) -> None:
        await Replicas(retries=True).main(world)

    async def wrong(world: World) -> None:
        await Replicas(retries=False).main(world)

    assert foretold.explore(right, runs=40, faults=faults, confirm=False).failure is None
    found = foretold.explore(wrong, runs=60, faults=faults, confirm=False, shrink=False).failure
    assert found is not None
    assert "Both replicas have the same value: not so within 3 s" in str(found.exception)


def test_it_is_a_property_of_a_machine() -> None:
    """Awaited in an invariant of the end; the failure names the invariant."""

    class Lights(foretold.Machine):
        steps = 2
        after_s = 1.0

        @foretold.rule()
        def switch(self) -> None:
            """Nothing."""

        @foretold.invariant(when="end")
        async def light(self) -> None:
            lit: list[int] = []
            later(self.after_s, lit.append, 1)
            await foretold.converges(lambda: lit, "there is light", within_s=2)

    foretold.run(Lights)
    dark = type("Dark", (Lights,), {"after_s": 3.0})
    with pytest.raises(foretold.PropertyViolated, match="there is light: not so") as raised:
        foretold.run(dark)
    assert "the invariant light failed" in str(raised.value.__notes__)


def test_one_tape_one_run() -> None:
    """What is watched is part of the run as everything else: equal tapes give equal digests."""

    async def main(world: World) -> None:
        await Replicas(retries=True).main(world)

    with session():
        foretold.run(main)
        digests = [foretold.run(main, seed=n % 3, faults="network").digest for n in range(6)]
    assert digests[:3] == digests[3:]
    assert len(set(digests)) == 3
