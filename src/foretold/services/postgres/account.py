"""Who the server runs as, and what that account can reach.

PostgreSQL refuses to run as root, and rightly. If we are root, it runs as an account that is there
already: no account is made and nobody's permissions are changed.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import NamedTuple

from foretold.errors import ServiceError

_CANDIDATES = ("postgres", "nobody")


class Account(NamedTuple):
    uid: int
    gid: int

    def is_ours(self) -> bool:
        """Whether no change of user is needed."""
        return self.uid == os.geteuid()


def account() -> Account:
    """Who the server shall run as: ourselves, or an unprivileged account if we are root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid)
    raise ServiceError(
        "PostgreSQL does not run as root, and this machine has neither an account 'postgres' nor"
        " 'nobody' that it could run as. Run the tests as another user."
    )


def can_reach(who: Account, path: Path) -> bool:
    """Whether this account may enter every folder on the way to a file, and read the file."""
    if who.is_ours():
        return True
    path = path.resolve()
    return all(_may(who, folder, 0o1) for folder in path.parents) and _may(who, path, 0o4)


def _may(who: Account, path: Path, right: int) -> bool:
    found = path.stat()
    if found.st_uid == who.uid:
        right <<= 6
    elif found.st_gid == who.gid:
        right <<= 3
    return bool(stat.S_IMODE(found.st_mode) & right)
