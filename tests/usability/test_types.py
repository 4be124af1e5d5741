"""A type checker knows what users hold, and editors show them nothing else.

mypy checks two files with the project's settings, outside of `tests`, where they are strict: one
that is right, and one in which every line is a mistake. What mypy cannot see is compared at run
time: the handles with the engine's classes, and what `dir` shows.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold import handles
from foretold.services.web.server import Web
from foretold.world.clock import WorldClock
from foretold.world.disk.disk import Disk
from foretold.world.host import Host
from foretold.world.hosttask import HostTask
from foretold.world.net.network import Network
from foretold.world.world import World
from tests.usability import users_file

ROOT = Path(__file__).parents[2]
RIGHT = Path(users_file.__file__)

ENGINE: dict[type, type] = {
    handles.World: World,
    handles.Host: Host,
    handles.HostTask: HostTask,
    handles.HostClock: WorldClock,
    handles.Disk: Disk,
    handles.Network: Network,
    handles.Web: Web,
}

MISTAKES = """\
import foretold
from typing import assert_type
from hypothesis import strategies as st

async def serve() -> int:
    return 1

async def main(world: foretold.World) -> None:
    world.graves  # E: "World" has no attribute "graves"
    world.home  # E: "World" has no attribute "home"
    world.tape  # E: "World" has no attribute "tape"
    host = world.host("api", isolated=["app"])  # E: Unexpected keyword argument "isolated"
    host.deliver(15)  # E: "Host" has no attribute "deliver"
    host.give_way()  # E: "Host" has no attribute "give_way"
    host.kernel  # E: "Host" has no attribute "kernel"
    host.loop  # E: "Host" has no attribute "loop"
    host.name = "db"  # E: Property "name" defined in "Host" is read-only
    host.start(3)  # E: No overload variant of "start"
    host.clock.changes  # E: "HostClock" has no attribute "changes"
    host.clock.skwe(3)  # E: "HostClock" has no attribute "skwe"
    host.disk.lose_power()  # E: "Disk" has no attribute "lose_power"
    host.disk.call  # E: "Disk" has no attribute "call"
    task = host.start(serve)
    task.died()  # E: "HostTask[int]" has no attribute "died"
    text: str = await task  # E: Incompatible types in assignment
    host.start(serve).host  # E: "HostTask[int]" has no attribute "host"
    world.network.add_host("b")  # E: "Network" has no attribute "add_host"
    world.network.new_end  # E: "Network" has no attribute "new_end"
    world.network.partition(host)  # E: Missing positional argument "b"
    world.network.hold(host, 3)  # E: incompatible type "int"
    world.clock.advance("3")  # E: incompatible type "str"
    foretold.current_world().failures  # E: "World" has no attribute "failures"
    pg = await world.postgres("", prot=5433)  # E: Unexpected keyword argument "prot"
    assert_type(pg.sql("")[0][0], int)  # E: Expression is of type "Any", not "int"
    pg.no_such_method()  # E: "Postgres" has no attribute "no_such_method"
    pg.host.appliance  # E: "Host" has no attribute "appliance"
    web = await world.web(object(), throug="asgi")  # E: Unexpected keyword argument "throug"
    web.door  # E: "Web" has no attribute "door"
    web.note("x", "y")  # E: "Web" has no attribute "note"
    web.client("ada", header={})  # E: Unexpected keyword argument "header"
    n: int = foretold.draw(st.text())  # E: Incompatible types in assignment
    m: int = foretold.choose(["a"])  # E: Incompatible types in assignment
    await foretold.together(serve)  # E: incompatible type

class Shop(foretold.Machine):
    orders = foretold.Bundle[int]("orders")

    @foretold.rule(item=3)  # E: incompatible type "int"
    async def buy(self, item: int) -> str:
        self.world.shared  # E: "World" has no attribute "shared"
        return ""

    @foretold.rule(target="orders")  # E: incompatible type "str"
    async def sell(self) -> None:
        n: int = await self.buy(3)  # E: Incompatible types in assignment

    @foretold.invariant(went="end")  # E: Unexpected keyword argument "went"
    def holds(self) -> None: ...

done = foretold.run(serve, sed=3)  # E: Unexpected keyword argument "sed"
word: str = foretold.run(serve).value  # E: Incompatible types in assignment
found = foretold.explore(serve, runs=3, steps_maxx=4)  # E: Unexpected keyword argument "steps_maxx"
found.no_such_member  # E: "Outcome" has no attribute "no_such_member"
foretold.simulate(serve, save_to="x")  # E: Unexpected keyword argument "save_to"
foretold.simulate(Shop, step=3)  # E: Unexpected keyword argument "step"
foretold.simulate(serve, steps=3)  # E: No overload variant of "simulate"
foretold.openapi({}, skipp=())  # E: Unexpected keyword argument "skipp"
foretold.World()  # E: Cannot instantiate
foretold.no_such_name  # E: Module has no attribute "no_such_name"
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says about both files. It has the project's cache, and a process of its own, so
    that nothing of it stays here."""
    pytest.importorskip("mypy", reason="types are mypy's to check: pip install mypy")
    there = tmp_path_factory.mktemp("users")
    (there / "right.py").write_text(RIGHT.read_text(encoding="utf-8"), encoding="utf-8")
    (there / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
    files = [str(there / name) for name in ("right.py", "mistakes.py")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    # A file that the cache knows is named by the folder in which it lay then.
    return [re.sub(r"^\S*/(?=\w+\.py:)", "", line) for line in done.stdout.splitlines()]


def test_all_that_users_hold_is_known(said: list[str]) -> None:
    """Nothing is said about the file that is right: each `assert_type` in it knows the type."""
    assert [line for line in said if not line.startswith("mistakes.py")] == []


def test_mistakes_are_found_where_they_stand(said: list[str]) -> None:
    """Typos in settings, names that do not exist and members of the engine: each is an error on its
    own line, and no other line has one."""
    errors: dict[int, str] = {}
    for line in said:
        found = re.match(r"mistakes\.py:(\d+): error: (.*)", line)
        if found:
            number = int(found[1])
            errors[number] = f"{errors.get(number, '')} {found[2]}"
    expected = {
        number: line.partition("  # E: ")[2]
        for number, line in enumerate(MISTAKES.splitlines(), 1)
        if "  # E: " in line
    }
    missed = [f"{n}: {text}" for n, text in expected.items() if text not in errors.get(n, "")]
    assert missed == []
    assert sorted(errors) == sorted(expected)


def test_the_users_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says about types is said about calls that work."""
    monkeypatch.chdir(tmp_path)
    users_file.searches()
    assert foretold.run(users_file.hosts).value == "api"


@pytest.mark.parametrize("handle", ENGINE, ids=lambda handle: handle.__name__)
def test_the_engine_has_what_handles_promise(handle: type) -> None:
    """The same parameters in the same order with the same defaults, and the same words: mypy does
    not compare defaults, and `help` shows the engine's method."""
    methods = 0
    for name in handles.members(handle):
        promised, own = vars(handle)[name], vars(ENGINE[handle]).get(name)
        assert promised.__doc__, f"{name} says what it does"
        if own is None:
            assert isinstance(promised, property), f"{name} is no attribute of objects"
            continue
        assert own.__doc__ == promised.__doc__
        if not isinstance(promised, property):
            assert shape(own) == shape(promised), name
            methods += 1
    assert methods


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


def test_completion_shows_what_is_for_users() -> None:
    """`dir` lists the members of the handle for each thing that a test holds."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("without a lifespan")

    async def main(world: World) -> None:
        host = world.host("api")
        task = host.start(lambda: None)
        held = {
            handles.World: world,
            handles.Host: host,
            handles.HostTask: task,
            handles.HostClock: host.clock,
            handles.Disk: host.disk,
            handles.Network: world.network,
            handles.Web: await world.web(application),
        }
        for handle, thing in held.items():
            assert type(thing) is ENGINE[handle]
            shown = [name for name in dir(thing) if not name.startswith("_")]
            assert shown == sorted(handles.members(handle))
            assert all(hasattr(thing, name) for name in shown)
        assert held.keys() == ENGINE.keys()
        assert isinstance(world, foretold.World)
        assert isinstance(host, foretold.Host)
        assert isinstance(held[handles.Web], foretold.Web)
        assert not isinstance(host, foretold.Web)

    foretold.run(main)


def test_all_names_come_without_httpx() -> None:
    """`foretold.Web` is there for annotations, and httpx is for those who call `world.web`."""
    program = (
        "import sys; sys.modules['httpx'] = None; from foretold import *; print(Web, Postgres)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{handles.Web} {foretold.Postgres}\n", done.stderr


def test_a_member_unlike_its_handle_is_caught() -> None:
    """Planted: another name, no default and another default are seen by the comparison."""

    def promised(self: object, low: float, high: float | None = None) -> None: ...
    def renamed(self: object, low: float, most: float | None = None) -> None: ...
    def required(self: object, low: float, high: float | None) -> None: ...
    def other(self: object, low: float, high: float | None = 3) -> None: ...

    assert shape(promised) == shape(promised)
    for wrong in (renamed, required, other):
        assert shape(promised) != shape(wrong)
