"""Ways in which a program may try to leave the world, each as one function.

Each attempt leaves by another door: an alias that was taken before the run, the module in C, a
table of functions, a partial object, ctypes, a later import, a thread, a callback from C. What
comes of it is judged in test_escapes.py: the host answers it, it is refused, or it has no effect.
"""

from __future__ import annotations

import _posixsubprocess
import _socket
import _thread
import atexit
import builtins
import contextvars
import ctypes
import faulthandler
import fcntl
import functools
import gc
import importlib
import io
import itertools
import json
import mmap
import multiprocessing
import operator
import os
import pathlib
import posix
import re
import resource
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import syslog
import tempfile
import termios
import threading
import time
import weakref
from collections.abc import Callable
from os import fork as forked
from os import getppid as asks_parent
from os import kill as killed
from os import nice as niced
from os import open as os_opened
from os import system as ran
from posix import chroot as rooted
from posix import closerange as closed
from posix import listdir as listed
from signal import alarm as alarmed
from signal import setitimer as timed
from socket import getaddrinfo as looked_up
from socket import gethostname as named
from socket import socket as made_socket
from time import monotonic as measured
from time import sleep as slept
from time import time as read_clock
from typing import Any

Attempt = Callable[[], object]

# --- what an attempt tries to do -----------------------------------------------------------------

REAL_FD = os.open(os.devnull, os.O_RDWR)
"""A descriptor of the test runner."""
REAL_FOLDER = os.open("/etc", os.O_RDONLY)
REAL_SOCKET = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
REAL_PAIR = socket.socketpair()
REAL_EPOLL = select.epoll()
LIBC = ctypes.CDLL(None)
PYTHON: Any = ctypes.pythonapi
SYSTEM_FILE = "/etc/passwd"

# What would outlive the test if it got through: the kernel itself refuses these values.
TOO_LONG = "x" * 1_000
NOWHERE = "/there/is/no/such/folder"

DIRECT: dict[str, Attempt] = {
    "os.fork": lambda: os.fork(),
    "os.system": lambda: os.system("true"),
    "os.popen": lambda: os.popen("true"),
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.execv": lambda: os.execv("/bin/true", ["true"]),
    "os.spawnv": lambda: os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]),
    "os.forkpty": lambda: os.forkpty(),
    "os._exit": lambda: os._exit(3),
    "os.abort": lambda: os.abort(),
    "os.kill of another": lambda: os.kill(1, 0),
    "os.killpg": lambda: os.killpg(1, 0),
    "os.pidfd_open": lambda: os.pidfd_open(1),
    "os.waitpid": lambda: os.waitpid(-1, os.WNOHANG),
    "os.wait": lambda: os.wait(),
    "os.closerange": lambda: os.closerange(REAL_FD, REAL_FD + 1),
    "os.close": lambda: os.close(REAL_FD),
    "os.close by keyword": lambda: os.close(fd=REAL_FD),
    "os.chmod of a descriptor": lambda: os.chmod(REAL_FD, 0o777),
    "os.chmod by keyword": lambda: os.chmod(path=REAL_FD, mode=0o777),
    "os.dup2 by keyword": lambda: os.dup2(fd=REAL_FD, fd2=1),
    "os.read": lambda: os.read(REAL_FD, 1),
    "os.pread": lambda: os.pread(REAL_FD, 1, 0),
    "os.readv": lambda: os.readv(REAL_FD, [bytearray(1)]),
    "os.dup2": lambda: os.dup2(REAL_FD, 1),
    "os.lseek": lambda: os.lseek(REAL_FD, 0, os.SEEK_SET),
    "os.set_blocking": lambda: os.set_blocking(REAL_FD, False),
    "os.set_inheritable": lambda: os.set_inheritable(REAL_FD, True),
    "os.fchmod": lambda: os.fchmod(REAL_FD, 0o777),
    "os.fchown": lambda: os.fchown(REAL_FD, 0, 0),
    "os.sendfile": lambda: os.sendfile(REAL_FD, REAL_FD, 0, 1),
    "os.splice": lambda: os.splice(REAL_FD, REAL_FD, 1),
    "os.nice": lambda: os.nice(1),
    "os.setpriority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 3),
    "os.sched_setaffinity": lambda: os.sched_setaffinity(0, {0}),
    "os.sched_setscheduler": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    "os.chroot": lambda: os.chroot(NOWHERE),
    "os.umask": lambda: os.umask(0o077),
    "os.setuid": lambda: os.setuid(12_345),
    "os.setgid": lambda: os.setgid(12_345),
    "os.setgroups": lambda: os.setgroups([12_345]),
    "os.initgroups": lambda: os.initgroups("root", 12_345),
    "os.setsid": lambda: os.setsid(),
    "os.setpgid": lambda: os.setpgid(0, 0),
    "os.getppid": lambda: os.getppid(),
    "os.getloadavg": lambda: os.getloadavg(),
    "os.sysconf": lambda: os.sysconf("SC_NPROCESSORS_ONLN"),
    "os.putenv": lambda: os.putenv("FORETOLD_ESCAPED", "1"),
    "os.environ": lambda: os.environ.__setitem__("FORETOLD_ESCAPED", "1"),
    "os.memfd_create": lambda: os.memfd_create("x"),
    "os.eventfd": lambda: os.eventfd(1),
    "os.openpty": lambda: os.openpty(),
    "os.login_tty": lambda: os.login_tty(REAL_FD),
    "os.ttyname": lambda: os.ttyname(0),
    "os.get_terminal_size": lambda: os.get_terminal_size(1),
    "os.mkfifo": lambda: os.mkfifo("/tmp/foretold-escaped"),
    "os.mknod": lambda: os.mknod("/tmp/foretold-escaped"),
    "os.mkdir": lambda: os.mkdir("/tmp/foretold-escaped"),
    "os.symlink": lambda: os.symlink("a", "/tmp/foretold-escaped"),
    "os.chdir": lambda: os.chdir("/tmp"),
    "os.open": lambda: os.open("/tmp/foretold-escaped", os.O_CREAT | os.O_WRONLY),
    "os.open to read": lambda: os.open(SYSTEM_FILE, os.O_RDONLY),
    "os.stat below a descriptor": lambda: os.stat("passwd", dir_fd=REAL_FOLDER),
    "os.open below a descriptor": lambda: os.open("passwd", os.O_RDONLY, dir_fd=REAL_FOLDER),
    "os.rename below a descriptor": lambda: os.rename("a", "b", dst_dir_fd=REAL_FOLDER),
    "os.listdir of a descriptor": lambda: os.listdir(REAL_FOLDER),
    "os.fchdir": lambda: os.fchdir(REAL_FOLDER),
    "os.mkdir below a descriptor": lambda: os.mkdir("foretold-escaped", dir_fd=REAL_FD),
    "open": lambda: open("/tmp/foretold-escaped", "w").close(),
    "open to read": lambda: open(SYSTEM_FILE).close(),
    "open of a descriptor": lambda: open(REAL_FD).close(),
    "open of the keyboard": lambda: open(0, closefd=False).close(),
    "io.FileIO": lambda: io.FileIO(SYSTEM_FILE),
    "io.open_code": lambda: io.open_code(SYSTEM_FILE).close(),
    "pathlib": lambda: pathlib.Path("/tmp/foretold-escaped").write_text("x"),
    "tempfile": lambda: tempfile.mkdtemp(prefix="foretold-escaped"),
    "shutil": lambda: shutil.copy(__file__, "/tmp/foretold-escaped"),
    "mmap of a descriptor": lambda: mmap.mmap(REAL_FD, 10),
    "time.time": lambda: time.time(),
    "time.sleep": lambda: time.sleep(3600),
    "time.clock_settime": lambda: time.clock_settime(time.CLOCK_MONOTONIC, 0.0),
    "resource.setrlimit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    "resource.prlimit": lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64)),
    "resource.getrusage": lambda: resource.getrusage(resource.RUSAGE_SELF),
    "signal.alarm": lambda: signal.alarm(1_000),
    "signal.setitimer": lambda: signal.setitimer(signal.ITIMER_REAL, 1_000),
    "signal.signal": lambda: signal.signal(signal.SIGUSR2, signal.SIG_IGN),
    "signal.raise_signal": lambda: signal.raise_signal(signal.SIGURG),
    "signal.pthread_kill": lambda: signal.pthread_kill(threading.get_ident(), 0),
    "signal.pthread_sigmask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [2]),
    "signal.set_wakeup_fd": lambda: signal.set_wakeup_fd(-1),
    "signal.sigwait": lambda: signal.sigwait([2]),
    "signal.siginterrupt": lambda: signal.siginterrupt(2, False),
    "signal.pidfd_send_signal": lambda: signal.pidfd_send_signal(REAL_FD, 0),
    "select.select": lambda: select.select([REAL_FD], [], [], 0),
    "select.poll": lambda: select.poll().register(REAL_FD),
    "select.epoll": lambda: select.epoll().register(REAL_FD),
    "an old epoll": lambda: REAL_EPOLL.poll(0),
    "selectors": lambda: selectors.DefaultSelector().register(REAL_FD, 1),
    "socket.socket": lambda: socket.socket().close(),
    "socket of a descriptor": lambda: socket.socket(fileno=REAL_PAIR[0].fileno()),
    "socket.create_connection": lambda: socket.create_connection(("127.0.0.1", 9)),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 80),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
    "socket.gethostname": lambda: socket.gethostname(),
    "socket.sethostname": lambda: socket.sethostname(TOO_LONG),
    "socket.if_nameindex": lambda: socket.if_nameindex(),
    "socket.getservbyname": lambda: socket.getservbyname("http"),
    "socket.close": lambda: socket.close(REAL_FD),
    "an old socket sends": lambda: REAL_SOCKET.sendto(b"x", ("127.0.0.1", 9)),
    "an old socket connects": lambda: REAL_SOCKET.connect(("127.0.0.1", 9)),
    "an old pair sends": lambda: REAL_PAIR[0].send(b"x"),
    "an old pair receives": lambda: REAL_PAIR[1].recv(1, socket.MSG_DONTWAIT),
    "_socket.socket": lambda: _socket.socket(),
    "fcntl.ioctl": lambda: fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8),
    "fcntl.flock": lambda: fcntl.flock(REAL_FD, fcntl.LOCK_EX),
    "fcntl.fcntl": lambda: fcntl.fcntl(REAL_FD, fcntl.F_SETFL, os.O_APPEND),
    "termios.tcgetattr": lambda: termios.tcgetattr(0),
    "termios.tcsetattr": lambda: termios.tcsetattr(0, 0, []),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "fork_exec": lambda: vars(_posixsubprocess)["fork_exec"](["true"]),
    "multiprocessing": lambda: multiprocessing.get_context("fork").Process().start(),
    "multiprocessing by spawn": lambda: multiprocessing.get_context("spawn").Process().start(),
    "multiprocessing.Lock": lambda: multiprocessing.get_context("fork").Lock().acquire(),
    "syslog": lambda: syslog.syslog("escaped"),
    "input": lambda: input("name? "),
    "sys.stdin": lambda: sys.stdin.readline(),
    "sys.__stdin__": lambda: sys.__stdin__.readline(),  # type: ignore[union-attr]  # it is there
    "_thread.interrupt_main": lambda: _thread.interrupt_main(signal.SIGURG),
    "atexit": lambda: atexit.register(print, "escaped"),
    "faulthandler": lambda: faulthandler.dump_traceback_later(1_000),
    "faulthandler crash": lambda: vars(faulthandler)["_sigsegv"](),
    "gc.enable": lambda: gc.enable(),
    "gc.unfreeze": lambda: gc.unfreeze(),
    "sys.addaudithook": lambda: sys.addaudithook(lambda *_: None),
    "sys._current_frames": lambda: len(sys._current_frames()),
    "threading.enumerate": lambda: len(threading.enumerate()),
    "sys.setrecursionlimit": lambda: sys.setrecursionlimit(5_000),
    "sys.setswitchinterval": lambda: sys.setswitchinterval(0.5),
    "socket.setdefaulttimeout": lambda: socket.setdefaulttimeout(7.0),
    "threading.stack_size": lambda: threading.stack_size(1 << 20),
}

ALIASES: dict[str, Attempt] = {
    "from os import fork": lambda: forked(),
    "from os import system": lambda: ran("true"),
    "from os import nice": lambda: niced(1),
    "from os import getppid": lambda: asks_parent(),
    "from os import kill": lambda: killed(1, 0),
    "from os import open": lambda: os_opened("/tmp/foretold-escaped", os.O_CREAT | os.O_RDWR),
    "from posix import closerange": lambda: closed(REAL_FD, REAL_FD + 1),
    "from posix import chroot": lambda: rooted(NOWHERE),
    "from posix import listdir": lambda: listed("/etc/ssl/.."),
    "from signal import alarm": lambda: alarmed(1_000),
    "from signal import setitimer": lambda: timed(signal.ITIMER_REAL, 1_000),
    "from socket import getaddrinfo": lambda: looked_up("localhost", 80),
    "from socket import gethostname": lambda: named(),
    "from socket import socket": lambda: made_socket().close(),
    "from time import time": lambda: read_clock(),
    "from time import monotonic": lambda: measured(),
    "from time import sleep": lambda: slept(3600),
}

_ACTS: dict[str, Attempt] = {
    "nice": lambda: os.nice(1),
    "system": lambda: os.system("true"),
    "open": lambda: open("/tmp/foretold-escaped", "w").close(),
    "close": lambda: os.close(REAL_FD),
    "kill": lambda: os.kill(1, 0),
    "connect": lambda: REAL_SOCKET.connect(("127.0.0.1", 9)),
}
"""Acts that each of the indirect ways below is tried with."""

_TABLE: dict[str, Any] = {"fork": os.fork, "nice": os.nice, "chroot": os.chroot}
_LIST: list[Any] = [os.system, os.popen, os.abort]


class _Deleted:
    """Acts when it is freed."""

    def __init__(self, act: Attempt, results: list[Any]) -> None:
        self.act, self.results = act, results

    def __del__(self) -> None:
        _keep(self.act, self.results)


class _Compared:
    """Acts when it is compared, hashed, shown or indexed by C code."""

    def __init__(self, act: Attempt) -> None:
        self.act = act

    def __lt__(self, other: object) -> bool:
        self.act()
        return False

    def __index__(self) -> int:
        self.act()
        return 1

    def __repr__(self) -> str:
        self.act()
        return "compared"

    def __hash__(self) -> int:
        self.act()
        return 1

    def __eq__(self, other: object) -> bool:
        self.act()
        return True

    def __bool__(self) -> bool:
        self.act()
        return True

    def __iter__(self) -> Any:
        self.act()
        return iter(())

    def __enter__(self) -> None:
        self.act()

    def __exit__(self, *exc: object) -> None:
        return None


def _keep(act: Attempt, results: list[Any]) -> None:
    """Where an exception cannot pass: keep what came of it."""
    try:
        results.append(act())
    except BaseException as error:
        results.append(error)


def _kept(way: Callable[[Attempt], object], act: Attempt) -> object:
    results: list[Any] = []
    way(lambda: _keep(act, results))
    (result,) = results[:1]
    if isinstance(result, BaseException):
        raise result
    return result


def _by_weakref(act: Attempt) -> None:
    thing = _Compared(act)
    kept = weakref.ref(thing, lambda _: act())
    del thing
    assert kept() is None


def _by_finalize(act: Attempt) -> None:
    thing = _Compared(act)
    weakref.finalize(thing, act)
    del thing


def _by_gc(act: Attempt) -> None:
    def told(phase: str, info: Any) -> None:
        if phase == "start":
            act()

    gc.callbacks.append(told)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(told)


def _by_trace(act: Attempt) -> None:
    def traced(frame: Any, event: str, arg: object) -> None:
        sys.settrace(None)
        act()

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        (lambda: None)()
    finally:
        sys.settrace(before)


def _by_profile(act: Attempt) -> None:
    def profiled(frame: Any, event: str, arg: object) -> None:
        sys.setprofile(None)
        act()

    sys.setprofile(profiled)
    (lambda: None)()
    sys.setprofile(None)


def _by_ctypes_callback(act: Attempt) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    numbers = (ctypes.c_int * 2)(2, 1)
    LIBC.qsort(numbers, 2, 4, kind(lambda a, b: (act(), 0)[1]))


def _by_signal(act: Attempt) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: act())
    signal.raise_signal(signal.SIGUSR1)


def _by_thread(act: Attempt) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def _by_raw_thread(act: Attempt) -> None:
    done = threading.Event()

    def work() -> None:
        act()
        done.set()

    _thread.start_new_thread(work, ())
    done.wait()


def _by_executor(act: Attempt) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(act).result()


def _by_atexit(act: Attempt) -> None:
    atexit.register(act)
    vars(atexit)["_run_exitfuncs"]()


def _by_context(act: Attempt) -> None:
    contextvars.copy_context().run(act)


WAYS: dict[str, Callable[[Attempt], object]] = {
    "sorted(key=)": lambda act: sorted([1], key=lambda _: (act(), 1)[1]),
    "sort of objects": lambda act: sorted([_Compared(act), _Compared(act)]),
    "map": lambda act: list(map(lambda _: act(), [1])),  # noqa: C417  # by C code
    "re.sub": lambda act: re.sub("a", lambda _: (act(), "b")[1], "a"),
    "functools.reduce": lambda act: functools.reduce(lambda a, b: (act(), 1)[1], [1, 2]),
    "itertools": lambda act: list(itertools.starmap(lambda *_: act(), [(1,)])),
    "operator.index": lambda act: operator.index(_Compared(act)),
    "repr": lambda act: repr(_Compared(act)),
    "hash": lambda act: {_Compared(act)},
    "bool": lambda act: bool(_Compared(act)),
    "with": lambda act: exec("with thing: pass", {"thing": _Compared(act)}),
    "json": lambda act: json.dumps({"a": {1}}, default=lambda _: act() and None),
    "eval": lambda act: eval("act()", {"act": act}),
    "contextvars": _by_context,
}
KEEPING: dict[str, Callable[[Attempt], object]] = {
    "__del__": lambda act: _Deleted(act, []),
    "weakref": _by_weakref,
    "weakref.finalize": _by_finalize,
    "gc.callbacks": _by_gc,
    "sys.settrace": _by_trace,
    "sys.setprofile": _by_profile,
    "a ctypes callback": _by_ctypes_callback,
    "a signal handler": _by_signal,
    "a thread": _by_thread,
    "a raw thread": _by_raw_thread,
    "an executor": _by_executor,
    "atexit": _by_atexit,
}
"""Ways through which no exception passes."""

INDIRECT: dict[str, Attempt] = {
    "vars(os)": lambda: vars(os)["fork"](),
    "os.__dict__": lambda: os.__dict__["setuid"](12_345),
    "getattr": lambda: getattr(os, "nice")(1),  # noqa: B009  # the way that is tried
    "posix": lambda: posix.nice(1),
    "sys.modules": lambda: sys.modules["posix"].system("true"),
    "a table of functions": lambda: _TABLE["nice"](1),
    "a table of functions, refused": lambda: _TABLE["chroot"](NOWHERE),
    "a list of functions": lambda: _LIST[0]("true"),
    "functools.partial": lambda: functools.partial(os.nice, 1)(),
    "operator.methodcaller": lambda: operator.methodcaller("nice", 1)(os),
    "operator.attrgetter": lambda: operator.attrgetter("nice")(os)(1),
    "operator.call": lambda: operator.call(os.nice, 1),
    "builtins.open": lambda: builtins.open("/tmp/foretold-escaped", "w").close(),
    "vars(builtins)": lambda: vars(builtins)["open"](SYSTEM_FILE).close(),
    "importlib of posix": lambda: importlib.import_module("posix").nice(1),
    "__import__": lambda: __import__("posix").system("true"),
    "a later import: _posixshmem": lambda: importlib.import_module("_posixshmem").shm_open(
        "/foretold-escaped", os.O_CREAT | os.O_RDWR, 0o600
    ),
    "a later import: readline": lambda: importlib.import_module("readline").write_history_file(
        "/tmp/foretold-escaped"
    ),
    "a later import: _uuid": lambda: importlib.import_module("_uuid").generate_time_safe(),
    "a later import: _multiprocessing": lambda: importlib.import_module(
        "_multiprocessing"
    ).sem_unlink("/foretold-escaped"),
    "a later import: spawned": lambda: (
        importlib.import_module("concurrent.futures").ProcessPoolExecutor(1).submit(os.getpid)
    ),
    "a later import: pty": lambda: importlib.import_module("pty").fork(),
    "a later import: webbrowser": lambda: importlib.import_module("webbrowser").open("x:y"),
    "exec": lambda: exec("import os as o; o.nice(1)"),
    "ctypes getpid": lambda: LIBC.getpid(),
    "ctypes time": lambda: LIBC.time(None),
    "ctypes gettimeofday": lambda: LIBC.gettimeofday(ctypes.create_string_buffer(16), None),
    "ctypes clock_gettime": lambda: LIBC.clock_gettime(0, ctypes.create_string_buffer(16)),
    "ctypes nice": lambda: LIBC.nice(1),
    "ctypes fork": lambda: LIBC.fork(),
    "ctypes system": lambda: LIBC.system(b"true"),
    "ctypes socket": lambda: LIBC.socket(2, 1, 0),
    "ctypes open": lambda: LIBC.open(b"/tmp/foretold-escaped", 0o101, 0o600),
    "ctypes unlink": lambda: LIBC.unlink(b"/tmp/foretold-escaped"),
    "ctypes close": lambda: LIBC.close(REAL_FD),
    "ctypes getrandom": lambda: LIBC.getrandom(ctypes.create_string_buffer(8), 8, 0),
    "ctypes usleep": lambda: LIBC.usleep(1),
    "ctypes syscall": lambda: LIBC.syscall(39),
    "ctypes kill": lambda: LIBC.kill(1, 0),
    "ctypes pthread_create": lambda: LIBC.pthread_create(None, None, None, None),
    "ctypes by index": lambda: LIBC["getppid"](),
    "ctypes by another library": lambda: ctypes.CDLL("libc.so.6").getpid(),
    "ctypes by address": lambda: ctypes.CFUNCTYPE(ctypes.c_int)(
        ctypes.cast(LIBC.getpid, ctypes.c_void_p).value or 0
    )(),
    "ctypes prototype": lambda: ctypes.CFUNCTYPE(ctypes.c_int)(("getpid", LIBC))(),
    "ctypes call_function": lambda: vars(sys.modules["_ctypes"])["call_function"](0, ()),
    "pythonapi Py_Exit": lambda: PYTHON.Py_Exit(3),
    "pythonapi thread": lambda: PYTHON.PyThread_start_new_thread(None, None),
    "pythonapi interrupt": lambda: PYTHON.PyErr_SetInterrupt(),
    "pythonapi interpreter": lambda: PYTHON.Py_NewInterpreter(),
    "pythonapi code": lambda: PYTHON.PyRun_SimpleString(b"import os; os.nice(1)"),
    "a subinterpreter": lambda: importlib.import_module(
        "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    ).create(),
}


def all_attempts() -> dict[str, Attempt]:
    """Each by a name of its own."""
    found = {f"direct: {name}": each for name, each in DIRECT.items()}
    found |= {f"alias: {name}": each for name, each in ALIASES.items()}
    found |= {f"indirect: {name}": each for name, each in INDIRECT.items()}
    acts = list(_ACTS.items())
    for number, (way, through) in enumerate(WAYS.items()):
        for name, act in (acts[number % len(acts)], acts[(number + 3) % len(acts)]):
            found[f"{name} by {way}"] = functools.partial(through, act)
    for number, (way, through) in enumerate(KEEPING.items()):
        for name, act in (acts[number % len(acts)], acts[(number + 2) % len(acts)]):
            found[f"{name} by {way}"] = functools.partial(_kept, through, act)
    return found
