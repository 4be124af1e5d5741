"""Nothing leaves the world in silence: two hundred attempts, by every door that we know."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import resource
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from tests.world.escapes import REAL_FD, REAL_PAIR, all_attempts

ATTEMPTS = all_attempts()
TRACES = ("/tmp/foretold-escaped", "/dev/shm/foretold-escaped", "foretold-escaped")
LEAST = 200


def state_of_the_machine() -> dict[str, Any]:
    """What an attempt that got through would have changed."""
    return {
        "files": [path for path in TRACES if os.path.lexists(path)],
        "temporary": sorted(p.name for p in pathlib.Path("/tmp").glob("foretold-escaped*")),
        "descriptor": os.fstat(REAL_FD).st_rdev,
        "blocking": os.get_blocking(REAL_FD),
        "inheritable": os.get_inheritable(REAL_FD),
        "outputs": [os.fstat(fd).st_ino for fd in (1, 2)],
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "processors": os.sched_getaffinity(0),
        "users": (os.getresuid(), os.getresgid(), os.getgroups()),
        "groups": (os.getpgrp(), os.getsid(0)),
        "environment": os.environ.get("FORETOLD_ESCAPED"),
        "directory": os.getcwd(),
        "mask": umask(),
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "handlers": [signal.getsignal(each) for each in (2, signal.SIGUSR1, signal.SIGUSR2)],
        "mask of signals": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "hostname": socket.gethostname(),
        "timeout": socket.getdefaulttimeout(),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled()),
        "stack": threading.stack_size(),
        "threads": threading.active_count(),
        "received": received(),
    }


def umask() -> int:
    """To read it is to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def received() -> bytes:
    """What has come through a socket that was there before the run."""
    try:
        return REAL_PAIR[1].recv(10, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


def children() -> set[int]:
    """The processes that this one has started, those that have ended included."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            numbers = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            found |= {int(path.parent.name)} if int(numbers[1]) == os.getpid() else set()
    return found


def outcome_of(attempt: Callable[[], object]) -> tuple[str, str]:
    """What a run makes of it: refused, an error as on Linux, or a value."""
    try:
        value = foretold.run(lambda: repr(attempt()), seed=3).value
    except foretold.EscapedWorld as error:
        return "refused", str(error)
    except (OSError, termios.error) as error:
        return type(error).__name__, str(error)
    return "value", value


REFUSED = (
    *("indirect: ctypes", "fork", "system", "chroot", "alarm", "setitimer", "close by"),
    *("connect by", "mkfifo", "execv", "_exit", "abort", "subprocess", "Py_Exit"),
    *(
        "subinterpreter",
        "sethostname",
        "clock_settime",
        "an old",
        "os.read",
        "by keyword",
        "below a descriptor",
        "os.fchdir",
    ),
)
"""Words in the names of attempts that no host can answer."""
ANSWERED = ("ctypes time", "gettimeofday", "clock_gettime", "ctypes getrandom", "ctypes usleep")
"""But for these: clocks, sleeps and randomness are the host's for C as well."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_attempt_is_silent(name: str) -> None:
    """Each is refused, and the error names the call and a remedy; or the host answers it, twice the
    same, and the real machine is as it was."""
    before, older = state_of_the_machine(), children()
    first, second = outcome_of(ATTEMPTS[name]), outcome_of(ATTEMPTS[name])
    assert state_of_the_machine() == before
    assert children() <= older
    assert first == second
    if any(word in name for word in ANSWERED):
        assert first[0] == "value"
    elif any(word in name for word in REFUSED):
        assert first[0] == "refused"
    if first[0] == "refused":
        assert "\nInstead: " in first[1]
    if "spawned" in name:
        gc.collect()  # pipes between processes complain that their descriptors are gone


def test_there_are_enough() -> None:
    """The number that was promised."""
    assert len(ATTEMPTS) >= LEAST
