"""Passwords, as PostgreSQL asks for them: SCRAM-SHA-256 (RFC 5802, RFC 7677).

The real server is not asked: its salt and its nonces would differ from run to run, and each session
would need a process of its own. What the client sees and has to know is the same.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import struct
from typing import TYPE_CHECKING, Final

from foretold.errors import ForetoldError
from foretold.services.postgres.protocol import AUTHENTICATION, message

if TYPE_CHECKING:
    from foretold.tape import Stream

MECHANISM: Final = b"SCRAM-SHA-256"
ITERATIONS: Final = 4096
SALT: Final = hashlib.sha256(b"foretold").digest()[:16]
NONCE_BYTES: Final = 18
_SASL, _SASL_CONTINUE, _SASL_FINAL = 10, 11, 12


class LoginRefused(ForetoldError):
    """The client is not who it says it is, or does not know how to say it."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


class Login:
    """One client that is asked for its password."""

    def __init__(self, user: str, password: str, choices: Stream) -> None:
        self._user = user
        self._salted = _salted(password)
        self._nonce = base64.b64encode(choices.bytes(NONCE_BYTES, "the server's nonce"))
        self._said = b""
        """Both first messages, which the proofs are about."""
        self._header = b""
        self.is_done = False

    def begin(self) -> bytes:
        return _authentication(_SASL, MECHANISM + b"\0\0")

    def receive(self, said: bytes) -> bytes:
        """The answer to a message of the client. `LoginRefused` if it does not know."""
        if said[:1] != b"p":
            raise LoginRefused("08P01", f"expected SASL response, got message type {said[0]}")
        try:
            return self._finish(said[5:]) if self._said else self._first(said[5:])
        except (ValueError, IndexError, KeyError, struct.error):
            raise LoginRefused("08P01", "malformed SCRAM message") from None

    def _first(self, body: bytes) -> bytes:
        mechanism, _, rest = body.partition(b"\0")
        if mechanism != MECHANISM:
            raise LoginRefused("08P01", "client selected an invalid SASL authentication mechanism")
        (size,) = struct.unpack_from("!i", rest)
        binding, identity, bare = rest[4 : 4 + size].split(b",", 2)
        if binding not in (b"n", b"y"):
            raise LoginRefused("08P01", "malformed SCRAM message")
        self._header = binding + b"," + identity + b","
        self._nonce = _attributes(bare)["r"] + self._nonce
        salt = base64.b64encode(SALT)
        answer = b"r=%b,s=%b,i=%d" % (self._nonce, salt, ITERATIONS)
        self._said = bare + b"," + answer
        return _authentication(_SASL_CONTINUE, answer)

    def _finish(self, body: bytes) -> bytes:
        without_proof, _, proof = body.rpartition(b",p=")
        found = _attributes(without_proof)
        if found["r"] != self._nonce or base64.b64decode(found["c"]) != self._header:
            raise LoginRefused("08P01", "malformed SCRAM message")
        said = self._said + b"," + without_proof
        client_key = _hmac(self._salted, b"Client Key")
        stored_key = hashlib.sha256(client_key).digest()
        expected = _xor(client_key, _hmac(stored_key, said))
        if not hmac.compare_digest(base64.b64decode(proof), expected):
            raise LoginRefused("28P01", f'password authentication failed for user "{self._user}"')
        self.is_done = True
        signature = _hmac(_hmac(self._salted, b"Server Key"), said)
        return _authentication(_SASL_FINAL, b"v=" + base64.b64encode(signature))


def _authentication(kind: int, body: bytes) -> bytes:
    return message(AUTHENTICATION, struct.pack("!i", kind), body)


@functools.lru_cache(maxsize=32)
def _salted(password: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _attributes(said: bytes) -> dict[str, bytes]:
    """`r=…,s=…` by letter."""
    return {chr(part[0]): part[2:] for part in said.split(b",")}
