"""The program's own files: read from the real disk, where nothing was written over them.

A host's disk begins empty, but for the usual directories (/tmp, /var/lib, a home, …). A program
also expects to find itself: its modules' data, templates, certificates, time zones. The rule:

- What was written in this run is on the simulated disk, and wins.
- Otherwise a path *below a readable root* shows the real file, read-only: the folders of the
  installed packages and of Python itself, every entry of `sys.path`, the working directory, and
  what the fence lets through (time zones, certificates; `fence.allow_reading`).
- `/etc/os-release` is that of the simulated machine, which `os.uname` describes too: SDKs read it
  for their `User-Agent`.
- Whoever writes to such a file, renames or deletes it, changes a copy that is made for this host
  and this run (as overlayfs does). The real disk is never written to.
- Nothing else of the real machine is there. `os.path.exists` says no; to *read* such a path raises
  `EscapedWorld`, if the real machine has it in a place of the system's own (/etc, /proc, /usr, …),
  because the program would find it in production and the test has not provided it. In places where
  programs keep their data (/tmp, /var, the home) it is just missing, as on a new machine.
- pytest's `tmp_path` exists, empty: it was made for this test. To read what a fixture left in it
  raises `EscapedWorld`.

Real and simulated names are merged when a directory is listed.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Final, NamedTuple

from foretold.kernel import fence
from foretold.kernel.file_patches import real_temporary_directory
from foretold.world.disk.filesystem import FileSystem
from foretold.world.disk.nodes import Directory, Inode, Symlink

PYTEST_FOLDERS: Final = "pytest-of-"
STAND_INS: Final = {"/etc/os-release": os.path.join(os.path.dirname(__file__), "os-release")}
"""Files of the simulated machine: where a program finds each of them, and where its text is."""
SOURCE_ENDINGS: Final = (".py", ".pyc")


class LowerFile(Inode):
    """A real file that nobody has written to."""

    __slots__ = ("path",)

    def __init__(self, path: str, found: os.stat_result) -> None:
        super().__init__(found.st_ino, found.st_mode, found.st_mtime_ns)
        self.path = path


class RealFiles:
    """What shines through from the real disk. All methods look at the real one, past the fence."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        try:
            with fence.passage():
                self.working_directory = os.getcwd()
        except FileNotFoundError:  # somebody has deleted it
            self.working_directory = "/"
        self._temporary = os.path.join(real_temporary_directory(), PYTEST_FOLDERS)

    # --- what may be seen ------------------------------------------------------------------------

    def shows(self, path: str) -> bool:
        """Whether all that lies below this path may be read."""
        return fence.is_below(path, _visible(self.working_directory).roots)

    def leads_on(self, path: str) -> bool:
        """Whether this is a directory on the way to something that may be read."""
        return path in _visible(self.working_directory).ways

    def is_for_tests(self, path: str) -> bool:
        """Whether pytest made this directory for a test."""
        return path.startswith(self._temporary)

    # --- what the file system asks ---------------------------------------------------------------

    def find(self, directory: Directory, name: str) -> Inode | None:
        """What is there under this name, if anything."""
        known = directory.lower.get(name)
        if known is not None or name in directory.hidden or directory.backing is None:
            return known
        path = os.path.join(directory.backing, name)
        path = STAND_INS.get(path, path)
        shown = self.shows(path) or path in STAND_INS.values()
        if not shown and not self.leads_on(path) and not self.is_for_tests(path):
            return None
        try:
            with fence.passage():
                found = os.lstat(path)
        except OSError:
            return None
        if not shown and not stat.S_ISDIR(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            return None
        node = directory.lower[name] = self._node(directory, path, found)
        return node

    def _node(self, directory: Directory, path: str, found: os.stat_result) -> Inode:
        node: Inode
        if stat.S_ISDIR(found.st_mode):
            name = os.path.basename(path)
            node = Directory(found.st_ino, stat.S_IMODE(found.st_mode), 0, directory, name)
            node.backing, node.standard, node.nlink = path, True, found.st_nlink
        elif stat.S_ISLNK(found.st_mode):
            with fence.passage():
                node = Symlink(found.st_ino, os.readlink(path), 0)
        else:
            node = LowerFile(path, found)
        node.device, node.uid, node.gid = found.st_dev, found.st_uid, found.st_gid
        node.atime_ns, node.mtime_ns = found.st_atime_ns, found.st_mtime_ns
        node.ctime_ns = found.st_ctime_ns
        return node

    def names(self, directory: Directory) -> list[str]:
        """All names that are there."""
        if directory.backing is None or not self.shows(directory.backing):
            return []
        try:
            with fence.passage():
                found = os.listdir(directory.backing)
        except OSError:
            return []
        known = directory.hidden | directory.entries.keys()
        return [name for name in found if name not in known]

    def lift(self, directory: Directory, name: str, node: Inode) -> Inode:
        """Make it a node like any other, since it is about to change."""
        del directory.lower[name]
        directory.hidden.add(name)
        if isinstance(node, LowerFile):
            node = self._copy(node)
        self._fs.plant(directory, name, node)
        return node

    def _copy(self, node: LowerFile) -> Inode:
        with fence.passage(), open(node.path, "rb") as file:
            data = file.read()
        copy = self._fs.new_file(stat.S_IMODE(node.mode))
        copy.number, copy.device, copy.uid, copy.gid = node.number, node.device, node.uid, node.gid
        copy.mtime_ns, copy.ctime_ns, copy.atime_ns = node.mtime_ns, node.ctime_ns, node.atime_ns
        copy.content.write(0, data)
        copy.content.commit()
        return copy

    # --- what is not there -----------------------------------------------------------------------

    def is_missed(self, path: str) -> bool:
        """Whether a path that is not on this disk is one that the real machine has, and that a
        program would find in production. What may be read and is not there, it has deleted."""
        if self.shows(path) or not (self.is_for_tests(path) or _is_the_systems(path)):
            return False
        with fence.passage():
            return os.path.lexists(path)

    def is_source(self, path: str) -> bool:
        """Whether it is a Python source that lies anywhere: those may always be read."""
        if not path.endswith(SOURCE_ENDINGS):
            return False
        with fence.passage():
            return os.path.isfile(path)


_DATA: Final = ("tmp", "var", "run", "home", "root", "opt", "srv", "mnt", "media", "data")


def _is_the_systems(path: str) -> bool:
    """Whether it lies in a place of the operating system, and not in one for data."""
    home = os.path.expanduser("~")
    first = path.lstrip("/").split("/", 1)[0]
    return first not in _DATA and not f"{path}/".startswith(f"{home}/")


class _Visible(NamedTuple):
    """What may be seen of the real disk, as long as `key` is the same."""

    key: tuple[object, ...]
    roots: frozenset[str]
    ways: frozenset[str]


_last = _Visible((), frozenset(), frozenset())


def _visible(working_directory: str) -> _Visible:
    """The readable roots, and the directories on the way to them. Kept from run to run: to find
    them takes a thousand looks at the real disk."""
    global _last
    key = (working_directory, *sys.path, len(fence._allowed_by_user), len(sys.modules))
    if key != _last.key:
        with fence.passage():
            roots = fence._find_roots() | {working_directory}
        roots -= {"/", os.devnull}
        ways = frozenset(way for root in roots for way in _ways_to(root))
        _last = _Visible(key, roots, ways)
    return _last


def _ways_to(root: str) -> list[str]:
    ways = []
    while (parent := os.path.dirname(root)) != root:
        ways.append(parent)
        root = parent
    return ways
