"""`import foretold` is safe in production, also where nothing can be simulated."""

from __future__ import annotations

import subprocess
import sys

import pytest

import foretold
from foretold import engine, platforms

PRODUCTION = """
import sys
{disguise}
before = set(sys.modules)
import foretold
loaded = set(sys.modules) - before
assert not loaded & {{"asyncio", "ctypes", "socket", "foretold.world.world"}}, loaded
assert sum(name.startswith("foretold") for name in loaded) <= 20, sorted(loaded)
assert foretold.always(True, "holds") and not foretold.always(False, "is not judged here")
assert not foretold.sometimes(False, "never")
assert foretold.state("phase", 1) is foretold.reachable("here") is None
assert foretold.buggify("rare") is foretold.mutant("wrong") is False
assert foretold.knob("size", [3, 4]) == 3
try:
    foretold.run
except foretold.ForetoldError as error:
    print(error)
else:
    print("simulates")
"""
DISGUISES = {
    "": "simulates",
    "import sysconfig; sysconfig.get_config_vars(); sys.platform = 'win32'": "this is win32",
    "sys.implementation.name = 'pypy'": "this is pypy",
    "import sysconfig; sysconfig.get_config_var = lambda name: 1": "this is a free-threaded build",
    "sys.version_info = (3, 99, 0, 'final', 0)": "this is 3.99.0",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_production_code_imports_it_anywhere(disguise: str) -> None:
    """The functions that may stay in production code do nothing and load next to nothing, on every
    platform; only what simulates refuses, in one sentence. Seen in fresh interpreters."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCTION.format(disguise=disguise)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert DISGUISES[disguise] in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_every_public_name_is_there() -> None:
    """Names that come at once and names that the engine brings are together the public ones."""
    assert set(engine.__all__) < set(foretold.__all__)
    assert all(getattr(foretold, name) is not None for name in foretold.__all__)
    assert set(foretold.__all__) <= set(dir(foretold))
    with pytest.raises(AttributeError, match="has no attribute 'explroe'"):
        foretold.explroe  # type: ignore[attr-defined]  # noqa: B018  # the mistake is the point


def test_a_fresh_process_finds_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that replay a tape, or make runs for a worker of a cluster, import foretold from
    where it lies here: without `site` (-S) it is not installed for them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = [sys.executable, "-S", "-c", "import foretold; print(foretold.__file__)"]
    found = [
        subprocess.run(command, env=around, capture_output=True, text=True, check=False).stdout
        for around in (platforms.environment_with("0"), platforms.environment_of_child("0"))
    ]
    assert found == ["", f"{foretold.__file__}\n"]
