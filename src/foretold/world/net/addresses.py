"""Addresses and kinds of sockets as programs give them, with the objections of Python and Linux."""

from __future__ import annotations

import errno
import ipaddress
import operator
import socket
from typing import TYPE_CHECKING, Any

from foretold.world.net.stack import ANY
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

STREAM, DGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
PACKETS = socket.SOCK_SEQPACKET
PROTOCOLS: dict[int, tuple[int, int]] = {
    STREAM: (0, socket.IPPROTO_TCP),
    DGRAM: (0, socket.IPPROTO_UDP),
}


def check_kind(family: int, kind: int, proto: int) -> None:
    """The kernel's objections to a family, a type and a protocol."""
    unix = family == socket.AF_UNIX
    if not unix and family not in ANY:
        raise os_error(errno.EAFNOSUPPORT)
    if kind not in ((STREAM, DGRAM, PACKETS, RAW) if unix else (STREAM, DGRAM)):
        if kind == RAW:
            raise os_error(errno.EPROTONOSUPPORT)
        exists = kind in (socket.SOCK_RDM, PACKETS)
        raise os_error(errno.ESOCKTNOSUPPORT if exists else errno.EINVAL)
    if proto not in ((0, 1) if unix else PROTOCOLS[kind]):
        raise os_error(errno.EPROTONOSUPPORT)


def resolve(host: Host, family: int, address: Any, call: str) -> tuple[str, int]:
    """An address as given to bind or connect: a name is looked up, as the real one does."""
    six = family == socket.AF_INET6
    if not isinstance(address, tuple):
        kind = "AF_INET6" if six else "AF_INET"
        raise TypeError(f"{call}(): {kind} address must be tuple, not {type(address).__name__}")
    if not six and len(address) != 2:
        raise TypeError("AF_INET address must be a pair (host, port)")
    if not 2 <= len(address) <= 4:
        raise TypeError("AF_INET6 address must be a tuple (host, port[, flowinfo[, scopeid]])")
    name, port = address[0], operator.index(address[1])
    if not isinstance(name, str | bytes | bytearray):
        raise TypeError(f"str, bytes or bytearray expected, not {type(name).__name__}")
    if not 0 <= port <= 65_535:
        raise OverflowError(f"{call}(): port must be 0-65535.")
    text = name if isinstance(name, str) else bytes(name).decode()
    if text == "":
        return ANY[socket.AddressFamily(family)], port
    return host.world.dns.numeric(host, text, family), port


def mapped(ip: str) -> str:
    """An IPv4 address as an IPv6 socket shows it."""
    return ip if ":" in ip else f"::ffff:{ip}"


def unmapped(ip: str) -> str:
    """The IPv4 address behind `::ffff:a.b.c.d`; any other address as it is."""
    if not ip.lower().startswith("::ffff:"):
        return ip
    four = ipaddress.IPv6Address(ip.partition("%")[0]).ipv4_mapped
    return ip if four is None else str(four)
