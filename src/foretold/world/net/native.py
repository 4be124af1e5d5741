"""What a C library asks of the system when its imports are led to us: sockets above all.

libpq connects, sends, receives and polls by itself. Here its calls reach the same sockets as those
of Python programs, so that latency, partitions, resets and all else apply to it, and its threads
wait in virtual time. Names are looked up in the world; randomness, time and environment variables
are the host's. It finds no files: no password file, no service file, no certificates.

Numbers of such sockets are unique in the process. Python frees a forgotten connection when it
likes, on whichever host is running then, or in a later run; and C closes by number.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel.native import extensions
from foretold.kernel.threads.baton import StrandEnded
from foretold.world.net.descriptors import FIRST, NATIVE_FIRST, OpenDescriptor
from foretold.world.net.readiness import ALWAYS, look_or_wait
from foretold.world.net.sockaddr import address_at, sockaddr_of, write_addresses
from foretold.world.net.sockets import WorldSocket
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World

_POLLFD = struct.Struct("=ihh")
_F_GETFL, _F_SETFL = 3, 4
_NO_CREDENTIALS = 7 << 16
"""GSS_S_NO_CRED."""

_left_open: Final[set[int]] = set()
"""Numbers that runs before this one have given out and nobody has closed."""
_texts: Final[dict[bytes, Any]] = {}
"""Strings that C was given. It may keep the pointers, so they live as long as the process."""


class NativeSockets:
    """The sockets of a world that C libraries hold, by their numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sockets: dict[int, WorldSocket] = {}
        self.mutexes: set[int] = set()
        """The addresses of C mutexes that are locked."""
        self._next = NATIVE_FIRST
        world.at_end.append(lambda: _left_open.update(self.sockets))

    def add(self, sock: WorldSocket) -> int:
        while self._next in _left_open:
            self._next += 1
        number, self._next = self._next, self._next + 1
        sock._descriptors.renumber(sock._fd, number)
        sock._fd = number
        self.sockets[number] = sock
        return number


class NativeCalls:
    """The calls of C libraries on one host. Pointers are plain numbers."""

    def __init__(self, host: Host, shared: NativeSockets) -> None:
        self._host = host
        self._shared = shared

    def failed(self, error: BaseException) -> None:
        """What ended a call cannot pass through C: it is noted, and raised behind it."""
        if not isinstance(error, StrandEnded | KeyboardInterrupt):
            self._host.world.fail(error)
        extensions.throw(error)

    def _socket(self, fd: int, call: str) -> WorldSocket | None:
        """None for the number of a real one."""
        found = self._shared.sockets.get(fd)
        if found is None and fd >= FIRST:
            raise os_error(errno.EBADF)
        if found is None and fd >= 0:
            self._host.escaped(
                f"{call}({fd}, …) by a C library",
                "the connection was opened before the run, on the real network",
                "connect inside the run: psycopg.connect(…) there reaches hosts of the world",
            )
        return found

    def _open(self, fd: int, call: str) -> WorldSocket:
        found = self._socket(fd, call)
        if found is None:
            raise os_error(errno.EBADF)
        return found

    # --- sockets ---------------------------------------------------------------------------------

    def socket(self, family: int, kind: int, proto: int) -> int:
        sock = WorldSocket(family, kind, proto, host=self._host)
        sock.settimeout(0.0 if kind & socket.SOCK_NONBLOCK else None)
        return self._shared.add(sock)

    def connect(self, fd: int, address: int, size: int) -> int:
        self._open(fd, "connect").connect(address_at(address, size))
        return 0

    def send(self, fd: int, data: int, size: int, flags: int) -> int:
        return self._open(fd, "send").send(ctypes.string_at(data, size), flags)

    def recv(self, fd: int, buffer: int, size: int, flags: int) -> int:
        data = self._open(fd, "recv").recv(size, flags)
        ctypes.memmove(buffer, data, len(data))
        return len(data)

    def close(self, fd: int) -> Any:
        if fd < FIRST:
            return NotImplemented
        _left_open.discard(fd)
        sock = self._shared.sockets.pop(fd, None)
        if sock is None:
            raise os_error(errno.EBADF)
        sock.close()
        return 0

    def fcntl(self, fd: int, command: int, argument: int) -> int:
        sock = self._open(fd, "fcntl")
        if command == _F_GETFL:
            return os.O_RDWR | (0 if sock.getblocking() else os.O_NONBLOCK)
        if command == _F_SETFL:
            sock.setblocking(not argument & os.O_NONBLOCK)
        return 0

    def setsockopt(self, fd: int, level: int, option: int, value: int, size: int) -> int:
        self._open(fd, "setsockopt").setsockopt(level, option, ctypes.string_at(value, size))
        return 0

    def getsockopt(self, fd: int, level: int, option: int, value: int, size: int) -> int:
        sock, room = self._open(fd, "getsockopt"), ctypes.c_uint.from_address(size)
        data: bytes = sock.getsockopt(level, option, min(room.value, 1_024))
        ctypes.memmove(value, data, len(data))
        room.value = len(data)
        return 0

    def getsockname(self, fd: int, address: int, size: int) -> int:
        sock, room = self._open(fd, "getsockname"), ctypes.c_uint.from_address(size)
        data = sockaddr_of(sock.family, sock.getsockname())
        ctypes.memmove(address, data, min(len(data), room.value))
        room.value = len(data)
        return 0

    def getaddrinfo(
        self, name: int | None, service: int | None, hints: int | None, found: int
    ) -> int:
        host = self._host
        wishes = ctypes.string_at(hints, 16) if hints else bytes(16)
        flags, family, kind, proto = struct.unpack("=4i", wishes)
        try:
            answers = host.world.dns.getaddrinfo(
                host, _bytes_at(name), _bytes_at(service), family, kind, proto, flags
            )
        except socket.gaierror as error:
            return error.errno or socket.EAI_FAIL
        ctypes.c_size_t.from_address(found).value = write_addresses(answers)
        return 0

    # --- waiting ---------------------------------------------------------------------------------

    def poll(self, fds: int, count: int, timeout_ms: int) -> int:
        places = [fds + index * _POLLFD.size for index in range(count)]
        asked = [_POLLFD.unpack(ctypes.string_at(place, _POLLFD.size)) for place in places]
        files = [self._file(fd) for fd, _, _ in asked]

        def look() -> list[int]:
            found = [
                (0 if fd < 0 else select.POLLNVAL)
                if file is None
                else file.events() & (wanted | ALWAYS)
                for (fd, wanted, _), file in zip(asked, files, strict=True)
            ]
            return found if any(found) else []

        result = look_or_wait(self._host, look, None if timeout_ms < 0 else timeout_ms / 1_000)
        for place, ready in zip(places, result or [0] * count, strict=True):
            ctypes.c_short.from_address(place + 6).value = ready
        return sum(map(bool, result))

    def _file(self, fd: int) -> OpenDescriptor | None:
        if fd < 0 or (fd >= FIRST and fd not in self._shared.sockets):
            return None
        sock = self._socket(fd, "poll")
        return None if sock is None else sock._file

    def pthread_mutex_lock(self, mutex: int) -> Any:
        """A driver's own lock. Who waited for it in C would keep the baton for ever."""
        locked = self._shared.mutexes
        while mutex in locked:
            self._host.block_until(lambda: mutex not in locked, None)
        locked.add(mutex)
        return NotImplemented  # the real one, which is free

    def pthread_mutex_unlock(self, mutex: int) -> Any:
        self._shared.mutexes.discard(mutex)
        return NotImplemented

    # --- the rest of the machine -----------------------------------------------------------------

    def gettimeofday(self, value: int, zone: int | None) -> int:
        seconds, ns = divmod(self._host.wall_ns(), 1_000_000_000)
        ctypes.memmove(value, struct.pack("=qq", seconds, ns // 1_000), 16)
        return 0

    def time(self, value: int | None) -> int:
        seconds = self._host.wall_ns() // 1_000_000_000
        if value:
            ctypes.c_long.from_address(value).value = seconds
        return seconds

    def getenv(self, name: int) -> int | None:
        value = self._host.environment.table().get(_bytes_at(name) or b"")
        return None if value is None else _kept(value)

    def fopen(self, path: int, mode: int) -> int:
        raise os_error(errno.ENOENT)

    def stat(self, path: int, result: int) -> int:
        raise os_error(errno.ENOENT)

    def xstat(self, version: int, path: int, result: int) -> int:
        raise os_error(errno.ENOENT)

    def gss_acquire_cred(self, minor: int, *rest: Any) -> int:
        """Nobody is logged in to Kerberos."""
        ctypes.c_uint.from_address(minor).value = 0
        return _NO_CREDENTIALS


def _bytes_at(address: int | None) -> bytes | None:
    return ctypes.string_at(address) if address else None


def _kept(value: bytes) -> int:
    if value not in _texts:
        _texts[value] = ctypes.create_string_buffer(value)
    return ctypes.addressof(_texts[value])


def native_calls(host: Host) -> NativeCalls:
    """Who answers C libraries on this host."""
    world = host.world
    if world.native is None:
        world.native = NativeSockets(world)
    return NativeCalls(host, world.native)
