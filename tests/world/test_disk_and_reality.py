"""What a host's disk shows of the real machine: the program's own files, and nothing else."""

from __future__ import annotations

import importlib
import os
import pathlib
import platform
import sys
import tempfile
import textwrap
import traceback

import pytest

import foretold
from foretold.kernel import fence
from foretold.world.world import World


def test_the_programs_own_files_are_there() -> None:
    """Modules, package data and the project's files are read; directories list real and simulated
    names together."""

    def main() -> None:
        assert os.path.isfile(textwrap.__file__)
        assert "def dedent" in pathlib.Path(textwrap.__file__).read_text()
        project = pathlib.Path("pyproject.toml")
        assert "foretold" in project.read_text()
        pathlib.Path("made.txt").write_text("x")
        assert {"pyproject.toml", "made.txt"} <= set(os.listdir())
        entry = next(e for e in os.scandir() if e.name == project.name)
        assert entry.inode() == os.stat(project).st_ino

    foretold.run(main)
    assert not os.path.exists("made.txt")


def test_writing_to_them_changes_a_copy() -> None:
    """Append, replace, rename, delete: seen inside, gone afterwards."""
    before = pathlib.Path("pyproject.toml").read_bytes()

    def main(world: World) -> None:
        with open("pyproject.toml", "a") as file:
            file.write("# more")
        assert pathlib.Path("pyproject.toml").read_bytes() == before + b"# more"
        os.rename("pyproject.toml", "moved.toml")
        assert not os.path.exists("pyproject.toml")
        os.remove("LICENSE")
        assert "LICENSE" not in os.listdir()
        with pytest.raises(FileNotFoundError):
            open("LICENSE").close()
        os.rename("docs", "papers")
        assert os.path.exists("papers/limits.md")
        assert not os.path.exists("docs")
        assert world.home.disk.exists("moved.toml")

    foretold.run(main)
    assert pathlib.Path("pyproject.toml").read_bytes() == before
    assert os.path.exists("LICENSE")
    assert os.path.exists("docs")


@pytest.mark.usefixtures("one_session")
def test_a_deleted_file_may_come_back_in_a_crash() -> None:
    """What was changed of the program's own files is no more durable than anything else."""
    seen = set()

    async def main(world: World) -> bool:
        async def deleting() -> None:
            os.remove("LICENSE")

        host = world.host("a")
        await host.start(deleting)
        host.crash()
        return host.disk.exists("LICENSE")

    for seed in range(20):
        seen.add(foretold.run(main, seed=seed).value)
    assert seen == {True, False}


def test_the_rest_of_the_machine_is_not_there() -> None:
    """What exists on the real machine alone does not exist; to read it is an escape that says what
    to write instead, also if the program swallows it."""

    def main() -> None:
        assert not os.path.exists("/etc/passwd")
        open("/etc/passwd").close()

    with pytest.raises(foretold.EscapedWorld, match=r"(?s)open\('/etc/passwd'\).*disk\.write"):
        foretold.run(main)

    def lists() -> None:
        os.listdir("/usr/sbin")

    with pytest.raises(foretold.EscapedWorld, match="listdir"):
        foretold.run(lists)

    def provided(world: World) -> str:
        world.home.disk.write("/etc/passwd", b"root")
        return pathlib.Path("/etc/passwd").read_text()

    assert foretold.run(provided).value == "root"


@pytest.mark.parametrize("path", ["/proc/self/stat", "/sys/kernel/notes"])
def test_what_linux_says_of_the_machine_is_missing(path: str) -> None:
    """Libraries look there and do without, so it is no escape. The note says how to provide it, and
    what was provided is there."""

    def main() -> None:
        with pytest.raises(FileNotFoundError):
            pathlib.Path(path).read_text()

    (note,) = foretold.run(main).notes
    assert path in note
    assert "disk.write" in note

    def provided(world: foretold.World) -> bytes:
        world.host("main").disk.write("/proc/self/stat", b"1 (app) R")
        with open("/proc/self/stat", "rb") as file:
            return file.read()

    assert foretold.run(provided).value == b"1 (app) R"


def test_the_simulated_machine_says_which_system_it_has() -> None:
    """Clients of HTTP services read it for their `User-Agent`. It is no file of the real machine
    and none that the run wrote, and a program or a test may replace it."""
    name = "/etc/os-release"

    def main(world: World) -> None:
        assert os.path.isfile(name)
        assert "ID=debian\n" in pathlib.Path(name).read_text()
        assert world.home.disk.tree("/etc") == {}
        pathlib.Path(name).write_text("ID=other\n")
        assert platform.freedesktop_os_release()["ID"] == "other"
        assert world.home.disk.tree("/etc") == {name: b"ID=other\n"}

    foretold.run(main)
    foretold.run(lambda: pathlib.Path(name).read_text().index("ID=debian\n"))


def test_places_for_data_are_empty_as_on_a_new_machine(tmp_path: pathlib.Path) -> None:
    """What lies in the real /tmp or at home is just missing: it would differ from machine to
    machine, and programs look there for files that may not be there."""
    fd, leftover = tempfile.mkstemp(dir="/tmp")
    os.close(fd)

    def main() -> None:
        for path in (leftover, os.path.expanduser("~/.netrc"), "/var/log/syslog"):
            with pytest.raises(FileNotFoundError):
                open(path).close()
        assert tempfile.gettempdir() == "/tmp"
        assert os.path.isdir(os.path.expanduser("~"))
        assert os.path.isdir("/tmp")

    try:
        foretold.run(main)
    finally:
        os.remove(leftover)


def test_pytests_directory_is_there_and_empty(tmp_path: pathlib.Path) -> None:
    """tmp_path can be used in a run; what a fixture left there must be put on the disk."""
    (tmp_path / "prepared.txt").write_text("x")

    def main() -> list[str]:
        (tmp_path / "inside.txt").write_text("y")
        return os.listdir(tmp_path)

    assert foretold.run(main).value == ["inside.txt"]
    with pytest.raises(foretold.EscapedWorld, match=r"prepared\.txt"):
        foretold.run((tmp_path / "prepared.txt").read_text)
    assert [path.name for path in tmp_path.iterdir()] == ["prepared.txt"]


def test_more_can_be_allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`fence.allow_reading` counts for the disk as well."""
    folder = tmp_path_factory.mktemp("allowed")
    (folder / "data.json").write_text("{}")
    before = list(fence._allowed_by_user)
    fence.allow_reading(folder)
    try:
        assert foretold.run((folder / "data.json").read_text).value == "{}"
    finally:
        fence._allowed_by_user[:] = before


def test_imports_and_tracebacks_see_the_real_disk(tmp_path: pathlib.Path) -> None:
    """A module is imported from the real disk even if the program has written over it; tracebacks
    show real lines."""
    (tmp_path / "planted_module.py").write_text("VALUE = 'real'\ndef fail(): 1 / 0\n")
    sys.path.insert(0, str(tmp_path))

    def main() -> tuple[str, str, str]:
        (tmp_path / "planted_module.py").write_text("VALUE = 'simulated'")
        module = importlib.import_module("planted_module")
        try:
            module.fail()
        except ZeroDivisionError as error:
            shown = "".join(traceback.format_exception(error))
        else:
            shown = ""
        return module.VALUE, (tmp_path / "planted_module.py").read_text(), shown

    try:
        value, written, shown = foretold.run(main).value
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("planted_module", None)
    assert (value, written) == ("real", "VALUE = 'simulated'")
    assert "def fail(): 1 / 0" in shown


def test_real_descriptors_stay_real(tmp_path: pathlib.Path) -> None:
    """What was opened before the run goes on, and can be copied from to the simulated disk."""
    with open(tmp_path / "log.txt", "w+") as log:

        def main() -> bytes:
            log.write("line\n")
            log.flush()
            os.fsync(log.fileno())
            assert os.fstat(log.fileno()).st_size == 5
            with open("/tmp/copy", "wb") as copy:
                assert os.sendfile(copy.fileno(), log.fileno(), 0, 99) == 5
            return pathlib.Path("/tmp/copy").read_bytes()

        assert foretold.run(main).value == b"line\n"
    assert (tmp_path / "log.txt").read_text() == "line\n"
