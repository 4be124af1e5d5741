"""Names, versions and processors are those of the simulated machine, and nothing real is asked."""

from __future__ import annotations

import multiprocessing
import os
import platform
import socket
from collections.abc import Callable
from platform import platform as imported_platform
from platform import uname as imported_uname
from typing import Any

import pytest

import foretold
from foretold.kernel.patches import patches

ASKED: dict[str, tuple[Callable[[], Any], Any]] = {
    "os.uname": (lambda: tuple(os.uname()), ("Linux", "main", "6.1.0", "#1 SMP", "x86_64")),
    "gethostname": (socket.gethostname, "main"),
    "getfqdn": (socket.getfqdn, "main"),
    "cpu_count": (os.cpu_count, 4),
    "affinity": (lambda: os.sched_getaffinity(0), {0, 1, 2, 3}),
    "multiprocessing": (multiprocessing.cpu_count, 4),
    "platform": (platform.platform, "Linux-6.1.0-x86_64-with-glibc2.36"),
    "terse": (lambda: platform.platform(terse=True), "Linux-6.1.0-x86_64-with-glibc2.36"),
    "imported": (imported_platform, "Linux-6.1.0-x86_64-with-glibc2.36"),
    "node": (platform.node, "main"),
    "system": (platform.system, "Linux"),
    "release": (platform.release, "6.1.0"),
    "version": (platform.version, "#1 SMP"),
    "machine": (platform.machine, "x86_64"),
    "processor": (platform.processor, "x86_64"),
    "uname": (lambda: imported_uname().node, "main"),
    "libc": (platform.libc_ver, ("glibc", "2.36")),
    "architecture": (platform.architecture, ("64bit", "ELF")),
    "system's name": (lambda: platform.freedesktop_os_release()["ID"], "debian"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_run_sees_the_simulated_machine(name: str) -> None:
    """Cold or asked before, under whatever name; and afterwards the real machine is there again."""
    ask, expected = ASKED[name]
    vars(platform)["_uname_cache"] = None
    vars(platform)["_platform_cache"].clear()
    vars(platform)["_os_release_cache"] = None
    assert foretold.run(ask).value == expected
    before = ask()
    assert foretold.run(ask).value == expected
    assert ask() == before


def test_each_host_has_its_name() -> None:
    """Nothing of one host is remembered for another."""

    async def name() -> tuple[str, str]:
        return platform.node(), socket.gethostname()

    async def main(world: foretold.World) -> list[Any]:
        return [await world.host(each).start(name) for each in ("one", "two")]

    assert foretold.run(main).value == [("one", "one"), ("two", "two")]


def test_the_code_of_platform_is_put_back() -> None:
    """The very code object."""
    before = platform.uname.__code__, platform.platform.__code__
    with patches.installed():
        assert platform.uname.__code__ is not before[0]
        assert platform.node() == os.uname().nodename
    assert (platform.uname.__code__, platform.platform.__code__) == before
