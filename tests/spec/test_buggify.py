"""`buggify`: rare things happen in a quarter of the runs, by the tape, and nowhere else."""

from __future__ import annotations

import pytest

import foretold

RUNS = 200
CALLS = 40


async def site() -> int:
    """How often one site fires in one run."""
    return sum(foretold.buggify("rare thing") for _ in range(CALLS))


def test_outside_of_a_run_it_is_false() -> None:
    """Production code asks it all the time: the answer is no, and costs next to nothing."""
    assert not any(foretold.buggify("rare thing") for _ in range(1_000))


@pytest.mark.usefixtures("one_session")
def test_a_quarter_of_the_runs_and_a_quarter_of_the_time() -> None:
    """A site is either off for the whole run, or fires about every fourth time."""
    fired = [foretold.run(site, seed=seed).value for seed in range(RUNS)]
    on = [count for count in fired if count]
    assert 0.17 < len(on) / RUNS < 0.33
    assert 0.2 < sum(on) / (len(on) * CALLS) < 0.3


@pytest.mark.usefixtures("one_session")
def test_sites_are_switched_on_one_by_one() -> None:
    """Two sites have choices of their own: one more of them changes nothing for the other."""

    async def two() -> tuple[int, int]:
        counts = [0, 0]
        for _ in range(CALLS):
            counts[0] += foretold.buggify("rare thing")
            counts[1] += foretold.buggify("another")
        return counts[0], counts[1]

    alone = [foretold.run(site, seed=seed).value for seed in range(60)]
    both = [foretold.run(two, seed=seed).value for seed in range(60)]
    assert [first for first, _ in both] == alone
    assert {(bool(a), bool(b)) for a, b in both} == {(x, y) for x in (0, 1) for y in (0, 1)}


def test_it_is_found_shrunk_and_told() -> None:
    """A failure that needs a site to fire once is found, shrunk to one firing, and says so."""

    async def main() -> None:
        fired = await site()
        assert not fired, "the rare thing happened"

    failure = foretold.explore(main, runs=100, confirm=False).failure
    assert failure is not None
    assert failure.faults == ["buggify 'rare thing' fires on main"]
    assert "buggify 'rare thing' fires on main" in failure.story
    with pytest.raises(AssertionError, match="rare thing"):
        foretold.replay(main, failure.tape)


@pytest.mark.usefixtures("one_session")
def test_never_in_calm_or_after_healing() -> None:
    """What a test does in calm, or demands after `heal`, is not disturbed by any site."""

    async def main(world: foretold.World) -> int:
        async with world.calm():
            fired = await site()
        await world.heal()
        return fired + await site()

    assert not any(foretold.run(main, seed=seed).value for seed in range(60))


def test_a_site_needs_a_name() -> None:
    """Sites without a name could not be told apart."""

    async def main() -> None:
        foretold.buggify("")

    with pytest.raises(foretold.UsageError, match="needs a name"):
        foretold.run(main)


async def waits() -> list[float]:
    """How long one site waits, each time."""
    return [await foretold.buggify_delay("slow", 0.002, 0.005) for _ in range(CALLS)]


@pytest.mark.usefixtures("one_session")
def test_a_delay_is_drawn_and_waited_for() -> None:
    """In the bounds that were given, in virtual time; and not at all where the site is off."""
    runs = [foretold.run(waits, seed=seed) for seed in range(30)]
    fired = [run for run in runs if any(run.value)]
    assert 0 < len(fired) < len(runs)
    for run in fired:
        delays = [delay for delay in run.value if delay]
        assert all(0.002 <= delay <= 0.005 for delay in delays)
        assert len(set(delays)) > 1
        assert sum(delays) <= run.virtual_s < sum(delays) + 0.1


def test_a_delay_outside_of_a_run_is_none() -> None:
    """Production does not wait; and bounds that are none are refused there as well."""
    waiting = foretold.buggify_delay("slow", 5, 10)
    with pytest.raises(StopIteration) as ended:
        waiting.send(None)
    assert ended.value.value == 0
    with pytest.raises(foretold.UsageError, match="the shortest and the longest"):
        foretold.buggify_delay("slow", 2, 1).send(None)
