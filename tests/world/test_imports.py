"""A module that is imported inside a run: whether it was there before makes no difference."""

from __future__ import annotations

import asyncio
import importlib
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import foretold

SOURCE = """
import asyncio, random, time, uuid
from datetime import datetime
generator, seeded = random.Random(), random.Random(5)
drawn, identity = random.random(), uuid.uuid4()
began, moment, lock = time.monotonic(), datetime.now(), asyncio.Lock()
"""


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that nobody has imported yet."""
    (tmp_path / "lazily_imported.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lazily_imported", raising=False)
    importlib.invalidate_caches()
    return "lazily_imported"


def seen_by(module: Any) -> list[Any]:
    """All that the module drew, and what comes after it."""
    return [
        module.generator.random(),
        module.seeded.random(),
        module.drawn,
        str(module.identity),
        module.began,
        str(module.moment),
        random.random(),
        [hash(lock) for lock in {asyncio.Lock() for _ in range(5)}],
    ]


def test_the_first_run_is_as_the_others(lazy: str) -> None:
    """The digest, what the module drew, and what the run draws afterwards; whichever run is the
    first one in its process."""

    async def main() -> list[Any]:
        await asyncio.sleep(1)
        seen = seen_by(importlib.import_module(lazy))
        await asyncio.sleep(1)
        return seen

    first = [foretold.run(main, seed=seed) for seed in (1, 2, 1)]
    sys.modules.pop(lazy)
    again = [foretold.run(main, seed=seed) for seed in (2, 1)]
    assert [first[0].value, first[1].value] == [again[1].value, again[0].value]
    assert len({first[0].digest, first[2].digest, again[1].digest}) == 1
    assert first[1].digest == again[0].digest != first[0].digest


def test_a_generator_that_an_import_made_follows_the_tape(lazy: str) -> None:
    """As one that was there before the first run does: each seed has a value of its own, and it is
    the same wherever the module was imported. One that the module has seeded keeps its seed."""

    def draw() -> tuple[float, float]:
        module = importlib.import_module(lazy)
        return module.generator.random(), module.seeded.random()

    inside = [foretold.run(draw, seed=seed).value for seed in (1, 2, 1)]
    sys.modules.pop(lazy)
    importlib.import_module(lazy)
    before = [foretold.run(draw, seed=seed).value for seed in (1, 2, 1)]
    assert inside == before
    assert inside[0][0] != inside[1][0]
    assert inside[0][1] == inside[1][1]


def test_hosts_with_modules_of_their_own_differ(lazy: str) -> None:
    """An identity that is drawn at import is another one on each replica."""
    identities: list[str] = []

    async def name_it() -> None:
        identities.append(str(importlib.import_module(lazy).identity))

    async def main(world: foretold.World) -> None:
        for name in ("a", "b"):
            await world.host(name, isolate=[lazy]).start(name_it)

    foretold.run(main)
    foretold.run(main)
    assert identities[0] != identities[1]
    assert identities[:2] == identities[2:]


def test_an_import_that_fails_is_told_without_our_frames(lazy: str, tmp_path: Path) -> None:
    """As outside of a run: Python leaves its import system out of the traceback."""
    (tmp_path / f"{lazy}.py").write_text("import no_such_module_anywhere")

    def main() -> str:
        try:
            __import__(lazy)
        except ModuleNotFoundError as error:
            return "\n".join(traceback.format_exception(error))
        return ""

    told = foretold.run(main).value
    assert "no_such_module_anywhere" in told
    assert "in_a_run" not in told
    assert "importlib" not in told


def test_a_missing_module_is_looked_for_once_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries try optional imports at every call. What is missing stays missing, with the same
    error, until the program or another run looks elsewhere."""
    looked: list[str] = []

    class Finder:
        """Counts who is looked for, and finds nobody."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            looked.append(name)

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.setattr(sys, "path", sys.path[:])

    def attempt() -> str:
        try:
            module = importlib.import_module("an_optional_module")
        except ModuleNotFoundError as error:
            return f"{error} {error.name}"
        return str(module.FOUND)

    def main() -> list[str]:
        seen = [attempt(), attempt(), attempt()]
        sys.path.insert(0, str(tmp_path))
        return [*seen, attempt(), attempt()]

    missing = "No module named 'an_optional_module' an_optional_module"
    before = sys.path[:]
    assert foretold.run(main).value == [missing] * 5
    assert looked == ["an_optional_module"] * 2, "once for each list of places"
    (tmp_path / "an_optional_module.py").write_text("FOUND = 1\n")
    sys.path[:] = before
    importlib.invalidate_caches()
    assert foretold.run(main).value == [missing] * 3 + ["1"] * 2
    sys.modules.pop("an_optional_module")


STARTS_A_PROCESS = """
import subprocess, threading
timer = threading.Timer(1, int)
timer.start()
subprocess.Popen(["fc-list"])
"""


def test_the_remedy_for_what_an_import_does_is_to_import_it_before(
    lazy: str, tmp_path: Path
) -> None:
    """matplotlib, for one, asks another process for fonts when it is imported; it has started a
    thread before, which makes no difference."""
    (tmp_path / f"{lazy}.py").write_text(STARTS_A_PROCESS)
    with pytest.raises(foretold.EscapedWorld, match=f"Instead: import {lazy}  # before the run"):
        foretold.run(lambda: importlib.import_module(lazy))
