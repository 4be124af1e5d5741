"""A key-value store on a write-ahead log: what `put` has acknowledged survives a power cut.

    data/base-7   all pairs as they were when log 7 was begun
    data/log-7    what was put since, one record after another

A record is appended at once; a put is acknowledged when its record has been synced, together with
those of others (group commit). When a log is long enough, the next base is written beside the old
one and gets its name by a rename; then a new log is begun, and the old pair is deleted.
"""

import asyncio
import os
import struct
import zlib
from collections.abc import Iterator

HEADER = struct.Struct("<IHI")  # checksum of all that follows, length of the key, of the value
COMMIT_S = 0.002
RECORDS_MAX = 6
"""So few that a test comes to the next log quickly."""


class Store:
    """Plain files, no threads: one process owns the directory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pairs: dict[str, bytes] = {}
        self.number = 0
        self._log = -1
        self._records = 0
        self._waiting: list[asyncio.Future[None]] = []

    # --- what users call -------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        return self.pairs.get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Returns when the pair is durable."""
        write_all(self._log, encode(key, value))
        self._records += 1
        self.pairs[key] = value
        durable = asyncio.get_running_loop().create_future()
        self._waiting.append(durable)
        await durable

    async def commit_for_ever(self) -> None:
        """Make durable what was put, for all who wait, every few milliseconds."""
        while True:
            await asyncio.sleep(COMMIT_S)
            if not self._waiting:
                continue
            waiting, self._waiting = self._waiting, []
            os.fsync(self._log)
            for durable in waiting:
                if not durable.done():
                    durable.set_result(None)
            if self._records >= RECORDS_MAX:
                self.begin_log(self.number + 1)

    # --- the files -------------------------------------------------------------------------------

    def path(self, kind: str, number: int) -> str:
        return os.path.join(self.folder, f"{kind}-{number}")

    def recover(self) -> None:
        """Read what a former process has left, and go on from there."""
        os.makedirs(self.folder, exist_ok=True)
        self.sync_directory(os.path.dirname(self.folder))
        numbers = [int(name[5:]) for name in os.listdir(self.folder) if is_base(name)]
        if not numbers:
            self.begin_log(1)
            return
        self.number = max(numbers)
        with open(self.path("base", self.number), "rb") as base:
            self.pairs = dict(records(base.read()))
        self._log = os.open(self.path("log", self.number), os.O_RDWR | os.O_CREAT)
        data = os.read(self._log, os.fstat(self._log).st_size)
        end = 0
        for key, value in records(data):
            self.pairs[key] = value
            end += len(encode(key, value))
            self._records += 1
        # Behind the last whole record may lie a torn one. What is appended behind that would never
        # be read again.
        os.ftruncate(self._log, end)
        os.lseek(self._log, end, os.SEEK_SET)
        os.fsync(self._log)
        self.sync_directory(self.folder)
        self.tidy()

    def begin_log(self, number: int) -> None:
        """Write down all pairs, and begin an empty log behind them."""
        base = self.path("base", number)
        with open(base + ".new", "wb") as file:
            for key, value in self.pairs.items():
                file.write(encode(key, value))
            file.flush()
            self.sync_file(file.fileno())
        log = os.open(self.path("log", number), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.rename(base + ".new", base)
        self.sync_directory(self.folder)
        if self._log >= 0:
            os.close(self._log)
        self._log, self.number, self._records = log, number, 0
        self.tidy()

    def tidy(self) -> None:
        """Delete what is not needed any more. If that is lost, it is done again."""
        for name in os.listdir(self.folder):
            if name not in (f"base-{self.number}", f"log-{self.number}"):
                os.remove(os.path.join(self.folder, name))

    def sync_file(self, fd: int) -> None:
        os.fsync(fd)

    def sync_directory(self, folder: str) -> None:
        """A file's name is durable when its directory was synced, not when the file was."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def is_base(name: str) -> bool:
    return name.startswith("base-") and not name.endswith(".new")


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def encode(key: str, value: bytes) -> bytes:
    rest = HEADER.pack(0, len(key.encode()), len(value))[4:] + key.encode() + value
    return zlib.crc32(rest).to_bytes(4, "little") + rest


def records(data: bytes) -> Iterator[tuple[str, bytes]]:
    """All whole records from the beginning on."""
    at = 0
    while at + HEADER.size <= len(data):
        checksum, key_size, value_size = HEADER.unpack_from(data, at)
        end = at + HEADER.size + key_size + value_size
        if end > len(data) or zlib.crc32(data[at + 4 : end]) != checksum:
            return
        key = data[at + HEADER.size : at + HEADER.size + key_size].decode()
        yield key, data[end - value_size : end]
        at = end


class ForgetfulStore(Store):
    """Syncs every file and no directory: most file systems forgive that, most of the time."""

    def sync_directory(self, folder: str) -> None:
        pass


class HastyStore(Store):
    """Renames the new base before its content is on the disk."""

    def sync_file(self, fd: int) -> None:
        pass
