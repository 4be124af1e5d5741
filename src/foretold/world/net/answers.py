"""Who answers the calls of a program that would otherwise reach the real network.

By the names under which the fence knows them. What is not here stays fenced.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import signal
import socket
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from foretold.kernel.threads.baton import strand_of
from foretold.world.extensions import ExtensionCalls
from foretold.world.importtime import import_time
from foretold.world.net.readiness import Epoll, Poll, select_on
from foretold.world.net.sockets import WorldSocket
from foretold.world.net.tcp import TcpEnd
from foretold.world.net.unix import UnixDatagrams
from foretold.world.oserrors import os_error

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

    def socketpair(
        family: int = socket.AF_UNIX, type: int = socket.SOCK_STREAM, proto: int = 0
    ) -> Any:
        return pair_of(host, family, type, proto)

    def get_signal(number: int) -> Any:
        return host.signals.get(number, _DEFAULT_HANDLERS.get(number, signal.SIG_DFL))

    def set_signal(number: int, handler: Any) -> Any:
        before, host.signals[number] = get_signal(number), handler
        return before

    def kill(pid: int, number: int) -> None:
        if pid not in (host.pid(), 0, -1):
            raise os_error(errno.ESRCH)
        if number:  # 0 asks whether the process is there
            _raise_signal(host, number)

    def killpg(group: int, number: int) -> None:
        kill(0 if group == host.identity.getpgrp() else group, number)

    return {
        "wait": host.block_until,
        "os.killpg": killpg,
        "signal.getsignal": get_signal,
        "signal.sigpending": set,
        "signal.getitimer": lambda which: (0.0, 0.0),
        "_thread.interrupt_main": lambda number=signal.SIGINT: host.deliver(number),
        "import": lambda module: import_time(host, module),
        "asyncio.loop": host.another_loop,
        "signal.raise_signal": lambda number: _raise_signal(host, number),
        "os.kill": kill,
        "os.environ": host.environment.table,
        "os.uname": lambda: os.uname_result((*_MACHINE[:1], host.name, *_MACHINE[1:])),
        "socket.gethostname": lambda: host.name,
        "socket.socket": lambda: WorldSocket.__new__(WorldSocket),
        "socket.getaddrinfo": getaddrinfo,
        "socket.gethostbyname": gethostbyname,
        "socket.gethostbyname_ex": gethostbyname_ex,
        "socket.gethostbyaddr": gethostbyaddr,
        "socket.getnameinfo": getnameinfo,
        "socket.socketpair": socketpair,
        "select.poll": lambda: Poll(host),
        "select.select": lambda *lists: select_on(host, *lists),
        "select.epoll": lambda *args, **names: Epoll(host, *args, **names),
        "signal.signal": set_signal,
        "native": functools.cache(lambda: _native(host)),
        "extensions": functools.cache(lambda: ExtensionCalls(host)),
        "ssl.SSLSocket": lambda cls, sock: _tls().class_for(cls, sock),
        "ssl._wrap_socket": lambda *args, **names: _tls().wrap(*args, **names),
    }


def _raise_signal(host: Host, number: int) -> None:
    """A process sends itself a signal."""
    strand = strand_of(get_ident())
    if strand is not None and strand is not strand.crew.main:
        host.deliver(number)  # handlers run in the main thread
        return
    handler = host.signals.get(number, signal.SIG_DFL)
    if callable(handler) and handler is not signal.default_int_handler:
        handler(number, None)
    elif handler != signal.SIG_IGN and number not in IGNORED_SIGNALS:
        end_by_signal(host.name, number)


def end_by_signal(host: str, number: int, frame: object = None) -> NoReturn:
    """The default action ends the process here and now; its main goes no further."""
    raise asyncio.CancelledError(f"{host} was ended by signal {number}")


def _native(host: Host) -> Any:
    """Only for who uses a C library that asks."""
    from foretold.world.net.native import native_calls

    return native_calls(host)


def _tls() -> Any:
    """Only for who uses TLS already: a program without it does not pay for the import."""
    from foretold.world.net import tls

    return tls


_MACHINE = ("Linux", "6.1.0", "#1 SMP", "x86_64")
_DEFAULT_HANDLERS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
IGNORED_SIGNALS = frozenset({signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT})
"""What Linux does nothing about if the program has no handler. (SIGCONT ends a pause besides.)"""


def pair_of(host: Host, family: int, type: int, proto: int) -> tuple[WorldSocket, WorldSocket]:
    """`socket.socketpair`."""
    if family != socket.AF_UNIX:
        raise os_error(errno.EOPNOTSUPP)
    one = WorldSocket(family, type, proto, host=host)
    other = WorldSocket(family, type, proto, host=host)
    left, right = one._end, other._end
    if isinstance(left, TcpEnd) and isinstance(right, TcpEnd):
        host.world.network.join(left, right)
        left.local = left.remote = right.local = right.remote = ""
    elif isinstance(left, UnixDatagrams) and isinstance(right, UnixDatagrams):
        left.connect_to(right, "")
        right.connect_to(left, "")
    return one, other
