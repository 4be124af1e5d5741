"""Each switch of Deep Sci-Fi does what it says, and nothing of the kind happens without it.

`test_kept_tapes.py` runs a tape of each scene, with its switch on and off; here are the searches.
"""

from __future__ import annotations

from typing import Any

import pytest

import foretold
from examples.deep_sci_fi.app import Settings, bugs, create_app
from examples.deep_sci_fi.app.models import Base
from tests.examples import deep_sci_fi as dsf
from tests.examples import deep_sci_fi_scenes as scenes
from tests.helpers import soak

RUNS = 40
"""In so many runs a bug must have shown in its scene."""
QUICK = ("claim_without_lock", "feed_cursor_separator", "rule_self_upvote")
"""For the normal suite: a race, a page, a rule of the game."""
RUNS_WITHOUT = 1
RUNS_WITHOUT_SOAK = 10


def main_for(name: str) -> Any:
    """The scene of a bug, played with the bug on if that is the run's mutant."""
    scene = getattr(scenes, name)

    async def main(world: foretold.World) -> None:
        wrong = [name] * foretold.mutant(name)
        platform = await dsf.start(world, *wrong, callbacks=name.startswith("callback"))
        async with platform.client:
            await scene(platform)

    main.__name__ = main.__qualname__ = name
    return main


@pytest.mark.parametrize("name", [name if name in QUICK else soak(name) for name in bugs.KNOWN])
def test_a_switch_does_what_it_says(name: str) -> None:
    """Switched on, its scene fails within a few runs, by what the scene says must hold."""
    outcome = foretold.explore(
        main_for(name), runs=RUNS, seed=1, shrink=False, confirm=False, mutant=name
    )
    assert outcome.failure is not None
    assert isinstance(outcome.failure.exception, foretold.PropertyViolated), outcome.failure


@pytest.mark.parametrize("runs", [RUNS_WITHOUT, soak(RUNS_WITHOUT_SOAK)])
@pytest.mark.parametrize("name", bugs.KNOWN)
def test_without_it_the_scene_holds(name: str, runs: int) -> None:
    """The same scenes, on tapes that reorder everything, with all switches off."""
    outcome = foretold.explore(main_for(name), runs=runs, seed=2, shrink=False)
    assert outcome.failure is None


def test_every_switch_is_used() -> None:
    """A switch that no line asks for could not be found, and a misspelt one is refused."""
    assert len(bugs.KNOWN) - len(bugs.RULES) >= 16
    assert len(bugs.RULES) == 10
    with pytest.raises(ValueError, match="no such bugs: claims_without_lock; known are"):
        create_app(Settings(bugs=frozenset({"claims_without_lock"})))


def test_two_kinds_of_database_are_enough() -> None:
    """Without bugs all constraints are there; the lax schema lacks just the named indexes."""
    assert bugs.schema(()) is Base.metadata
    lax = bugs.schema({"claim_without_lock"})
    assert lax is bugs.schema({"escalate_unlocked"})

    def indexes(metadata: Any) -> set[str]:
        return {index.name for table in metadata.tables.values() for index in table.indexes}

    missing = {name for names in bugs.WITHOUT.values() for name in names}
    assert indexes(Base.metadata) - indexes(lax) == missing


@pytest.mark.parametrize("order", ["any", "asyncio"])
def test_a_tape_repeats_ids_keys_and_times(order: str) -> None:
    """Nothing in the application draws from elsewhere: one seed gives one database, to the byte."""

    async def main(world: foretold.World) -> list[Any]:
        platform = await dsf.start(world)
        async with platform.client:
            await scenes.claim_without_lock(platform)
        keys = platform.pg.sql("SELECT id, key_hash, last_used_at FROM api_keys ORDER BY id")
        times = platform.pg.sql("SELECT id, created_at FROM feed_events ORDER BY id")
        return [*map(tuple, keys), *map(tuple, times)]

    first, again, other = (foretold.run(main, seed=seed, order=order) for seed in (3, 3, 4))
    assert (first.value, first.digest) == (again.value, again.digest)
    assert first.value != other.value
