"""Certificates for scripted hosts: an authority of the simulation, and what it signs.

A program checks who it talks to, so a scripted host needs a certificate for its name, signed by an
authority that the program trusts. The keys follow from fixed texts and the signatures from what is
signed: every process makes the same bytes, which a replay needs. They are no secrets. No program
trusts them outside of a run (`trust.py`).

It is ECDSA with P-256 and SHA-256 (FIPS 186-4, SEC 1), and X.509 (RFC 5280) written as DER.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Final, NamedTuple

P: Final = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int]

SEQUENCE, SET, INTEGER, BITS, OCTETS, OID, UTF8 = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06, 0x0C
UTC_TIME, TIME, TRUE = 0x17, 0x18, b"\x01\x01\xff"
_CURVE: Final = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"
_KEY: Final = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01"
_SIGNED: Final = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"
_NAME: Final = b"\x06\x03\x55\x04\x03"
_SERVER: Final = b"\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x01"
SUBJECT_KEY, USAGE, ALTERNATIVE, BASIC, AUTHORITY_KEY, PURPOSE = 14, 15, 17, 19, 35, 37
"""The last number of an extension's object identifier, 2.5.29.x."""
AUTHORITY: Final = "foretold simulation"


# --- the curve -----------------------------------------------------------------------------------


def _add(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def _times(number: int, point: Point) -> Point:
    found: Point | None = None
    addend: Point | None = point
    while number:
        if number & 1:
            found = _add(found, addend)
        addend = _add(addend, addend)
        number >>= 1
    assert found is not None, "a number below the order of the curve"
    return found


def _number(*parts: bytes) -> int:
    """A number below the order of the curve that follows from these bytes."""
    return int.from_bytes(hashlib.sha512(b"\0".join(parts)).digest(), "big") % (N - 1) + 1


class SigningKey(NamedTuple):
    number: int
    public: bytes

    @classmethod
    def named(cls, name: str) -> SigningKey:
        """The key that follows from a text."""
        number = _number(b"foretold key", name.encode())
        x, y = _times(number, G)
        return cls(number, b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big"))

    def sign(self, message: bytes) -> bytes:
        """An ECDSA signature, whose nonce follows from key and message."""
        digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
        nonce = _number(b"foretold nonce", self.number.to_bytes(32, "big"), message)
        r = _times(nonce, G)[0] % N
        s = pow(nonce, -1, N) * (digest + r * self.number) % N
        return der(SEQUENCE, integer(r), integer(s))

    def pem(self) -> str:
        """As OpenSSL reads it (RFC 5915)."""
        number = der(OCTETS, self.number.to_bytes(32, "big"))
        public = der(0xA1, der(BITS, b"\0" + self.public))
        whole = der(SEQUENCE, integer(1), number, der(0xA0, _CURVE), public)
        return _pem("EC PRIVATE KEY", whole)

    @property
    def identifier(self) -> bytes:
        return hashlib.sha1(self.public, usedforsecurity=False).digest()


# --- DER -----------------------------------------------------------------------------------------


def der(tag: int, *parts: bytes) -> bytes:
    """A value: its tag, its length, its content."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def integer(number: int) -> bytes:
    """A whole number that is not negative."""
    return der(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _pem(what: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    return f"-----BEGIN {what}-----\n{lines}\n-----END {what}-----\n"


# --- certificates --------------------------------------------------------------------------------


def _extension(number: int, value: bytes, *, critical: bool = False) -> bytes:
    oid = der(OID, bytes((0x55, 0x1D, number)))
    return der(SEQUENCE, oid, TRUE if critical else b"", der(OCTETS, value))


def _name(text: str) -> bytes:
    return der(SEQUENCE, der(SET, der(SEQUENCE, _NAME, der(UTF8, text.encode()))))


def _certificate(subject: str, key: SigningKey, extensions: bytes) -> str:
    """Signed by the authority, and good for all times at which a program may run."""
    valid = der(SEQUENCE, der(UTC_TIME, b"700101000000Z"), der(TIME, b"99991231235959Z"))
    public = der(SEQUENCE, der(SEQUENCE, _KEY, _CURVE), der(BITS, b"\0" + key.public))
    serial = integer(_number(b"foretold serial", subject.encode()) >> 128)
    told = der(
        SEQUENCE,
        der(0xA0, integer(2)),
        serial,
        _SIGNED,
        _name(AUTHORITY),
        valid,
        _name(subject),
        public,
        der(0xA3, der(SEQUENCE, extensions)),
    )
    signature = der(BITS, b"\0" + _authority_key().sign(told))
    return _pem("CERTIFICATE", der(SEQUENCE, told, _SIGNED, signature))


@cache
def _authority_key() -> SigningKey:
    return SigningKey.named(AUTHORITY)


@cache
def authority() -> str:
    """The certificate of the authority, as PEM."""
    key = _authority_key()
    extensions = (
        _extension(BASIC, der(SEQUENCE, TRUE), critical=True)
        + _extension(USAGE, der(BITS, b"\x01\x06"), critical=True)
        + _extension(SUBJECT_KEY, der(OCTETS, key.identifier))
    )
    return _certificate(AUTHORITY, key, extensions)


@cache
def certificate_of(host: str) -> str:
    """Certificate and key of a host, as PEM."""
    key = SigningKey.named(host.lower())
    name = host.lower().encode("idna") if not host.isascii() else host.lower().encode()
    extensions = (
        _extension(BASIC, der(SEQUENCE), critical=True)
        + _extension(USAGE, der(BITS, b"\x07\x80"), critical=True)
        + _extension(PURPOSE, der(SEQUENCE, _SERVER))
        + _extension(SUBJECT_KEY, der(OCTETS, key.identifier))
        + _extension(AUTHORITY_KEY, der(SEQUENCE, der(0x80, _authority_key().identifier)))
        + _extension(ALTERNATIVE, der(SEQUENCE, der(0x82, name)))
    )
    return _certificate(f"foretold external {len(host)}", key, extensions) + key.pem()
