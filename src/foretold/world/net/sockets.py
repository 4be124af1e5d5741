"""`socket.socket` inside a world.

A subclass of the real one, so that `isinstance` holds, with every method its own: no real
descriptor is ever made. asyncio's transports and all libraries above them run on it unmodified.
"""

from __future__ import annotations

import errno
import socket
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from foretold.world.net.addresses import check_kind, resolve, unmapped
from foretold.world.net.chunks import first_bytes, size_to_fill, spread
from foretold.world.net.connections import forget_at_end
from foretold.world.net.options import get_option, inherit, set_option, take_error
from foretold.world.net.socketfile import SocketFile
from foretold.world.net.stack import ANY, BoundAddress
from foretold.world.net.tcp import CLOSED, CONNECTING, DEAD, OPEN, TcpEnd
from foretold.world.net.udp import UdpEnd
from foretold.world.net.unix import UnixDatagrams, UnixEnd
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

T = TypeVar("T")
BACKLOG_MAX = 4_096


class WorldSocket(socket.socket):
    _host: Host
    _file: SocketFile
    """What the kernel knows of it; a duplicate shares it."""
    _end: TcpEnd | UdpEnd
    """That of the file."""
    _closed = True

    def __new__(cls, *args: Any, **kwargs: Any) -> WorldSocket:
        # The plain object: the real class's __new__ would come back here.
        plain: Any = socket.socket.__base__
        made: WorldSocket = plain.__new__(cls)
        return made

    def __init__(
        self,
        family: int = -1,
        type: int = -1,
        proto: int = -1,
        fileno: int | None = None,
        *,
        host: Host | None = None,
        end: TcpEnd | UdpEnd | None = None,
    ) -> None:
        if host is None:
            from foretold.world.current import current_world

            host = current_world().acting_host
        self._host = host
        self._descriptors = host.descriptors  # of this process: another may follow on the host
        self._io_refs = 0
        self._timeout: float | None = socket.getdefaulttimeout()
        if fileno is not None:
            self._adopt(fileno, family, type, proto)
            return
        wanted = socket.SOCK_STREAM if type == -1 else type
        family = socket.AF_INET if family == -1 else family
        kind = wanted & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._proto = max(0, proto)
        if end is None:
            end = self._new_end(family, kind)
        self._family = socket.AddressFamily(family)
        self._type = socket.SocketKind(kind)
        self._file = SocketFile(host, self._family, kind, self._proto, end)
        self._end = end
        self._fd = self._descriptors.give(self._file)
        if wanted & socket.SOCK_NONBLOCK:
            self._timeout = 0.0
        self._file.nonblocking = self._timeout is not None
        self._closed = False

    def _adopt(self, fileno: int, family: int, type: int, proto: int) -> None:
        """`socket(fileno=…)`: another object for a descriptor that exists."""
        if fileno < 0:
            raise ValueError("negative file descriptor")
        file = self._descriptors.file(fileno)
        if file is None:
            raise os_error(errno.EBADF)
        if not isinstance(file, SocketFile):
            raise os_error(errno.ENOTSOCK)
        self._file, self._end, self._fd = file, file.end, fileno
        self._family = socket.AddressFamily(file.family if family == -1 else family)
        self._type = socket.SocketKind(file.type if type == -1 else type)
        self._proto = get_option(file, socket.SOL_SOCKET, socket.SO_PROTOCOL)
        if proto != -1:
            self._proto = proto
        self._closed = False

    def _new_end(self, family: int, kind: int) -> TcpEnd | UdpEnd:
        check_kind(family, kind, self._proto)
        network, stack = self._host.world.network, self._host.stack
        if family == socket.AF_UNIX:
            if kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
                return network.new_unix_datagrams(stack)
            return network.new_unix_end(stack, packets=kind == socket.SOCK_SEQPACKET)
        if kind == socket.SOCK_DGRAM:
            return network.new_datagrams(stack)
        return network.new_end(stack)

    def __repr__(self) -> str:
        state = "[closed]" if self._closed else f"fd={self._fd}"
        return f"<socket.socket of {self._host.name} {state}, family={self._family}>"

    # --- what it is ------------------------------------------------------------------------------

    @property
    def family(self) -> socket.AddressFamily:
        return self._family

    @property
    def type(self) -> socket.SocketKind:
        return self._type

    @property
    def proto(self) -> int:
        return self._proto

    @property
    def timeout(self) -> float | None:
        return self._timeout

    def fileno(self) -> int:
        return -1 if self._closed else self._fd

    def settimeout(self, value: float | None) -> None:
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._check_open()
        self._timeout = None if value is None else float(value)
        self._file.nonblocking = value is not None

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout != 0.0

    def get_inheritable(self) -> bool:
        self._check_open()
        return self._fd in self._descriptors.inheritable

    def set_inheritable(self, inheritable: bool) -> None:
        self._check_open()
        self._descriptors.set_inheritable(self._fd, inheritable)

    def setsockopt(self, level: int, option: int, value: Any, *length: int) -> None:
        self._check_open()
        set_option(self._file, level, option, value, *length)

    def getsockopt(self, level: int, option: int, buflen: int = 0) -> Any:
        self._check_open()
        return get_option(self._file, level, option, buflen)

    def _option(self, option: int, level: int = socket.SOL_SOCKET) -> bool:
        return bool(self._file.options.get((level, option)))

    # --- addresses -------------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        self._check_open()
        if self._file.bound is not None or self._file.listener is not None:
            raise os_error(errno.EINVAL)
        if self._family == socket.AF_UNIX:
            self._file.bound = self._end.local = self._host.stack.unix.bind(self._file, address)
            return
        ip, port = self._resolve(address, "bind")
        stack = self._host.stack
        datagrams = isinstance(self._end, UdpEnd)
        stack.check_address(unmapped(ip) if datagrams else ip)
        if isinstance(self._end, UdpEnd):
            claim = self._claim(unmapped(ip))
            stack.check_udp(claim, port)
            self._file.bound = self._address(ip, port or stack.free_port(udp=True))
            self._end.bind(self._file.bound, claim)
        elif self._end.state != CLOSED:
            raise os_error(errno.EINVAL)
        else:
            port = port or stack.free_port()
            stack.bind(self._end, port, self._claim(ip))
            self._file.bound = self._address(ip, port)

    def _claim(self, ip: str) -> BoundAddress:
        """What taking an address means for others who want it."""
        reuse = self._option(socket.SO_REUSEPORT), self._option(socket.SO_REUSEADDR)
        return BoundAddress(ip, *reuse, self._option(socket.IPV6_V6ONLY, socket.IPPROTO_IPV6))

    def _resolve(self, address: Any, call: str = "connect") -> tuple[str, int]:
        return resolve(self._host, self._family, address, call)

    def _address(self, ip: str, port: int) -> Any:
        return (ip, port) if self._family == socket.AF_INET else (ip, port, 0, 0)

    def getsockname(self) -> Any:
        self._check_open()
        end = self._end
        if isinstance(end, TcpEnd) and end.local is not None:
            return end.local
        if self._file.bound is not None:
            return self._file.bound
        return "" if self._family == socket.AF_UNIX else self._address(ANY[self._family], 0)

    def getpeername(self) -> Any:
        self._check_open()
        end = self._end
        if end.remote is None or (isinstance(end, TcpEnd) and not end.connected):
            raise os_error(errno.ENOTCONN)
        return end.remote

    # --- connecting ------------------------------------------------------------------------------

    def listen(self, backlog: int = 128) -> None:
        self._check_open()
        file, end, stack = self._file, self._end, self._host.stack
        if file.listener is not None:
            file.listener.backlog = max(1, backlog)
            return
        if not isinstance(end, TcpEnd):
            raise os_error(errno.EOPNOTSUPP)
        if end.state != CLOSED or (file.bound is None and self._family == socket.AF_UNIX):
            raise os_error(errno.EINVAL)
        if self._family == socket.AF_UNIX:
            listener = stack.listen_unix(file.bound, min(backlog, BACKLOG_MAX))
        else:
            if file.bound is None:
                self.bind(("", 0))
            ip, port = file.bound[:2]
            listener = stack.listen(end, ip, port, min(backlog, BACKLOG_MAX))
            only_six = self._option(socket.IPV6_V6ONLY, socket.IPPROTO_IPV6)
            listener.dual = self._family == socket.AF_INET6 and not only_six
        listener.on_change = file.stir
        file.listener = listener

    def accept(self) -> tuple[socket.socket, Any]:
        self._check_open()
        file = self._file
        if file.listener is None:
            stream = isinstance(self._end, TcpEnd)
            raise os_error(errno.EINVAL if stream else errno.EOPNOTSUPP)
        # Another thread may take the connection first, or shut the listener down.
        while not file.readable():
            self._would_block(lambda: file.listener is None or file.readable())
            if file.listener is None:
                raise os_error(errno.EINVAL)
        end = file.listener.queue.popleft()
        accepted = WorldSocket(self._family, self._type, self._proto, host=self._host, end=end)
        if file.options:
            inherit(accepted._file, file)
        return accepted, end.remote

    def connect(self, address: Any) -> None:
        number = self._begin_to_connect(address)
        if number == errno.EINPROGRESS and self._timeout != 0.0:
            end: Any = self._end
            self._wait_until(lambda: end.state != CONNECTING)
            number, self._file.connect_reported = take_error(self._file), True
        if number:
            raise os_error(number)

    def connect_ex(self, address: Any) -> int:
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def _begin_to_connect(self, address: Any) -> int:
        self._check_open()
        end, file = self._end, self._file
        if isinstance(end, UdpEnd):
            self._connect_datagrams(end, address)
            return 0
        if file.listener is not None:
            return errno.EISCONN
        if end.state == CONNECTING:
            return errno.EALREADY
        if end.state != CLOSED and not end.failed_to_connect:
            first, file.connect_reported = not file.connect_reported, True
            return take_error(file) or (0 if first else errno.EISCONN)
        if end.state == DEAD:
            number, end.error = end.error, 0
            first, file.connect_reported = not file.connect_reported, True
            # A socket whose connect has failed may be used for another.
            self._end = self._new_end(self._family, self._file.type)
            self._file.attach(self._end)
            if first:
                return number or errno.ECONNABORTED
        if isinstance(self._end, UnixEnd):
            self._connect_unix(self._end, address)
            return 0
        self._connect_streams(self._end, *self._resolve(address))
        file.connect_reported = False
        return errno.EINPROGRESS

    def _connect_streams(self, end: Any, ip: str, port: int) -> None:
        if ip in ANY.values():  # Linux takes "any" for the host itself
            ip = "::1" if ":" in ip else "127.0.0.1"
        stack = self._host.stack
        local = self._file.bound or self._address(stack.source_for(ip), 0)
        if local[0] in ANY.values():
            local = self._address(stack.source_for(ip), local[1])
        if not local[1]:
            local = self._address(local[0], stack.free_port())
        if end.port is None:
            stack.hold(end, local[1], self._claim(local[0]))
        self._host.world.network.connect(end, local, self._address(ip, port))

    def _connect_unix(self, end: UnixEnd, address: Any) -> None:
        network, stack = self._host.world.network, self._host.stack

        def has_room() -> bool:
            listener = stack.unix.find(address).listener
            return listener is None or not listener.full

        self._patiently(has_room, lambda: network.connect_unix(end, stack, address))

    def _connect_datagrams(self, end: UdpEnd, address: Any) -> None:
        if isinstance(end, UnixDatagrams):
            target = self._host.stack.unix.find(address)
            if not isinstance(target.end, UnixDatagrams):
                raise os_error(errno.EPROTOTYPE)
            end.connect_to(target.end, target.bound)
            return
        ip, port = self._resolve(address)
        if end.local is None:
            self.bind((ANY[self._family], 0))
        end.connect(self._address(ip, port))
        self._file.bound = end.local

    # --- bytes -----------------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        end = self._end
        if flags or bufsize <= 0:
            return self._receive_with(bufsize, flags)[0]
        if type(end) is TcpEnd and end.received_bytes and not self._closed:
            return end.receive(bufsize)  # the common case, without ceremony
        self._check_open()
        if isinstance(end, UdpEnd):
            return self._patiently(end.readable, lambda: end.receive(bufsize))[0]
        return self._patiently(end.readable, lambda: end.receive(bufsize))

    def _receive_with(self, size: int, flags: int) -> tuple[bytes, Any]:
        """A receive with flags: MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL. Others have no effect."""
        if size < 0:
            raise ValueError("negative buffersize in recv")
        if not size:
            return b"", None  # Python does not even ask the kernel
        self._check_open()
        if flags & socket.MSG_OOB:
            raise os_error(errno.EINVAL)  # there is no urgent data
        end, peek = self._end, bool(flags & socket.MSG_PEEK)
        if isinstance(end, UdpEnd):
            return self._now_or_patiently(flags, end.readable, lambda: end.receive(size, peek=peek))
        if flags & socket.MSG_WAITALL:
            self._wait_for_all(end, size, flags)
        return self._now_or_patiently(
            flags, end.readable, lambda: (end.receive(size, peek=peek), None)
        )

    def _wait_for_all(self, end: TcpEnd, size: int, flags: int) -> None:
        """Wait until there are so many bytes, or the end of the stream."""
        patient = self._timeout != 0.0 and not flags & socket.MSG_DONTWAIT
        if patient and end.state == OPEN:
            self._wait_until(
                lambda: (
                    end.received_bytes >= min(size, end.receive_limit)
                    or end.eof_received
                    or end.state != OPEN
                )
            )

    def _now_or_patiently(
        self, flags: int, ready: Callable[[], bool], attempt: Callable[[], T]
    ) -> T:
        return attempt() if flags & socket.MSG_DONTWAIT else self._patiently(ready, attempt)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        data = self.recv(size_to_fill(buffer, nbytes), flags)
        spread(data, [buffer])
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        self._check_open()
        if bufsize < 0:
            raise ValueError("negative buffersize in recvfrom")
        if flags and bufsize:
            return self._receive_with(bufsize, flags)
        end = self._end
        if isinstance(end, UdpEnd):
            return self._patiently(end.readable, lambda: end.receive(bufsize))
        return self.recv(bufsize, flags), None

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        data, source = self.recvfrom(size_to_fill(buffer, nbytes), flags)
        spread(data, [buffer])
        return len(data), source

    def send(self, data: Any, flags: int = 0) -> int:
        end = self._end
        if type(end) is TcpEnd and self._timeout == 0.0 and not flags:
            self._check_open()  # the common case, without ceremony
            if type(data) is bytes or type(data) is bytearray:
                return end.send(data)
        self._check_open()
        if isinstance(end, UdpEnd):
            return self._send_datagram(end, bytes(data), None, flags)
        if isinstance(data, bytes | bytearray):
            return self._send_bytes(end, data, flags)
        with memoryview(data) as whole, whole.cast("B") as view:
            return self._send_bytes(end, view, flags)

    def _send_bytes(self, end: TcpEnd, data: bytes | bytearray | memoryview, flags: int) -> int:
        if flags & socket.MSG_OOB:
            raise os_error(errno.EOPNOTSUPP)
        if flags & socket.MSG_DONTWAIT:
            return end.send(data)
        return self._patiently(end.writable, lambda: end.send(data))

    def _send_datagram(self, end: UdpEnd, data: bytes, address: Any, flags: int) -> int:
        if isinstance(end, UnixDatagrams):
            return self._now_or_patiently(flags, end.writable, lambda: end.send(data, address))
        if address is None and end.remote is None:
            raise os_error(errno.EDESTADDRREQ)
        return end.send(data, end.remote if address is None else address)

    def sendall(self, data: Any, flags: int = 0) -> None:
        with memoryview(data) as whole, whole.cast("B") as view:
            self._check_open()
            sent = 0
            while sent < len(view):
                with view[sent:] as rest:
                    sent += self.send(rest, flags)

    def sendto(self, data: Any, *rest: Any) -> int:
        self._check_open()
        if not 1 <= len(rest) <= 2:
            raise TypeError(f"sendto() takes 2 or 3 arguments ({len(rest) + 1} given)")
        address, flags = rest[-1], rest[0] if len(rest) > 1 else 0
        end = self._end
        if isinstance(end, UnixEnd):
            raise os_error(errno.EISCONN if end.state == OPEN else errno.EOPNOTSUPP)
        if isinstance(end, TcpEnd):
            return self.send(data, flags)
        if isinstance(end, UnixDatagrams):
            return self._send_datagram(end, bytes(data), address, flags)
        ip, port = self._resolve(address, "sendto")
        if end.local is None:
            self.bind((ANY[self._family], 0))
        return end.send(bytes(data), self._address(ip, port))

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> int:
        if any(level == socket.SOL_SOCKET for level, _, _ in ancdata):
            self._host.escaped(
                "socket.sendmsg(…) with SCM_RIGHTS",
                "descriptors that change hands are not simulated: both hosts share this process",
                "send the data itself, or let the receiver open its own connection",
            )
        end, size = self._end, sys.maxsize
        if type(end) is TcpEnd:
            size = max(end.room(), 0) or end.send_limit
        data = first_bytes(buffers, size)
        return self.send(data, flags) if address is None else self.sendto(data, flags, address)

    def recvmsg(
        self, bufsize: int, ancbufsize: int = 0, flags: int = 0
    ) -> tuple[bytes, list[Any], int, Any]:
        data, source = self.recvfrom(bufsize, flags)
        return data, [], self._message_flags(), source

    def recvmsg_into(
        self, buffers: Any, ancbufsize: int = 0, flags: int = 0
    ) -> tuple[int, list[Any], int, Any]:
        buffers = list(buffers)
        data, source = self.recvfrom(sum(map(size_to_fill, buffers)), flags)
        spread(data, buffers)
        return len(data), [], self._message_flags(), source

    def _message_flags(self) -> int:
        return int(socket.MSG_TRUNC) if getattr(self._end, "truncated", False) else 0

    # --- the end ---------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        self._check_open()
        end, file = self._end, self._file
        if how not in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
            raise os_error(errno.EINVAL)
        reads, writes = how != socket.SHUT_WR, how != socket.SHUT_RD
        if file.listener is not None:
            if reads:
                file.listener.close()
                file.listener = None
        elif isinstance(end, UnixDatagrams):
            end.shut_read, end.shut_write = end.shut_read or reads, end.shut_write or writes
        elif not isinstance(end, TcpEnd):
            if end.remote is None:
                raise os_error(errno.ENOTCONN)
        elif not end.connected:
            end.eof_received = end.eof_received or reads  # Linux takes note although it complains
            if not isinstance(end, UnixEnd):
                raise os_error(errno.ENOTCONN)
        else:
            if reads:
                end.shutdown_read()
            if writes:
                end.shutdown_write()
        file.stir()

    def close(self) -> None:
        self._closing = True
        if not self._closed and self._io_refs <= 0:
            self._real_close()

    def _real_close(self) -> None:
        if not self._closed:
            self._closed = True
            if not (self._descriptors.take_back(self._fd) or self._descriptors.process_is_over):
                raise os_error(errno.EBADF)  # somebody has closed the number

    def detach(self) -> int:
        forget_at_end(self._host.world)
        fd, self._closed = self.fileno(), True
        return fd

    def dup(self) -> WorldSocket:
        self._check_open()
        fd = self._descriptors.give(self._file)
        copy = WorldSocket(self._family, self._type, self._proto, fileno=fd, host=self._host)
        copy.settimeout(self._timeout)
        return copy

    def makefile(self, *args: Any, **kwargs: Any) -> Any:
        return socket.socket.makefile(self, *args, **kwargs)

    def _decref_socketios(self) -> None:
        self._io_refs -= 1
        if getattr(self, "_closing", False):
            self.close()

    def __enter__(self) -> WorldSocket:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Forgotten without `close`: CPython says so, and closes it."""
        if self._closed or not self._file.is_in_use(self._descriptors):
            return
        try:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
        finally:
            self._real_close()

    def _check_open(self) -> None:
        if self._closed or not self._file.fds:  # or somebody has closed the number
            raise os_error(errno.EBADF)

    # --- waiting ---------------------------------------------------------------------------------

    def _patiently(self, ready: Callable[[], bool], attempt: Callable[[], T]) -> T:
        """Try at once; a socket in blocking mode waits until it can."""
        while True:
            try:
                return attempt()
            except BlockingIOError:
                self._would_block(ready)

    def _would_block(self, ready: Callable[[], bool]) -> None:
        if self._timeout == 0.0 or (self._timeout is None and self._file.nonblocking):
            raise os_error(errno.EAGAIN)
        self._wait_until(ready)

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        with self._file.in_use():
            self._host.block_until(ready, self._timeout)
