"""A decorated function can be called without pytest, in a script say, and inside a run."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.failures.store import Store
from foretold.search.planning.portfolio import plans_for, run_seed
from foretold.world.world import World
from tests.pytest_plugin.programs import lost_update

SEEDS: list[int] = []


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Direct calls keep their failures in the current folder."""
    monkeypatch.chdir(tmp_path)
    SEEDS.clear()


@foretold.simulate(runs=3, seed=40)
async def holds(world: World, extra: int = 0):
    """Notes by which seeds it is run."""
    SEEDS.append(world.tape.seed)
    await foretold.together(asyncio.sleep(0), asyncio.sleep(extra))


called: Any = holds  # type checkers know it as it is written, with the world


@foretold.simulate(runs=50, seed=1, confirm=False)
def fails(low: int = 3):
    """Fails for more than half of all numbers."""
    number = foretold.between(0, 9, "number")
    assert number < low


def seeds_of(seed: int, runs: int) -> list[int]:
    """Those of the first runs of a search."""
    plans = len(plans_for(None, "portfolio"))
    return [run_seed(seed, position, plans) for position in range(runs)]


def test_a_call_is_a_search():
    """As many runs as asked for, in simulated worlds; nothing is returned, nothing is kept."""
    assert called() is None
    assert [40, *seeds_of(40, 3)] == SEEDS, "the run that warms up has the seed of the first"
    called(extra=5)
    assert len(SEEDS) == 2 * (1 + 3)
    assert list(Path.cwd().iterdir()) == []


def test_a_failure_is_the_functions_own():
    """Its exception, with the story as a note, and without a line of ours but the call itself."""
    with pytest.raises(AssertionError) as caught:
        fails()
    (note,) = caught.value.__notes__
    found = re.search(r"\nforetold found this in run (\d+) of 50 \(seed (\d+), ", note)
    assert found
    assert int(found[2]) == seeds_of(1, int(found[1]))[-1], "they follow from the decorator's, 1"
    (saved,) = Store(Path.cwd()).all_saved()
    assert note.splitlines()[-1] == f"Replay it: foretold replay {saved.relative_to(Path.cwd())}"
    ours = Path(foretold.__file__).parent
    shown = [entry.path for entry in caught.traceback if ours in Path(str(entry.path)).parents]
    assert [Path(str(path)).name for path in shown] == ["simulate.py"]
    assert caught.traceback[-1].path == Path(__file__)


def test_what_failed_before_comes_first():
    """The saved tape is tried, and set aside once it holds, as with pytest."""
    with pytest.raises(AssertionError):
        fails()
    with pytest.raises(AssertionError) as caught:
        fails()
    assert "\nforetold replayed a saved failure" in caught.value.__notes__[0]
    fails(low=10)
    assert Store(Path.cwd()).all_saved() == []


def test_with_arguments_the_note_shows_the_call():
    """No command could know the arguments: then it is a line of Python."""
    with pytest.raises(AssertionError) as caught:
        fails(low=2)
    last = caught.value.__notes__[0].splitlines()[-1]
    assert last.startswith("Replay it: foretold.replay(lambda: fails(…), '")


def test_seeds_of_direct_calls(monkeypatch: pytest.MonkeyPatch):
    """Environment before decorator before fresh; what is no number is refused."""
    monkeypatch.setenv("FORETOLD_SEED", "0x10")
    called()
    assert [16, *seeds_of(16, 3)] == SEEDS
    monkeypatch.setenv("FORETOLD_SEED", "ten")
    with pytest.raises(foretold.UsageError, match="FORETOLD_SEED=ten: a seed is a whole number"):
        called()
    monkeypatch.delenv("FORETOLD_SEED")
    fresh = foretold.simulate(runs=1)(holds.__wrapped__)  # type: ignore[attr-defined]  # functools.wraps sets it
    fresh()
    fresh()
    assert len({*SEEDS[4:]}) == 2


def test_inside_a_run_it_is_simply_called():
    """So `run`, `explore` and `replay` take the decorated function, and tests may call tests."""
    done = foretold.run(holds, seed=9)
    assert SEEDS == [9]
    assert foretold.replay(holds, done.tape).digest == done.digest
    assert foretold.explore(holds, runs=2, seed=5).runs == 2
    assert [9, 9, 9, 5, *seeds_of(5, 2)] == SEEDS, "a replay and a search warm up"

    async def main(world: World) -> Any:
        await called()
        await called(extra=1)
        return "done"

    assert foretold.run(main, seed=1).value == "done"


def test_inside_a_running_loop_it_is_refused():
    """It would start a loop of its own in the midst of another."""

    async def main() -> None:
        called()

    with pytest.raises(foretold.UsageError, match="called from inside a running one"):
        asyncio.run(main())


def test_what_is_seen_from_outside():
    """Name, docstring and module are the function's; the signature is without the world."""
    assert holds.__name__ == "holds"
    assert holds.__doc__ == "Notes by which seeds it is run."
    assert list(inspect.signature(holds).parameters) == ["extra"]
    assert not inspect.iscoroutinefunction(holds)


def test_a_script(tmp_path: Path):
    """`python script.py`: exit code 1, the traceback of the user's lines, the note below it."""
    script = tmp_path / "script.py"
    script.write_text(lost_update(", seed=3") + "\ntest_no_money_is_lost()\n", "utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
    assert "Replayed in a fresh process: yes." in done.stderr
    assert "Replay it: foretold replay .foretold/failures/test_no_money_is_lost-" in done.stderr
    assert "base_events" not in done.stderr


def test_without_pytest(tmp_path: Path):
    """pytest is not among foretold's dependencies: importing and calling must do without."""
    (tmp_path / "program.py").write_text(lost_update(""), "utf-8")
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import program\n"
        "try:\n    program.test_no_money_is_lost()\n"
        "except AssertionError as error:\n"
        "    assert 'fresh process: yes' in error.__notes__[0], error.__notes__\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, env=dict(os.environ))
    assert done.returncode == 7
