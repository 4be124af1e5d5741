"""`socket.socket` inside a world.

A subclass of the real one, so that `isinstance` holds, with every method its own: no real
descriptor is ever made. asyncio's transports and all libraries above them run on it unmodified.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from foretold.world.net.stack import ANY, Bound, Listener
from foretold.world.net.tcp import CLOSED, CONNECTING, OPEN, TcpEnd, os_error
from foretold.world.net.udp import UdpEnd

if TYPE_CHECKING:
    from foretold.world.host import Host

T = TypeVar("T")
INTERNET = (socket.AF_INET, socket.AF_INET6)
KEEPALIVE_S = (7_200.0, 75.0, 9)
"""Linux' defaults: two hours, then nine probes 75 seconds apart."""
BACKLOG_MAX = 4_096


class WorldSocket(socket.socket):
    """A socket of a simulated host."""

    _host: Host
    _end: TcpEnd | UdpEnd | None
    _listener: Listener | None
    _connect_reported = True
    """Linux says once that a connect has succeeded, then that there is a connection already."""

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
            from foretold.world.world import current_world

            host = current_world().acting_host
        self._host = host
        self._descriptors = host.descriptors  # of this process: another may follow on the host
        self._io_refs = 0
        self._closed = False
        if fileno is not None:
            self._adopt(fileno)
            return
        self._family = socket.AddressFamily(socket.AF_INET if family == -1 else family)
        wanted = socket.SOCK_STREAM if type == -1 else type
        self._timeout: float | None = 0.0 if wanted & socket.SOCK_NONBLOCK else None
        self._type = socket.SocketKind(wanted & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC))
        self._proto = max(0, proto)
        if self._family not in (*INTERNET, socket.AF_UNIX):
            raise os_error(errno.EAFNOSUPPORT)
        self._options: dict[tuple[int, int], int] = {}
        self._bound: Any = None
        self._listener = None
        self._end = None
        self._fd = self._descriptors.give(self)
        self._attach(end if end is not None else self._new_end())

    def _adopt(self, fileno: int) -> None:
        other = self._descriptors.socket(fileno)
        if not isinstance(other, WorldSocket):
            raise os_error(errno.EBADF)
        self.__dict__.update(other.__dict__)
        self._descriptors.replace(fileno, self)
        if self._end is not None:
            self._attach(self._end)

    def _new_end(self) -> TcpEnd | UdpEnd:
        network, stack = self._host.world.network, self._host.stack
        if self._type == socket.SOCK_DGRAM and self._family in INTERNET:
            return network.new_datagrams(stack)
        if self._type == socket.SOCK_STREAM:
            return network.new_end(stack)
        raise os_error(errno.ESOCKTNOSUPPORT)

    def _attach(self, end: TcpEnd | UdpEnd) -> None:
        self._end = end
        end.on_change = self._stir

    def _stir(self) -> None:
        self._descriptors.stir(self._fd)

    def __repr__(self) -> str:
        state = "[closed]" if self._closed else f"fd={self._fd}"
        return f"<socket.socket of {self._host.name} {state}, family={self._family}>"

    # --- what a selector asks --------------------------------------------------------------------

    def readable(self) -> bool:
        if self._listener is not None:
            return bool(self._listener.queue)
        return self._end is not None and self._end.readable()

    def writable(self) -> bool:
        return self._end is not None and self._listener is None and self._end.writable()

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
        self._timeout = None if value is None else float(value)

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        return self._timeout != 0.0

    def get_inheritable(self) -> bool:
        return False

    def set_inheritable(self, inheritable: bool) -> None:
        pass

    def setsockopt(self, level: int, option: int, value: Any, *length: int) -> None:
        self._check_open()
        if isinstance(value, int):
            self._options[(level, option)] = int(value)
        elif (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self._set_linger(bytes(value))
            return
        self._apply_option(level, option, value)

    def _set_linger(self, value: bytes) -> None:
        on, seconds = struct.unpack("ii", value)
        if isinstance(self._end, TcpEnd):
            self._end.linger(seconds if on else None)

    def _apply_option(self, level: int, option: int, value: Any) -> None:
        end = self._end
        if not isinstance(end, TcpEnd):
            return
        if level == socket.SOL_SOCKET and option == socket.SO_SNDBUF:
            end.send_limit = max(4_608, 2 * int(value))  # Linux doubles what is asked for
        elif level == socket.SOL_SOCKET and option == socket.SO_RCVBUF:
            end.receive_limit = max(2_304, 2 * int(value))
        elif option in (
            socket.SO_KEEPALIVE,
            socket.TCP_KEEPIDLE,
            socket.TCP_KEEPINTVL,
            socket.TCP_KEEPCNT,
        ):
            self._apply_keepalive(end)

    def _apply_keepalive(self, end: TcpEnd) -> None:
        if not self._options.get((socket.SOL_SOCKET, socket.SO_KEEPALIVE)):
            end.keepalive_s = None
            return
        tcp = socket.IPPROTO_TCP
        end.keep_alive(
            self._options.get((tcp, socket.TCP_KEEPIDLE), KEEPALIVE_S[0]),
            self._options.get((tcp, socket.TCP_KEEPINTVL), KEEPALIVE_S[1]),
            int(self._options.get((tcp, socket.TCP_KEEPCNT), KEEPALIVE_S[2])),
        )

    def getsockopt(self, level: int, option: int, buflen: int = 0) -> Any:
        self._check_open()
        end = self._end
        value = self._options.get((level, option), 0)
        if level == socket.SOL_SOCKET:
            if option == socket.SO_ERROR:
                value, self._pending_error = self._take_errno(), 0
            elif option == socket.SO_TYPE:
                value = int(self._type)
            elif option == socket.SO_ACCEPTCONN:
                value = int(self._listener is not None)
            elif isinstance(end, TcpEnd) and option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                value = end.send_limit if option == socket.SO_SNDBUF else end.receive_limit
        return value.to_bytes(buflen, "little") if buflen else value

    def _take_errno(self) -> int:
        end = self._end
        if end is None or not end.error:
            return 0
        number, end.error = end.error, 0
        return number

    # --- addresses -------------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        self._check_open()
        if self._bound is not None:
            raise os_error(errno.EINVAL)
        if self._family == socket.AF_UNIX:
            self._bind_unix(os.fsdecode(address))
            return
        ip, port = self._resolve(address)
        stack = self._host.stack
        stack.check_address(ip)
        if isinstance(self._end, UdpEnd):
            shared = bool(self._option(socket.SO_REUSEPORT) or self._option(socket.SO_REUSEADDR))
            stack.check_udp(ip, port, shared=shared)
            self._bound = self._address(ip, port or stack.free_port(udp=True))
            self._end.bind(self._bound)
        else:
            self._claim(ip, port or stack.free_port())

    def _claim(self, ip: str, port: int) -> None:
        """Take an address for a stream."""
        only_six = bool(self._options.get((socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)))
        reuse_port = bool(self._option(socket.SO_REUSEPORT))
        reuse_address = bool(self._option(socket.SO_REUSEADDR))
        claim = Bound(ip, self._end, reuse_port, reuse_address, only_six)
        self._host.stack.bind(port, claim)
        self._bound = self._address(ip, port)

    def _option(self, option: int) -> int:
        return self._options.get((socket.SOL_SOCKET, option), 0)

    def _bind_unix(self, path: str) -> None:
        if path in self._host.stack.unix_paths:
            raise os_error(errno.EADDRINUSE)
        if path:
            self._host.stack.unix_paths.add(path)
        self._bound = path

    def _resolve(self, address: Any) -> tuple[str, int]:
        """An address as given to bind or connect: a name is looked up, as the real one does."""
        if not isinstance(address, tuple) or len(address) < 2:
            raise TypeError(f"AF_INET address must be tuple, not {type(address).__name__}")
        name, port = address[0], address[1]
        if not 0 <= port <= 65_535:
            raise OverflowError("bind(): port must be 0-65535.")
        if name == "":
            return ANY[self._family], port
        return self._host.world.dns.numeric(self._host, name, self._family), port

    def _address(self, ip: str, port: int) -> Any:
        return (ip, port) if self._family == socket.AF_INET else (ip, port, 0, 0)

    def getsockname(self) -> Any:
        self._check_open()
        end = self._end
        if isinstance(end, TcpEnd) and end.local is not None:
            return end.local
        if self._bound is not None:
            return self._bound
        return "" if self._family == socket.AF_UNIX else self._address(ANY[self._family], 0)

    def getpeername(self) -> Any:
        self._check_open()
        end = self._end
        if end is None or end.remote is None or getattr(end, "state", OPEN) in (CLOSED, CONNECTING):
            raise os_error(errno.ENOTCONN)
        return end.remote

    # --- connecting ------------------------------------------------------------------------------

    def listen(self, backlog: int = 128) -> None:
        self._check_open()
        if self._listener is not None:
            self._listener.backlog = max(1, backlog)
            return
        stack = self._host.stack
        if self._family == socket.AF_UNIX:
            listener = stack.listen_unix(self._bound or "", min(backlog, BACKLOG_MAX))
        else:
            if self._bound is None:
                self.bind(("", 0))
            ip, port = self._bound[:2]
            shared = bool(self._option(socket.SO_REUSEPORT))
            if (ip, port) in stack.listeners and not shared:
                raise os_error(errno.EADDRINUSE)
            listener = stack.listen(ip, port, min(backlog, BACKLOG_MAX))
            only = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            listener.dual = self._family == socket.AF_INET6 and not self._options.get(only)
        listener.on_change = self._stir
        self._listener = listener

    def accept(self) -> tuple[socket.socket, Any]:
        self._check_open()
        listener = self._listener
        if listener is None:
            raise os_error(errno.EINVAL)
        if not listener.queue:
            self._would_block(self.readable)
        end = listener.queue.popleft()
        accepted = WorldSocket(self._family, self._type, self._proto, host=self._host, end=end)
        return accepted, end.remote

    def connect(self, address: Any) -> None:
        number = self._begin_to_connect(address)
        if number == errno.EINPROGRESS and self._timeout != 0.0:
            end: Any = self._end
            self._wait_until(lambda: end.state != CONNECTING)
            number, self._connect_reported = self._take_errno(), True
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
        end = self._end
        if isinstance(end, UdpEnd):
            self._connect_datagrams(end, address)
            return 0
        assert isinstance(end, TcpEnd), "streams have an end from the start"
        if end.state == CONNECTING:
            return errno.EALREADY
        if end.state != CLOSED:
            pending = self._take_errno()
            first, self._connect_reported = not self._connect_reported, True
            return pending or (0 if first else errno.EISCONN)
        if self._family == socket.AF_UNIX:
            self._host.world.network.connect_unix(end, self._host.stack, os.fsdecode(address))
            return 0
        ip, port = self._resolve(address)
        if ip in ANY.values():  # Linux takes "any" for the host itself
            ip = "::1" if ":" in ip else "127.0.0.1"
        stack = self._host.stack
        local = self._bound or self._address(stack.source_for(ip), 0)
        if local[0] in ANY.values():
            local = self._address(stack.source_for(ip), local[1])
        if not local[1]:
            local = self._address(local[0], stack.free_port())
        self._host.world.network.connect(end, local, self._address(ip, port))
        self._connect_reported = False
        return errno.EINPROGRESS

    def _connect_datagrams(self, end: UdpEnd, address: Any) -> None:
        ip, port = self._resolve(address)
        if end.local is None:
            self.bind((self._host.stack.source_for(ip), 0))
        end.remote = self._address(ip, port)

    # --- bytes -----------------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        end = self._end
        if type(end) is TcpEnd and end.received_bytes and not flags and not self._closed:
            return end.receive(bufsize)  # the common case, without ceremony
        self._check_open()
        end = self._stream_or_datagrams()
        if isinstance(end, UdpEnd):
            return self._patiently(end.readable, lambda: end.receive(bufsize))[0]
        peek = bool(flags & socket.MSG_PEEK)
        return self._patiently(end.readable, lambda: end.receive(bufsize, peek=peek))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        end = self._stream_or_datagrams()
        if isinstance(end, UdpEnd):
            return self._patiently(end.readable, lambda: end.receive(bufsize))
        return self.recv(bufsize, flags), None

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        view = memoryview(buffer).cast("B")
        data, source = self.recvfrom(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data), source

    def send(self, data: Any, flags: int = 0) -> int:
        end = self._end
        if type(end) is TcpEnd and self._timeout == 0.0 and type(data) is bytes:
            self._check_open()
            return end.send(data)  # the common case, without ceremony
        self._check_open()
        end = self._stream_or_datagrams()
        if isinstance(end, UdpEnd):
            if end.remote is None:
                raise os_error(errno.EDESTADDRREQ)
            return end.send(bytes(data), end.remote)
        if not isinstance(data, bytes | bytearray):
            data = memoryview(data).cast("B")
        return self._patiently(end.writable, lambda: end.send(data))

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]

    def sendto(self, data: Any, *rest: Any) -> int:
        self._check_open()
        address = rest[-1]
        end = self._stream_or_datagrams()
        if isinstance(end, TcpEnd):
            return self.send(data)
        ip, port = self._resolve(address)
        if end.local is None:
            self.bind((ANY[self._family], 0))
        return end.send(bytes(data), self._address(ip, port))

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> int:
        data = b"".join(bytes(part) for part in buffers)
        return self.send(data) if address is None else self.sendto(data, address)

    def recvmsg(self, bufsize: int, *rest: Any) -> tuple[bytes, list[Any], int, Any]:
        data, source = self.recvfrom(bufsize)
        return data, [], 0, source

    def recvmsg_into(self, buffers: Any, *rest: Any) -> tuple[int, list[Any], int, Any]:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data, source = self.recvfrom(sum(map(len, views)))
        left = memoryview(data)
        for view in views:
            part, left = left[: len(view)], left[len(view) :]
            view[: len(part)] = part
        return len(data), [], 0, source

    def _stream_or_datagrams(self) -> TcpEnd | UdpEnd:
        if self._end is None:
            raise os_error(errno.ENOTCONN)
        return self._end

    # --- the end ---------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        self._check_open()
        end = self._end
        if not isinstance(end, TcpEnd) or end.state != OPEN:
            raise os_error(errno.ENOTCONN)
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            end.eof_received = True
            self._stir()
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            end.shutdown_write()

    def close(self) -> None:
        self._closing = True
        if not self._closed and self._io_refs <= 0:
            self._really_close()

    def _really_close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._descriptors.stir(self._fd)
        self._descriptors.take_back(self._fd)
        if self._listener is not None:
            self._listener.close()
        elif self._end is not None:
            self._end.close()
        if isinstance(self._end, TcpEnd) and self._bound and self._family in INTERNET:
            self._host.stack.unbind(self._bound[1], self._end)

    def detach(self) -> int:
        fd = self.fileno()
        self._closed = True
        return fd

    def dup(self) -> NoReturn:
        raise os_error(errno.EOPNOTSUPP)

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
        pass

    def _check_open(self) -> None:
        if self._closed:
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
        if self._timeout == 0.0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._wait_until(ready)

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        self._host.block_until(ready, self._timeout)
