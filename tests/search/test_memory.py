"""A long search keeps no worlds: what a run leaves is freed before the next one begins."""

from __future__ import annotations

import asyncio
import weakref

import pytest

import foretold
import foretold.kernel.session as session


class Worlds:
    """Counts the worlds that are alive whenever a run begins."""

    def __init__(self, *, fails: bool) -> None:
        self.alive: weakref.WeakSet[foretold.World] = weakref.WeakSet()
        self.most = self.runs = 0
        self._fails = fails

    async def main(self, world: foretold.World) -> None:
        """Two tasks, and a cycle that holds the world."""
        self.alive.add(world)
        self.runs += 1
        self.most = max(self.most, len(self.alive))
        ring: list[object] = [world]
        ring.append(ring)
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(1))
        assert not self._fails, "always"


def test_runs_that_hold_leave_no_world() -> None:
    """At most the one before is there when a run begins."""
    worlds = Worlds(fails=False)
    foretold.explore(worlds.main, runs=60)
    assert worlds.runs >= 60
    assert worlds.most <= 2


@pytest.mark.parametrize(("objects_usual", "most"), [(10**9, 50), (1, 100)])
def test_runs_that_fail_leave_few_worlds(
    objects_usual: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing run may be frozen while its exception is in use; all of them are looked at again
    after a certain number. Planted: without that, each of the runs would stay. On a heap that is
    called large, the second look is not due in so few runs."""
    monkeypatch.setattr(session, "OBJECTS_USUAL", objects_usual)
    monkeypatch.setattr(session, "_failures_due", session.FAILURES_PER_COLLECTION)
    monkeypatch.setattr(session, "_failures", 0)
    worlds = Worlds(fails=True)
    runs = 3 * session.FAILURES_PER_COLLECTION
    outcome = foretold.explore(worlds.main, runs=runs, keep_going=True, shrink=False, confirm=False)
    assert outcome.failure is not None
    assert worlds.runs >= runs
    assert abs(worlds.most - most) <= 5


class Kept(Worlds):
    """An application that exists once keeps an event of the latest run, and so its world."""

    event: asyncio.Event

    async def main(self, world: foretold.World) -> None:
        """Somebody waits for the event."""
        await super().main(world)
        self.event = asyncio.Event()

        async def set_later() -> None:
            await asyncio.sleep(foretold.between(1, 5))
            self.event.set()

        await foretold.together(self.event.wait(), set_later())


@pytest.mark.parametrize(("blocks_more", "most"), [(5_000, 21), (10**9, None)])
def test_what_an_application_keeps_of_a_run_does_not_pile_up(
    blocks_more: int, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is garbage as soon as the next run has put its own in its place, but is frozen by then.
    When memory has grown, everything is looked at. Planted: without that, each world stays."""
    monkeypatch.setattr(session, "_runs", 0)
    monkeypatch.setattr(session, "BLOCKS_MORE", blocks_more)
    monkeypatch.setattr(session, "GROWTH", 1.0)
    worlds = Kept(fails=False)
    foretold.explore(worlds.main, runs=200, seed=1).raise_failure()
    assert worlds.runs >= 200
    assert worlds.most == (worlds.runs if most is None else most)
