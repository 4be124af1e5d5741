"""Runs each of CPython's tests that use sockets in a world of its own.

Inside, `socket.socket`, `asyncio.new_event_loop()` and `asyncio.SelectorEventLoop()` are those of
the world's one host: asyncio's own transports on our network. The order is asyncio's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import itertools
import threading
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from foretold.kernel.patches import patches
from foretold.kernel.policy import WorldPolicy, current_policy, set_policy
from foretold.kernel.threads.ending import end_threads
from foretold.tape import Tape
from foretold.trace.record import Trace
from foretold.world.current import current_world, enter, leave, world_or_none
from foretold.world.hostloop import HostLoop
from foretold.world.net.sockets import WorldSocket
from foretold.world.settings import Settings
from foretold.world.world import World
from tests.conformance.redirect import OurLoop, lead

SETTINGS = Settings(order="asyncio", wall_s_max=None)


@contextlib.contextmanager
def inside(world: World) -> Iterator[None]:
    """This thread lives in `world`. As in `foretold.run`, but nothing is judged at the end."""
    former_policy = current_policy()
    with patches.active(world.home):
        enter(world)
        set_policy(WorldPolicy(OurHostLoop))
        try:
            yield
        finally:
            world.sealed = True
            end_threads(world.outside.crews())
            set_policy(former_policy)
            leave()


class OurHostLoop(HostLoop):
    """A loop of the world's host that can be made as the stock ones are."""

    def __init__(self, selector: object = None) -> None:
        home = current_world().home
        super().__init__(home)
        home.loops.append(self)


def in_a_world(run: Callable[..., Any]) -> Callable[..., Any]:
    """`TestCase.run`, in a world of its own."""

    @functools.wraps(run)
    def wrapper(test: Any, result: Any = None) -> Any:
        if world_or_none() is not None:
            return run(test, result)
        world = World(Tape.seeded(0, SETTINGS.on_tape()), Trace(), SETTINGS)
        world.home.kernel.on_background = None  # to the log, where CPython's tests look for it
        OurLoop.kernels.append(world.home.kernel)
        with inside(world):
            return run(test, result)

    return wrapper


def lead_into_worlds(module_name: str) -> Any:
    """Import one of CPython's test modules; each of its tests will run in a world."""
    module = lead(module_name, OurHostLoop)
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    selector_events: Any = asyncio.selector_events
    selector_events.BaseSelectorEventLoop = OurHostLoop
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            kind.run = in_a_world(kind.run)  # type: ignore[method-assign]  # this process ends soon
    threading.Thread.start = _start  # type: ignore[method-assign]  # this process ends soon
    _lead_names((module, utils), "gen_unix_socket_path", gen_unix_socket_path)
    _lead_names((module, utils), "unix_socket_path", unix_socket_path)
    return module


def plant_a_mistake() -> None:
    """What a socket receives comes back to front. Many tests must notice."""
    sockets: Any = WorldSocket
    receive = sockets.recv
    sockets.recv = lambda self, *args: receive(self, *args)[::-1]


_numbers = itertools.count()
_start = threading.Thread.start


def _lead_names(modules: Iterable[Any], name: str, ours: object) -> None:
    for module in modules:
        if hasattr(module, name):
            setattr(module, name, ours)


def gen_unix_socket_path() -> str:
    """As in `test.test_asyncio.utils`, which asks the disk for a free one."""
    return f"/run/test-{next(_numbers)}.sock"


@contextlib.contextmanager
def unix_socket_path() -> Iterator[str]:
    """As in `test.test_asyncio.utils`, which removes the file afterwards."""
    path = gen_unix_socket_path()
    yield path
    current_world().home.stack.unix.files.pop(path, None)
