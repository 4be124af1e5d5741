"""What Linux does where a program asks its host: users, priorities, limits, threads."""

from __future__ import annotations

import _thread
import array
import asyncio
import atexit
import contextlib
import ctypes
import errno
import fcntl
import gc
import locale
import mmap
import multiprocessing
import os
import resource
import select
import signal
import socket
import sys
import syslog
import termios
import threading
import time
import tracemalloc
import weakref
from multiprocessing import shared_memory
from typing import Any

import pytest

import foretold


def test_closing_a_range_closes_the_hosts_descriptors_alone() -> None:
    """Code that daemonises closes all it has: the runner's files stay open, the host's are gone."""
    mine = os.open(os.devnull, os.O_RDONLY)

    def main() -> tuple[int, int]:
        reader, writer = os.pipe()
        with open("data", "w") as file:
            kept = os.dup(file.fileno())
        os.closerange(0, 1 << 30)
        return sum(_is_closed(fd) for fd in (reader, writer, kept)), int(_is_closed(mine))

    assert foretold.run(main).value == (3, 0)
    os.fstat(mine)
    os.close(mine)


def _is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def test_each_host_keeps_what_it_sets(world_of_two: Any) -> None:
    """Priority, user, group, session, mask, limits, processors: the process's own, on its host."""

    def sets() -> list[object]:
        os.nice(3)
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 2)
        os.setgroups([7])
        os.setgid(8)
        os.setuid(9)
        os.umask(0o077)
        os.setsid()
        os.sched_setaffinity(0, {1, 2})
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
        return looks()

    def looks() -> list[object]:
        return [
            os.nice(0), os.getuid(), os.geteuid(), os.getgid(), os.getgroups(),
            os.getsid(0) == os.getpid(), sorted(os.sched_getaffinity(0)),
            resource.getrlimit(resource.RLIMIT_NOFILE), os.cpu_count(),
        ]  # fmt: skip

    changed, untouched = world_of_two(sets, looks)
    assert changed == [5, 9, 9, 8, [7], True, [1, 2], (64, 128), 4]
    assert untouched[0] == 0
    assert untouched[1] == os.getuid()
    assert untouched[5:] == [False, [0, 1, 2, 3], (1_024, 1 << 20), 4]


@pytest.fixture
def world_of_two() -> Any:
    """Two programs, each on a host of its own, one after the other."""

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        async def main(world: foretold.World) -> tuple[Any, Any]:
            async def on(name: str, work: Any) -> Any:
                found: list[Any] = []

                async def program() -> None:
                    found.append(work())

                await world.host(name).start(program)
                return found[0]

            return await on("one", first), await on("two", second)

        first_value, second_value = foretold.run(main).value
        return first_value, second_value

    return run


def test_a_new_process_begins_anew() -> None:
    """What a process has set is gone with it, as its files are."""

    async def main(world: foretold.World) -> list[int]:
        found: list[int] = []

        async def program() -> None:
            found.append(os.nice(4))

        host = world.host("api")
        await host.start(program)
        host.kill()
        await host.restart()
        return found

    assert foretold.run(main).value == [4, 4]


def test_there_are_no_children() -> None:
    """`waitpid` and its kin say so, as the kernel would."""

    def main() -> int:
        calls = (os.wait, lambda: os.waitpid(-1, os.WNOHANG), lambda: os.wait4(-1, 0))
        for call in calls:
            with pytest.raises(ChildProcessError):
                call()
        return os.getppid()

    assert foretold.run(main).value == foretold.run(main, seed=7).value != os.getppid()


def test_the_machine_is_the_same_everywhere() -> None:
    """Load, processors, memory and the time used do not depend on the real machine."""

    def main() -> tuple[Any, ...]:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        pages = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_AVPHYS_PAGES")
        return os.getloadavg(), os.sysconf("SC_NPROCESSORS_ONLN"), pages, used < 1

    assert foretold.run(main).value == ((0.0, 0.0, 0.0), 4, (2_097_152, 1_048_576), True)


def test_an_event_counter_counts() -> None:
    """`os.eventfd`: added to and taken, as a whole or by one; who finds nothing waits."""

    def main() -> tuple[Any, ...]:
        whole, by_one = os.eventfd(2), os.eventfd(2, os.EFD_SEMAPHORE | os.EFD_NONBLOCK)
        os.eventfd_write(whole, 5)
        taken = os.eventfd_read(whole), os.eventfd_read(by_one), os.eventfd_read(by_one)
        with pytest.raises(BlockingIOError):
            os.eventfd_read(by_one)
        threading.Timer(3, os.eventfd_write, (whole, 1)).start()
        before = time.monotonic()
        woken = os.eventfd_read(whole)
        return taken, woken, round(time.monotonic() - before)

    assert foretold.run(main).value == ((7, 1, 1), 1, 3)


def test_an_event_counter_is_seen_by_selectors() -> None:
    """It is readable while it is not zero, and a loop can wait for it."""

    async def main() -> list[int]:
        fd = os.eventfd(0, os.EFD_NONBLOCK)
        found: list[int] = []
        seen = asyncio.Event()
        loop = asyncio.get_running_loop()

        def taken() -> None:
            found.append(os.eventfd_read(fd))
            seen.set()

        loop.add_reader(fd, taken)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(0) == []
        loop.call_later(1, os.eventfd_write, fd, 3)
        await seen.wait()
        loop.remove_reader(fd)
        return found

    assert foretold.run(main).value == [3]


def test_a_file_without_a_name() -> None:
    """`os.memfd_create` gives one that is written, read and cut, and that no directory has."""

    def main() -> tuple[bytes, int, list[str]]:
        fd = os.memfd_create("scratch")
        os.write(fd, b"abcdef")
        os.ftruncate(fd, 4)
        os.lseek(fd, 1, os.SEEK_SET)
        return os.read(fd, 9), os.fstat(fd).st_nlink, os.listdir("/tmp")

    assert foretold.run(main).value == (b"bcd", 0, [])


def test_shared_memory_lies_in_the_hosts_own_folder() -> None:
    """`_posixshmem` uses /dev/shm, which each host has; the real one is not touched."""

    def main() -> tuple[list[str], bytes]:
        shm: Any = vars(shared_memory)["_posixshmem"]
        fd = shm.shm_open("/scratch", os.O_CREAT | os.O_RDWR, 0o600)
        os.write(fd, b"abc")
        names = os.listdir("/dev/shm")
        shm.shm_unlink("/scratch")
        return names, os.pread(fd, 3, 0)

    assert foretold.run(main).value == (["scratch"], b"abc")
    assert not os.path.exists("/dev/shm/scratch")


def test_bytes_go_from_pipe_to_file() -> None:
    """`os.splice` and `os.sendfile` move bytes within the host."""

    def main() -> tuple[int, bytes, int, bytes]:
        reader, writer = os.pipe()
        file = os.open("data", os.O_CREAT | os.O_RDWR)
        os.write(writer, b"hello")
        moved = os.splice(reader, file, 5)
        sent = os.sendfile(writer, file, 1, 3)
        return moved, os.pread(file, 9, 0), sent, os.read(reader, 9)

    assert foretold.run(main).value == (5, b"hello", 3, b"ell")


def test_how_much_is_in_a_pipe() -> None:
    """`ioctl(FIONREAD)` counts; all else says that this is no terminal, real or not."""

    def main() -> tuple[int, int, int]:
        reader, writer = os.pipe()
        os.write(writer, b"abc")
        count = array.array("i", [0])
        fcntl.ioctl(reader, termios.FIONREAD, count)
        with pytest.raises(OSError, match="Inappropriate ioctl") as ours:
            fcntl.ioctl(reader, termios.TIOCGWINSZ, b"\0" * 8)
        with pytest.raises(OSError, match="Inappropriate ioctl") as real:
            fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8)
        return count[0], ours.value.errno or 0, real.value.errno or 0

    assert foretold.run(main).value == (3, errno.ENOTTY, errno.ENOTTY)


def test_no_descriptor_is_a_terminal() -> None:
    """So that the width of the runner's window does not get into a run."""

    def main() -> None:
        for fd in (0, 1, 2):
            with pytest.raises(OSError, match="Inappropriate ioctl"):
                os.get_terminal_size(fd)
            with pytest.raises(termios.error):
                termios.tcgetattr(fd)

    foretold.run(main)


def test_the_handler_that_was_set_is_the_one_that_is_got() -> None:
    """`signal.getsignal` asks the host, not the test runner."""

    def main() -> tuple[bool, bool, Any]:
        def handler(number: int, frame: object) -> None:
            """Never called."""

        before = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, handler)
        return before == signal.SIG_DFL, signal.getsignal(signal.SIGTERM) is handler, before

    assert foretold.run(main).value[:2] == (True, True)


def test_a_program_sees_the_threads_of_its_host() -> None:
    """The runner's own threads are not in any list; those of the run are, in the order of start."""
    go_on = threading.Event()
    bystander = threading.Thread(target=go_on.wait, name="the runner's own")
    bystander.start()

    def main() -> tuple[Any, ...]:
        alone = threading.active_count(), len(sys._current_frames()), _thread._count()
        done = threading.Event()
        threads = [threading.Thread(target=done.wait, name=name) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        names = [thread.name for thread in threading.enumerate()]
        frames = set(sys._current_frames()) == {t.ident for t in threading.enumerate()}
        done.set()
        for thread in threads:
            thread.join()
        main_thread = threading.main_thread() is threading.current_thread()
        return alone, names, frames, main_thread, threading.active_count()

    try:
        value = foretold.run(main).value
        assert bystander in threading.enumerate()
    finally:
        go_on.set()
        bystander.join()
    assert value == ((1, 1, 0), ["MainThread", "a", "b"], True, True, 1)


def test_the_main_thread_is_the_one_that_runs_the_test() -> None:
    """A runner may call `foretold.run` in any thread; to the program that is its main thread."""
    found: list[Any] = []

    def main() -> tuple[bool, int]:
        return threading.main_thread() is threading.current_thread(), threading.active_count()

    thread = threading.Thread(target=lambda: found.append(foretold.run(main).value))
    thread.start()
    thread.join()
    assert found == [(True, 1)]


def test_threads_of_another_host_are_in_no_list() -> None:
    """A host is a process: it sees its own threads only."""

    async def main(world: foretold.World) -> tuple[list[str], list[str]]:
        done = threading.Event()
        names: list[str] = []

        def program() -> None:
            thread = threading.Thread(target=done.wait, name="of the host")
            thread.start()
            names.extend(each.name for each in threading.enumerate())
            thread.join()

        task = world.host("api").start(program)
        await asyncio.sleep(1)
        mine = [each.name for each in threading.enumerate()]
        done.set()
        await task
        return names, mine

    assert foretold.run(main).value == (["MainThread", "of the host"], ["MainThread"])


def test_settings_of_the_interpreter_are_put_back() -> None:
    """What a run sets has its effect in the run, and none on the next one."""
    before = (sys.getrecursionlimit(), socket.getdefaulttimeout(), locale.setlocale(locale.LC_ALL))

    def main() -> tuple[Any, ...]:
        sys.setrecursionlimit(4_321)
        socket.setdefaulttimeout(5)
        locale.setlocale(locale.LC_ALL, "C")
        with socket.socket() as made:
            return sys.getrecursionlimit(), made.gettimeout()

    assert foretold.run(main).value == (4_321, 5.0)
    after = (sys.getrecursionlimit(), socket.getdefaulttimeout(), locale.setlocale(locale.LC_ALL))
    assert after == before


def test_the_collector_stays_off() -> None:
    """`gc.enable` is noted and told; collections at moments that the heap chooses do not repeat."""

    def main() -> tuple[bool, bool, bool, tuple[int, ...]]:
        first = gc.isenabled()
        gc.disable()
        second = gc.isenabled()
        gc.enable()
        gc.set_threshold(5)
        return first, second, gc.isenabled(), gc.get_threshold()

    threshold = gc.get_threshold()
    assert foretold.run(main).value == (True, False, True, (5, 10, 10))
    assert gc.get_threshold() == threshold


def test_the_end_of_the_process_calls_nothing_of_a_run() -> None:
    """Functions for the exit belong to the simulated process, which is gone by then."""
    count: Any = vars(atexit)["_ncallbacks"]
    before = count()
    called: list[int] = []

    class Thing:
        """Something to be finalised."""

    kept = Thing()

    def main() -> int:
        atexit.register(called.append, 1)
        weakref.finalize(kept, called.append, 2)
        return int(count())

    assert foretold.run(main).value == 1
    assert count() - before <= 1  # weakref registers itself once, for the whole process
    registry: Any = vars(weakref.finalize)["_registry"]
    assert not any(info.atexit for each, info in registry.items() if each.peek()[0] is kept)
    assert called == []


def test_a_lock_between_processes_waits_in_virtual_time() -> None:
    """`multiprocessing.Lock` on a host is a lock between its threads."""

    def main() -> tuple[bool, int]:
        lock: Any = multiprocessing.get_context("fork").Lock()
        lock.acquire()
        threading.Timer(30, lock.release).start()
        before = time.monotonic()
        first = lock.acquire(timeout=5)
        lock.acquire()
        return first, round(time.monotonic() - before)

    assert foretold.run(main).value == (False, 30)


def test_the_log_of_the_system_hears_nothing() -> None:
    """A host has no daemon that listens: the message is dropped, and the program goes on."""

    def main() -> None:
        syslog.openlog("test")
        syslog.syslog("lost")
        syslog.closelog()

    foretold.run(main)


def test_c_code_that_works_in_memory_may_be_called() -> None:
    """Only what asks the machine is refused: sorting and Python's own functions are not."""
    libc, compare = ctypes.CDLL(None), ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)

    def main() -> tuple[Any, ...]:
        numbers = (ctypes.c_int * 3)(3, 1, 2)

        def by_value(a: int, b: int) -> int:
            return ctypes.c_int.from_address(a).value - ctypes.c_int.from_address(b).value

        libc.qsort(numbers, 3, 4, compare(by_value))
        return list(numbers), libc.strlen(b"four"), ctypes.pythonapi.Py_IsInitialized()

    assert foretold.run(main).value == ([1, 2, 3], 4, 1)


def test_memory_may_be_mapped_and_a_file_may_not() -> None:
    """polars asks the processor for its name when it is imported, by code that it writes to memory.
    The same call with a descriptor would change a file."""
    libc = ctypes.CDLL(None)
    for name in ("mmap", "munmap", "mprotect"):
        getattr(libc, name).argtypes = None
    libc.mmap.restype = ctypes.c_void_p
    private, anonymous, rights = mmap.MAP_PRIVATE, mmap.MAP_ANONYMOUS, mmap.PROT_READ

    def main() -> list[int]:
        at = ctypes.c_void_p(libc.mmap(None, 4096, rights, private | anonymous, -1, 0))
        return [libc.mprotect(at, 4096, rights), libc.munmap(at, 4096)]

    assert foretold.run(main).value == [0, 0]
    with pytest.raises(foretold.EscapedWorld, match=r"ctypes: _*mmap"):
        foretold.run(lambda: libc.mmap(None, 4096, rights, private, 0, 0))


def test_a_refused_c_function_is_named() -> None:
    """The error says which function, why, and what to write instead."""
    libc = ctypes.CDLL(None)
    with pytest.raises(foretold.EscapedWorld, match=r"ctypes: getppid\(…\)[\s\S]*Instead: "):
        foretold.run(lambda: libc.getppid())
    assert libc.getppid() == os.getppid()


def test_an_escape_that_is_swallowed_fails_the_run() -> None:
    """A refused call is the run's verdict, whatever the program makes of the exception."""

    def main() -> None:
        with contextlib.suppress(BaseException):
            signal.alarm(1)

    with pytest.raises(foretold.EscapedWorld, match=r"signal\.alarm\(1\)"):
        foretold.run(main)


def test_a_program_may_set_its_time_zone() -> None:
    """As Django does. The zone of the machine is set again when the run has ended."""
    before = time.tzname, os.environ.get("TZ")

    def main() -> Any:
        os.environ["TZ"] = "XYZ-9"
        time.tzset()
        return time.tzname[0], time.localtime().tm_hour - time.gmtime().tm_hour, time.timezone

    assert foretold.run(main).value == ("XYZ", 9, -9 * 3600)
    assert (time.tzname, os.environ.get("TZ")) == before
    assert time.localtime(0).tm_gmtoff == -time.timezone


def test_memory_is_traced_for_the_run_alone() -> None:
    """To go on would slow down all that comes after it."""

    def main() -> bool:
        tracemalloc.start()
        return tracemalloc.is_tracing()

    def stop() -> bool:
        tracemalloc.stop()
        return tracemalloc.is_tracing()

    assert foretold.run(main).value
    assert not tracemalloc.is_tracing()
    tracemalloc.start(3)
    try:
        assert not foretold.run(stop).value
        assert tracemalloc.get_traceback_limit() == 3
    finally:
        tracemalloc.stop()
