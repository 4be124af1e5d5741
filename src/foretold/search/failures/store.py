"""The folder `.foretold`: failing tapes, kept by test until the test holds on them again.

    .foretold/
        .gitignore                      one line, `*`: what a machine found is not part of a project
        failures/
            test_transfer-1f0c8a3e/     the test's name, and a digest of its whole id
                AssertionError-77.tape
        mutants/                        the same of searches with a mutant on, `--mutant NAME`:
            …                           found on purpose, so nobody tries them again unasked
        fixed/                          tapes on which the test has held again, the newest few
        corpus/
            test_transfer-1f0c8a3e/     tapes that reached something new in a long search
        history.jsonl                   one line for each long search: what it reached and found

A failure found yesterday is the first thing tried today. It is not deleted once the test holds on
it: a tape that no longer fails may be a bug that was mended, or merely code that was moved, and
only a person can tell which.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = ".foretold"
SAVED_MAX = 20
"""So many saved failures of one test are tried again, the newest first."""
FIXED_MAX = 100
HISTORY_MAX = 1_000
HISTORY_BYTES_MAX = 10_000_000
NAME_CHARS_MAX = 60

_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_IGNORE_ALL = "# Found by foretold on this machine; no part of the project.\n*\n"


class Store:
    def __init__(self, project: str | os.PathLike[str]) -> None:
        self.root = Path(project, FOLDER)

    def folder_of(self, test: str, mutant: str = "") -> Path:
        """Where the tapes of a test belong. Nothing is made yet. What fails because a mutant is on
        is no bug of the program: it is kept apart."""
        if mutant:
            return self.root / "mutants" / self._name_of(f"{test} {mutant}")
        return self.root / "failures" / self._name_of(test)

    def corpus_of(self, test: str) -> Path:
        """Where the tapes of a test belong that are worth a second look."""
        return self.root / "corpus" / self._name_of(test)

    def _name_of(self, test: str) -> str:
        name = _UNSAFE.sub("-", re.split(r"::|:", test)[-1]).strip("-.")
        digest = hashlib.blake2b(test.encode("utf-8", "replace"), digest_size=4).hexdigest()
        return f"{name[:NAME_CHARS_MAX]}-{digest}"

    def remember(self, test: str, figures: Mapping[str, Any]) -> None:
        """Add a search to the history."""
        path = self.root / "history.jsonl"
        with suppress(OSError):
            self.keep_out_of_git()
            lines = _lines_of(path)[-HISTORY_MAX + 1 :]
            line = json.dumps({"test": test, **figures})
            path.write_text("".join(f"{each}\n" for each in (*lines, line)), "utf-8")

    def history(self, test: str) -> list[dict[str, Any]]:
        """The earlier searches of a test, the oldest first. A line that is none is left out."""
        found = []
        for line in _lines_of(self.root / "history.jsonl"):
            with suppress(ValueError, RecursionError):
                data = json.loads(line)
                if isinstance(data, dict) and data.get("test") == test:
                    found.append(data)
        return found

    def saved(self, test: str, mutant: str = "") -> list[Path]:
        """The saved failures of a test, the newest first."""
        return _newest_first(self.folder_of(test, mutant).glob("*.tape"))[:SAVED_MAX]

    def all_saved(self) -> list[Path]:
        """The saved failures of all tests, the newest first."""
        return _newest_first((self.root / "failures").glob("*/*.tape"))

    def keep_out_of_git(self) -> None:
        """Called when there is something to keep: a project without failures gets no folder."""
        marker = self.root / ".gitignore"
        with suppress(OSError):  # the tape matters more than its surroundings
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists():
                marker.write_text(_IGNORE_ALL, "utf-8")

    def is_writable(self) -> bool:
        """False on a read-only disk: then a failure is reported, but cannot be kept."""
        nearest = self.root
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        return nearest.is_dir() and os.access(nearest, os.W_OK)

    def set_aside(self, path: Path) -> Path:
        """The test holds on this tape now: move it to `fixed`. Returns where it is from now on."""
        new = self.root / "fixed" / f"{path.parent.name}-{path.name}"
        try:
            new.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, new)
        except OSError:
            return path  # not ours to change; it is tried again next time
        os.utime(new)
        for old in _newest_first(new.parent.glob("*.tape"))[FIXED_MAX:]:
            old.unlink(missing_ok=True)
        self._remove_if_empty(path.parent)
        return new

    def discard(self, path: Path) -> None:
        """Delete a tape that never was a failure."""
        with suppress(OSError):
            path.unlink()
        self._remove_if_empty(path.parent)

    def _remove_if_empty(self, folder: Path) -> None:
        with suppress(OSError):
            folder.rmdir()


def _lines_of(path: Path) -> list[str]:
    try:
        if path.stat().st_size > HISTORY_BYTES_MAX:
            return []
        return path.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _newest_first(paths: Iterator[Path]) -> list[Path]:
    found = []
    for path in paths:
        with suppress(OSError):  # another process may have moved it meanwhile
            found.append((-path.stat().st_mtime_ns, path.name, path))
    return [path for *_, path in sorted(found)]
