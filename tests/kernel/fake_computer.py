"""A computer small enough to check by eye, for the tests of the process-wide patches."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from foretold.errors import EscapedWorld
from foretold.kernel import fence
from foretold.kernel.computer import Answers
from foretold.kernel.numbers import numbers
from foretold.kernel.patches import patches
from foretold.kernel.syscalls import reality
from foretold.tape import Tape

WALL_NS = 1_767_225_600_123_456_789  # 2026-01-01T00:00:00Z and a fraction with nine digits
MONOTONIC_NS = 1_000_000_000_001
CPU_NS = 42_000_000_007
PID = 4_242
NODE = 0x02_00_00_00_00_2A


class FakeComputer:
    """Its clocks move by one nanosecond with each read; its entropy counts up from a first byte."""

    def __init__(self, first_byte: int = 0) -> None:
        self.wall = WALL_NS
        self.monotonic = MONOTONIC_NS
        self.next_byte = first_byte
        self.slept: list[int] = []
        self.escapes: list[tuple[str, str, str]] = []
        self.calls = Answers(self.answer)

    def wall_ns(self) -> int:
        self.wall += 1
        return self.wall

    def monotonic_ns(self) -> int:
        self.monotonic += 1
        return self.monotonic

    def cpu_ns(self) -> int:
        return CPU_NS

    def sleep_ns(self, ns: int) -> None:
        self.slept.append(ns)

    def entropy(self, n: int) -> bytes:
        drawn = bytes((self.next_byte + i) % 256 for i in range(n))
        self.next_byte += n
        return drawn

    def pid(self) -> int:
        return PID

    def node(self) -> int:
        return NODE

    is_importing = False

    def spin(self) -> None:
        """It has no other thread."""

    def answer(self, call: str) -> Callable[..., Any] | None:
        return _real_pipe if call == "os.pipe" else None

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        self.escapes.append((call, why, instead))
        raise EscapedWorld(f"{call}: {why}. Instead: {instead}")


def _real_pipe() -> tuple[int, int]:
    """It has no table of descriptors: those that it gives are real."""
    with fence.passage():
        pair = os.pipe()
    reality.given.update(pair)
    return pair


_frozen: list[None] = []
"""One entry for each caller that wants it so. `gc.get_freeze_count()` counts objects one by one: a
tenth of a second for each test in the whole suite."""


@contextmanager
def others_out_of_sight() -> Iterator[None]:
    """A collection looks only at what is made inside, as in a session."""
    _frozen.append(None)
    gc.freeze()
    try:
        yield
    finally:
        _frozen.pop()
        if not _frozen:
            gc.unfreeze()


@contextmanager
def a_run(computer: FakeComputer | None = None) -> Iterator[FakeComputer]:
    """Live on a fake computer for a while."""
    computer = computer or FakeComputer()
    with others_out_of_sight():
        numbers.begin_run(Tape.calm())
        with patches.installed(), patches.active(computer):
            yield computer
