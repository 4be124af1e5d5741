"""Shrinking real failures: what remains is the explanation, and it is still the same failure.

The passes by themselves are in `tests/tape/test_shrink_passes.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import statistics
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.search.explore import resume
from foretold.search.failures import workout
from foretold.search.failures.shrinking import Shrinking
from foretold.story.signature import signature_of
from foretold.story.words import source_line
from foretold.tape import WORKLOAD, Tape, load
from foretold.tape.shrink import weight
from foretold.tape.shrink.edit import fingerprint
from tests.helpers import again, soak
from tests.search.test_explore import close_timers, found, lost_update


def check_same_failure(main: Callable[..., Any], failure: foretold.Failure) -> None:
    """The shrunk tape fails like the one that was found, and every hold in it can end."""
    done = again(main, failure.tape)
    assert done.error is not None
    assert signature_of(done.error) == failure.signature
    assert done.broken_holds == 0
    assert done.trace.digest == failure.digest


# --- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, soak(1_000), soak(2_000)])
@pytest.mark.parametrize("strategy", ["random", "pct", "delays"])
def test_one_delay_among_ten_noisy_tasks(strategy: str, seed: int) -> None:
    """Ten tasks chatter meanwhile; what is left is one sentence about alice and bob, with its line.

    However it was found: a random walk writes it as hundreds of short holds. In fewer than 60 runs,
    each of which takes a millisecond or two.
    """
    noisy = functools.partial(lost_update, 4, noise=10)
    failure = found(noisy, runs=3_000, seed=seed, order="any", strategy=strategy)
    [delay] = failure.delays
    assert {delay.actor, delay.hold.until_actor} == {"alice", "bob"}
    assert delay.location is not None
    assert source_line(delay.location) == "await asyncio.sleep(0)"
    assert failure.shrink_runs < 60
    check_same_failure(noisy, failure)


async def two_preemptions() -> None:
    """Needs two things: `c` between the steps of `a`, and `d` between those of `b`."""
    log: list[str] = []

    async def pair(name: str) -> None:
        log.append(name)
        await asyncio.sleep(0)
        log.append(name)

    async def late(name: str) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(pair("a"), pair("b"), late("c"), late("d"))
    text = "".join(log)
    between_a = text[text.index("a") : text.rindex("a")]
    between_b = text[text.index("b") : text.rindex("b")]
    assert not ("c" in between_a and "d" in between_b), text


@pytest.mark.parametrize("seed", [0, soak(100), soak(200), soak(1_000)])
def test_two_delays_where_two_are_needed(seed: int) -> None:
    """Not one too many: each of the two names somebody who had to stand still."""
    failure = found(two_preemptions, runs=3_000, seed=seed, strategy="delays")
    assert len(failure.delays) <= 2
    assert {delay.actor for delay in failure.delays} <= {"pair", "pair-2"}
    check_same_failure(two_preemptions, failure)


@pytest.mark.usefixtures("one_session")
def test_a_race_by_slow_steps_keeps_few_of_them() -> None:
    """A late loop: a step or two that took long are the story, or none if all steps are slow."""
    for seed in range(0, 300, 100):
        failure = found(close_timers, runs=600, seed=seed, order="asyncio")
        assert len(failure.tape.schedule.slows) <= 2
        assert not failure.tape.schedule.holds
        check_same_failure(close_timers, failure)


# --- threads ---------------------------------------------------------------------------------


def racy_counter() -> None:
    """Four threads add one each, and none holds a lock."""
    count = {"n": 0}

    def add() -> None:
        n = count["n"]
        count["n"] = n + 1

    workers = [threading.Thread(target=add) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert count["n"] == 4


def oversold() -> None:
    """Each step is behind the lock, but both together are not."""
    lock, shop = threading.Lock(), {"left": 1, "sold": 0}

    def buy() -> None:
        with lock:
            there_is_one = shop["left"] > 0
        if there_is_one:
            with lock:
                shop["left"] -= 1
                shop["sold"] += 1

    buyers = [threading.Thread(target=buy) for _ in range(5)]
    for buyer in buyers:
        buyer.start()
    for buyer in buyers:
        buyer.join()
    assert shop["sold"] <= 1


def two_orders() -> None:
    """One thread takes a and then b, the other one b and then a."""
    a, b = threading.Lock(), threading.Lock()

    def take(first: threading.Lock, second: threading.Lock) -> None:
        with first, second:
            pass

    one = threading.Thread(target=take, args=(a, b), name="one")
    two = threading.Thread(target=take, args=(b, a), name="two")
    for thread in (one, two):
        thread.start()
    for thread in (one, two):
        thread.join()


@pytest.mark.parametrize(
    ("main", "settings"),
    [(racy_counter, {"preempt": "lines"}), (oversold, {}), (two_orders, {})],
)
def test_races_of_threads_are_one_hold(main: Callable[[], None], settings: dict[str, Any]) -> None:
    """At lines and at locks: one thread is held, at a line, while another one goes on. The hold can
    end: nobody waits for the end of a thread that itself waits. Few runs are enough, by the median
    of independent searches (one of nine takes 70)."""
    failures = [found(main, runs=500, seed=seed, **settings) for seed in range(3)]
    for failure in failures:
        [delay] = failure.delays
        assert delay.location is not None
        assert "test_shrink.py" in delay.location.file
        check_same_failure(main, failure)
    assert statistics.median(failure.shrink_runs for failure in failures) < 60


# --- the network -----------------------------------------------------------------------------


async def answer(store: dict[str, int], reader: Any, writer: Any) -> None:
    """One request: `get`, or a number to be kept."""
    line = await reader.readline()
    if line != b"get\n":
        store["n"] = int(line)
    writer.write(b"%d\n" % store["n"])
    writer.close()


async def ask(line: bytes) -> int:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("server", 80)
    writer.write(line)
    answered = await reader.readline()
    writer.close()
    return int(answered)


async def add_one() -> None:
    """Read, then write: whoever comes between is lost."""
    await ask(b"%d\n" % (await ask(b"get\n") + 1))


async def lost_on_the_wire(world: foretold.World) -> None:
    """Two clients, a fifth of a second apart. Only a late message brings them together."""
    world.network.latency(0.001, 0.050)
    store = {"n": 0}

    async def serve() -> None:
        server = await asyncio.start_server(functools.partial(answer, store), "0.0.0.0", 80)
        await server.serve_forever()

    host = world.host("server")
    host.start(serve())
    await host.listening(80)
    first = asyncio.create_task(add_one(), name="first")
    await asyncio.sleep(0.2)
    await asyncio.gather(first, asyncio.create_task(add_one(), name="second"))
    assert store["n"] == 2, "lost update"


def test_a_race_by_latency_is_one_late_message() -> None:
    """Of some dozens of messages with a latency each, one matters, in most of independent searches
    (in 7 of 8; in the other one two are left). The story says which, and by how much, and shows
    both clients."""
    failures = [found(lost_on_the_wire, runs=2_000, seed=seed) for seed in range(3)]
    failures.sort(key=lambda each: len(departures(each.tape)))
    failure = failures[len(failures) // 2]
    assert not failure.tape.schedule
    assert list(departures(failure.tape).values()) == ["latency"]
    told = failure.story.splitlines()
    assert (
        len([line for line in told if re.match("  a message .* took 2.. ms instead of 1 ms", line)])
        == 1
    )
    assert {"first", "second"} <= {line.split()[2] for line in told if " s  " in line}
    check_same_failure(lost_on_the_wire, failure)


def departures(tape: Tape) -> dict[str, str]:
    """What each choice that is not calm is for, by its place."""
    return {
        f"{name} {position}": choice.label
        for name, entries in tape.choices.items()
        for position, choice in enumerate(entries)
        if choice.value
    }


async def serve_echo() -> None:
    """Gives back each line; a connection that breaks is the client's worry."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "0.0.0.0", 80)
    await server.serve_forever()


async def connection_breaks() -> bool:
    """Talks for a while."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("server", 80)
        for _ in range(40):
            writer.write(b"ping\n")
            if not await reader.readline():
                return True
            await asyncio.sleep(0.05)
        writer.close()
        return False
    return True


async def three_causes(world: foretold.World) -> None:
    """Needs a value, a fault and an order, all three."""
    amount = foretold.between(0, 100, "amount")
    server = world.host("server")
    server.start(serve_echo())
    await server.listening(80)
    broke = await connection_breaks()
    await world.heal()
    log: list[str] = []

    async def clerk(name: str) -> None:
        await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(clerk("first"), clerk("second"))
    assert not (broke and amount >= 20 and log[0] == "second"), "all three"


def test_an_order_a_fault_and_a_value_shrink_together() -> None:
    """One delay, one fault and the least amount are left, however many there were."""
    failure = found(three_causes, runs=3_000, seed=100, faults=foretold.faults.network)
    [delay] = failure.delays
    assert (delay.actor, delay.until) == ("clerk", "clerk-2 had ended")
    assert len(failure.faults) == 1, "to heal the world is no fault"
    assert [choice.value for choice in failure.tape.choices[WORKLOAD]] == [20]
    assert list(departures(failure.tape).values()).count("strikes") == 1
    check_same_failure(three_causes, failure)


def test_faults_that_are_not_needed_are_not_on_the_tape() -> None:
    """A search with faults found a plain race: its tape asks for none."""
    failure = found(value_and_order, runs=500, faults=foretold.faults.network)
    assert "faults" not in failure.tape.settings
    assert set(failure.tape.choices) <= {WORKLOAD}


# --- values ----------------------------------------------------------------------------------


async def large_order() -> None:
    """Fails for orders of 37 pieces and more, whatever else is chosen."""
    colour = foretold.choose(["red", "green", "blue"], "colour")
    pieces = foretold.between(0, 1_000, "pieces")
    names = foretold.draw(st.lists(st.text(), max_size=5), "names")
    await asyncio.sleep(0)
    assert pieces < 37, (colour, pieces, names)


def test_values_shrink_to_the_least_that_fails() -> None:
    """The number goes down to 37, the rest to the calm choice."""
    failure = found(large_order, runs=100)
    done = again(large_order, failure.tape, recording=True)
    assert [choice.value for choice in done.tape.recorded().choices[WORKLOAD][:2]] == [0, 37]
    assert "('red', 37, [])" in str(failure.exception)
    check_same_failure(large_order, failure)


def drawn(strategy: st.SearchStrategy[Any], holds: Callable[[Any], bool]) -> Callable[[], Any]:
    """A program that draws a value, and fails if that does not hold for it."""

    async def main() -> None:
        value = foretold.draw(strategy, "value")
        if not holds(value):
            raise LookupError(repr(value))

    return main


def ledger(*operations: tuple[str, int]) -> int:
    """What is in the till."""
    return sum(amount if kind == "in" else -amount for kind, amount in operations)


async def operations() -> None:
    """As many operations as are drawn; a few of them are needed."""
    done = []
    for _ in range(foretold.between(0, 20, "operations")):
        kind = foretold.choose(["in", "out"], "kind")
        done.append((kind, foretold.between(1, 100, "amount")))
    if ledger(*done) <= -150:
        raise LookupError(repr([kind for kind, _ in done]))


VALUES = {
    "an integer": (drawn(st.integers(), lambda n: n < 1_000), "1000"),
    "a negative one": (drawn(st.integers(), lambda n: n > -1_000), "-1000"),
    "a large one": (drawn(st.integers(0, 10**9), lambda n: n < 123_456), "123456"),
    "a float": (drawn(st.floats(allow_nan=False), lambda x: x < 1_000.5), "1001.0"),
    "a long list": (drawn(st.lists(st.integers(0, 9)), lambda xs: len(xs) < 3), "[0, 0, 0]"),
    "an element": (drawn(st.lists(st.integers(0, 99)), lambda xs: 77 not in xs), "[77]"),
    "a sum": (drawn(st.lists(st.integers(0)), lambda xs: sum(xs) < 1_000), "[1000]"),
    "a text": (drawn(st.text(), lambda text: len(text) < 3), "'000'"),
    "a letter": (drawn(st.text(), lambda t: not any(c.isupper() for c in t)), "'A'"),
    "a dict": (
        drawn(st.dictionaries(st.text(), st.integers()), lambda d: max(d.values(), default=0) < 11),
        "{'': 11}",
    ),
    "a pair of equals": (
        drawn(
            st.tuples(st.integers(0, 30), st.integers(0, 30)), lambda p: p[0] != p[1] or p[0] < 5
        ),
        "(5, 5)",
    ),
    "two that add up": (
        drawn(st.tuples(*[st.integers(0, 999)] * 2), lambda p: sum(p) < 900),
        "(900, 0)",
    ),
    "operations": (operations, "['out', 'out']"),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("seed", [0, soak(1_000)])
def test_each_kind_of_value_becomes_the_simplest_one(name: str, seed: int) -> None:
    """Integers end at the boundary, collections lose what is not needed, equals shrink together."""
    main, simplest = VALUES[name]
    failure = found(main, runs=2_000, seed=seed)
    assert failure.exception.args == (simplest,)
    check_same_failure(main, failure)


async def value_and_order() -> None:
    """Needs a value and an order at once."""
    amount = foretold.between(0, 100, "amount")
    log: list[str] = []

    async def step(name: str) -> None:
        await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(step("first"), step("second"))
    assert amount < 20 or log[0] == "first"


def test_values_and_schedule_shrink_together() -> None:
    """The least amount, and one delay."""
    failure = found(value_and_order, runs=500)
    assert [choice.value for choice in failure.tape.choices[WORKLOAD]] == [20]
    [delay] = failure.delays
    assert delay.actor == "step"
    check_same_failure(value_and_order, failure)


# --- the same failure ------------------------------------------------------------------------


async def two_bugs() -> None:
    """A rare failure, and beside it one that is easier to have."""
    number = foretold.between(0, 1_000, "number")
    if number >= 500:
        raise LookupError("the one that was found")
    if number >= 3:
        raise LookupError("another one")


def test_one_bug_is_not_shrunk_into_another() -> None:
    """The same kind of exception at another line is another failure."""
    failure = found(two_bugs, runs=50, seed=1)
    kept = [choice.value for choice in failure.tape.choices[WORKLOAD]]
    assert kept == ([500] if "found" in str(failure.exception) else [3])
    other = next(
        seed
        for seed in range(2, 20)
        if str(found(two_bugs, shrink=False, seed=seed).exception) != str(failure.exception)
    )
    kept += [choice.value for choice in found(two_bugs, seed=other).tape.choices[WORKLOAD]]
    assert sorted(kept) == [3, 500]


async def two_deadlocks() -> None:
    """Both are of one kind and have no line of their own; who waits where tells them apart."""
    a, b = asyncio.Lock(), asyncio.Lock()
    number = foretold.between(0, 1_000, "number")

    async def first_a() -> None:
        async with a:
            await asyncio.sleep(0)
            async with b:
                pass

    async def first_b() -> None:
        async with b:
            await asyncio.sleep(0)
            async with a:
                pass

    if number >= 500:
        await asyncio.gather(first_a(), first_b())
    elif number >= 3:
        await asyncio.Event().wait()


def test_one_deadlock_is_not_shrunk_into_another() -> None:
    """The lines at which somebody waits for ever are the identity of a deadlock."""
    least = set()
    for seed in range(20):
        failure = found(two_deadlocks, runs=50, seed=seed)
        assert isinstance(failure.exception, foretold.Deadlock)
        places = len(failure.signature.place.split("; "))
        least.add((places, *(choice.value for choice in failure.tape.choices[WORKLOAD])))
        if len(least) == 2:
            break
    assert least == {(1, 3), (3, 500)}


def test_a_shrinker_that_loses_the_failure_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: any failure counts as the same one. What comes out is run once more, and it is said
    that it is not what was found."""

    def any_failure(self: Shrinking, tape: Tape) -> bool:
        return self.again(tape).signature is not None

    monkeypatch.setattr(Shrinking, "_fails", any_failure)
    seed = next(
        n for n in range(20) if "found" in str(found(two_bugs, shrink=False, seed=n).exception)
    )
    failure = found(two_bugs, runs=50, seed=seed)
    assert failure.reproduced is False
    assert "did not fail like this" in failure.doubt
    with pytest.raises(AssertionError):
        check_same_failure(two_bugs, failure)


class Moody:
    """Fails on small numbers only now and then: the program remembers what it was asked before."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    async def main(self) -> None:
        number = foretold.between(0, 1_000, "number")
        again = number in self.seen
        self.seen.add(number)
        assert number < 3 or (again and number < 40)


def test_what_comes_out_fails_when_it_is_run_again() -> None:
    """A tape that failed once, on the way, and then never again, is not the result."""
    failure = found(Moody().main, runs=50)
    [choice] = failure.tape.choices[WORKLOAD]
    assert choice.value >= 40
    assert failure.reproduced is None, "it was seen again"


# --- limits ----------------------------------------------------------------------------------


def test_shrinking_can_be_switched_off() -> None:
    """The tape stays as it was found, a seed, and it fails as well."""
    noisy = functools.partial(lost_update, 2, noise=5)
    failure = found(noisy, runs=500, seed=3, strategy="random", shrink=False)
    assert failure.shrink_runs == 0
    assert failure.tape.origin == "seeded"
    check_same_failure(noisy, failure)


@pytest.mark.parametrize("runs_max", [0, 1, 7])
def test_a_spent_budget_is_no_error(runs_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little may be spent on it, a failing tape comes out."""
    monkeypatch.setattr(workout, "SHRINK_RUNS_MAX", runs_max)
    noisy = functools.partial(lost_update, 2, noise=5)
    failure = found(noisy, runs=500, seed=3)
    assert failure.shrink_runs <= runs_max
    check_same_failure(noisy, failure)


# --- broken off, and gone on with ------------------------------------------------------------


class Interrupted:
    """A program during whose run number `at` somebody presses Ctrl-C."""

    def __init__(self, main: Callable[[], Any], at: int) -> None:
        self.main, self.left = main, at

    async def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        await self.main()


@pytest.mark.parametrize("after", [soak(3), 8, soak(20)])
def test_shrinking_goes_on_from_the_best_tape_that_was_saved(after: int, tmp_path: Path) -> None:
    """Interrupted while shrinking: the best tape so far is on the disk and says that it is not the
    last word. Going on from it ends where it would have ended."""
    whole = found(operations, runs=100, seed=5)
    interrupted = Interrupted(operations, whole.run + 3 + after)  # one does not count
    with pytest.raises(KeyboardInterrupt):
        foretold.explore(interrupted, runs=100, seed=5, confirm=False, save_to=tmp_path)
    [path] = tmp_path.glob("*.tape")
    saved = load(path)
    assert saved.unfinished
    assert weight(whole.tape) < weight(saved.tape)
    resumed = resume(operations, path, confirm=False)
    assert resumed is not None
    assert fingerprint(resumed.tape) == fingerprint(whole.tape)
    assert not load(path).unfinished
    check_same_failure(operations, resumed)


def test_going_on_with_what_holds_by_now(tmp_path: Path) -> None:
    """Somebody has mended it meanwhile: there is nothing to go on with."""
    path = found(two_bugs, runs=50, seed=1).save(tmp_path / "a.tape")
    assert resume(lambda: None, path, confirm=False) is None


def test_one_tape_is_shrunk_to_one_tape() -> None:
    """Shrinking is deterministic."""
    tapes = {fingerprint(found(two_preemptions, runs=3_000, seed=100).tape) for _ in range(3)}
    assert len(tapes) == 1


def test_no_tape_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts are remembered: what the passes ask again costs nothing."""
    asked: list[Any] = []
    still_fails = Shrinking._still_fails

    def remember(self: Shrinking, tape: Tape) -> bool:
        asked.append(fingerprint(tape))
        return still_fails(self, tape)

    monkeypatch.setattr(Shrinking, "_still_fails", remember)
    failure = found(operations, runs=500)
    assert len(asked) == len(set(asked)) == failure.shrink_runs
