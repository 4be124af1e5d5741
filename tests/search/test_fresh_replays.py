"""Every failure that the examples have is replayed from its tape file by fresh processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.checking.observe import Observation
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.workers.targets import find_function
from foretold.tape.file import load
from tests.helpers import SOAK_FACTOR
from tests.report import programs

WRITTEN = {
    "bank": programs.BANK,
    "noisy": programs.NOISY_BANK,
    "late": programs.LATE,
    "chosen": programs.CHOSEN,
    "stalled": programs.STALLED,
    "deadlock": programs.DEADLOCK,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "examples.lost_update:transfer": {},
    "tests.search.test_wal_kv:forgetful": {},
    "tests.search.test_wal_kv:hasty": {},
    "tests.search.test_lease:split_brain": {"faults": foretold.faults.network, "seed": 1},
    "tests.search.campaign_programs:two_bugs": {},
}


def replay_often(
    main: Callable[..., Any], target: str, folder: Path, times: int, **how: Any
) -> None:
    """Find a failure of `main`, keep its tape, and replay the file in so many fresh processes."""
    outcome = foretold.explore(
        main, runs=500, confirm=False, save_to=folder, target=target, keep_going=False, **how
    )
    failure = outcome.failure
    assert failure is not None
    assert failure.saved_as is not None
    file = load(failure.saved_as)
    expected = Observation(failure.digest, *failure.signature)
    for number in range(times):
        seen = FreshReplayer(target, str(number))(file.tape)
        assert (seen.digest, seen.signature) == (expected.digest, expected.signature)


def replay_written(
    name: str, module: str, folder: Path, patch: pytest.MonkeyPatch, times: int
) -> None:
    """The same for one of the small programs, as a module of this name."""
    programs.write(folder, WRITTEN[name], f"{module}.py")
    patch.syspath_prepend(str(folder))
    replay_often(find_function(f"{module}:main"), f"{module}:main", folder, times)


@pytest.mark.parametrize("target", EXAMPLES)
def test_examples_replay(target: str, tmp_path: Path) -> None:
    """Once each, with the same digest and the same failure."""
    replay_often(find_function(target), target, tmp_path, 1, shrink=False, **EXAMPLES[target])


@pytest.mark.parametrize("name", WRITTEN)
def test_written_programs_replay(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small programs of the reports, shrunk."""
    replay_written(name, f"planted_{name}", tmp_path, monkeypatch, 1)


@pytest.mark.soak
@pytest.mark.parametrize("target", EXAMPLES)
def test_examples_replay_always(target: str, tmp_path: Path) -> None:
    """100 of 100, with 100 hash seeds: five processes for each unit of the soak's factor."""
    replay_often(find_function(target), target, tmp_path, 5 * SOAK_FACTOR, **EXAMPLES[target])


@pytest.mark.soak
@pytest.mark.parametrize("name", WRITTEN)
def test_written_programs_replay_always(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the small programs."""
    replay_written(name, f"planted_{name}_often", tmp_path, monkeypatch, 5 * SOAK_FACTOR)


def test_the_command_replays_a_file(tmp_path: Path) -> None:
    """From another process, by the file alone, as somebody would who was sent it."""
    programs.write(tmp_path, programs.BANK)
    command = [programs.PYTHON, "-m", "foretold"]
    how: dict[str, Any] = {"cwd": tmp_path, "env": programs.environment(), "check": False}
    search = [*command, "explore", "bank:main", "--no-confirm", "--seed", "1"]
    subprocess.run(search, capture_output=True, timeout=100, **how)
    [tape] = tmp_path.glob(".foretold/failures/*/*.tape")
    replay = [*command, "replay", os.fspath(tape)]
    done = subprocess.run(replay, capture_output=True, text=True, timeout=100, **how)
    assert done.returncode == 1
    assert done.stdout.endswith("It fails again, as recorded.\n")
