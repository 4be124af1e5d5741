"""`host.disk`: one host's disk, as a test sees and sets it.

    host.disk.write("/etc/app.toml", b"…")     it was there always: durable
    host.disk.read("/var/lib/app/db")          what the programs of the host would read
    host.disk.tree()                           all files: {path: content}
    host.disk.space(10_000_000)                how much room there is
    host.disk.unsynced()                       what a power cut could take now

A disk is made when it is first used; a run that touches no file has none.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from foretold import handles
from foretold.errors import UsageError
from foretold.kernel import fence
from foretold.tape import Stream
from foretold.world.disk.calls import Calls
from foretold.world.disk.content import PAGE
from foretold.world.disk.crash import power_cut
from foretold.world.disk.filesystem import FileSystem
from foretold.world.disk.lower import LowerFile, RealFiles
from foretold.world.disk.nodes import Device, Directory, File, Symlink
from foretold.world.disk.trouble import DiskTrouble
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

STANDARD: Final = (
    "/dev/shm", "/etc", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp",
    "/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp",
)  # fmt: skip
"""The directories of a new machine."""
TICK_NS: Final = 4_000_000
"""Linux stamps files with the time of its last tick: 4 ms at 250 Hz."""
ORDERS: Final = 4
"""In how many orders directories are listed: 0 is by name."""


@handles.shown_as(handles.Disk)
class Disk:
    """A file system and the process that uses it. `handles.Disk` says what is for users."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.fs = FileSystem(self._now_ns)
        self.fs.order = self._ordered
        self.real = RealFiles(self.fs)
        self.fs.lower = self.real
        self.fs.root.backing = "/"
        self._listing_order: int | None = None
        self._choices: Stream | None = None
        self._process: Calls | None = None
        self._trouble: DiskTrouble | None = None
        self._furnish()
        host.world.at_end.append(self.end_process)

    def __repr__(self) -> str:
        return f"<disk of {self.host.name}>"

    # --- for tests -------------------------------------------------------------------------------

    def read(self, path: str | os.PathLike[str]) -> bytes:
        where = self._absolute(path)
        try:
            node = self.fs.node(where, self.fs.root)
            if isinstance(node, Directory):
                raise os_error(errno.EISDIR)
        except OSError as error:
            error.filename = where
            raise
        if isinstance(node, LowerFile):
            with fence.passage(), open(node.path, "rb") as file:
                return file.read()
        return node.content.read(0, node.size) if isinstance(node, File) else b""

    def write(self, path: str | os.PathLike[str], data: bytes | str) -> None:
        content = data.encode() if isinstance(data, str) else data
        where = self._absolute(path)
        directory = self.fs.root
        *parents, name = where.strip("/").split("/")
        for parent in parents:
            node = self.fs.entry(directory, parent)
            node = self.fs.new_directory(directory, parent) if node is None else node
            if not isinstance(node, Directory):
                raise UsageError(f"disk.write({where!r}): {parent} is not a directory")
            directory = node
        file = self.fs.new_file(0o644)
        if file.content.write(0, content) < len(content):
            raise UsageError(f"disk.write({where!r}): there is no room for {len(content)} bytes")
        file.content.commit()
        directory.lower.pop(name, None)
        directory.hidden.add(name)
        self.fs.plant(directory, name, file)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        try:
            return self.fs.find(self._absolute(path), self.fs.root).node is not None
        except OSError:
            return False

    def tree(self, below: str | os.PathLike[str] = "/") -> dict[str, bytes | str | None]:
        start = self._absolute(below).rstrip("/") + "/"
        found: dict[str, bytes | str | None] = {}
        for path, node in self.fs.walk_all():
            if not path.startswith(start):
                continue
            if isinstance(node, File):
                found[path] = node.content.read(0, node.size)
            elif isinstance(node, Symlink):
                found[path] = node.target
            elif isinstance(node, Directory) and not node.standard and not node.entries:
                found[path] = None
        return found

    def space(self, n: int | None) -> None:
        if n is not None and n < 0:
            raise UsageError(f"disk.space({n}): a disk has 0 bytes or more")
        self.fs.space.limit = None if n is None else n // PAGE

    @property
    def used(self) -> int:
        return self.fs.space.used * PAGE

    def sync(self) -> None:
        self.fs.make_durable()

    def unsynced(self) -> list[str]:
        names = [str(entry) for entry in self.fs.journal.pending]
        files = [
            f"data of {path}"
            for path, node in self.fs.walk_all()
            if isinstance(node, File) and node.content.unsynced
        ]
        return names + files

    def _absolute(self, path: str | os.PathLike[str]) -> str:
        return os.path.normpath(os.path.join(self.real.working_directory, os.fspath(path)))

    # --- for the host ----------------------------------------------------------------------------

    @property
    def process(self) -> Calls:
        """The file side of the process that runs on the host now."""
        if self._process is None:
            self._process = Calls(self.host, self.fs, self.real)
        return self._process

    def end_process(self) -> None:
        """The process is gone: its files are closed, its buffers are lost. The disk stays."""
        process, self._process = self._process, None
        self.host.calls.clear()
        if process is not None:
            process.die()

    def lose_power(self) -> None:
        """What was not durable may be gone."""
        self.end_process()
        for text in power_cut(self.fs, self.choices):
            self.host.world.note_fault(f"{self.host.name} {text}", self.host.name)

    @property
    def choices(self) -> Stream:
        if self._choices is None:
            self._choices = self.host.world.tape.stream("disk", self.host.name)
        return self._choices

    @property
    def trouble(self) -> DiskTrouble:
        """What is wrong with the disk; made when first asked for."""
        if self._trouble is None:
            self._trouble = self.fs.trouble = DiskTrouble(self.host, self.choices)
        return self._trouble

    def _now_ns(self) -> int:
        clock = self.host.kernel.clock
        clock.reads += 1  # the program may look at the times of its files
        now_ns = clock.wall_now_ns()
        return now_ns - now_ns % TICK_NS

    def _ordered(self, names: list[str]) -> list[str]:
        """A real directory lists its names in an order that depends on a secret of the disk."""
        names.sort()
        if len(names) > 1:
            if self._listing_order is None:
                self._listing_order = self.choices.choose(ORDERS, "order of listings")
            if self._listing_order:
                salt = self._listing_order.to_bytes(1, "big")
                names.sort(key=lambda name: hashlib.blake2b(salt + os.fsencode(name)).digest())
        return names

    def _furnish(self) -> None:
        """What a new machine has."""
        for path in (*STANDARD, os.path.expanduser("~")):
            directory = self.fs.root
            for part in filter(None, path.split("/")):
                node = directory.entries.get(part)
                if node is None:
                    node = self.fs.new_directory(directory, part)
                    node.standard, node.backing = True, os.path.join(str(directory.backing), part)
                if not isinstance(node, Directory):
                    break
                directory = node
        for path in ("/tmp", "/var/tmp", "/dev/shm"):
            self.fs.directory(path, self.fs.root).mode |= 0o1777
        devices = self.fs.directory("/dev", self.fs.root)
        self._add_device(devices, "urandom", self.host.entropy)
        self._add_device(devices, "random", self.host.entropy)
        self._add_device(devices, "zero", bytes)
        self._add_device(devices, "full", bytes, _full)

    def _add_device(
        self,
        devices: Directory,
        name: str,
        read: Callable[[int], bytes],
        write: Callable[[int], int] = int,
    ) -> None:
        node = Device(self.fs.next_number(), self.fs.now_ns(), read, write)
        self.fs.plant(devices, name, node)


def _full(n: int) -> int:
    raise os_error(errno.ENOSPC)
