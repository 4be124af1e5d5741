"""Calls that are new in Python 3.14 and reach the machine: in a run, the host answers them."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from typing import Any

import pytest

import foretold

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="names that are new in 3.14")

_os: Any = os  # the stubs are those of 3.11
_threads: Any = _thread  # the same


def test_readinto_reads_what_the_host_has() -> None:
    """`os.readinto` of a file, a pipe, and a buffer that is longer than what is left."""

    def main() -> list[Any]:
        with open("data", "wb") as file:
            file.write(b"abcdefgh")
        source, target = os.pipe()
        os.write(target, b"xyz")
        fd = os.open("data", os.O_RDONLY)
        found = []
        for each, size in ((fd, 3), (fd, 9), (fd, 2), (source, 5)):
            buffer = bytearray(size)
            found.append((_os.readinto(each, buffer), bytes(buffer)))
        return found

    expected = [(3, b"abc"), (5, b"defgh\0\0\0\0"), (0, b"\0\0"), (3, b"xyz\0\0")]
    assert foretold.run(main).value == expected
    assert not os.path.exists("data")


def test_readinto_fills_a_buffer_of_other_items() -> None:
    """It counts bytes, whatever the buffer is made of; and one that is not writable is refused."""

    def main() -> tuple[int, list[int]]:
        with open("data", "wb") as file:
            file.write(bytes(range(8)))
        fd = os.open("data", os.O_RDONLY)
        numbers = memoryview(bytearray(8)).cast("H")
        count = _os.readinto(fd, numbers)
        os.lseek(fd, 0, os.SEEK_SET)
        with pytest.raises(TypeError):
            _os.readinto(fd, bytes(4))
        return count, numbers.tolist()

    assert foretold.run(main).value == (8, memoryview(bytes(range(8))).cast("H").tolist())


def test_the_environment_is_reloaded_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.reload_environ()` reads the C library's table; in a run it finds what the host has."""
    monkeypatch.setenv("FORETOLD_BASE", "real")

    def main() -> tuple[str | None, str | None]:
        del os.environ["FORETOLD_BASE"]
        os.environ["FORETOLD_ROLE"] = "of the host"
        _os.reload_environ()
        return os.environ.get("FORETOLD_BASE"), os.environ.get("FORETOLD_ROLE")

    assert foretold.run(main).value == (None, "of the host")
    assert os.environ["FORETOLD_BASE"] == "real"


ESCAPES = {
    "_interpreters.create": "from concurrent import interpreters; interpreters.create()",
    "sys.remote_exec": "import os, sys; sys.remote_exec(os.getppid(), '/nowhere.py')",
}


@pytest.mark.parametrize("call", ESCAPES)
def test_another_interpreter_or_process_is_out_of_reach(call: str) -> None:
    """A sub-interpreter runs code that no tape rules; so does a process that is sent a script."""
    with pytest.raises(foretold.EscapedWorld, match=call):
        foretold.run(lambda: exec(ESCAPES[call], {}))


LAZY = """
import foretold

async def main(world: ForTypeCheckers) -> Missing:
    return await world.host("a").start(program)

async def program(port: Missing = 8000) -> Missing:
    return port

class Rules(foretold.Machine):
    @foretold.rule()
    async def go(self, actor: ForTypeCheckers) -> Missing:
        pass

    @foretold.invariant()
    def holds(self) -> Missing:
        pass

@foretold.simulate(runs=2)
async def test_it(world: ForTypeCheckers) -> Missing:
    pass
"""


def test_annotations_need_no_names() -> None:
    """Annotations are evaluated when they are asked for: nobody asks for what only type checkers
    import."""
    names: dict[str, Any] = {"__name__": "lazy"}
    exec(compile(LAZY, "lazy.py", "exec", dont_inherit=True), names)
    assert foretold.run(names["main"]).value == 8000
    assert foretold.explore(names["Rules"], runs=2).failure is None


def test_the_test_runner_keeps_its_name() -> None:
    """Since 3.14 a thread's name is also the system's; the main thread of a run is the runner's."""

    def main() -> str:
        threading.current_thread().name = "renamed"
        threading.Thread(target=lambda: None, name="worker").start()
        return threading.current_thread().name

    before, name = _threads._get_name(), threading.current_thread().name
    try:
        assert foretold.run(main).value == "renamed"
        assert _threads._get_name() == before
    finally:
        threading.current_thread().name = name
        _threads.set_name(before)
