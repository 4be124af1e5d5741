"""The write-ahead log example: what a power cut does to a store that forgets to sync a directory.

A search finds the lost write by itself and tells it; the correct store survives crashes with torn,
lost and reordered writes. Two more planted mistakes show that it is the crashes that find them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import foretold
from examples.wal_kv import store
from examples.wal_kv.simulation import survive
from examples.wal_kv.store import HEADER, ForgetfulStore, HastyStore, Store
from tests.helpers import SOAK_FACTOR

RUNS_MAX = 300


async def careful(world: foretold.World) -> None:
    """The example without a bug."""
    await survive(world, Store)


async def forgetful(world: foretold.World) -> None:
    """The example with its bug."""
    await survive(world, ForgetfulStore)


async def hasty(world: foretold.World) -> None:
    """Another bug: a rename before the data is there."""
    await survive(world, HastyStore)


def test_the_forgotten_directory_is_found_and_told() -> None:
    """An acknowledged write is lost in a crash; the story says which name was lost with it, and the
    tape replays."""
    outcome = foretold.explore(forgetful, runs=RUNS_MAX, confirm=False)
    failure = outcome.failure
    assert failure is not None
    assert outcome.runs <= 50
    assert "has lost a write that was acknowledged" in str(failure.exception)
    assert "crash store" in failure.story
    assert "lost: " in failure.story
    with pytest.raises(foretold.PropertyViolated, match="has lost a write"):
        foretold.replay(forgetful, failure.tape)


@pytest.mark.parametrize("seed", [1_000, 2_000, 3_000])
def test_it_is_found_from_any_seed(seed: int) -> None:
    """Not by luck: from other seeds as well, within the stated number of runs."""
    assert foretold.explore(
        forgetful, runs=RUNS_MAX, seed=seed, shrink=False, confirm=False
    ).failure


def test_a_rename_without_its_data_is_found() -> None:
    """The base gets its name before its content is durable."""
    assert foretold.explore(hasty, runs=RUNS_MAX, shrink=False, confirm=False).failure


def test_a_log_without_checksums_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn record is taken for a whole one if its length alone is looked at."""

    def trusting(data: bytes) -> Iterator[tuple[str, bytes]]:
        at = 0
        while at + HEADER.size <= len(data):
            _, key_size, value_size = HEADER.unpack_from(data, at)
            end = at + HEADER.size + key_size + value_size
            if not key_size or end > len(data):
                return
            key = data[at + HEADER.size : end - value_size].decode(errors="replace")
            yield key, data[end - value_size : end]
            at = end

    monkeypatch.setattr(store, "records", trusting)
    assert foretold.explore(careful, runs=RUNS_MAX, shrink=False, confirm=False).failure


def survives(runs: int) -> None:
    """No failure in so many runs, and in most of them there was something to lose."""
    outcome = foretold.explore(careful, runs=runs, confirm=False)
    assert outcome.failure is None
    assert outcome.runs == runs
    assert outcome.reached["a crash with something to lose"] > runs // 2
    assert outcome.reached["more than ten puts"] > runs // 10


def test_the_careful_store_survives() -> None:
    """With torn, lost and reordered writes in every run."""
    survives(200)


@pytest.mark.soak
def test_the_careful_store_survives_long() -> None:
    """The same for 5,000 runs and more."""
    survives(max(5_000, 250 * SOAK_FACTOR))
