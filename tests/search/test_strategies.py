"""Strategies: what each finds, what it learns, and what the exhaustive one may say afterwards.

The programs are in `programs/`: small bugs as people write them, each with its repaired twin. How
many runs each strategy needs for which is measured by `benchmarks/search.py`.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

import foretold
from foretold.errors import UsageError
from foretold.kernel.schedulers.profile import Profile
from foretold.search.planning.budget import FLOOR, Budget
from foretold.search.planning.portfolio import PORTFOLIO, Plan, plan_of, plans_for, run_seed
from foretold.tape import ENDED, Hold, Schedule, Setting, Tape
from tests.helpers import SOAK_FACTOR, again
from tests.search.campaign_programs import spin_until_done
from tests.search.programs.catalogue import BUGS
from tests.search.programs.lost_updates import lost_update, lost_update_tcp

RUNS_TO_FIND = 1_000
RUNS_OF_A_TWIN = 100
CALM = {"order": "asyncio", "strategy": "fifo"}
MEAN_RUNS_MAX = {2: 5, 4: 8, 8: 12, 16: 20}
"""Until the lost update is found, for B who has to overtake A by so many steps; measured 3.3, 4.6,
6.3 and 11 over 30 searches."""
MEAN_RUNS_MAX_TCP = 40
NEEDS_TIME = {
    "flushed_between",
    "lease_has_run_out",
    "lock_kept_after_a_timeout",
    "ordered_by_sleeping",
    "paid_twice",
    "reply_to_another_question",
    "update_lost_on_the_wire",
}
"""A loop or a message has to be late: the order of tasks alone does not show them."""


def searched(main: Any, **how: Any) -> foretold.Outcome:
    """A search for itself: nothing is shrunk or confirmed."""
    return foretold.explore(main, **{"shrink": False, "confirm": False, **how})


def mean_runs(main: Any, searches: int) -> float:
    """How many runs a search needs, on average."""
    needed = []
    for number in range(searches):
        outcome = searched(main, runs=2_000, seed=number * 1_009)
        assert outcome.failure is not None
        needed.append(outcome.runs)
    return sum(needed) / len(needed)


# --- finding ---------------------------------------------------------------------------------


def test_there_are_many_programs() -> None:
    """Forty at least, as promised."""
    assert len(BUGS) >= 40


@pytest.mark.parametrize("name", BUGS)
def test_each_bug_is_found(name: str) -> None:
    """By the portfolio, within a thousand runs; though it passes in stock order, undisturbed."""
    buggy = functools.partial(BUGS[name], False)
    assert again(buggy, Tape.calm(CALM)).error is None
    outcome = searched(buggy, runs=RUNS_TO_FIND, seed=11)
    assert outcome.failure is not None


@pytest.mark.parametrize("name", BUGS)
def test_no_repaired_twin_fails(name: str) -> None:
    """What was repaired holds, in every order: else the tester would be at fault."""
    outcome = searched(functools.partial(BUGS[name], True), runs=RUNS_OF_A_TWIN, seed=5)
    assert outcome.failure is None, outcome.failure


@pytest.mark.soak
@pytest.mark.parametrize("name", BUGS)
def test_no_repaired_twin_ever_fails(name: str) -> None:
    """The same, for long."""
    runs = RUNS_OF_A_TWIN * SOAK_FACTOR
    outcome = searched(functools.partial(BUGS[name], True), runs=runs, seed=10_000)
    assert outcome.failure is None, outcome.failure


@pytest.mark.parametrize("k", MEAN_RUNS_MAX)
def test_the_lost_update_is_found_in_few_runs(k: int) -> None:
    """However far one has to overtake the other: what runs have shown is used by those after."""
    assert mean_runs(functools.partial(lost_update, k), 30) <= MEAN_RUNS_MAX[k]


def test_the_lost_update_over_tcp_is_found_in_few_runs() -> None:
    """The order of messages is drawn by the network, and schedulers do not get in its way."""
    assert mean_runs(lost_update_tcp, 10) <= MEAN_RUNS_MAX_TCP


# --- learning --------------------------------------------------------------------------------


def test_what_was_learned_stands_on_the_tape() -> None:
    """A run that used it is repeated from its tape alone, without the search."""
    for seed in range(6):
        outcome = searched(functools.partial(lost_update, 8), runs=400, seed=seed * 101)
        failure = outcome.failure
        assert failure is not None
        found = again(functools.partial(lost_update, 8), failure.tape)
        assert isinstance(found.error, AssertionError)
        assert found.digest == failure.digest


def test_a_profile_is_read_as_it_was_written() -> None:
    """Text on a tape, and back; nonsense is refused."""
    profile = Profile(12, 30, {"alice": 3, "a b=c": 4})
    assert Profile.parse(profile.text) == profile
    assert Profile.parse("") == Profile()
    for wrong in ("12", "[1]", '["a", 1, {}]', '[1, 2, {"a": -1}]', "{"):
        with pytest.raises(UsageError, match="not a profile"):
            Profile.parse(wrong)


# --- the budget ------------------------------------------------------------------------------


def test_a_seed_keeps_its_plan() -> None:
    """However the budget shifts: a seed says by itself how its run is scheduled."""
    budget = Budget(PORTFOLIO, 1_234)
    taken = set[int]()
    for number in range(500):
        plan, seed = budget.next()
        assert plan == plan_of(seed, PORTFOLIO)
        assert seed not in taken
        taken.add(seed)
        budget.learn(seed, 5 if plan.strategy == "pct" else number % 2)


def test_the_budget_follows_what_is_new() -> None:
    """A plan that goes on finding gets more runs than the rest; nobody falls below the floor."""
    plans = plans_for("any", "portfolio")
    single = tuple(dict.fromkeys(plans))
    budget = Budget(single, 0)
    counts = dict.fromkeys(single, 0)
    for _ in range(1_000):
        plan, seed = budget.next()
        counts[plan] += 1
        budget.learn(seed, 3 if plan.strategy == "delays" else 0)
    best = counts.pop(Plan("any", "delays"))
    assert best > 2 * max(counts.values())
    assert min(counts.values()) >= FLOOR * 1_000 / len(single) - 2


def test_without_news_all_plans_are_alike() -> None:
    """They come in turn, and the first run has the seed of the search."""
    budget = Budget(PORTFOLIO, 7)
    taken = [budget.next() for _ in range(20)]
    assert [seed for _, seed in taken] == [run_seed(7, n, len(PORTFOLIO)) for n in range(20)]
    assert [plan for plan, _ in taken] == [PORTFOLIO[(7 + n) % len(PORTFOLIO)] for n in range(20)]
    assert taken[0][1] == 7


def test_plans_that_seem_to_vary_nothing_come_later() -> None:
    """While all runs in stock order are one and the same, few more of them are made; as soon as one
    of them differs, they have their share again."""
    stock = [plan for plan in PORTFOLIO if plan.order == "asyncio"]
    budget = Budget(PORTFOLIO, 7)

    def in_stock_order() -> int:
        return sum(budget.next()[0] in stock for _ in range(120))

    usual = in_stock_order()
    budget.doubt(stock, doubted=True)
    doubted = in_stock_order()
    budget.doubt(stock, doubted=False)
    assert 1 <= doubted <= usual // 5
    assert in_stock_order() >= usual - 2


def test_equal_searches_make_equal_runs() -> None:
    """The same seed and the same program: the same runs, and the same failure."""
    first, second = (
        searched(functools.partial(BUGS["lock_thrown_away"], False), runs=500, seed=9)
        for _ in range(2)
    )
    one, other = first.failures[0], second.failures[0]
    assert (first.runs, one.seed) == (second.runs, other.seed)
    assert one.tape.settings == other.tape.settings


# --- every schedule --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4, 8, 16])
def test_exhaustive_finds_every_lost_update(k: int) -> None:
    """One delay is enough for each of them, so they are found among those with one."""
    outcome = searched(functools.partial(lost_update, k), strategy="exhaustive", delays=1)
    assert outcome.failure is not None
    assert outcome.covered.startswith("the schedule without any delay, and ")


@pytest.mark.parametrize("k", [2, 4])
def test_exhaustive_covers_the_repaired_one(k: int) -> None:
    """To the end, and says what that was and no more."""
    outcome = searched(functools.partial(lost_update, k, True), strategy="exhaustive", delays=2)
    assert outcome.failure is None
    assert outcome.covered == "all schedules with at most 2 delays"
    assert outcome.runs > 50


@pytest.mark.parametrize("name", sorted(set(BUGS) - NEEDS_TIME))
def test_exhaustive_misses_no_ordering_bug(name: str) -> None:
    """Each of the programs that need an order of tasks alone fails with two delays at most."""
    buggy = functools.partial(BUGS[name], False)
    outcome = searched(buggy, strategy="exhaustive", delays=2, runs=20_000)
    assert outcome.failure is not None


def test_what_exhaustive_found_is_told_as_any_failure() -> None:
    """Shrunk, with a story, and its tape replays."""
    main = functools.partial(lost_update, 4)
    outcome = foretold.explore(main, strategy="exhaustive", confirm=False)
    assert outcome.failure is not None
    [delay] = outcome.failure.delays
    assert {delay.actor, delay.hold.until_actor} == {"a", "b"}
    assert isinstance(again(main, outcome.failure.tape).error, AssertionError)


def test_a_search_that_was_cut_says_so() -> None:
    """It ends with the runs it was given, and claims what it has run."""
    main = functools.partial(lost_update, 8, True)
    outcome = searched(main, strategy="exhaustive", runs=150)
    assert outcome.runs == 150
    assert outcome.covered.startswith("all schedules with at most 1 delay, and ")
    assert outcome.covered.endswith(" of those with 2")


def test_a_race_on_a_plain_object_is_never_skipped() -> None:
    """All six orders of two times two appends to a list are met."""
    met = set[tuple[str, ...]]()

    async def main() -> None:
        seen = list[str]()

        async def note(name: str) -> None:
            seen.append(name)
            await asyncio.sleep(0)
            seen.append(name)

        await asyncio.gather(note("a"), note("b"))
        met.add(tuple(seen))

    searched(main, strategy="exhaustive", delays=2)
    assert len(met) == 6


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"strategy": "exhaustive", "order": "asyncio"}, "leave order out"),
        ({"strategy": "exhaustive", "isolation": "fork"}, "leave isolation out"),
        ({"strategy": "exhaustive", "delays": -1}, "delays is a whole number, 0 or more"),
        ({"delays": 2}, 'delays=2 is for strategy="exhaustive" alone'),
    ],
)
def test_wrong_calls(how: dict[str, Any], words: str) -> None:
    """What cannot be meant is refused, with the line to write instead."""
    with pytest.raises(UsageError, match=words):
        foretold.explore(functools.partial(lost_update, 2), **how)


# --- cancellation ----------------------------------------------------------------------------


async def hit_somewhere(hits: set[str], by_timer: bool) -> None:
    """A task with several awaits, one of them woken by another task, that is cancelled sometime."""
    woken = asyncio.Event()
    place = ["not begun"]

    async def victim() -> None:
        try:
            place[0] = "first"
            await asyncio.sleep(0.001)
            place[0] = "second"
            await woken.wait()
            place[0] = "third"
            await asyncio.sleep(0)
            place[0] = "done"
        except asyncio.CancelledError:
            hits.add(place[0] + (" when woken" if woken.is_set() else ""))
            raise

    async def waker() -> None:
        await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        woken.set()

    async def canceller() -> None:
        await asyncio.sleep(0.001)
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()

    task = asyncio.create_task(victim())
    others = [asyncio.create_task(waker())]
    if by_timer:
        asyncio.get_running_loop().call_later(0.00102, task.cancel)
    else:
        others.append(asyncio.create_task(canceller()))
    await asyncio.wait([task, *others])
    hits.add(place[0] if not task.cancelled() else "cancelled")


@pytest.mark.parametrize("by_timer", [True, False])
def test_a_cancellation_hits_at_every_await(by_timer: bool) -> None:
    """Wherever the task may wait, and in the same tick as its wake-up too."""
    hits = set[str]()
    searched(functools.partial(hit_somewhere, hits, by_timer), runs=600, seed=3)
    wanted = {"first", "second", "second when woken"}
    assert wanted <= hits
    if not by_timer:
        assert {"third when woken", "done"} <= hits


# --- fairness --------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["random", "pct", "pos", "surw", "delays"])
def test_starvation_is_no_hang(strategy: str) -> None:
    """Two tasks spin until a third has done its work: every strategy lets it, in time."""

    main = functools.partial(spin_until_done, 5, spinners=2)
    for steps_max in (60_000, 2_000):
        outcome = searched(main, runs=150, strategy=strategy, steps_max=steps_max)
        assert outcome.failure is None


def test_exhaustive_ends_where_somebody_spins() -> None:
    """A delay does not last for ever, and what was cut is said."""

    main = functools.partial(spin_until_done, 1)
    outcome = searched(main, strategy="exhaustive", delays=1, runs=2_000)
    assert outcome.failure is None
    assert "no delay of more than" in outcome.covered


def test_a_hold_that_starves_is_no_hang() -> None:
    """A tape that somebody made up may hold for ever who is waited for: it ends within the limit of
    steps, whatever that is."""

    main = functools.partial(spin_until_done, 0)
    settings: dict[str, Setting] = {"order": "any", "strategy": "fifo", "steps_max": 2_000}
    held = Schedule.of([Hold("main", "work", 1, "spin", ENDED)])
    done = again(main, Tape.calm(settings).derived(schedule=held))
    assert done.error is None
    assert done.broken_holds == 1


def test_a_hold_on_another_host_is_no_hang() -> None:
    """Who is held there goes on when nothing else can, as at home."""
    main = functools.partial(BUGS["reply_to_another_question"], True)
    for actor in ("server", "_create_server_getaddrinfo", "serve"):
        for step in (1, 2):
            held = Schedule.of([Hold("server", actor, step, "nobody", 1)])
            tape = Tape.calm({"order": "any", "strategy": "fifo"}).derived(schedule=held)
            assert again(main, tape).error is None
