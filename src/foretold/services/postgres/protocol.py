"""PostgreSQL's wire protocol 3, as far as somebody needs it who stands between client and server.

A message is a letter, a length and a body; the first one of a connection has no letter. What a
client sends is cut into *groups*: all that the server answers in one go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from foretold.errors import ForetoldError

PROTOCOL_3: Final = 3 << 16
CANCEL_REQUEST: Final = 80_877_102
SSL_REQUEST: Final = 80_877_103
GSS_REQUEST: Final = 80_877_104
STARTUP_BYTES_MAX: Final = 10_000
MESSAGE_BYTES_MAX: Final = 1 << 30

# What a client sends.
QUERY, PARSE, BIND, DESCRIBE, EXECUTE, CLOSE = b"Q", b"P", b"B", b"D", b"E", b"C"
SYNC, FLUSH, TERMINATE, FUNCTION_CALL = b"S", b"H", b"X", b"F"
COPY_DATA, COPY_DONE, COPY_FAIL = b"d", b"c", b"f"
WORK: Final = (QUERY, PARSE, BIND, EXECUTE, FUNCTION_CALL)
"""Messages that take the server long enough to be cancelled."""
COPY_ENDS: Final = (COPY_DONE, COPY_FAIL)

# What a server sends.
AUTHENTICATION, KEY_DATA, PARAMETER_STATUS, READY = b"R", b"K", b"S", b"Z"
ERROR, NOTICE, NOTIFICATION, COMMAND_COMPLETE = b"E", b"N", b"A", b"C"
PARAMETER_DESCRIPTION: Final = b"t"
CRASH_SHUTDOWN: Final = "57P02"
UNASKED: Final = (NOTIFICATION, PARAMETER_STATUS)
"""What a server also says to whom has asked for nothing."""
ROW_DESCRIPTION, DATA_ROW, COPY_IN, FUNCTION_RESULT = b"T", b"D", b"G", b"V"
ANSWERS: Final = frozenset(b"123TnCIsG")
"""Each ends the answer to one message of the extended protocol."""

IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"
"""Transaction states, as ReadyForQuery tells them."""

_INT = struct.Struct("!i")
_HEAD = struct.Struct("!ii")
_length_at = _INT.unpack_from


class ProtocolError(ForetoldError):
    """A client or a server says what the protocol does not know."""


def message(kind: bytes, *parts: bytes) -> bytes:
    """One message with its letter."""
    body = b"".join(parts)
    return kind + _INT.pack(len(body) + 4) + body


def text(value: str) -> bytes:
    """A string as the protocol writes it."""
    return value.encode("utf-8", "surrogateescape") + b"\0"


def split(buffer: bytearray) -> list[bytes]:
    """Take the messages that are complete out of `buffer`."""
    found: list[bytes] = []
    data, start, size = bytes(buffer), 0, len(buffer)
    while size - start >= 5:
        end = start + 1 + _length_at(data, start + 1)[0]
        if not start + 5 <= end <= start + MESSAGE_BYTES_MAX:
            raise ProtocolError(f"a message of {end - start} bytes: not PostgreSQL's protocol")
        if end > size:
            break
        found.append(data[start:end])
        start = end
    del buffer[:start]
    return found


# --- the beginning of a connection -----------------------------------------------------------


class Opening(NamedTuple):
    """The first message of a connection."""

    code: int
    """What it asks for: a version of the protocol, TLS, or a cancellation."""
    body: bytes

    @property
    def parameters(self) -> dict[str, str]:
        """The session's parameters, of a start-up message."""
        words = self.body.split(b"\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in pairs if k}

    @property
    def key(self) -> tuple[int, bytes]:
        """Whose statement is to be cancelled, of a request to cancel one."""
        return int.from_bytes(self.body[:4], "big"), self.body[4:]


def take_opening(buffer: bytearray) -> Opening | None:
    """Take the first message of a connection out of `buffer`, if it is complete."""
    if len(buffer) < 8:
        return None
    length, code = _HEAD.unpack_from(buffer)
    if not 8 <= length <= STARTUP_BYTES_MAX:
        raise ProtocolError(f"a first message of {length} bytes: this is not PostgreSQL's protocol")
    if len(buffer) < length:
        return None
    body = bytes(buffer[8:length])
    del buffer[:length]
    return Opening(code, body)


def startup(code: int, parameters: Iterable[tuple[str, str]]) -> bytes:
    """The start-up message."""
    body = b"".join(text(name) + text(value) for name, value in parameters) + b"\0"
    return _HEAD.pack(len(body) + 8, code) + body


# --- groups ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Group:
    """Messages that the server answers in one go; the last one says so."""

    messages: list[bytes]

    @property
    def last(self) -> bytes:
        """The letter of the message that ends it."""
        return self.messages[-1][:1]

    @property
    def data(self) -> bytes:
        return b"".join(self.messages)

    def has(self, kind: bytes) -> bool:
        """Whether one of the messages is of this kind."""
        return any(m[:1] == kind for m in self.messages)

    def expected(self) -> int:
        """How many answers there will be if the group ends with Flush, which has none itself."""
        return sum(1 for m in self.messages if m[:1] in (PARSE, BIND, DESCRIBE, EXECUTE, CLOSE))


# --- errors and notices ----------------------------------------------------------------------


def fields_of(error: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse, by their letters."""
    found = {}
    for field in error[5:].split(b"\0"):
        if field:
            found[chr(field[0])] = field[1:].decode("utf-8", "replace")
    return found


def is_farewell(answer: list[bytes]) -> bool:
    """Whether the server has said why it ends the session, and not because of a crash."""
    last = fields_of(answer[-1]) if answer and answer[-1][:1] in (ERROR, NOTICE) else {}
    return last.get("V", last.get("S")) == "FATAL" and last.get("C") != CRASH_SHUTDOWN


def error_response(code: str, words: str, *, severity: str = "ERROR", **more: str) -> bytes:
    """An ErrorResponse as the server would write it."""
    fields = {"S": severity, "V": severity, "C": code, "M": words, **more}
    body = b"".join(letter.encode() + text(value) for letter, value in fields.items())
    return message(ERROR, body, b"\0")


def too_old(code: int) -> bytes:
    """What the server says to a client of a former protocol, in the words of that."""
    version = f"{code >> 16}.{code & 0xFFFF}"
    words = f"FATAL:  unsupported frontend protocol {version}: server supports 3.0 to 3.0\n"
    return ERROR + text(words)


def ready(state: bytes) -> bytes:
    """ReadyForQuery."""
    return message(READY, state)


def query(sql: str) -> bytes:
    """A simple query."""
    return message(QUERY, text(sql))


def tag_of(complete: bytes) -> str:
    """What a CommandComplete says was done: `UPDATE 1`."""
    return complete[5:-1].decode("utf-8", "replace")
