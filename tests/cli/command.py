"""The command as people run it: in a process of its own, in a folder with their program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.report.programs import PYTHON, environment


class Done(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        """All of it, as it is stored."""
        err = f"\n--- error stream\n{self.err.rstrip()}" if self.err else ""
        return f"{self.out.rstrip()}{err}\n--- exit code {self.code}"


def foretold(folder: Path, *arguments: str, **variables: str) -> Done:
    """Run `foretold` with these arguments in a folder. Hash seeds are left to chance."""
    done = subprocess.run(
        [PYTHON, "-m", "foretold", *arguments],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)
