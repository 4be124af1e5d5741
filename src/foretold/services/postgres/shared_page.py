"""The simulator's side of the page that it shares with the server's processes (see preload.c).

All of it works inside a run: only what was opened before, or under `patches.outside()`, is used.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
from pathlib import Path
from typing import Final

from foretold.kernel import real
from foretold.kernel.patches import patches

_MAGIC: Final = 0x31656761506C7466
_SLOTS: Final = 1023
_WORDS: Final = 8  # of 64 bits, in the header and in each slot
_BYTES: Final = (_SLOTS + 1) * _WORDS * 8
_NOW, _SEED, _NEXT_OID, _SEEDINGS, _OID_SETTER = 1, 2, 3, 4, 5  # words of the header
_PID, _VIRTUAL, _STREAM, _TIMER, _SLEEP, _WAITING = range(6)  # words of a slot
_NOTICE_BYTES: Final = 4
_NOTICES_AT_ONCE: Final = 1024


def make(path: Path, notices: Path) -> None:
    """The two files that the server is told of when it starts."""
    path.write_bytes(struct.pack("=q", _MAGIC).ljust(_BYTES, b"\0"))
    os.mkfifo(notices)


class SharedPage:
    """Virtual time and randomness of one server, and what its processes wait for.

    Times are microseconds since 1970. A process's place on the page is found once, by `watch`.
    """

    def __init__(self, path: Path, notices: Path) -> None:
        with patches.outside():
            with path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), _BYTES)
            self.notify_fd = os.open(notices, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("q")
        self._places: dict[int, int] = {}

    def close(self) -> None:
        with patches.outside():
            self._words.release()
            self._bytes.release()
            self._map.close()
            os.close(self.notify_fd)

    # --- for all processes of the server -----------------------------------------------------

    @property
    def now_us(self) -> int:
        """The time that all virtual processes read; 0: the real one."""
        return self._words[_NOW]

    def set_clock(self, now_us: int) -> None:
        """All virtual processes read this time from now on."""
        self._words[_NOW] = now_us

    def set_seed(self, seed: int) -> None:
        """Random bytes follow from this number, and begin anew with it; 0: real randomness."""
        self._words[_SEED] = _signed(seed)
        self._words[_SEEDINGS] += 1  # the same seed may come again, in another run

    def real_time(self) -> None:
        """Between runs: time and randomness are the real ones."""
        self._words[_NOW] = self._words[_SEED] = 0

    def set_next_oid(self, oid: int, pid: int) -> None:
        """Tables and types that are made from now on get their ids from here on.

        To be called when nobody makes any. The next statement of process `pid` puts it into force.
        """
        self._words[_OID_SETTER] = pid
        self._words[_NEXT_OID] = oid

    # --- for one process ---------------------------------------------------------------------

    def knows(self, pid: int) -> bool:
        """Whether this process shares the page with us."""
        try:
            self._find(pid)
        except KeyError:
            return False
        return True

    def watch(self, pid: int, stream: int = 0) -> None:
        """This process is virtual. `stream` tells its randomness from that of other sessions."""
        place = self._find(pid)
        self._words[place + _STREAM] = _signed(stream)
        self._words[place + _VIRTUAL] = 1
        self._places[pid] = place

    def forget(self, pid: int) -> None:
        """This process is over, or lives in real time again; no harm if it was never watched."""
        place = self._places.pop(pid, None)
        if place is not None and self._words[place + _PID] == pid:
            self._words[place + _VIRTUAL] = 0
            if not _is_alive(pid):
                self._words[place + _PID] = 0

    def timer_of(self, pid: int) -> int | None:
        """When PostgreSQL wants its SIGALRM: the next of its timeouts that are running.

        To be asked when the process waits for a lock or sleeps, and has said so.
        """
        return self._words[self._places[pid] + _TIMER] or None

    def idle_timer_of(self, pid: int) -> int | None:
        """The same, right after the process has said that it is ready for the next command.

        It arms its timeouts before it says so, and drops those that are over when it begins to
        wait; that takes it some microseconds more, which we wait for. Not for a stopped process.
        """
        place = self._places[pid]
        while self._words[place + _TIMER] and not self._words[place + _WAITING]:
            if not _is_alive(pid):
                return None
            real.sleep(0)
        return self._words[place + _TIMER] or None

    def is_waiting(self, pid: int) -> bool:
        """Whether the process waits, for its client, for a lock, or in `pg_sleep`."""
        return bool(self._words[self._places[pid] + _WAITING])

    def sleep_of(self, pid: int) -> int | None:
        """When the wait of a process that is sleeping now (`pg_sleep`) is over."""
        return self._words[self._places[pid] + _SLEEP] or None

    def stir(self, pid: int) -> None:
        """The process is about to be woken. That it waits is true again only when it has looked at
        why, and says so once more: on a busy machine that may take it some time."""
        place = self._places.get(pid)
        if place is not None:
            self._words[place + _WAITING] = 0

    def fire(self, pid: int) -> None:
        """Give the process its SIGALRM; it looks at the clock and does what is due."""
        self._words[self._places[pid] + _TIMER] = 0
        self.stir(pid)
        with contextlib.suppress(ProcessLookupError):  # somebody has ended it
            real.kill(pid, signal.SIGALRM)

    def wake(self, pid: int) -> None:
        """Let the time come at which a process wants to wake up."""
        if pid not in self._places:
            self.watch(pid)
        until_us = self.sleep_of(pid)
        if until_us is not None:
            self.set_clock(max(self._words[_NOW], until_us))
            self.fire(pid)

    # --- who has fallen asleep ---------------------------------------------------------------

    def read_notices(self) -> list[int]:
        """The processes that have begun to sleep since the last call, in order; never waits."""
        pids: list[int] = []
        while True:
            try:
                data = real.read(self.notify_fd, _NOTICES_AT_ONCE * _NOTICE_BYTES)
            except BlockingIOError:
                return pids
            pids += memoryview(data).cast("i")
            if len(data) < _NOTICES_AT_ONCE * _NOTICE_BYTES:
                return pids

    def _find(self, pid: int) -> int:
        """The words of a process begin here. It took the first free slot from that of its pid."""
        words = self._words
        for step in range(_SLOTS):
            place = (1 + (pid + step) % _SLOTS) * _WORDS
            if words[place + _PID] == pid:
                return place
        raise KeyError(pid)


def _signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    return number - (1 << 64) if number >> 63 else number


def _is_alive(pid: int) -> bool:
    try:
        real.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
