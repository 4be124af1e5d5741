"""The critical pair: two steps, and a run that holds in which they come the other way round."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.search.failures import examiner
from foretold.search.failures import pair as pairs
from foretold.search.planning.allowance import Allowance
from foretold.story.decision import Pair
from foretold.trace.content import TaskOutcome
from foretold.trace.events import CalledBack, Ended, Event, Resumed
from foretold.trace.places import Place
from foretold.trace.record import Trace
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings
from tests.helpers import again
from tests.search.test_explore import found, lost_update
from tests.search.test_shrink import (
    connection_breaks,
    large_order,
    lost_on_the_wire,
    oversold,
    racy_counter,
    serve_echo,
    three_causes,
    two_orders,
)


def pair_of(failure: foretold.Failure) -> Pair:
    """The pair that must have been found."""
    assert failure.decision is not None
    assert failure.decision.pair is not None
    return failure.decision.pair


def tapes_of(pair: Pair) -> tuple[foretold.Tape, foretold.Tape]:
    """The one that fails, and the one that holds."""
    assert pair.failing is not None
    assert pair.swapped is not None
    return pair.failing, pair.swapped


def events_of(main: Callable[..., Any], tape: foretold.Tape) -> list[Event]:
    """The steps of a run."""
    trace = Trace(detail=True)
    execute(bind_main(main), tape, Settings.from_tape(tape.settings), trace=trace)
    return [event for event in trace.events if isinstance(event, Resumed | CalledBack)]


def order_of(main: Callable[..., Any], tape: foretold.Tape, pair: Pair) -> tuple[int, int]:
    """At which places of a run the two steps are made."""
    keys = [(event.host, event.actor, event.step) for event in events_of(main, tape)]
    return keys.index(pair.first.key), keys.index(pair.second.key)


@pytest.mark.parametrize(
    ("main", "settings"),
    [
        (functools.partial(lost_update, 4, noise=10), {}),
        (racy_counter, {"preempt": "lines"}),
        (oversold, {}),
        (two_orders, {}),
        (lost_on_the_wire, {}),
    ],
)
def test_swapped_it_holds(main: Callable[..., Any], settings: dict[str, Any]) -> None:
    """Tasks, threads and messages: the tape that is called swapped is run once more here. The two
    steps come the other way round on it, and it holds."""
    failure = found(main, runs=2_000, seed=1_000, **settings)
    pair = pair_of(failure)
    first, second = order_of(main, failure.tape, pair)
    assert first < second
    assert again(main, tapes_of(pair)[1]).error is None
    first, second = order_of(main, tapes_of(pair)[1], pair)
    assert second < first


def test_it_is_the_read_of_the_one_and_the_write_of_the_other() -> None:
    """Not the whole delay is to blame: of dozens of steps that overtake alice, one is. Both stacks
    lead to the line."""
    noisy = functools.partial(lost_update, 4, noise=10)
    pair = pair_of(found(noisy, runs=3_000, order="any"))
    assert pair.first.key == ("main", "bob", 5)
    assert pair.second.key == ("main", "alice", 2)
    stack = [place.function.rpartition(".")[2] for place in pair.second.stack]
    assert stack[:2] == ["alice", "deposit"]


def test_only_the_two_have_changed_places() -> None:
    """All that comes before is the same in both runs, and there the two stand side by side."""
    main = functools.partial(lost_update, 4)
    failure = found(main, runs=3_000, order="any")
    pair = pair_of(failure)
    fails, holds = (
        [(event.actor, event.step) for event in events_of(main, tape)] for tape in tapes_of(pair)
    )
    at = fails.index(pair.first.key[1:])
    assert fails[:at] == holds[:at]
    assert fails[at : at + 2] == holds[at : at + 2][::-1]
    assert again(main, tapes_of(pair)[0]).error is not None


def test_a_value_decides() -> None:
    """No order is to blame: the boundary is named, and its other side was run."""
    failure = found(large_order, runs=100)
    assert failure.decision is not None
    assert failure.decision.pair is None
    assert failure.decision.values == ("pieces = 37", "pieces = 36")
    assert "it fails with pieces = 37, and holds with pieces = 36." in failure.story


async def cut_off(world: foretold.World) -> None:
    """A fault and nothing else breaks it."""
    server = world.host("server")
    server.start(serve_echo())
    await server.listening(80)
    assert not await connection_breaks()


def test_a_fault_decides() -> None:
    """Without it the run holds, and that was tried."""
    failure = found(cut_off, runs=500, faults=foretold.faults.network.only("reset"))
    assert failure.decision is not None
    assert failure.decision.pair is None
    assert failure.decision.needs_faults
    assert "without them it holds" in failure.story


async def always_wrong() -> None:
    """Fails in any order."""
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    raise LookupError


def test_what_fails_in_any_order_is_called_that() -> None:
    """The calm run fails. Orders that might help were tried, and their number is told. A hold that
    changes nothing (the second sleep waits for the first one) is no other order."""
    failure = found(always_wrong, runs=10)
    assert failure.decision is not None
    assert failure.decision.pair is None
    assert failure.story.endswith("It also fails in each of 3 other orders that were tried.")


async def overdrawn() -> None:
    """Stock order is the one that fails: both read before one of them writes."""
    account = {"balance": 100}

    async def withdraw(amount: int) -> None:
        left = account["balance"]
        await asyncio.sleep(0)
        account["balance"] = left - amount

    await asyncio.gather(withdraw(5), withdraw(7))
    assert account["balance"] == 88


def test_a_calm_run_that_fails_has_a_pair_as_well() -> None:
    """Somebody need only have waited for another: for its first step, and no longer."""
    failure = found(overdrawn, runs=10)
    assert not failure.delays
    pair = pair_of(failure)
    assert {pair.first.key[1], pair.second.key[1]} == {"withdraw", "withdraw-2"}
    assert again(overdrawn, tapes_of(pair)[0]).error is not None
    assert again(overdrawn, tapes_of(pair)[1]).error is None
    first, second = order_of(overdrawn, tapes_of(pair)[1], pair)
    assert second < first


async def never_woken() -> None:
    """The flag is cleared after the check: an item that was put meanwhile is not seen."""
    items: list[int] = []
    ready = asyncio.Event()

    async def consumer() -> None:
        while not items:
            await asyncio.sleep(0.001)
            ready.clear()
            await ready.wait()

    async def producer() -> None:
        await asyncio.sleep(0.0015)
        await asyncio.sleep(0)
        items.append(1)
        ready.set()

    async with asyncio.timeout(10):
        await asyncio.gather(consumer(), producer())


def test_what_follows_from_the_timeout_decides_nothing() -> None:
    """The timeout cancels the consumer: that step comes last because the run fails, and not the
    other way round. No step after it is accused."""
    failure = found(never_woken, runs=500)
    assert isinstance(failure.exception, TimeoutError)
    settings = Settings.from_tape(failure.tape.settings)
    seen = examiner.look(bind_main(never_woken), failure.tape, settings)
    causes = seen.events[: examiner.causes_among(seen)]
    assert 0 < len(causes) < len(seen.events)
    assert not any(isinstance(event, CalledBack) and event.is_timeout for event in causes)
    assert failure.decision is not None
    if failure.decision.pair is not None:
        keys = {event.key for event in causes}
        assert {failure.decision.pair.first.key, failure.decision.pair.second.key} <= keys


def test_the_end_of_the_run_decides_nothing() -> None:
    """Tasks that are left over are cancelled when main has ended: those steps are no causes."""
    place = Place("bank.py", 1, "main")
    ended = TaskOutcome("returned", "None")
    events: list[Event] = [
        Resumed(1, "main", "main", 1, place),
        Resumed(2, "main", "serve", 1, place),
        Ended(3, "main", "main", 1, outcome=ended),
        Resumed(4, "main", "serve", 2, place),
    ]
    lost = Run(None, foretold.Tape.seeded(0), Trace(), 0, 0, 0, AssertionError("lost"))
    lost.trace.events.extend(events)
    assert examiner.causes_among(examiner.seen_of(lost)) == 3


async def stale() -> None:
    """A cache is filled with what was read before the write, after the write has emptied it."""
    row, cache = {"a": 1}, {}

    async def reader() -> None:
        await asyncio.sleep(0.001)
        value = row["a"]
        await asyncio.sleep(0.002)
        cache["a"] = value

    async def writer() -> None:
        await asyncio.sleep(0.001)
        row["a"] = 2
        cache.pop("a", None)

    await asyncio.gather(reader(), writer())
    assert cache.get("a", 2) == 2


def test_an_order_that_holds_is_not_passed_over() -> None:
    """The reader cannot wait for the end of the writer, because time does not jump over it, but it
    comes second all the same, and the run holds. The story said that every order fails."""
    pair = pair_of(found(stale, runs=10))
    assert [pair.first.key[1], pair.second.key[1]] == ["reader", "writer"]
    assert again(stale, tapes_of(pair)[1]).error is None
    assert again(stale, tapes_of(pair)[0]).error is not None


async def paid_twice(world: foretold.World) -> None:
    """The client gives up while the bank is at work, and asks again."""
    world.network.latency(0.001, 0.05)
    paid: list[bytes] = []

    async def bank() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                paid.append(await reader.readline())
                await asyncio.sleep(0.15)
                writer.write(b"done\n")

        server = await asyncio.start_server(serve, "0.0.0.0", 7000)
        await server.serve_forever()

    host = world.host("bank")
    host.start(bank)
    await host.listening(7000)
    for _ in range(2):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                reader, writer = await asyncio.open_connection("bank", 7000)
                with contextlib.closing(writer):
                    writer.write(b"pay\n")
                    await reader.readline()
                break
    await asyncio.sleep(1)
    assert len(paid) == 1


def test_the_timeout_that_a_delay_lets_expire_is_named() -> None:
    """No two steps change places: a timeout expires that else does not, and that was seen."""
    failure = found(paid_twice, runs=50)
    assert failure.decision is not None
    assert failure.decision.times is not None
    assert "a timeout of paid_twice expires, with the shorter one it does not" in failure.story


async def alone() -> None:
    """One task, and nobody besides."""
    raise LookupError


def test_of_who_is_alone_nothing_is_said() -> None:
    """There is no order at all."""
    failure = found(alone, runs=10)
    assert failure.decision is None
    assert failure.story.endswith("fails: LookupError")


def test_a_swap_that_was_not_seen_to_hold_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no run ever holds. Then no pair is claimed either, and none is mentioned."""
    monkeypatch.setattr(examiner.Examiner, "holds", lambda self, tape: None)
    failure = found(functools.partial(lost_update, 4), runs=3_000, order="any")
    assert failure.decision is not None
    assert failure.decision.pair is None
    assert "fails: " in failure.story.splitlines()[-1]


def test_no_longer_than_it_may_take() -> None:
    """A program whose runs take seconds: it is told without a pair rather than late."""
    main = functools.partial(lost_update, 4)
    failure = found(main, runs=3_000, order="any")
    done = again(main, failure.tape, detail=True)

    def watch(tape: foretold.Tape, watched: Any) -> Any:
        raise AssertionError("no time is left for a run")

    seen, signature = examiner.seen_of(done), failure.signature
    assert pairs.what_decides(watch, failure.tape, signature, Allowance(0), seen) is None


BALANCE = {"there": 0}


async def kept_in_the_module() -> None:
    """Two deposits into an account that outlives the run; it is right only in a fresh process."""
    before = BALANCE["there"]

    async def deposit(amount: int) -> None:
        read = BALANCE["there"]
        await asyncio.sleep(0)
        BALANCE["there"] = read + amount

    await foretold.together(deposit(1), deposit(2), deposit(4))
    assert before == 0
    assert BALANCE["there"] != 6


def test_runs_that_start_afresh_have_a_pair_too() -> None:
    """With isolation="fork" each run that is looked at begins in a fork, before anything was run
    here: what one leaves behind would decide the next."""
    failure = found(kept_in_the_module, runs=500, order="any", isolation="fork")
    assert failure.decision is not None
    assert failure.decision.pair is not None


def test_an_order_a_fault_and_a_value_have_a_pair_too() -> None:
    """With a fault and a value besides, the order is still what two steps decide."""
    failure = found(three_causes, runs=3_000, seed=100, faults=foretold.faults.network)
    pair = pair_of(failure)
    assert {pair.first.key[1], pair.second.key[1]} == {"clerk", "clerk-2"}


async def wrong_release() -> None:
    """Whoever has let go of the lock lets go of it once more, while another one holds it."""
    lock, pages = asyncio.Lock(), list[str]()

    async def clerk(who: str, start_s: float, *, jams: bool = False) -> None:
        await asyncio.sleep(start_s)
        await lock.acquire()
        if jams:
            lock.release()
            await asyncio.sleep(0.0045)
        else:
            for _ in range(2):
                await asyncio.sleep(0.001)
                pages.append(who)
        if lock.locked():
            lock.release()

    async def bystander() -> None:
        for _ in range(10):
            await asyncio.sleep(0.001)

    jam = functools.partial(clerk, "ann", 0, jams=True)
    work = [clerk("bob", 0.0042), clerk("cyd", 0.0047), bystander()]
    await foretold.together(jam(), *work)
    assert pages in (["bob", "bob", "cyd", "cyd"], ["cyd", "cyd", "bob", "bob"])


async def lost_slot() -> None:
    """A slot is lost if a time limit strikes between the acquisition and the `try`."""
    slots = asyncio.Semaphore(1)

    async def fetch(use_s: float) -> None:
        await slots.acquire()
        await asyncio.sleep(0.001)
        try:
            await asyncio.sleep(use_s)
        finally:
            slots.release()

    async def hurried() -> None:
        await asyncio.sleep(0.0005)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.012):
                await fetch(0.002)  # it has to wait for nearly as long

    async def bystander() -> None:
        for _ in range(3):
            await asyncio.sleep(0.005)

    await foretold.together(fetch(0.0105), hurried(), bystander())
    assert not slots.locked()


def test_two_steps_between_which_time_passes() -> None:
    """No order of what is ready at one instant makes the run hold, but a step that comes later
    does. Where it turns two steps change places, and no bystander's. A replay says the same."""
    failure = found(wrong_release, runs=10)
    pair = pair_of(failure)
    assert (pair.first.key[1], pair.second.key[1]) == ("clerk-2", "clerk")
    assert failure.story.startswith("These two steps decide it.")
    assert "goes on, runs to its end" in failure.story.splitlines()[3]


def test_a_step_and_a_timeout() -> None:
    """The slot is taken before the time is up. The other way round nothing is lost."""
    failure = found(lost_slot, runs=10)
    pair = pair_of(failure)
    assert pair.first.key[1] in ("fetch", "hurried")
    assert pair.second.callback is not None
    assert "  2. a timeout of hurried expires\n" in failure.story


def test_a_step_that_comes_later_makes_no_other_difference() -> None:
    """All tasks but the one go on as they would: a delay of nothing changes nothing, and each step
    before a delayed one is made at its time."""
    tape = foretold.Tape.calm({"order": "any", "strategy": "fifo"})
    before = events_of(lost_slot, tape)
    tape.delayed = ("main", "hurried", 3), 3_000
    after = events_of(lost_slot, tape)
    at = next(n for n, each in enumerate(before) if each.key == ("main", "hurried", 3))
    assert before[:at] == after[:at]
    (moved,) = (each for each in after if each.key == ("main", "hurried", 3))
    assert moved.time_ns - before[at].time_ns >= 3_000


def half_made() -> None:
    """What one thread makes, another one sees before it is done."""
    made: dict[str, int] = {}
    lock, jobs, seen = threading.Lock(), queue.Queue[str | None](), list[int | None]()

    def load() -> int:
        time.sleep(0.001)
        return 5432

    def use() -> int | None:
        if not made:
            with lock:
                if not made:
                    made["host"] = load()
                    made["port"] = load()
        return made.get("port")

    def serve() -> None:
        while jobs.get() is not None:
            seen.append(use())

    servers = [threading.Thread(target=serve, name=f"server-{n}") for n in range(2)]
    for server in servers:
        server.start()
    jobs.put("first")
    time.sleep(0.0025)
    for job in ("second", None, None):
        jobs.put(job)
    for server in servers:
        server.join()
    assert None not in seen


def test_of_several_causes_the_last_is_told_by_the_lines_of_the_race() -> None:
    """Which thread took which job is a cause as well. What is told comes later: one thread takes
    the job and looks before the other one has gone on from `load`. Its steps inside of the queue
    are one."""
    failure = found(half_made, runs=500)
    pair = pair_of(failure)
    assert {pair.first.key[1], pair.second.key[1]} == {"server-0", "server-1"}
    head = failure.story.partition("All take turns")[0]
    assert 'made["port"] = load()' in head
    assert "is back at this line" not in head


async def spent_twice() -> None:
    """A library calls what the program does, in a task of its own. Who is refused never waits."""
    wallet = {"left": 1, "spent": 0}

    async def spend() -> None:
        if left := wallet["left"]:
            await asyncio.sleep(0.002)
            wallet.update(left=left - 1, spent=wallet["spent"] + 1)

    def after(start_s: float, name: str) -> asyncio.Task[None]:
        calls = contextlib.AsyncExitStack()
        calls.push_async_callback(spend)
        calls.push_async_callback(asyncio.sleep, start_s)
        return asyncio.create_task(calls.aclose(), name=name)

    await asyncio.gather(after(0.001, "one"), after(0.0015, "two"))
    assert wallet["spent"] == 1


def test_a_task_that_goes_through_no_line_of_the_user_s_in_the_other_run() -> None:
    """In the run that holds one of them is refused at once; it is one of the two all the same."""
    pair = pair_of(found(spent_twice, runs=10))
    assert {pair.first.key[1], pair.second.key[1]} == {"one", "two"}
