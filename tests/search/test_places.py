"""Which line a story shows for who is somewhere: not the one of a helper that all go through."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import foretold
from foretold.story.places import with_telling_places
from foretold.trace import Place
from foretold.trace.events import Event, Resumed
from tests.search.test_explore import found

HELPER, READ, WRITE, CALL = (Place("app.py", line, "f") for line in (1, 20, 30, 40))


def event(actor: str, step: int, *lines: Place) -> Event:
    """A step that goes on at the first line, reached from the others."""
    return Resumed(step, "main", actor, step, lines[0], lines[1:])


def test_a_helper_gives_way_to_its_caller() -> None:
    """One task comes to it from two lines, so for nobody does it say where they are."""
    events = [
        event("a", 1, HELPER, READ),
        event("a", 2, HELPER, WRITE),
        event("b", 1, HELPER, READ),
    ]
    assert [e.place for e in with_telling_places(events)] == [READ, WRITE, READ]


def test_a_helper_of_a_helper() -> None:
    """The nearest line that says something."""
    inner = Place("app.py", 2, "g")
    events = [
        event("a", 1, inner, HELPER, READ),
        event("a", 2, inner, HELPER, WRITE),
        event("a", 3, inner, CALL),
    ]
    assert [e.place for e in with_telling_places(events)] == [READ, WRITE, CALL]


def test_a_line_that_several_reach_each_in_one_way_stays() -> None:
    """Two deposits meet at the line of the bug: that is what the story is about."""
    events = [event("a", 1, READ), event("b", 1, READ, CALL)]
    assert with_telling_places(events) == events


async def pause() -> None:
    """The helper."""
    await asyncio.sleep(0)


async def check_then_act() -> None:
    """Two tasks that both look, wait and act."""
    taken: list[int] = []

    async def user(late: int) -> None:
        for _ in range(late):
            await pause()
        if not taken:
            await pause()
            taken.append(late)

    await asyncio.gather(user(0), user(3))
    assert len(taken) == 1


def test_a_story_shows_where_in_the_program_they_are() -> None:
    """Not `await asyncio.sleep(0)` in all lines, but the two places that wait."""
    story = found(check_then_act, runs=500, order="any").story
    happened = story.partition("What happened")[2].partition("These two")[0]
    assert "await asyncio.sleep(0)" not in happened
    assert happened.count("await pause()") >= 2


def lost_in_a_thread() -> None:
    """A plain function fails, after its thread has."""
    done: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        with lock, contextlib.suppress(IndexError):
            done.append("a")

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    with lock:
        seen = len(done)
    thread.join()
    assert seen == 0, "the worker came first"


def test_a_plain_main_fails_as_the_main_thread() -> None:
    """It does not wait for ever, as somebody does who never goes on: it is who fails."""
    failure = foretold.explore(lost_in_a_thread, runs=500, confirm=False).failure
    assert failure is not None
    last = failure.story.partition("What happened")[2].partition("\nThese two")[0].splitlines()
    assert "MainThread" in last[-1]
    assert "fails: AssertionError: the worker came first" in last[-1]
    assert "waits forever" not in failure.story
