"""`foretold check` finds programs whose runs are no function of the tape, and names the cause.

Each cause is planted in a small program. The processes are real, hash seeds and addresses too.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.errors import ForetoldError, UsageError
from foretold.search.checking import check as check_module
from foretold.search.checking import layout
from foretold.search.checking.causes import (
    ADDRESSES,
    ESCAPE,
    MODULE_STATE,
    OUTSIDE,
    REAL_RANDOMNESS,
    REAL_TIME,
    SET_ORDER,
    by_look,
)
from foretold.search.checking.check import Report, check
from foretold.search.checking.leftovers import changes, module_state
from foretold.search.checking.observe import Observation, file_of, look_closely
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.checking.verify import difference_elsewhere
from foretold.search.workers.isolation import in_fork
from foretold.search.workers.warming import cold
from foretold.tape import Tape
from foretold.world.world import World
from tests.report import programs

PLANTED = '''\
"""Programs whose runs depend on more than the tape."""

import asyncio
import hashlib
import time

import foretold
from foretold.kernel.patches import patches

seen = []
cache = {}


async def job(name):
    await asyncio.sleep(0)
    return name


async def deterministic():
    await foretold.together(job("a"), job("b"), job(foretold.between(1, 100)))


async def by_set_order():
    names = {f"user-{number}" for number in range(8)}
    await foretold.together(*(job(name) for name in names))


class Thing:
    pass


async def by_address():
    things = {f"thing-{number}": Thing() for number in range(10)}
    # Addresses in a row stay in a row wherever they begin: mixed, so that each place gives another.
    mixed = {name: hashlib.sha256(str(id(t)).encode()).digest() for name, t in things.items()}
    await foretold.together(*(job(name) for name in sorted(things, key=mixed.get)))


async def warms_up():
    if not cache:
        await asyncio.sleep(0)
        cache["x"] = 1
    await foretold.together(job("a"), job("b"))


async def by_state():
    seen.append(len(seen))
    await foretold.together(job("a"), job(len(seen)))


async def by_real_time():
    with patches.outside():  # as code that makes system calls by itself would read it
        now = time.time()
    await foretold.together(job("a"), job(now))


async def by_escape():
    open("/etc/hostname")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the planted programs, found by child processes as `planted`."""
    programs.write(tmp_path, PLANTED, "planted.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def checked(folder: Path, function: str, runs: int = 1) -> Report:
    """Check one of the planted programs."""
    target = f"planted:{function}"
    return check(target, functools.partial(FreshReplayer, target), runs=runs)


def test_a_deterministic_program_passes(folder: Path) -> None:
    """All of its tapes give the same events everywhere; how many is told."""
    report = checked(folder, "deterministic", runs=3)
    assert report.divergence is None
    assert report.failed is None
    assert len(report.events) == 3
    assert min(report.events) > 10


def test_set_order_is_named(folder: Path) -> None:
    """The order of a set of strings depends on the hash seed, and on nothing else."""
    found = checked(folder, "by_set_order").divergence
    assert found is not None
    assert found.cause is SET_ORDER
    assert found.sides == (
        "a fresh process, PYTHONHASHSEED=1",
        "a fresh process, PYTHONHASHSEED=2",
    )
    assert found.left != found.right
    assert "user-" in (found.left or "")
    assert found.before is not None


def test_addresses_are_named(folder: Path) -> None:
    """Sorting by something made of id(): differs with equal hash seeds as well."""
    found = checked(folder, "by_address").divergence
    assert found is not None
    assert found.cause is ADDRESSES
    assert found.sides[0] == found.sides[1], "the same hash seed on both sides"


def test_addresses_are_named_where_the_experiment_is_denied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container that forbids fixed addresses nothing proves it, but it is the best guess."""

    @contextmanager
    def denied() -> Iterator[bool]:
        yield False

    monkeypatch.setattr(check_module, "fixed_addresses", denied)
    found = checked(folder, "by_address").divergence
    assert found is not None
    assert found.cause is ADDRESSES


def test_state_kept_between_runs_is_named(folder: Path) -> None:
    """A list at module level: fresh processes agree, the runs of one process do not. Its name is
    told."""
    found = checked(folder, "by_state").divergence
    assert found is not None
    assert found.cause is MODULE_STATE
    assert 'isolation="fork"' in found.cause.remedy
    assert "isolate=[" in found.cause.remedy
    assert (found.left, found.right) != (None, None)
    assert "returned 2" in (found.left or "")
    assert "returned 3" in (found.right or "")
    assert found.changer == "second"
    assert found.changed == ("planted.seen (1 item, then 2 items)",)


def test_a_cache_that_fills_is_no_nondeterminism(folder: Path) -> None:
    """Searches and replays do not count the first run of a process. That it differs is told, with
    the event and the name of what it changed."""
    report = checked(folder, "warms_up")
    assert report.divergence is None
    assert report.first is not None
    assert report.first.sides == (
        "the first run in a process",
        "the second run in the same process",
    )
    assert report.first.changer == "first"
    assert report.first.changed == ("planted.cache (0 items, then 1 item)",)
    assert report.first.cause is None, "a cause that was not looked for is not told"


def test_names_of_what_changed() -> None:
    """Numbers, counters and collections, of modules and of their classes; a few are enough."""
    before = {f"bank.n{number}": "0" for number in range(9)} | {"bank.same": "1"}
    after = dict.fromkeys(before, "1") | {"bank.new": "1"}
    assert changes(before, after) == [f"bank.n{n} (0, then 1)" for n in range(3)]
    assert "tests.search.test_check.PLANTED" in module_state()
    assert not any(name.startswith(("foretold.", "json.")) for name in module_state())


@pytest.mark.parametrize("by_litter", [True, False])
def test_what_differs_within_a_process_alone(by_litter: bool, tmp_path: Path) -> None:
    """Where all processes have one layout, id() differs only within a process. It is state only if
    it stays where the heap was littered before."""

    class Replayed:
        """Three runs, of which the last differs; all of them if the heap is another one."""

        def __init__(self, hash_seed: str, *, littered: bool = False) -> None:
            self.tag = "elsewhere" if littered and by_litter else "here"

        def __call__(self, tape: Tape, *, entries: Path | None = None) -> Observation:
            assert entries is not None
            digests = [self.tag, self.tag, "other"]
            for number, digest in enumerate(digests):
                file_of(entries, number).write_text(f"{digest}\n")
            first, counted, last = map(Observation, digests)
            return replace(counted, first=first, next=last)

    found = check("planted:x", Replayed, runs=1).divergence
    assert found is not None
    assert found.cause is (ADDRESSES if by_litter else MODULE_STATE)


def test_real_time_is_named(folder: Path) -> None:
    """A clock read behind foretold's back: neither hash seed nor addresses explain it."""
    found = checked(folder, "by_real_time").divergence
    assert found is not None
    assert found.cause is REAL_TIME


def test_runs_that_fail_alike_are_deterministic_and_said_to_fail(folder: Path) -> None:
    """An escape stops the run at the same place each time; without a word it would look healthy."""
    report = checked(folder, "by_escape")
    assert report.divergence is None
    assert report.failed is not None
    assert report.failed.kind == "foretold.errors.EscapedWorld"


def test_a_target_that_cannot_be_run_is_an_error(folder: Path) -> None:
    """A child that dies says why, instead of counting as equal to another that died."""
    with pytest.raises(ForetoldError, match="planted:nothing"):
        check("planted:nothing", functools.partial(FreshReplayer, "planted:nothing"))


def test_no_runs_are_refused() -> None:
    """A check of nothing would pass."""
    with pytest.raises(UsageError, match="at least 1"):
        check("planted:x", functools.partial(FreshReplayer, "planted:x"), runs=0)


def test_a_run_in_a_fork_is_compared_with_one_elsewhere() -> None:
    """There is one run on each side, and the one here leaves nothing behind."""
    runs: list[int] = []

    async def main(world: World, *, seconds: int = 2) -> None:
        runs.append(seconds)
        assert len(runs) == 1
        await asyncio.sleep(seconds)

    def elsewhere(tape: Tape, *, entries: Path | None = None) -> Observation:
        assert entries is not None
        return in_fork(lambda: look_closely(functools.partial(main, seconds=3), tape, entries))

    found = difference_elsewhere(cold(Tape.seeded(1)), main, elsewhere)
    assert found is not None
    assert found.left != found.right
    assert runs == []


def test_what_differs_shows_where_it_came_from() -> None:
    """Contents that look like times, random values or addresses; and what shows nothing."""
    held = [Observation("digest")]
    date, later = "returned '2031-05-06T07:08:09'", "returned '2031-05-06T07:08:10'"
    assert by_look(held, date, later) is REAL_TIME
    assert by_look(held, "returned 0.0123456", "returned 0.0119") is REAL_TIME
    assert by_look(held, "returned 0.9123456", "returned 0.0119") is REAL_RANDOMNESS
    one, other = (f"returned '{c * 8}-{c * 4}-{c * 4}-{c * 4}-{c * 12}'" for c in "ab")
    assert by_look(held, one, other) is REAL_RANDOMNESS
    assert by_look(held, "returned 4", "returned 5") is OUTSIDE
    assert by_look(held, "worker-1", "worker-2") is OUTSIDE
    assert by_look(held, "worker-1", "worker-2", ADDRESSES) is ADDRESSES
    escaped = [Observation("digest", "foretold.errors.EscapedWorld")]
    assert by_look(escaped, "a", "b") is ESCAPE


def test_a_system_without_fixed_addresses_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`personality` exists on Linux alone; elsewhere the experiment is left out."""

    class Nothing:
        pass

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Nothing())
    with layout.fixed_addresses() as fixed:
        assert not fixed


def test_fixed_addresses_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment changes this process for a moment: what it was before is set again."""
    calls = []

    class Libc:
        @staticmethod
        def personality(value: int) -> int:
            calls.append(value)
            return 8

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Libc())
    with layout.fixed_addresses() as fixed:
        assert fixed
    assert calls == [0xFFFFFFFF, 0x0040000 | 8, 8]
