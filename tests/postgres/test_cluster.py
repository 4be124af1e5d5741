"""A server comes up when it is wanted, and nothing of it is left, however its owner ends."""

from __future__ import annotations

import os
import select
import signal
import stat
from pathlib import Path

import pytest

import foretold
from foretold.errors import ServiceError
from foretold.services.postgres import cluster as clusters
from foretold.services.postgres import datadir, preload
from foretold.services.postgres.account import Account
from foretold.services.postgres.cluster import Cluster
from tests.postgres.machines import processes_in, run_child, start_child

START = """
import os, signal, sys
from foretold.services.postgres.cluster import Cluster
server = Cluster.shared()
print(server.folder, server._guardian.pid, flush=True)
"""


def assert_nothing_left(folder: str) -> None:
    """Neither files nor processes."""
    assert not Path(folder).exists()
    assert processes_in(folder) == []


ENDINGS = {
    "the end": "",
    "an exception": "raise RuntimeError('planted')",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(0)",
    "Ctrl-C": "os.kill(os.getpid(), signal.SIGINT)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_nothing_is_left(ending: str) -> None:
    """However the process ends, also with sessions open and one of them stopped."""
    stopped = "side = server.connect(); os.kill(side.pid, signal.SIGSTOP)\ninput()\n"
    child = start_child(START + stopped + ending)
    assert child.stdout is not None
    folder, guardian = child.stdout.readline().split()
    assert Path(folder).exists()
    assert processes_in(folder)
    guard = os.pidfd_open(int(guardian))
    child.communicate("\n")
    _wait(guard)
    assert_nothing_left(folder)


def _wait(descriptor: int) -> None:
    """Until the process of this descriptor has ended."""
    select.select([descriptor], [], [])
    os.close(descriptor)


def test_ctrl_c_at_the_terminal_does_not_reach_the_server() -> None:
    """Terminals send it to a whole group: server and guardian are in sessions of their own."""
    said = run_child(
        START
        + "side = server.connect()\n"
        + "side_row = side.simple('select pg_backend_pid()')[0][0]\n"
        + "print(os.getsid(0), os.getsid(server._guardian.pid), os.getsid(int(side_row)))"
    )
    ours, *theirs = said.splitlines()[-1].split()
    assert ours not in theirs


def test_a_killed_guardian_takes_the_server_with_it() -> None:
    """The kernel guards the guardian: the server gets SIGQUIT, and its owner removes the files."""
    said = run_child(
        START
        + "server.check()\n"
        + "descriptor = os.pidfd_open(int(open(server.data / 'postmaster.pid').readline()))\n"
        + "os.kill(server._guardian.pid, signal.SIGKILL)\n"
        + "import select; select.select([descriptor], [], [])\n"
        + "print(server.alive())"
    )
    folder = said.split()[0]
    assert said.splitlines()[-1] == "False"
    assert_nothing_left(folder)


def test_a_fork_has_a_server_of_its_own() -> None:
    """It never uses its parent's, does not stop it, and does not keep it alive."""
    said = run_child(
        START
        + "child = os.fork()\n"
        + "if not child:\n"
        + "    assert not server.alive()\n"
        + "    other = Cluster.shared()\n"
        + "    assert other.folder != server.folder\n"
        + "    print(other.folder, other._guardian.pid, flush=True)\n"
        + "    server.stop()\n"
        + "    os._exit(0)\n"
        + "assert os.waitpid(child, 0)[1] == 0\n"
        + "print(server.alive(), Cluster.shared() is server, server.connect().simple('select 1'))"
    )
    lines = said.splitlines()
    assert lines[-1] == "True True [['1']]"
    for line in lines[:2]:
        folder, guardian = line.split()
        if Path(f"/proc/{guardian}").exists():
            _wait(os.pidfd_open(int(guardian)))
        assert_nothing_left(folder)


def test_it_is_private(cluster: Cluster) -> None:
    """Nobody else can enter its folder; it listens on no network; and it is never root."""
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    side = cluster.connect()
    assert side.simple("show listen_addresses") == [[""]]
    status = Path(f"/proc/{side.pid}/status").read_text()
    (uids,) = [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")]
    (groups,) = [line.split()[1:] for line in status.splitlines() if line.startswith("Groups:")]
    side.close()
    assert "0" not in uids
    if os.geteuid() == 0:
        assert groups == []
    else:
        assert set(uids) == {str(os.geteuid())}


def test_root_leaves_permissions_alone(cluster: Cluster) -> None:
    """Folders on the way to the server's keep their modes; only its own folder is new."""
    assert stat.S_IMODE(cluster.folder.parent.stat().st_mode) == 0o1777


def test_the_settings_hold(cluster: Cluster) -> None:
    """Nothing happens in the background, nothing is synced, and a blocked session says so."""
    side = cluster.connect()
    wanted = {**clusters._SETTINGS, "synchronous_commit": "on", "server_encoding": "UTF8"}
    for name, value in wanted.items():
        shown = side.simple(f"show {name}")[0][0]
        assert shown in (value, {"1d": "1d", "0700": "0700"}.get(value)), name
    assert side.simple("select upper('ä'), 'B' < 'a' collate \"default\"") == [["Ä", "t"]]
    side.close()


def _shared_memory() -> list[str]:
    """The ids of all segments of this machine."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line.split()[1] for line in lines]


def test_a_dead_server_is_noticed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how it ended and shows its log; the next use starts a new one."""
    monkeypatch.setattr(Cluster, "_shared", None)
    server = Cluster.shared()
    try:
        lines = (server.data / "postmaster.pid").read_text().splitlines()
        postmaster, memory = int(lines[0]), lines[6].split()[1]
        descriptor = os.pidfd_open(postmaster)
        os.kill(postmaster, signal.SIGKILL)
        _wait(descriptor)
        while server.alive():  # until the guardian has said so
            pass
        with pytest.raises(ServiceError, match=r"killed by signal 9[\s\S]*ready to accept"):
            server.connect()
        again = Cluster.shared()
        assert again is not server
        side = again.connect()
        assert side.simple("select 1") == [["1"]]
        side.close()
        assert_nothing_left(str(server.folder))
        assert memory not in _shared_memory()
        server = again
    finally:
        server.stop()


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a setting that does not exist. The server's own words are shown."""
    monkeypatch.setitem(clusters._SETTINGS, "no_such_setting", "1")
    folders: list[Path] = []
    make = datadir.make_run_folder

    def noted(who: Account) -> Path:
        folders.append(make(who))
        return folders[0]

    monkeypatch.setattr(datadir, "make_run_folder", noted)
    with pytest.raises(ServiceError, match=r"did not start[\s\S]*no_such_setting"):
        Cluster()
    assert_nothing_left(str(folders[0]))


def test_initdb_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Planted: an option that does not exist."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(datadir, "_INITDB", ("--no-such-option",))
    with pytest.raises(ServiceError, match=r"initdb could not[\s\S]*no-such-option"):
        Cluster()


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then everything is made anew: slower, and no error."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    server = Cluster()
    assert server.page is not None
    server.stop()


def test_no_place_for_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names each place and what is wrong with it: room, or the length of its path."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(datadir, "_places", lambda: iter([Path("/dev/shm"), long]))
    monkeypatch.setattr(datadir, "_ROOM_BYTES_MIN", 1 << 60)
    monkeypatch.setattr(datadir, "can_reach", lambda who, path: True)
    with pytest.raises(ServiceError) as raised:
        Cluster()
    assert "/dev/shm has less than" in str(raised.value)
    assert "too long a path for a socket" in str(raised.value)


def test_it_starts_and_answers_inside_a_run() -> None:
    """A world asks for it in the middle of a simulation: nothing of that is in the trace."""
    wanted = True

    async def main(world: foretold.World) -> list[list[str | None]]:
        if not wanted:
            return [["1"]]
        server = Cluster()
        side = server.connect()
        try:
            assert server.alive()
            return side.simple("select 1")
        finally:
            side.close()
            server.stop()

    done = foretold.run(main, seed=1)
    assert done.value == [["1"]]
    wanted = False
    assert foretold.run(main, seed=1).digest == done.digest


def test_a_library_that_is_not_loaded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: something that is no library. The server starts without it, and we say so."""
    monkeypatch.setattr(preload, "library", lambda: b"planted")
    server = Cluster()
    assert server.page is None
    assert "did not load" in server.page_missing
    server.stop()


def test_it_works_where_programs_may_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers forbid programs in /dev/shm: the library lies elsewhere, and goes as well."""
    monkeypatch.setattr(datadir, "runs_programs", lambda folder: False)
    server = Cluster()
    folders = list(server._folders)
    assert len(folders) == 2
    assert (folders[1] / "preload.so").exists()
    assert server.page is not None
    server.stop()
    assert [folder for folder in folders if folder.exists()] == []
