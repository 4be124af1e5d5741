"""A small process that starts the server, and stops it and clears up when its owner is gone.

However the owner ends (normally, by Ctrl-C, by SIGKILL), its end of our standard input is closed,
and we read the end of file. Executed as a program of its own, with nothing but these imports; it
first gives up root's rights, since Python itself may lie where nobody else can read it.

    stdin    nothing is ever written; its end means: the owner is gone
    stdout   "started PID", and later "ended STATUS" if the server ends by itself
    argv     a JSON object: uid and gid (or null), program (with arguments), environment, data, log,
             folders (to be removed)
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from typing import Any, NoReturn

_PATIENCE_S = 5.0
_LINE_OF_SHARED_MEMORY = 6  # of postmaster.pid, counted from 0: key and id
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(job: dict[str, Any]) -> None:
    """Start the server, wait for the owner's end, clear up."""
    for number in _ENDINGS:
        signal.signal(number, _leave)
    if job["uid"] is not None:
        os.setgroups([])
        os.setgid(job["gid"])
        os.setuid(job["uid"])
    server = Postmaster(job)
    try:
        server.watch()
        while os.read(0, 1):
            pass
    finally:
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        server.stop()
        for folder in job["folders"]:
            shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


class Postmaster:
    """The postmaster, our child, and the processes that are its children."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.data = os.path.realpath(job["data"])
        self.is_gone = False
        job["environment"]["FORETOLD_PG_GUARDIAN"] = str(os.getpid())
        self.pid = os.fork()
        if not self.pid:
            _become(job)
        _say(f"started {self.pid}")

    def watch(self) -> None:
        """Report it if the server ends by itself, or has done so already."""
        signal.signal(signal.SIGCHLD, lambda number, frame: self.look())
        self.look()

    def look(self) -> None:
        if not self.is_gone:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.is_gone = True
                _say(f"ended {status}")

    def stop(self) -> None:
        """SIGQUIT first: then it takes its shared memory with it."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        others = [pid for pid in _processes_in(self.data) if pid != self.pid]
        if not self.is_gone:
            os.kill(self.pid, signal.SIGQUIT)
        for pid in others:
            _kill(pid)  # some may be stopped (SIGSTOP), and would let the server wait for seconds
        limit = time.monotonic() + _PATIENCE_S
        while not self.is_gone:
            if time.monotonic() > limit:
                _kill(self.pid)
            time.sleep(0.002)
            self.look()
        _remove_shared_memory(self.data)


def _become(job: dict[str, Any]) -> NoReturn:
    try:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.setsid()
        os.execve(job["program"][0], job["program"], job["environment"])
    except OSError as error:
        os.write(2, f"{job['program'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _say(text: str) -> None:
    # Should nobody listen any more, standard input is at its end as well.
    with contextlib.suppress(OSError):
        os.write(1, text.encode() + b"\n")


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):  # it may have gone meanwhile
        os.kill(pid, signal.SIGKILL)


def _remove_shared_memory(data: str) -> None:
    """A server that was killed leaves its key to shared memory, and the file that names it."""
    with contextlib.suppress(OSError, IndexError):
        with open(os.path.join(data, "postmaster.pid"), encoding="utf-8") as file:
            number = file.read().splitlines()[_LINE_OF_SHARED_MEMORY].split()[1]
        os.waitpid(os.posix_spawnp("ipcrm", ["ipcrm", "-m", number], {"PATH": os.defpath}), 0)


def _processes_in(folder: str) -> list[int]:
    """All processes that work in this folder: those of a server work in its data directory."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # of others, or gone meanwhile
            if os.readlink(f"/proc/{name}/cwd") == folder:
                found.append(int(name))
    return found


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
