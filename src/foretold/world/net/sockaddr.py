"""Addresses as C lays them out in memory: `struct sockaddr` and `struct addrinfo`."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from typing import Any, Final

from foretold.world.oserrors import os_error

_FAMILY = struct.Struct("=H")
_PORT = struct.Struct("!H")
_SCOPE = struct.Struct("=I")
_ADDRINFO = struct.Struct("=iiiiI4xQQQ")

_libc: Final[Any] = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]


def address_at(pointer: int, size: int) -> Any:
    """The address that C gives to `connect`, as Python writes it."""
    data = ctypes.string_at(pointer, size)
    (family,) = _FAMILY.unpack_from(data)
    if family == socket.AF_UNIX:
        path = data[2:]
        return path if path.startswith(b"\0") else path.split(b"\0")[0].decode()
    (port,) = _PORT.unpack_from(data, 2)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, data[4:8]), port
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, data[8:24]), port, 0, *_SCOPE.unpack_from(data, 24)
    raise os_error(errno.EAFNOSUPPORT)


def sockaddr_of(family: int, address: Any) -> bytes:
    """The other way."""
    head = _FAMILY.pack(family)
    if family == socket.AF_UNIX:
        path = address if isinstance(address, bytes) else address.encode()
        return head + (path + b"\0" if path and path[0] else path)
    ip, port, *rest = address
    packed = head + _PORT.pack(port)
    if family == socket.AF_INET:
        return packed + socket.inet_pton(family, ip) + bytes(8)
    scope = rest[1] if len(rest) > 1 else 0
    return packed + bytes(4) + socket.inet_pton(family, ip) + _SCOPE.pack(scope)


def write_addresses(answers: list[tuple[Any, ...]]) -> int:
    """A list as C's `getaddrinfo` makes it; the real `freeaddrinfo` frees it, whenever that is.

    So each entry is one block of `malloc` with its address behind it, as in the GNU C library.
    """
    following = 0
    for family, kind, proto, _, address in reversed(answers):
        data = sockaddr_of(family, address)
        entry = _libc.malloc(_ADDRINFO.size + len(data))
        behind = entry + _ADDRINFO.size
        head = _ADDRINFO.pack(0, family, kind, proto, len(data), behind, 0, following)
        ctypes.memmove(entry, head + data, len(head) + len(data))
        following = entry
    return following
