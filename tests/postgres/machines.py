"""What the tests of this folder share: the servers of this machine, and children that use one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from foretold.services.postgres import binaries
from foretold.services.postgres.side import SideConnection

ROOT = Path(__file__).parents[2]
START_US = 1_700_000_000_000_000  # 2023-11-14 22:13:20 UTC
SECOND_US = 1_000_000


def installations() -> dict[int, Path]:
    """The folder of programs for each major version that is here; the extra has two at least."""
    found: dict[int, Path] = {}
    for _, folder in binaries._places():
        version = binaries._version(folder / "postgres")
        if version is not None:
            found.setdefault(binaries._major(version), folder)
    return found


def start_child(program: str, **environment: str) -> subprocess.Popen[str]:
    """A Python process of its own that runs this text, and may be talked to."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip


def run_child(program: str, **environment: str) -> str:
    """What a Python process says that runs this text; it must end well."""
    child = start_child(program, **environment)
    said, errors = child.communicate()
    assert child.returncode == 0, errors
    return said


def processes_in(folder: str) -> list[str]:
    """Processes that work somewhere below this folder, or were started with it."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and path.name != str(os.getpid()):
            try:
                words = (path / "cmdline").read_bytes().decode(errors="replace")
                place = os.readlink(path / "cwd")
            except OSError:
                continue  # it has ended meanwhile
            if folder in words or place.startswith(folder):
                found.append(f"{path.name}: {words!r} in {place}")
    return found


def wait_until_blocked(side: SideConnection) -> None:
    """Read until the server says that this session waits for a lock."""
    while b"still waiting for" not in side._buffer:
        data = side._receive()
        assert data, "the server has hung up"
        side._buffer += data
