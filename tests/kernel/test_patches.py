"""Installed once, active once per run, and gone without a trace."""

from __future__ import annotations

import gc
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import types
from datetime import datetime
from typing import Any

import pytest

from foretold.errors import ForetoldError
from foretold.kernel import clock_patches, entropy_patches, fence, real
from foretold.kernel import swap as swap_module
from foretold.kernel.computer import running
from foretold.kernel.patches import Patches, patches
from foretold.kernel.swap import Setting, Swap
from foretold.kernel.syscalls import dispatch
from foretold.kernel.syscalls import types as types_in_c
from tests.kernel.fake_computer import PID, WALL_NS, FakeComputer, a_run

pytestmark = pytest.mark.usefixtures("_others_out_of_sight")
CHANGES = (*clock_patches.CHANGES, *entropy_patches.CHANGES, *dispatch.CHANGES, *types_in_c.CHANGES)


def everything() -> list[object]:
    """Each field and each entry that `install` changes, as it is now."""
    fields = [
        getattr(swap_module._view(change.function), name)
        for change in CHANGES
        if isinstance(change, Swap)
        for name, _ in swap_module._Function._fields_
        if name != "ob_refcnt"
    ]
    entries = [
        vars(change.owner).get(change.name) for change in CHANGES if isinstance(change, Setting)
    ]
    return [*fields, *entries, sys.stdin, sys.dont_write_bytecode, dict(running)]


def test_nothing_is_left_after_removal() -> None:
    """To the last C field and dict entry, also after an exception, and again and again."""
    before = everything()
    assert len(before) > 300, "vacuous otherwise"
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), a_run():
            assert everything() != before
            raise ZeroDivisionError
        assert everything() == before


def test_references_are_balanced() -> None:
    """A further round leaves no reference behind on what is swapped or on the modules of that."""
    gc.unfreeze()  # the scan is for the whole heap
    counted = (time, os, random, time.time, os.fork, datetime, type(None), types.ModuleType)

    def round_trip() -> list[int]:
        with patches.installed():
            patches.catch_bound_methods()
            with patches.active(FakeComputer()):
                time.time()
        gc.collect()
        return [sys.getrefcount(thing) for thing in counted]

    first, second = round_trip(), round_trip()  # each looks at the whole heap: seconds in the suite
    assert second == first


def test_installs_nest() -> None:
    """The plugin and a run both install: the inner removal must not pull the floor away."""
    before = everything()
    patches.install()
    patches.install()
    installed = everything()
    patches.remove()
    assert everything() == installed
    patches.remove()
    assert everything() == before
    with pytest.raises(ForetoldError, match="without install"):
        patches.remove()


def test_a_failing_install_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half installed would be worst: the last step fails, and the first is undone."""
    before = everything()
    monkeypatch.setattr("foretold.kernel.hashes.install", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        patches.install()
    assert everything() == before
    monkeypatch.undo()
    with patches.installed():
        assert everything() != before
    assert everything() == before


def test_a_second_owner_is_refused() -> None:
    """Two sets of patches on one process would undo each other: say so at once."""
    before = everything()
    with patches.installed():
        installed = everything()
        with pytest.raises(ForetoldError, match="already"):
            Patches().install()
        assert everything() == installed
    assert everything() == before


def test_removal_ends_the_run() -> None:
    """A campaign that breaks off between activate and deactivate leaves the real world behind."""
    before = everything()
    patches.install()
    patches.activate(FakeComputer())
    patches.remove()
    assert everything() == before
    assert abs(time.time() - real.time()) < 60


def test_wrong_order_is_refused() -> None:
    """Each step says what it needs; runs do not nest."""
    with pytest.raises(ForetoldError, match=r"needs install\(\) first"):
        patches.activate(FakeComputer())
    with a_run() as computer:
        with pytest.raises(ForetoldError, match="do not nest"):
            patches.activate(FakeComputer())
        assert time.time_ns() == WALL_NS + 1
        assert computer.wall == WALL_NS + 1
    patches.deactivate()  # nothing active: no harm


def in_thread(work: Any) -> Any:
    """The result of `work` in a real thread."""
    results: list[Any] = []
    with fence.passage():
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        thread.join()
    return results[0]


def test_other_threads_live_in_the_real_world() -> None:
    """Only the thread that activated is simulated; the others see the originals' answers."""
    with a_run():
        wall, pid, now, bytes_ = in_thread(
            lambda: (time.time(), os.getpid(), datetime.now(), os.urandom(8))
        )
        assert os.getpid() == PID
    assert abs(wall - time.time()) < 60
    assert pid == os.getpid()
    assert abs(now.timestamp() - wall) < 60
    assert bytes_ not in bytes(range(256))


def test_outside_is_the_real_world() -> None:
    """For work of the framework that needs real time: a server to start, a file to write."""
    with a_run():
        with patches.outside():
            assert os.getpid() != PID
            assert abs(time.time() - real.time()) < 60
            assert os.listdir("/etc")
        assert os.getpid() == PID
    with patches.outside():
        assert not running
    assert not running


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds foretold and these tests."""
    root = pathlib.Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )


@pytest.mark.parametrize("state", ["install", "activate"])
def test_the_interpreter_ends_quietly(state: str) -> None:
    """A process that never removes the patches must not crash or complain when it ends."""
    result = run_python(
        "import time, os, weakref\n"
        "from foretold.kernel.patches import patches\n"
        "from tests.kernel.fake_computer import FakeComputer\n"
        "patches.install()\n"
        "patches.catch_bound_methods()\n"
        + ("patches.activate(FakeComputer())\n" if state == "activate" else "")
        + "class Late:\n"
        "    def __del__(self, time=time.time, stat=os.listdir):\n"
        "        time(), stat('/')\n"
        "keep = Late(); keep.self = keep\n"
        "print('done', time.time() > 0)\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done True\n", "")


def test_a_forked_child_goes_on_simulating() -> None:
    """Runs in forked workers: the child has the parent's patches, and its own state."""
    result = run_python(
        "import os, time\n"
        "from foretold.kernel import fence, real\n"
        "from foretold.kernel.patches import patches\n"
        "from tests.kernel.fake_computer import FakeComputer, WALL_NS\n"
        "with patches.installed(), patches.active(FakeComputer()):\n"
        "    with fence.passage():  # asyncio and others act on a fork: see os.register_at_fork\n"
        "        child = real.fork()\n"
        "    if not child:\n"
        "        real.exit_now(7 if time.time_ns() == WALL_NS + 1 else 8)\n"
        "    print(os.waitstatus_to_exitcode(real.waitpid(child, 0)[1]))\n"
    )
    assert (result.stdout, result.stderr) == ("7\n", "")


def test_each_run_starts_alike() -> None:
    """The point of the whole: a thousand runs in one process, each like the first."""

    def one_run() -> tuple[Any, ...]:
        with patches.active(FakeComputer()):
            return time.time(), random.random(), os.urandom(4), datetime.now(), os.getpid()

    with patches.installed():
        assert len({one_run() for _ in range(1_000)}) == 1
