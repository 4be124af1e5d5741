"""Who answers the calls of a program that would otherwise reach the real network.

By the names under which the fence knows them. What is not here stays fenced.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.world.net.sockets import WorldSocket

if TYPE_CHECKING:
    from foretold.world.host import Host


def answers_of(host: Host) -> dict[str, Callable[..., Any]]:
    """What a host answers, by call."""

    def getaddrinfo(
        name: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        return host.world.dns.getaddrinfo(host, name, port, family, type, proto, flags)

    def gethostbyname(name: str) -> str:
        return host.world.dns.numeric(host, name, socket.AF_INET)

    def gethostbyname_ex(name: str) -> tuple[str, list[str], list[str]]:
        return name, [], [gethostbyname(name)]

    def gethostbyaddr(ip: str) -> tuple[str, list[str], list[str]]:
        return host.world.dns.getnameinfo((ip, 0), 0)[0], [], [ip]

    def getnameinfo(address: Any, flags: int) -> tuple[str, str]:
        return host.world.dns.getnameinfo(address, flags)

    def socketpair(family: int = socket.AF_UNIX, type: int = socket.SOCK_STREAM, *_: Any) -> Any:
        return pair_of(host, family, type)

    def set_signal(number: int, handler: Any) -> Any:
        before = host.signals.get(number, _DEFAULT_SIGNALS.get(number))
        host.signals[number] = handler
        return before

    def raise_signal(number: int) -> None:
        handler = host.signals.get(number)
        if callable(handler):
            handler(number, None)
        elif handler is not signal.SIG_IGN:
            # The default action ends the process here and now; its main goes no further.
            raise asyncio.CancelledError(f"{host.name} was ended by signal {number}")

    def kill(pid: int, number: int) -> None:
        if pid != host.pid():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        raise_signal(number)

    return {
        "signal.raise_signal": raise_signal,
        "os.kill": kill,
        "os.uname": lambda: os.uname_result((*_MACHINE[:1], host.name, *_MACHINE[1:])),
        "os.cpu_count": lambda: _PROCESSORS,
        "os.sched_getaffinity": lambda pid: set(range(_PROCESSORS)),
        "socket.gethostname": lambda: host.name,
        "socket.socket": lambda: WorldSocket.__new__(WorldSocket),
        "socket.getaddrinfo": getaddrinfo,
        "socket.gethostbyname": gethostbyname,
        "socket.gethostbyname_ex": gethostbyname_ex,
        "socket.gethostbyaddr": gethostbyaddr,
        "socket.getnameinfo": getnameinfo,
        "socket.socketpair": socketpair,
        "select.poll": lambda: Poll(host),
        "select.select": lambda *lists: select_now(host, *lists),
        "signal.signal": set_signal,
    }


_MACHINE = ("Linux", "6.1.0", "#1 SMP", "x86_64")
_PROCESSORS = 4
_DEFAULT_SIGNALS: dict[int, Any] = {}


def pair_of(host: Host, family: int, type: int) -> tuple[WorldSocket, WorldSocket]:
    """`socket.socketpair`."""
    network = host.world.network
    one = WorldSocket(family, type, host=host)
    other = WorldSocket(family, type, host=host)
    network.join(one._end, other._end)  # type: ignore[arg-type]  # both are streams, whose ends are TcpEnds
    return one, other


class Poll:
    """`select.poll()` over simulated sockets, without waiting."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._wanted: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = select.POLLIN | select.POLLOUT) -> None:
        self._wanted[fd if isinstance(fd, int) else fd.fileno()] = eventmask

    modify = register

    def unregister(self, fd: Any) -> None:
        del self._wanted[fd if isinstance(fd, int) else fd.fileno()]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        found = []
        for fd, mask in self._wanted.items():
            sock = self._host.descriptors.socket(fd)
            if sock is None:
                found.append((fd, select.POLLNVAL))
                continue
            ready = mask & select.POLLIN if sock.readable() else 0
            ready |= mask & select.POLLOUT if sock.writable() else 0
            if ready:
                found.append((fd, ready))
        return found


def select_now(
    host: Host, readers: Any, writers: Any, others: Any, timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """`select.select` over simulated sockets, without waiting."""

    def socket_of(thing: Any) -> Any:
        return host.descriptors.socket(thing if isinstance(thing, int) else thing.fileno())

    readable = [r for r in readers if (s := socket_of(r)) is not None and s.readable()]
    writable = [w for w in writers if (s := socket_of(w)) is not None and s.writable()]
    return readable, writable, []
