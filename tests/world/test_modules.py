"""Two replicas of one application on two hosts share no globals, if the test asks for it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import foretold

APPLICATION = """
import asyncio
count = 0

async def main():
    global count
    for _ in range(3):
        count += 1
        await asyncio.sleep(1)
    return count
"""


@pytest.fixture(scope="module", autouse=True)
def application(tmp_path_factory: pytest.TempPathFactory):
    """A small program that counts in a global."""
    folder: Path = tmp_path_factory.mktemp("application")
    (folder / "counting_application.py").write_text(APPLICATION)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("counting_application", None)


async def two_replicas(world: foretold.World, isolate: list[str]) -> tuple[int, int]:
    """The same program on two hosts at once."""
    one = world.host("one", isolate=isolate).start("counting_application:main")
    two = world.host("two", isolate=isolate).start("counting_application:main")
    return await one, await two


def test_each_has_its_own() -> None:
    """As two processes would."""
    done = foretold.run(lambda world: two_replicas(world, ["counting_application"]))
    assert done.value == (3, 3)


def test_shared_without_it() -> None:
    """The check above can fail: by default all hosts see one module."""
    done = foretold.run(lambda world: two_replicas(world, []))
    assert done.value == (6, 6)


def test_a_restarted_process_imports_afresh() -> None:
    """What a process had in memory is gone when it is."""

    async def main(world: foretold.World) -> list[int]:
        host = world.host("one", isolate=["counting_application"])
        first = await host.start("counting_application:main")
        host.kill()
        return [first, await host.restart()]

    assert foretold.run(main).value == [3, 3]


def test_the_test_s_own_copy_is_untouched() -> None:
    """What the hosts do to their copies is not seen outside."""
    foretold.run(lambda world: two_replicas(world, ["counting_application"]))
    assert importlib.import_module("counting_application").count in (0, 6)


def test_a_wrong_name_is_told() -> None:
    """The message shows what to write."""

    async def main(world: foretold.World) -> None:
        world.host("one", isolate=["counting_application"]).start("counting_application")

    with pytest.raises(foretold.UsageError, match="module:function"):
        foretold.run(main)
