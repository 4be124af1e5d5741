"""Where a server keeps its files, and a data directory that is ready to start.

Files lie in memory (/dev/shm) if there is room, else where temporary files do. `initdb` takes a
second; its result is kept in the cache directory and copied, which takes some ten milliseconds. It
also makes the first object ids of all servers the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from foretold.errors import ServiceError
from foretold.kernel.native.build import cache_directory
from foretold.services.postgres.account import Account, can_reach
from foretold.services.postgres.binaries import Binaries

_MEMORY = Path("/dev/shm")
_ROOM_BYTES_MIN = 512 * 1024 * 1024
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES_MAX = 107
SUPERUSER = "foretold"
"""Nobody in the world is it. Programs have a role of their own (`state.py`)."""

# Text is compared byte by byte, on every machine alike; only the kinds of characters are UTF-8's.
_INITDB = (
    "--no-sync", f"--username={SUPERUSER}", "--auth=trust", "--encoding=UTF8", "--locale=C",
    "--no-instructions", "--wal-segsize=1",
)  # fmt: skip
_CHARACTERS = "--lc-ctype=C.UTF-8"


# --- places ----------------------------------------------------------------------------------


def make_run_folder(who: Account) -> Path:
    """A new private folder for one server, with a path short enough for a socket in it."""
    looked: list[str] = []
    for place in _places():
        reason = _why_not(place, who)
        if reason is None:
            return private_folder(place, who)
        looked.append(f"  - {place} {reason}")
    raise ServiceError("there is no place for PostgreSQL's files. Looked at:\n" + "\n".join(looked))


def _places() -> Iterator[Path]:
    seen = set()
    for place in (_MEMORY, Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if place not in seen and place.is_dir():
            seen.add(place)
            yield place


def _why_not(place: Path, who: Account) -> str | None:
    if not os.access(place, os.W_OK | os.X_OK) or not can_reach(who, place):
        return "cannot be written to"
    longest = os.fsencode(place / "foretold-12345678" / _SOCKET_NAME)
    if len(longest) > _SOCKET_PATH_BYTES_MAX:
        return f"is too long a path for a socket (more than {_SOCKET_PATH_BYTES_MAX} bytes)"
    room = os.statvfs(place)
    if room.f_bavail * room.f_frsize < _ROOM_BYTES_MIN:
        return f"has less than {_ROOM_BYTES_MIN >> 20} MiB of room"
    return None


def private_folder(place: Path, who: Account) -> Path:
    """A new folder there that nobody but this account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="foretold-", dir=place))
    give(folder, who)
    return folder


def give(path: Path, who: Account) -> None:
    """Make the account the owner of a file or folder of ours."""
    if not who.is_ours():
        os.chown(path, who.uid, who.gid)


def runs_programs(folder: Path) -> bool:
    """Whether programs and libraries may be loaded from there; containers often forbid it."""
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


def socket_in(folder: Path) -> str:
    """The path of the server's socket in its folder."""
    return str(folder / _SOCKET_NAME)


# --- the data directory ----------------------------------------------------------------------


def make_data(found: Binaries, who: Account, target: Path) -> None:
    """A data directory as `initdb` leaves it, owned by the account."""
    kept = _kept_name(found)
    if kept is not None and kept.is_dir():
        _copy(kept, target, who)
        return
    target.mkdir(mode=0o700)
    give(target, who)
    _initdb(found, who, target)
    if kept is not None:
        _keep(target, kept)


def _kept_name(found: Binaries) -> Path | None:
    """Where the result for exactly this program is kept."""
    program = found.initdb.stat()
    parts = (found.version, program.st_size, program.st_mtime_ns, _INITDB, _CHARACTERS)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return cache_directory() / f"postgres-{found.major}-{key}"


def _keep(data: Path, kept: Path) -> None:
    """Copy it to the cache; whoever was faster has made the same."""
    unfinished: str | None = None
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(prefix="unfinished-", dir=kept.parent)
        _copy(data, Path(unfinished, "data"), None)
        os.rename(Path(unfinished, "data"), kept)
    except OSError:
        pass  # no home to keep it in, or no room: `initdb` runs again the next time
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


def _copy(source: Path, target: Path, who: Account | None) -> None:
    """As `shutil.copytree`, in a third of its time: a thousand small files of one kind."""
    os.mkdir(target, 0o700)
    uid, gid = (-1, -1) if who is None or who.is_ours() else who
    os.chown(target, uid, gid)
    with os.scandir(source) as entries:
        for entry in entries:
            there = target / entry.name
            if entry.is_dir(follow_symlinks=False):
                _copy(Path(entry.path), there, who)
                continue
            written = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with open(entry.path, "rb", buffering=0) as file:
                    while data := file.read(1 << 20):
                        os.write(written, data)
                os.fchown(written, uid, gid)
            finally:
                os.close(written)


def _initdb(found: Binaries, who: Account, target: Path) -> None:
    as_account = {} if who.is_ours() else {"user": who.uid, "group": who.gid, "extra_groups": []}
    said = ""
    for options in ((*_INITDB, _CHARACTERS), _INITDB):  # not every system has C.UTF-8
        done = subprocess.run(
            [found.initdb, *options, f"--pgdata={target}"],
            **as_account,  # type: ignore[call-overload]  # of either kind, all of them known
            cwd="/", env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return
        said = said or f"{done.stdout}{done.stderr}"
    last = "\n".join(f"  {line}" for line in said.strip().splitlines()[-12:])
    raise ServiceError(f"initdb could not make a data directory. It said:\n{last}")
