"""Socket options as Linux keeps them: their defaults, their limits, what may not be set.

Options without an effect here (TCP_NODELAY, IP_TOS, …) are kept and shown, as the kernel would.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING, Any

from foretold.world.net.tcp import CLOSED, CONNECTING, TcpEnd
from foretold.world.net.unix import UnixEnd
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.net.socketfile import SocketFile

SOL, TCP, IP, IP6 = socket.SOL_SOCKET, socket.IPPROTO_TCP, socket.IPPROTO_IP, socket.IPPROTO_IPV6
SEND_BUFFER_MIN, RECEIVE_BUFFER_MIN = 4_608, 2_304
UNUSED_SEND_BUFFER = 16_384
"""What a TCP socket shows before it is connected; then the buffer grows."""
DEFAULTS: dict[int, dict[int, int]] = {
    SOL: {
        **dict.fromkeys(
            (
                socket.SO_DEBUG, socket.SO_REUSEADDR, socket.SO_DONTROUTE, socket.SO_BROADCAST,
                socket.SO_KEEPALIVE, socket.SO_OOBINLINE, socket.SO_PRIORITY, socket.SO_MARK,
                socket.SO_REUSEPORT, socket.SO_PASSCRED, socket.SO_RCVTIMEO, socket.SO_SNDTIMEO,
                socket.SO_BINDTODEVICE, socket.SO_INCOMING_CPU,
            ),
            0,
        ),
        socket.SO_RCVLOWAT: 1,
        socket.SO_SNDLOWAT: 1,
    },
    TCP: {
        **dict.fromkeys(
            (
                socket.TCP_NODELAY, socket.TCP_CORK, socket.TCP_DEFER_ACCEPT,
                socket.TCP_WINDOW_CLAMP, socket.TCP_USER_TIMEOUT, socket.TCP_FASTOPEN,
                socket.TCP_NOTSENT_LOWAT,
            ),
            0,
        ),
        socket.TCP_MAXSEG: 536,
        socket.TCP_KEEPIDLE: 7_200,
        socket.TCP_KEEPINTVL: 75,
        socket.TCP_KEEPCNT: 9,
        socket.TCP_SYNCNT: 6,
        socket.TCP_LINGER2: 60,
        socket.TCP_QUICKACK: 1,
    },
    IP: {socket.IP_TTL: 64, socket.IP_TOS: 0},
    IP6: {socket.IPV6_V6ONLY: 0, socket.IPV6_UNICAST_HOPS: 64},
}  # fmt: skip
READ_ONLY = {
    socket.SO_ERROR, socket.SO_TYPE, socket.SO_DOMAIN, socket.SO_PROTOCOL, socket.SO_ACCEPTCONN
}  # fmt: skip
SWITCHES = {
    (SOL, option)
    for option in (
        socket.SO_DEBUG, socket.SO_REUSEADDR, socket.SO_DONTROUTE, socket.SO_BROADCAST,
        socket.SO_KEEPALIVE, socket.SO_OOBINLINE, socket.SO_REUSEPORT, socket.SO_PASSCRED,
    )
} | {(TCP, socket.TCP_NODELAY), (TCP, socket.TCP_CORK), (IP6, socket.IPV6_V6ONLY)}  # fmt: skip
SMALLEST = {
    (TCP, socket.TCP_KEEPIDLE): 1,
    (TCP, socket.TCP_KEEPINTVL): 1,
    (TCP, socket.TCP_KEEPCNT): 1,
    (TCP, socket.TCP_USER_TIMEOUT): 0,
}


def _check_level(file: SocketFile, level: int, *, reading: bool) -> None:
    """EOPNOTSUPP or ENOPROTOOPT for a level that is not the socket's."""
    unix = file.family == socket.AF_UNIX
    stream = isinstance(file.end, TcpEnd)
    if level == SOL or (level == IP and not unix) or (level == TCP and stream and not unix):
        return
    if level == IP6 and file.family == socket.AF_INET6:
        return
    if level == TCP and not unix and not reading:
        raise os_error(errno.ENOPROTOOPT)
    raise os_error(errno.EOPNOTSUPP)


def set_option(file: SocketFile, level: int, option: int, value: Any, *length: int) -> None:
    """`setsockopt`."""
    _check_level(file, level, reading=False)
    if (level, option) == (SOL, socket.SO_LINGER):
        _set_linger(file, value)
        return
    number = _number(value, *length)
    buffers = level == SOL and option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
    if level == SOL and option in READ_ONLY:
        raise os_error(errno.ENOPROTOOPT)
    if not buffers and level in (SOL, TCP) and option not in DEFAULTS[level]:
        raise os_error(errno.ENOPROTOOPT)
    if number < SMALLEST.get((level, option), number):
        raise os_error(errno.EINVAL)
    if (level, option) in SWITCHES:
        number = int(number != 0)
    if buffers:
        _set_buffer(file, option, number)
    else:
        file.options[level, option] = number
        _apply(file, level, option)


def _number(value: Any, *length: int) -> int:
    if isinstance(value, int):
        return int(value)
    if value is None and length:
        return 0
    data = bytes(memoryview(value))  # its TypeError is the real one's
    if len(data) < 4:
        return int.from_bytes(data, "little")
    return int(struct.unpack_from("i", data)[0])


def _set_linger(file: SocketFile, value: Any) -> None:
    if isinstance(value, int) or len(bytes(value)) < 8:
        raise os_error(errno.EINVAL)
    on, seconds = struct.unpack_from("ii", bytes(value))
    file.options[SOL, socket.SO_LINGER] = on and 1 | seconds << 32
    if isinstance(file.end, TcpEnd):
        file.end.linger(seconds if on else None)


def _set_buffer(file: SocketFile, option: int, number: int) -> None:
    """Linux doubles what is asked for."""
    end = file.end
    if option == socket.SO_SNDBUF:
        size = max(SEND_BUFFER_MIN, 2 * number)
        if isinstance(end, TcpEnd):
            end.send_limit = size
    else:
        size = max(RECEIVE_BUFFER_MIN, 2 * number)
        end.receive_limit = size
    file.options[SOL, option] = size


def _apply(file: SocketFile, level: int, option: int) -> None:
    end = file.end
    if not isinstance(end, TcpEnd) or isinstance(end, UnixEnd):
        return
    if (level, option) == (TCP, socket.TCP_USER_TIMEOUT):
        end.user_timeout_ns = file.options[level, option] * 1_000_000
    elif (level, option) == (SOL, socket.SO_KEEPALIVE) or (
        level == TCP and option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    ):
        _apply_keepalive(file, end)


def _apply_keepalive(file: SocketFile, end: TcpEnd) -> None:
    if not file.options.get((SOL, socket.SO_KEEPALIVE)):
        end.keepalive_s = None
        return
    idle, interval, probes = (
        file.options.get((TCP, option), DEFAULTS[TCP][option])
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    end.keep_alive(idle, interval, probes)


def inherit(file: SocketFile, listener: SocketFile) -> None:
    """A connection has the options of the socket that accepted it."""
    for (level, option), value in listener.options.items():
        if level == SOL and option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            _set_buffer(file, option, value // 2)
        else:
            file.options[level, option] = value
            _apply(file, level, option)
    if listener.options.get((SOL, socket.SO_LINGER)) and isinstance(file.end, TcpEnd):
        file.end.linger(listener.options[SOL, socket.SO_LINGER] >> 32)


def get_option(file: SocketFile, level: int, option: int, length: int = 0) -> Any:
    """`getsockopt`."""
    if not 0 <= length <= 1024:
        raise OSError("getsockopt buflen out of range")
    _check_level(file, level, reading=True)
    if (level, option) == (SOL, socket.SO_LINGER):
        value = file.options.get((level, option), 0)
        return value.to_bytes(8, "little")[:length] if length else value & 1
    value = _value_of(file, level, option)
    return (value & 0xFFFFFFFF).to_bytes(4, "little")[:length] if length else value


def _value_of(file: SocketFile, level: int, option: int) -> int:
    if level == SOL and option in _ABOUT:
        return _ABOUT[option](file)
    known = file.options.get((level, option))
    if known is not None:
        return known
    if level in (IP, IP6):
        return DEFAULTS[level].get(option, 0)
    if option not in DEFAULTS[level]:
        raise os_error(errno.ENOPROTOOPT)
    return DEFAULTS[level][option]


def take_error(file: SocketFile) -> int:
    """The pending errno, which is reported once."""
    number, file.end.error = file.end.error, 0
    return number


def _protocol(file: SocketFile) -> int:
    if file.family == socket.AF_UNIX:
        return 0
    return TCP if isinstance(file.end, TcpEnd) else socket.IPPROTO_UDP


def _send_buffer(file: SocketFile) -> int:
    end, asked = file.end, file.options.get((SOL, socket.SO_SNDBUF))
    if asked is not None:
        return asked
    if not isinstance(end, TcpEnd):
        return end.network.datagram_limits[0]
    unused = not isinstance(end, UnixEnd) and end.state in (CLOSED, CONNECTING)
    return UNUSED_SEND_BUFFER if unused else end.send_limit


def _receive_buffer(file: SocketFile) -> int:
    asked = file.options.get((SOL, socket.SO_RCVBUF))
    return file.end.receive_limit if asked is None else asked


_ABOUT = {
    socket.SO_ERROR: take_error,
    socket.SO_TYPE: lambda file: int(file.type),
    socket.SO_DOMAIN: lambda file: int(file.family),
    socket.SO_PROTOCOL: _protocol,
    socket.SO_ACCEPTCONN: lambda file: int(file.listener is not None),
    socket.SO_SNDBUF: _send_buffer,
    socket.SO_RCVBUF: _receive_buffer,
}
