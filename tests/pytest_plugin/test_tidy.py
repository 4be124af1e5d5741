"""Tracebacks without our frames: whatever the exception brings along, and whoever raised it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

import foretold
from foretold.pytest_support.tidy import tidy


async def fails() -> None:
    """Raises with a cause and a context, after a step."""
    await asyncio.sleep(0)
    try:
        int("x")
    except ValueError as cause:
        raise LookupError("mine") from cause


def error_of(main: Callable[[], object]) -> BaseException:
    """What a run of `main` raises, with all frames in it."""
    found = foretold.explore(main, shrink=False, confirm=False).failure
    assert found is not None
    return found.exception


def functions_in(error: BaseException | None) -> list[str]:
    """The functions along a traceback."""
    assert error is not None
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_between_the_users_lines_ours_are_taken_out():
    """`together` stands between the test and its task; before the test stands a whole loop."""

    async def main() -> None:
        await foretold.together(fails(), fails())

    error = error_of(main)
    assert "together" in functions_in(error), "else there is nothing to take out"
    assert functions_in(tidy(error, main)) == ["main", "fails"]
    assert functions_in(error.__cause__) == ["fails"]


def test_members_of_a_group_are_tidied_too():
    """Each has a traceback of its own."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(foretold.together(fails()))

    error = tidy(error_of(main), main)
    assert isinstance(error, BaseExceptionGroup)
    assert functions_in(error)[0] == "main"
    assert {tuple(functions_in(each)) for each in error.exceptions} == {("fails",)}


def test_the_line_of_a_property_is_the_last():
    """It was raised inside of `always`, but stated in the user's line."""

    def main() -> None:
        foretold.always(False, "said")

    assert functions_in(tidy(error_of(main), main)) == ["main"]


def test_what_no_line_raised_is_shown_at_the_function():
    """A deadlock comes from the loop: the function's `def` is the best there is."""

    @foretold.simulate  # its line is the function's first, not the one to show
    async def main() -> None:
        await asyncio.Event().wait()

    error = tidy(error_of(main), main)
    (frame,) = traceback.extract_tb(error.__traceback__)
    assert frame.filename == __file__
    assert frame.name == "main"
    assert frame.line == "async def main() -> None:"


def test_a_circle_of_exceptions_has_an_end():
    """Two that name each other as context."""
    left, right = ValueError("left"), ValueError("right")
    left.__context__, right.__context__ = right, left
    assert tidy(left, fails) is left
