"""What would touch the real world from inside a run raises, and says what to write instead."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import contextlib
import functools
import importlib
import io
import linecache
import logging
import mimetypes
import multiprocessing
import os
import pathlib
import pdb
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import tokenize
import traceback
import warnings
import zoneinfo
from _thread import get_ident
from builtins import open as opened_by_another_name
from collections.abc import Callable
from socket import socket as imported_socket

import pytest

from foretold.errors import EscapedWorld
from foretold.kernel import fence, real
from foretold.kernel.computer import running
from foretold.kernel.patches import patches
from tests.kernel.fake_computer import FakeComputer, a_run

pytestmark = pytest.mark.usefixtures("_others_out_of_sight")

PASSWD = "/etc/passwd"
READ_ONLY = pathlib.Path(PASSWD)


def work() -> None:
    """Something for a thread to do."""


UNNAMED = functools.partial(work)
AF_UNIX, SOCK_DGRAM = socket.AF_UNIX, socket.SOCK_DGRAM
old_socket = socket.socket()
old_socket.close()

ESCAPES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("threading.Thread(target=work).start()", lambda: threading.Thread(target=work).start()),
    ("_thread.start_new_thread(work)", lambda: _thread.start_new_thread(work, ())),
    ("os.fork()", os.fork),
    ("os.forkpty()", os.forkpty),
    ("os.system('true')", lambda: os.system("true")),
    ("os.posix_spawn('true', ['true'], {…})", lambda: os.posix_spawn("true", ["true"], {})),
    ("os.execv('/bin/true', ['true'])", lambda: os.execv("/bin/true", ["true"])),
    ("os.kill(1, 0)", lambda: os.kill(1, 0)),
    ("os.killpg(1, 0)", lambda: os.killpg(1, 0)),
    ("os._exit(3)", lambda: os._exit(3)),
    ("os.abort()", os.abort),
    ("subprocess.Popen(['true'])", lambda: subprocess.run(["true"])),
    ("signal.signal(SIGTERM)", lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)),
    ("signal.raise_signal(SIGURG)", lambda: signal.raise_signal(signal.SIGURG)),
    ("signal.setitimer(0, 1000)", lambda: signal.setitimer(signal.ITIMER_REAL, 1000)),
    ("signal.alarm(1000)", lambda: signal.alarm(1000)),
    ("signal.pthread_kill(1, SIGURG)", lambda: signal.pthread_kill(1, signal.SIGURG)),
    ("signal.set_wakeup_fd(-1)", lambda: signal.set_wakeup_fd(-1)),
    ("signal.pause()", signal.pause),
    ("signal.sigwait([])", lambda: signal.sigwait([])),
    ("select.select([], [], [], 0)", lambda: select.select([], [], [], 0)),
    ("select.poll()", select.poll),
    ("select.epoll()", select.epoll),
    ("select.epoll()", selectors.DefaultSelector),
    ("socket.socket(AF_INET, SOCK_STREAM)", socket.socket),
    ("socket.socket(AF_UNIX, SOCK_DGRAM)", lambda: imported_socket(AF_UNIX, SOCK_DGRAM)),
    ("socket.connect(('127.0.0.1', 9))", lambda: old_socket.connect(("127.0.0.1", 9))),
    ("socket.connect_ex(('127.0.0.1', 9))", lambda: old_socket.connect_ex(("127.0.0.1", 9))),
    ("socket.bind(('127.0.0.1', 0))", lambda: old_socket.bind(("127.0.0.1", 0))),
    ("socket.socketpair(AF_UNIX, SOCK_STREAM, 0)", socket.socketpair),
    ("socket.getaddrinfo('localhost', 80)", lambda: socket.getaddrinfo("localhost", 80)),
    ("socket.gethostbyname('localhost')", lambda: socket.gethostbyname("localhost")),
    ("socket.gethostbyname_ex('localhost')", lambda: socket.gethostbyname_ex("localhost")),
    ("socket.gethostbyaddr('127.0.0.1')", lambda: socket.gethostbyaddr("127.0.0.1")),
    ("socket.getnameinfo(('::1', 80), 0)", lambda: socket.getnameinfo(("::1", 80), 0)),
    ("open('/etc/passwd')", lambda: open(PASSWD).close()),
    ("open('/etc/passwd')", READ_ONLY.read_text),
    ("open('/etc/passwd')", lambda: opened_by_another_name(PASSWD).close()),
    ("open(b'/etc/passwd')", lambda: open(b"/etc/passwd").close()),
    ("open('/etc/passwd')", lambda: io.FileIO(PASSWD)),
    ("open('/etc/passwd')", lambda: io.open_code(PASSWD).close()),
    ("open('/etc/passwd')", lambda: tokenize.open(PASSWD).close()),
    ("open('/dev/urandom')", lambda: open("/dev/urandom", "rb").close()),
    ("open('planted.txt', 'w')", lambda: open("planted.txt", "w").close()),
    ("open('planted.py', 'x')", lambda: open("planted.py", "x").close()),
    ("open('/etc/passwd', 'r+')", lambda: open(PASSWD, "r+").close()),
    ("os.open('/etc/passwd')", lambda: os.open(PASSWD, os.O_RDONLY)),
    ("os.open('planted')", lambda: os.open("planted", os.O_CREAT | os.O_WRONLY)),
    ("os.mkdir('planted', 511)", lambda: os.makedirs("planted")),
    ("os.rmdir('planted')", lambda: os.rmdir("planted")),
    ("os.remove('planted')", lambda: os.remove("planted")),
    ("os.unlink('planted')", lambda: pathlib.Path("planted").unlink()),
    ("os.rename('planted', 'b')", lambda: os.rename("planted", "b")),
    ("os.replace('planted', 'b')", lambda: os.replace("planted", "b")),
    ("os.symlink('planted', 'b')", lambda: os.symlink("planted", "b")),
    ("os.truncate('planted', 0)", lambda: os.truncate("planted", 0)),
    ("os.chmod('planted', 420)", lambda: os.chmod("planted", 0o644)),
    ("os.chdir('/etc')", lambda: os.chdir("/etc")),
    ("os.listdir('/etc')", lambda: os.listdir("/etc")),
    ("os.scandir('/etc')", lambda: os.scandir("/etc")),
    ("input('name? ')", lambda: input("name? ")),
    ("sys.stdin.readline()", lambda: sys.stdin.readline()),
    ("sys.stdin.buffer.read()", lambda: sys.stdin.buffer.read()),
    ("for line in sys.stdin", lambda: list(sys.stdin)),
    ("time.clock_settime(0, 0.0)", lambda: time.clock_settime(0, 0.0)),
)


@pytest.mark.parametrize(("shown", "call"), ESCAPES)
def test_an_escape_is_stopped_and_named(
    shown: str,
    call: Callable[[], object],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each way out, through whatever alias: stopped once, shown as written, with a remedy."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed\n")))
    monkeypatch.chdir(tmp_path)
    with a_run() as computer, pytest.raises(EscapedWorld):
        call()
    ((named, why, instead),) = computer.escapes  # one call, one report
    assert named == shown
    assert len(why) > 20
    assert len(instead) > 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "call",
    [
        tempfile.TemporaryFile,
        tempfile.mkdtemp,
        lambda: logging.FileHandler("planted.txt"),
        lambda: pathlib.Path("planted").mkdir(),
        lambda: list(os.walk("/etc")),
        lambda: list(pathlib.Path("/etc").glob("*")),
        lambda: shutil.copy(textwrap.__file__, "planted.py"),
        lambda: shutil.rmtree(os.getcwd()),
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: os.popen("true"),
        lambda: concurrent.futures.ThreadPoolExecutor().submit(work),
        lambda: multiprocessing.get_context("fork").Process(target=work).start(),
    ],
)
def test_the_helpers_of_the_library_end_at_the_same_fence(
    call: Callable[[], object], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are Python, and reach the outside through the builtins above; no trace is left."""
    monkeypatch.chdir(tmp_path)
    with a_run() as computer, pytest.raises(EscapedWorld):
        call()
    assert len(computer.escapes) == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_differs_from_run_to_run_is_shown() -> None:
    """The text goes into traces: no addresses, and not more of an argument than a person needs."""
    with a_run() as computer:
        for call in (
            lambda: _thread.start_new_thread(UNNAMED, ()),
            lambda: os.system("x" * 1_000),
            lambda: os.execv("/bin/true", ["true"] * 1_000),
        ):
            with pytest.raises(EscapedWorld):
                call()
    shown = [escape[0] for escape in computer.escapes]
    assert shown[0] == "_thread.start_new_thread(<partial>)"
    assert max(map(len, shown)) < 150


def test_threads_are_stopped_before_they_are_counted() -> None:
    """`threading` keeps books about starting threads: a refused one must not stay in them."""
    thread = threading.Thread(target=work)
    with a_run(), pytest.raises(EscapedWorld):
        thread.start()
    assert thread not in threading.enumerate()
    assert not thread.is_alive()


def start_and_join() -> None:
    """A real thread, from beginning to end."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def harmless() -> dict[str, Callable[[], object]]:
    """Calls to the same builtins whose effect can be seen and does no harm."""
    return {
        "thread": start_and_join,
        "process": lambda: subprocess.run(["true"], check=True),
        "system": lambda: os.system("true"),
        "fork": lambda: os.waitpid(real.fork() or os._exit(0), 0),
        "kill": lambda: os.kill(real.getpid(), 0),
        "signal": lambda: signal.signal(signal.SIGUSR2, signal.getsignal(signal.SIGUSR2)),
        "select": lambda: select.select([], [], [], 0),
        "epoll": lambda: selectors.DefaultSelector().close(),
        "loop": lambda: asyncio.new_event_loop().close(),
        "socket": lambda: socket.socket().close(),
        "socketpair": lambda: list(map(socket.socket.close, socket.socketpair())),
        "names": lambda: socket.getaddrinfo("127.0.0.1", 80),
        "read": READ_ONLY.read_bytes,
        "write": lambda: pathlib.Path("harmless.txt").write_text("x"),
        "rename": lambda: os.replace("harmless.txt", "renamed.txt"),
        "list": lambda: os.listdir("/etc"),
        "mkdir": lambda: os.mkdir("harmless"),
    }


@pytest.mark.parametrize("way", ["not active", "passage", "nested passage", "outside"])
def test_the_fence_has_gates(
    way: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between runs, in a passage of the framework, and outside: all of it works as ever."""
    monkeypatch.chdir(tmp_path)
    computer = FakeComputer()
    with patches.installed():
        if way == "not active":
            for call in harmless().values():
                call()
        else:
            with patches.active(computer):
                with patches.outside() if way == "outside" else fence.passage():
                    if way == "nested passage":
                        with fence.passage():
                            pass
                    for call in harmless().values():
                        call()
                with pytest.raises(EscapedWorld):
                    os.listdir("/etc")
    assert len(computer.escapes) == (0 if way == "not active" else 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["harmless", "renamed.txt"]


def test_a_passage_is_for_one_thread() -> None:
    """While one thread of the run passes, another one is still fenced in."""
    result: list[object] = []

    def other() -> None:
        running[get_ident()] = computer
        try:
            os.listdir("/etc")
        except EscapedWorld as error:
            result.append(error)
        del running[get_ident()]
        os.listdir("/etc")

    with a_run() as computer, fence.passage():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(result) == 1


def test_a_passage_closes_after_an_exception() -> None:
    """An error in the framework's own work must not leave the fence open."""
    with a_run():
        with pytest.raises(ZeroDivisionError), fence.passage():
            raise ZeroDivisionError
        with pytest.raises(EscapedWorld):
            os.listdir("/etc")


def test_real_threads_are_not_fenced() -> None:
    """A thread that has nothing to do with the run (pytest-timeout's, say) goes on as before."""
    started, go_on, done = threading.Event(), threading.Event(), []

    def bystander() -> None:
        started.set()
        go_on.wait(30)
        done.append((os.listdir("/etc"), READ_ONLY.read_text(), time.time(), os.getpid()))

    thread = threading.Thread(target=bystander)
    thread.start()
    started.wait(30)
    with a_run() as computer:
        go_on.set()
        thread.join(30)
    assert done
    assert computer.escapes == []
    assert done[0][3] == os.getpid()


# --- what must go on working -----------------------------------------------------------------


def test_imports_work_and_write_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module imported lazily in a run is found and compiled, and no .pyc is written."""
    (tmp_path / "planted_package").mkdir()
    (tmp_path / "planted_package" / "__init__.py").write_text("from .part import VALUE\n")
    (tmp_path / "planted_package" / "part.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # whatever the environment says
    with a_run() as computer:
        assert importlib.import_module("planted_package").VALUE == 3
        inside = sys.dont_write_bytecode
    assert computer.escapes == []
    assert (inside, sys.dont_write_bytecode) == (True, False)
    assert list(tmp_path.rglob("*.pyc")) == []
    del sys.modules["planted_package"], sys.modules["planted_package.part"]


def test_tracebacks_and_warnings_show_their_lines(tmp_path: pathlib.Path) -> None:
    """Sources are read for the person who reads the output, wherever they lie, also templates."""
    source = tmp_path / "template.html"
    source.write_text("planted(1)\n")
    with a_run() as computer:
        with pytest.raises(ZeroDivisionError) as error:
            exec(compile("1 / 0", str(source), "exec"))
        shown = "".join(traceback.format_exception(error.value))
        linecache.clearcache()
        warned = warnings.formatwarning("careful", UserWarning, str(source), 1)
        with pytest.raises(EscapedWorld):
            source.read_text()  # by the program itself it may not be read
    assert "    planted(1)" in shown
    assert "careful\n  planted(1)" in warned
    assert len(computer.escapes) == 1


def test_pytest_explains_and_captures_in_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Assertion rewriting and output capture are used in nearly every run."""
    with a_run() as computer:
        print("printed in a run")  # noqa: T201  # it is what is tested
        with pytest.raises(AssertionError, match=r"assert 3 == 4"):
            assert len([1, 2, 3]) == 4
        assert capsys.readouterr().out == "printed in a run\n"
    assert computer.escapes == []


def test_what_belongs_to_the_program_is_readable() -> None:
    """Time zones, mime types, certificates, package data, /dev/null: static, and needed."""
    with a_run() as computer:
        with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError):  # slim systems have none
            zoneinfo.ZoneInfo.no_cache("Europe/Berlin")
        mimetypes.MimeTypes().read(os.devnull)
        mimetypes.init()
        for path in (textwrap.__file__, pathlib.Path(pytest.__file__), pdb.__file__.encode()):
            with open(path, "rb") as file:
                assert file.read(1)
        with open(os.devnull, "w") as null:
            null.write("gone")
        assert os.listdir(os.path.dirname(pytest.__file__))
    assert computer.escapes == []


def test_descriptors_opened_before_stay_usable(tmp_path: pathlib.Path) -> None:
    """Log files and captured output were opened outside; writing to them goes on."""
    with open(tmp_path / "log.txt", "w") as log, a_run() as computer:
        log.write("line\n")
        log.flush()
        os.truncate(log.fileno(), 5)
        with open(os.dup(log.fileno()), "a") as again:
            again.write("more\n")
    assert (tmp_path / "log.txt").read_text() == "line\nmore\n"
    assert computer.escapes == []


def test_an_opener_opens_by_itself() -> None:
    """A simulated disk hands out descriptors by `opener=`: not ours to judge."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"simulated")
    os.close(write_end)
    with a_run(), open("/simulated/file", opener=lambda path, flags: read_end) as file:
        assert file.read() == "simulated"
    with a_run(), pytest.raises(EscapedWorld, match=r"os\.open"):
        open("/etc/passwd", opener=os.open).close()


def test_more_paths_can_be_allowed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may declare data that never changes; only that, and only for reading."""
    (tmp_path / "data.json").write_text("{}")
    monkeypatch.setattr(fence, "_allowed_by_user", [])
    monkeypatch.setattr(fence, "_roots", frozenset())
    with a_run():
        with pytest.raises(EscapedWorld):
            (tmp_path / "data.json").read_text()
        fence.allow_reading(tmp_path)
        assert (tmp_path / "data.json").read_text() == "{}"
        with pytest.raises(EscapedWorld):
            (tmp_path / "data.json").write_text("")
        with pytest.raises(EscapedWorld):
            (tmp_path.parent / "data.json").read_text()


def test_started_in_the_root_folder_not_all_is_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sys.path` may hold "" while the current folder is /, as in many containers."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(fence, "_roots", frozenset())
    monkeypatch.chdir("/")
    assert not fence.is_readable(PASSWD)
    assert fence.is_readable(textwrap.__file__)


def test_a_debugger_may_read_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """`breakpoint()` in a run: the person at the keyboard is not part of the world."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("p 20 + 3\nc\n"))
    output = io.StringIO()
    with a_run() as computer:
        debugger = pdb.Pdb(stdin=sys.stdin, stdout=output, readrc=False, nosigint=True)
        debugger.set_trace(sys._getframe())
        debugger.set_continue()
    sys.settrace(None)
    assert computer.escapes == []
    assert "23" in output.getvalue()


def test_stdin_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the stream that was there; one that the program put there itself is left."""
    before = io.StringIO("typed")
    monkeypatch.setattr(sys, "stdin", before)
    with a_run():
        assert sys.stdin is not before
        assert sys.stdin.closed is False
        assert not sys.stdin.isatty()
        assert sys.stdin.readable()
    assert sys.stdin is before
    other = io.StringIO("the program's own")
    with a_run():
        sys.stdin = other
        assert sys.stdin.read() == "the program's own"
    assert sys.stdin is other


# --- nothing slips through -------------------------------------------------------------------

WITNESS = """
import os, sys
from tests.kernel import test_fence
from tests.kernel.fake_computer import FakeComputer
from foretold.errors import EscapedWorld
from foretold.kernel.patches import patches

REAL = ("open", "socket.", "os.", "pty.", "builtins.input", "time.sleep", "_thread.")
inside, reached = False, []

def witness(event, args):
    if inside and event.startswith(REAL):
        reached.append((event, str(args)))

sys.addaudithook(witness)
patches.install()
for shown, call in test_fence.ESCAPES:
    patches.activate(FakeComputer())
    inside = True
    try:
        call()
    except EscapedWorld:
        pass
    else:
        reached.append(("no escape", shown))
    finally:
        inside = False
        patches.deactivate()
# The witness itself can see: outside of runs the same calls do raise events.
inside = True
open("/etc/passwd").close()
os.listdir("/etc")
inside = False
print(reached)
"""


def test_the_interpreter_itself_sees_no_escape(tmp_path: pathlib.Path) -> None:
    """CPython reports each access to the outside to audit hooks: inside the fence, none is made.

    In a process of its own, since a hook stays for good. That the hook works is shown at the end.
    """
    root = pathlib.Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    result = subprocess.run(
        [sys.executable, "-c", WITNESS],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(
        [
            ("open", str((PASSWD, "r", os.O_RDONLY | os.O_CLOEXEC))),
            ("os.listdir", str(("/etc",))),
        ]
    )
    assert list(tmp_path.iterdir()) == []
