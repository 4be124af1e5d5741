"""A process that is kept as this one is now, for runs that must begin where another one began.

What an application stores in its modules is still there after a run. Whoever compares a run with
others of the same beginning forks before it: the spare waits, and makes each of them in a fork of
its own.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

from foretold.platforms import fork

_size: Final = struct.Struct("!Q")


class Spare:
    """Answers each question by `work(question)`, in a process that has seen none before."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        asked, self._ask = os.pipe()
        self._told, tells = os.pipe()
        self._pid = fork()
        if self._pid == 0:
            try:
                os.close(self._ask)
                os.close(self._told)
                _serve(work, asked, tells)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(tells)

    def ask(self, question: Any) -> Any:
        """What `work` gives; None if it raises something, or its process dies."""
        _send(self._ask, pickle.dumps(question))
        answer = _receive(self._told)
        return pickle.loads(answer) if answer else None

    def close(self) -> None:
        """Nothing more is asked. It ends, and nothing is left of it."""
        os.close(self._ask)
        os.close(self._told)
        os.waitpid(self._pid, 0)


def _serve(work: Callable[[Any], Any], asked: int, tells: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while question := _receive(asked):
        reading, writing = os.pipe()
        pid = fork()
        if pid == 0:
            try:
                _send(writing, pickle.dumps(work(pickle.loads(question))))
            finally:
                os._exit(0)
        os.close(writing)
        answer = _receive(reading)
        os.close(reading)
        os.waitpid(pid, 0)
        _send(tells, answer)


def _send(descriptor: int, data: bytes) -> None:
    rest = memoryview(_size.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _receive(descriptor: int) -> bytes:
    """What was sent; nothing if the other side is gone."""
    head = _read(descriptor, _size.size)
    return _read(descriptor, _size.unpack(head)[0]) if head else b""


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            return b""
        data += part
    return data
