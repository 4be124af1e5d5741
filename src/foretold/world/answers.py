"""Who on a host answers a call of the table of system calls, by the name that programs know.

Each call is looked up once for a process; from then on its answer is in `Host.calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel.syscalls.of_os import FILES_BY_DESCRIPTOR, FILES_BY_PATH, FILES_OF_PROCESS
from foretold.kernel.syscalls.rows import words
from foretold.kernel.threads import start
from foretold.world.descriptorcalls import DescriptorCalls
from foretold.world.disk.openfile import OpenFile
from foretold.world.net.answers import answers_of
from foretold.world.net.dns import SERVICES
from foretold.world.net.pipes import open_descriptor

if TYPE_CHECKING:
    from foretold.world.host import Host

Answer = Callable[..., Any]
_ON_DISK: Final = words(FILES_BY_PATH) | words(FILES_OF_PROCESS)
_NO_TERMINAL: Final = words("ttyname tcgetpgrp tcsetpgrp get_terminal_size")
_BY_DESCRIPTOR: Final = words(FILES_BY_DESCRIPTOR) | words(
    "pipe pipe2 eventfd eventfd_read eventfd_write memfd_create closerange splice readinto"
)
_PROTOCOLS: Final = {"ip": 0, "icmp": 1, "tcp": 6, "udp": 17, "ipv6": 41, "ipv6-icmp": 58}
_INTERFACES: Final = {1: "lo", 2: "eth0"}


def answer_of(host: Host, call: str) -> Answer | None:
    """Who answers `call` on this host; None if nobody does."""
    module, _, name = call.partition(".")
    if module == "os" and name in _ON_DISK:
        return host.disk.process.answer_of(name)
    if module == "os" and name in _BY_DESCRIPTOR:
        found: Answer = getattr(DescriptorCalls(host), name)
        return found
    return (
        _FILES[call](host)
        if call in _FILES
        else _NETWORK.get(call)
        or _of_terminals(host, module, name)
        or host.identity.answer_of(call)
        or (answers_of(host) | start.answers_for(lambda: host.crew)).get(call)
    )


def _open(host: Host) -> Answer:
    on_disk = host.disk.process.answer_of("io_open")
    files = host.descriptors.files

    def opened(file: Any, *args: Any, **names: Any) -> Any:
        if type(file) is int and not isinstance(files.get(file), OpenFile | None):
            return open_descriptor(file, *args, **names)
        return on_disk(file, *args, **names)

    return opened


def _in_shared_memory(host: Host, call: str) -> Answer:
    """POSIX keeps shared memory in /dev/shm."""
    on_disk = host.disk.process.answer_of(call)
    return lambda path, *args, **names: on_disk(f"/dev/shm/{path.lstrip('/')}", *args, **names)


def _trusted(host: Host) -> Answer:
    """By which SSLContext a program verifies the host of that name; None: by its own."""
    return lambda name: host.world.trusted.get((name or "").lower())


_FILES: Final[dict[str, Callable[[Host], Answer]]] = {
    "files": lambda host: lambda: host.disk,  # whoever asks whether there is one makes none
    "files.has": lambda host: host.has_file,
    "io.open": _open,
    "io.open_code": lambda host: lambda path: _open(host)(path, "rb"),
    "mmap.mmap": lambda host: host.disk.process.mmap,
    "sqlite": lambda host: lambda: host.disk.process.databases,
    "_posixshmem.shm_open": lambda host: _in_shared_memory(host, "open"),
    "_posixshmem.shm_unlink": lambda host: _in_shared_memory(host, "unlink"),
    "fcntl.fcntl": lambda host: DescriptorCalls(host).fcntl,
    "fcntl.flock": lambda host: DescriptorCalls(host).flock,
    "fcntl.lockf": lambda host: DescriptorCalls(host).fcntl_lockf,
    "fcntl.ioctl": lambda host: DescriptorCalls(host).ioctl,
    "socket.close": lambda host: DescriptorCalls(host).close,
    "socket.dup": lambda host: DescriptorCalls(host).dup,
    "ssl.trusted": _trusted,
}


def _of_terminals(host: Host, module: str, name: str) -> Answer | None:
    if module == "termios":
        return DescriptorCalls(host).no_terminal_mode
    if module == "os" and name in _NO_TERMINAL:
        return DescriptorCalls(host).no_terminal
    if (module, name) == ("os", "device_encoding"):
        return lambda fd: None
    return _LOG.get(name) if module == "syslog" else None


def _nothing(*args: Any, **names: Any) -> None:
    """No daemon listens."""


_LOG: Final[dict[str, Answer]] = {
    "syslog": _nothing,
    "openlog": _nothing,
    "closelog": _nothing,
    "setlogmask": lambda mask: 0xFF,
}


def _service(name: str, protocol: str = "tcp") -> int:
    if name not in SERVICES or protocol not in ("tcp", "udp"):
        raise OSError("service/proto not found")
    return SERVICES[name]


def _service_at(port: int, protocol: str = "tcp") -> str:
    for name, number in SERVICES.items():
        if number == port and protocol in ("tcp", "udp"):
            return name
    raise OSError("port/proto not found")


def _protocol(name: str) -> int:
    if name not in _PROTOCOLS:
        raise OSError("protocol not found")
    return _PROTOCOLS[name]


def _interface(name: Any) -> int:
    for number, known in _INTERFACES.items():
        if known in (name, getattr(name, "decode", str)()):
            return number
    raise OSError("no interface with this name")


def _interface_at(number: int) -> str:
    if number not in _INTERFACES:
        raise OSError(6, "No such device or address")
    return _INTERFACES[number]


_NETWORK: Final[dict[str, Answer]] = {
    "socket.getservbyname": _service,
    "socket.getservbyport": _service_at,
    "socket.getprotobyname": _protocol,
    "socket.if_nameindex": lambda: list(_INTERFACES.items()),
    "socket.if_nametoindex": _interface,
    "socket.if_indextoname": _interface_at,
}
