"""What a process of a host is to the system: its user, its numbers, its priority, its limits.

All of it begins alike on every machine, but for the user, who is the one that runs the tests (the
program's own files are that user's). A process may become any other user, as root may. What it sets
is kept and told, and has no effect: the tape decides who runs, and modes of files are not enforced.
"""

from __future__ import annotations

import errno
import grp
import os
import resource
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import real
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretold.world.host import Host

PID: Final = 4242
PARENT: Final = 4241
"""The process that has started it: the leader of its group and its session."""
PROCESSORS: Final = 4
_MEMORY_PAGES: Final = (8 << 30) // os.sysconf("SC_PAGESIZE")
_KEEP: Final = -1
_NICE_MIN, _NICE_MAX = -20, 19
_INFINITE: Final = resource.RLIM_INFINITY
_LIMITS: Final = {
    resource.RLIMIT_NOFILE: (1_024, 1 << 20),
    resource.RLIMIT_STACK: (8 << 20, _INFINITE),
    resource.RLIMIT_CORE: (0, _INFINITE),
    resource.RLIMIT_NPROC: (31_000, 31_000),
}
_SIZES: Final = {
    "SC_NPROCESSORS_ONLN": PROCESSORS,
    "SC_NPROCESSORS_CONF": PROCESSORS,
    "SC_PHYS_PAGES": _MEMORY_PAGES,
    "SC_AVPHYS_PAGES": _MEMORY_PAGES // 2,
    "SC_OPEN_MAX": _LIMITS[resource.RLIMIT_NOFILE][0],
    "SC_CHILD_MAX": _LIMITS[resource.RLIMIT_NPROC][0],
}


class Identity:
    """That of one process; public methods are named as the functions of `os` and `resource`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.users = list(real.getresuid())
        """Real, effective and saved."""
        self.groups = list(real.getresgid())
        self._by_letter = _calls_about(self.users, "u") | _calls_about(self.groups, "g")
        self._others = real.getgroups()
        self._group = self._session = PARENT
        self._niceness = 0
        self._policy, self._parameter = os.SCHED_OTHER, 0
        self._processors = set(range(PROCESSORS))
        self._limits: dict[int, tuple[int, int]] = {}

    def answer_of(self, call: str) -> Callable[..., Any] | None:
        """Who answers a call of `os` or `resource`."""
        module, _, name = call.partition(".")
        if module not in ("os", "resource") or name.startswith("_") or name == "answer_of":
            return None
        return self._by_letter.get(name) or getattr(self, name, None)

    # --- users and groups ------------------------------------------------------------------------

    def getgroups(self) -> list[int]:
        return list(self._others)

    def getlogin(self) -> str:
        raise os_error(errno.ENXIO)  # nobody has logged in at a terminal

    def setgroups(self, groups: Any) -> None:
        self._others = [int(each) for each in groups]

    def initgroups(self, username: str, gid: int) -> None:
        named = [each.gr_gid for each in grp.getgrall() if username in each.gr_mem]
        self._others = sorted({gid, *named})

    # --- numbers of the process ------------------------------------------------------------------

    def _check_own(self, pid: int) -> None:
        if pid not in (0, PID):
            raise os_error(errno.ESRCH)

    def getppid(self) -> int:
        return PARENT

    def getpgrp(self) -> int:
        return self._group

    def getpgid(self, pid: int) -> int:
        self._check_own(pid)
        return self._group

    def getsid(self, pid: int) -> int:
        self._check_own(pid)
        return self._session

    def setpgid(self, pid: int, pgrp: int) -> None:
        self._check_own(pid)
        self._group = pgrp or PID

    def setpgrp(self) -> None:
        self._group = PID

    def setsid(self) -> None:
        if self._group == PID:
            raise os_error(errno.EPERM)  # the leader of a group
        self._group = self._session = PID

    def pidfd_open(self, pid: int, flags: int = 0) -> int:
        raise os_error(errno.ENOSYS)

    def wait(self, *args: int, **names: int) -> Any:
        raise os_error(errno.ECHILD)

    wait3 = wait4 = waitid = waitpid = wait

    # --- how it is scheduled ---------------------------------------------------------------------

    def nice(self, increment: int) -> int:
        self._niceness = max(_NICE_MIN, min(_NICE_MAX, self._niceness + increment))
        return self._niceness

    def _check_priority(self, which: int, who: int) -> None:
        if which not in (os.PRIO_PROCESS, os.PRIO_PGRP, os.PRIO_USER):
            raise os_error(errno.EINVAL)
        if which == os.PRIO_PROCESS:
            self._check_own(who)

    def getpriority(self, which: int, who: int) -> int:
        self._check_priority(which, who)
        return self._niceness

    def setpriority(self, which: int, who: int, priority: int) -> None:
        self._check_priority(which, who)
        self._niceness = max(_NICE_MIN, min(_NICE_MAX, priority))

    def sched_getscheduler(self, pid: int) -> int:
        self._check_own(pid)
        return self._policy

    def sched_setscheduler(self, pid: int, policy: int, param: Any) -> None:
        self._check_own(pid)
        self._policy, self._parameter = policy, param.sched_priority

    def sched_getparam(self, pid: int) -> os.sched_param:
        self._check_own(pid)
        return os.sched_param(self._parameter)

    def sched_setparam(self, pid: int, param: Any) -> None:
        self._check_own(pid)
        self._parameter = param.sched_priority

    def sched_rr_get_interval(self, pid: int) -> float:
        self._check_own(pid)
        return 0.1

    def sched_getaffinity(self, pid: int) -> set[int]:
        self._check_own(pid)
        return set(self._processors)

    def sched_setaffinity(self, pid: int, mask: Any) -> None:
        self._check_own(pid)
        chosen = set(mask) & set(range(PROCESSORS))
        if not chosen:
            raise os_error(errno.EINVAL)
        self._processors = chosen

    def sched_yield(self) -> None:
        self._host.spin()

    # --- the machine and its limits --------------------------------------------------------------

    def cpu_count(self) -> int:
        return PROCESSORS

    def getloadavg(self) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0

    def sysconf(self, name: Any) -> int:
        number = os.sysconf_names.get(name, name) if isinstance(name, str) else name
        for known, value in _SIZES.items():
            if os.sysconf_names.get(known) == number:
                return value
        return real.sysconf(name)

    def getrusage(self, who: int) -> resource.struct_rusage:
        if who not in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN, resource.RUSAGE_THREAD):
            raise ValueError("invalid who parameter")
        used_s = 0.0 if who == resource.RUSAGE_CHILDREN else self._host.cpu_ns() / 1e9
        return resource.struct_rusage((used_s, *(0.0,), *(0,) * 14))

    def getrlimit(self, kind: int, /) -> tuple[int, int]:
        real.getrlimit(kind)  # its errors
        return self._limits.get(kind) or _LIMITS.get(kind, (_INFINITE, _INFINITE))

    def setrlimit(self, kind: int, limits: Any, /) -> None:
        soft, hard = limits
        if hard != _INFINITE and (soft == _INFINITE or soft > hard):
            raise ValueError("current limit exceeds maximum limit")
        self.getrlimit(kind)
        self._limits[kind] = (soft, hard)

    def prlimit(self, pid: int, kind: int, limits: Any = None, /) -> tuple[int, int]:
        self._check_own(pid)
        before = self.getrlimit(kind)
        if limits is not None:
            self.setrlimit(kind, limits)
        return before


def _calls_about(ids: list[int], letter: str) -> dict[str, Callable[..., Any]]:
    """`getuid`, `setresuid` and their like for users (`u`) or groups (`g`)."""

    def change(real: int, effective: int, saved: int) -> None:
        wanted = (real, effective, saved)
        ids[:] = [old if new == _KEEP else new for old, new in zip(ids, wanted, strict=True)]

    return {
        f"get{letter}id": lambda: ids[0],
        f"gete{letter}id": lambda: ids[1],
        f"getres{letter}id": lambda: tuple(ids),
        f"set{letter}id": lambda number: change(number, number, number),
        f"sete{letter}id": lambda effective: change(_KEEP, effective, _KEEP),
        f"setre{letter}id": lambda real, effective: change(real, effective, effective),
        f"setres{letter}id": change,
    }
