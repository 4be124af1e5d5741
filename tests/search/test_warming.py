"""The first run of a process is made twice and counts once, in searches, workers and replays."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.report.text import failure_note
from foretold.search.checking.observe import Observation, observe
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.failures.retry import try_again
from foretold.search.workers.brief import Brief
from foretold.search.workers.isolation import runner_for
from foretold.search.workers.targets import find_function
from foretold.search.workers.warming import (
    ONLY_FIRST,
    Warmth,
    failed_alone,
    in_silence,
    run_warm,
    warm_up,
)
from foretold.story.signature import Signature
from foretold.tape import Tape
from foretold.world.run import bind_main
from foretold.world.settings import Settings
from tests.report import programs

WARMING = '''\
"""A cache that fills in the first run, and a list that grows in all of them."""

import asyncio

import foretold

cache, made = {}, []


async def lookup():
    if not cache:
        await asyncio.sleep(0)
        cache["x"] = 1


class Account:
    total = 0


async def add(account):
    before = account.total
    await asyncio.sleep(0)
    account.total = before + 1


async def main():
    await lookup()
    account = Account()
    await foretold.together(add(account), add(account))
    assert account.total == 2, "lost update"


class Pool:
    made = None

    async def open(self):
        await asyncio.sleep(0)


async def pool():
    """Makes the pool once for the whole process, and forgets that others may come meanwhile."""
    if Pool.made is None:
        Pool.made = Pool()
        await Pool.made.open()
        Pool.made.is_open = True
    return Pool.made


async def use_pool():
    assert (await pool()).is_open


async def singleton():
    await foretold.together(use_pool(), use_pool())


async def only_once():
    made.append(1)
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
    assert len(made) == 1, "this user exists already"


async def numbered():
    made.append(1)
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
    if len(made) > 1:
        raise KeyError(f"user {len(made)} of one")
'''


@pytest.fixture
def module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that this process has not run anything of."""
    name = f"warming_{request.node.name.partition('[')[0]}"
    programs.write(tmp_path, WARMING, f"{name}.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def first_only() -> tuple[list[int], Callable[[], Any]]:
    """A program that fails in its first run, and how often it was run."""
    made: list[int] = []

    async def main() -> None:
        made.append(1)
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
        assert len(made) > 1, "the pool is cold"

    return made, main


def test_a_failure_of_a_program_with_a_cache_is_confirmed_without_doubt(module: str) -> None:
    """What a fresh process runs is the run that was found, event by event."""
    found = foretold.explore(find_function(f"{module}:main"), runs=50).failure
    assert found is not None
    assert (found.reproduced, found.doubt) == (True, "")


def test_the_first_counted_run_is_as_the_next() -> None:
    """One tape, run again and again by one runner: one digest. That the uncounted run before them
    gave another one is kept."""
    cache: list[int] = []

    async def main() -> None:
        if not cache:
            await asyncio.sleep(0)
            cache.append(1)

    runner = runner_for(bind_main(main), None)
    briefs = [runner(Tape.calm(), Settings()) for _ in range(3)]
    assert len({brief.digest for brief in briefs}) == 1
    assert briefs[0].first is not None
    assert briefs[0].first.digest != briefs[0].digest
    assert [brief.first for brief in briefs[1:]] == [None, None]


def test_a_run_that_does_not_count_is_not_counted() -> None:
    """Once for all runs of a search, shrinking included; figures are those of the search."""
    made: list[int] = []

    async def main() -> None:
        made.append(1)
        foretold.sometimes(True, "passed")
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))

    outcome = foretold.explore(main, runs=20)
    assert (outcome.runs, outcome.reached, len(made)) == (20, {"passed": 20}, 21)
    assert not outcome.first_differs


def test_every_schedule_is_run_in_a_warm_process() -> None:
    """The enumeration compares runs with one another: a first one that differs would mislead it."""
    made, main = first_only()
    outcome = foretold.explore(main, strategy="exhaustive", delays=1)
    assert [found.first_only for found in outcome.failures] == [True]
    assert (len(made), outcome.runs) == (2, 1)


def test_a_failure_of_the_first_run_alone_is_a_failure() -> None:
    """The runs that count hold, and the search has failed all the same. The function cannot be
    imported, so no fresh process can confirm it: that is said."""
    outcome = foretold.explore(first_only()[1], runs=5)
    found = outcome.failure
    assert found is not None
    assert (found.first_only, found.reproduced, found.stock) == (True, None, None)
    assert str(outcome).startswith(
        "AssertionError: the pool is cold, found in the first run of a process, made before run 1"
    )
    note = failure_note(found, runs=5, command="x")
    assert "Only the first run of the process failed: the same tape held" in note
    assert "Beware: it was not replayed, because only a fresh process could" in note
    with pytest.raises(AssertionError, match="the pool is cold"):
        outcome.raise_failure()


def test_a_race_for_a_singleton_is_found_and_replayed_cold(module: str, tmp_path: Path) -> None:
    """It can be lost once in a process. The tape is saved as a cold one; a fresh process confirms
    it, and the replay in another fresh process fails as recorded."""
    target = f"{module}:singleton"
    outcome = foretold.explore(find_function(target), runs=20, save_to=tmp_path, target=target)
    found = outcome.failure
    assert found is not None
    assert (found.first_only, found.reproduced, found.doubt) == (True, True, "")
    assert found.saved_as is not None
    verdict = try_again(found.saved_as, FreshReplayer)
    assert (verdict.word, verdict.why) == ("STILL FAILS", "")


def test_with_keep_going_both_failures_are_told() -> None:
    """The search goes on behind the first run, and finds what else there is."""
    made: list[int] = []

    async def main() -> None:
        made.append(1)
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
        assert len(made) > 1, "the pool is cold"
        assert len(made) < 4, "too many"

    outcome = foretold.explore(main, runs=5, keep_going=True, shrink=False, confirm=False)
    assert [(found.first_only, found.run) for found in outcome.failures] == [(True, 1), (False, 3)]
    assert outcome.runs == 5


def test_a_first_run_that_takes_long_is_no_failure() -> None:
    """It imports modules. A limit of real time that it alone exceeds is told as a note."""
    first = Brief(Signature("foretold.errors.LimitExceeded", ""), message="slow", in_real_time=True)
    assert not failed_alone(first, None)
    assert failed_alone(replace(first, in_real_time=False), None)


def test_each_worker_warms_up() -> None:
    """A forked worker is a process of its own, and makes a first run."""
    outcome = foretold.explore(first_only()[1], runs=12, workers=2, confirm=False)
    found = outcome.failure
    assert found is not None
    assert found.first_only
    assert "the pool is cold" in str(found.exception)


def test_forks_begin_cold() -> None:
    """With isolation="fork" each run is the first one of its process: here all of them fail. The
    tape says so, and its replay is a first run, too."""
    made, main = first_only()
    found = foretold.explore(main, runs=5, isolation="fork", confirm=False).failure
    assert found is not None
    assert found.tape.settings["cold"] is True
    made.clear()
    with pytest.raises(AssertionError, match="the pool is cold"):
        foretold.replay(main, found.tape)
    assert len(made) == 1
    assert observe(bind_main(main), found.tape).first is None


def test_one_run_is_one_run() -> None:
    """`foretold.run` does what it says; a replay warms up before. What fails meanwhile alone is not
    passed over."""
    made, main = first_only()
    with pytest.raises(AssertionError):
        foretold.run(main)
    assert len(made) == 1
    made.clear()
    with pytest.raises(AssertionError, match="the pool is cold") as caught:
        foretold.replay(main, Tape.calm())
    assert ONLY_FIRST in caught.value.__notes__
    assert len(made) == 2


def test_what_fails_in_a_second_run_alone_is_told_as_such(module: str) -> None:
    """A test that disturbs itself fails in every run that counts. A fresh process shows that its
    first run holds, and the note asks the right question."""
    found = foretold.explore(find_function(f"{module}:only_once"), runs=5).failure
    assert found is not None
    assert found.reproduced is True
    note = failure_note(found, runs=5, command="x")
    assert (
        "Replayed in a fresh process: yes, but only when it was run there for the second time; the "
        "first run held.\nDoes the program keep something between runs" in note
    )


def test_a_second_run_that_fails_in_other_words_is_told_as_such_too(module: str) -> None:
    """The message counts the runs, so no two of them are the same. That the first run of the fresh
    process held is what helps: Sanic and other applications at module level start only once."""
    found = foretold.explore(find_function(f"{module}:numbered"), runs=5).failure
    assert found is not None
    note = failure_note(found, runs=5, command="x")
    assert "though it fails in the same way; the first run of that process held; event " in note
    assert "Does the program keep something between runs" in note


def test_an_observation_travels(module: str) -> None:
    """What a fresh process saw of all three runs, if it looks closely."""
    seen = FreshReplayer(f"{module}:only_once")(Tape.calm())
    assert seen.first is not None
    assert (seen.first.failed, seen.failed, seen.next) == (False, True, None)
    assert Observation.from_json(seen.to_json()) == seen


class TestSilence:
    """What a run does that nobody has asked for is not seen."""

    def test_nothing_is_printed(self, capfd: pytest.CaptureFixture[str]) -> None:
        """By writing, by a logger that was set up before, and by one that the run makes and keeps:
        the runs that count are heard, all of them."""
        logger = logging.getLogger("tests.warming")
        logger.propagate = False
        before = logging.StreamHandler(sys.stderr)
        logger.addHandler(before)
        made: list[Any] = []

        def main() -> None:
            if not made:
                made.append(sys.stdout)
            sys.stdout.write("printed\n")
            made[0].write("kept\n")
            logger.warning("logged")

        try:
            foretold.replay(main, Tape.calm())
        finally:
            logger.removeHandler(before)
        sys.stdout.flush()
        assert capfd.readouterr() == ("printed\nkept\n", "logged\n")

    def test_two_threads_do_not_take_the_output_from_each_other(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """A process makes one run at a time: the second thread is told so at once, before it has
        led anything away, and may search when the first has ended."""
        refused: list[str] = []

        def main() -> None:
            pass

        def second() -> None:
            calls: list[Callable[[], object]] = [
                lambda: foretold.explore(main, runs=2),
                lambda: foretold.replay(main, Tape.calm()),
                lambda: foretold.run(main),
            ]
            for call in calls:
                try:
                    call()
                except foretold.UsageError as error:
                    refused.append(str(error))

        for in_progress in (in_silence(), contextlib.nullcontext()):
            with in_progress:
                thread = threading.Thread(target=second)
                thread.start()
                thread.join()
        assert len(refused) == 3
        assert all("another thread of this process" in text for text in refused)
        os.write(1, b"heard\n")
        assert capfd.readouterr().out == "heard\n"

    def test_nobody_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A breakpoint stops the run that is replayed, not the one before it."""
        stops: list[int] = []
        monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(1))
        foretold.replay(lambda: breakpoint(), Tape.calm())
        assert stops == [1]

    def test_a_warning_is_shown_by_the_run_that_counts(self) -> None:
        """Once, although Python shows a warning once only for each line."""
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            foretold.replay(lambda: warnings.warn("old", stacklevel=1), Tape.calm())
        assert [str(each.message) for each in shown] == ["old"]


def test_what_cannot_be_run_is_left_to_the_run_that_counts() -> None:
    """An error of our own, or an odd exception, ends nothing before the search has begun."""

    def main() -> None:
        raise SystemExit(3)

    done = run_warm(bind_main(main), Tape.calm(), Settings())
    assert isinstance(done.error, SystemExit)
    with pytest.raises(foretold.UsageError, match="inside a run"):
        foretold.run(lambda: foretold.replay(main, Tape.calm()))


def test_who_shares_its_warmth_warms_up_once() -> None:
    """The runs of a search and those that work out what it found, in one process."""
    made, main = first_only()
    warmth = Warmth()
    for _ in range(2):
        runner_for(bind_main(main), None, warmth=warmth)(Tape.calm(), Settings())
    assert len(made) == 3
    assert warm_up(bind_main(main), Tape.calm(), Settings(cold=True)) is None
    assert len(made) == 3
