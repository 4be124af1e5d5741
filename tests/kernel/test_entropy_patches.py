"""Randomness and identity come from the computer of the run, and leave nothing behind."""

from __future__ import annotations

import os
import random
import secrets
import ssl
import sys
import tempfile
import uuid
from collections.abc import Callable
from random import random as imported_random
from typing import Any
from uuid import uuid1, uuid4

import pytest

from foretold.kernel import real
from foretold.kernel.patches import patches
from tests.kernel.fake_computer import NODE, PID, WALL_NS, FakeComputer, a_run

pytestmark = pytest.mark.usefixtures("_others_out_of_sight")


class Loaded(random.Random):
    """A generator of a subclass, seeded through the base class."""


NEW_IN_314 = [name for name in ("uuid6", "uuid7", "uuid8") if hasattr(uuid, name)]
UUID_STATE = [name for name in vars(uuid) if name.startswith("_last_")]

DRAWS: dict[str, Callable[[], Any]] = {
    "os.urandom": lambda: os.urandom(8),
    "os.getrandom": lambda: os.getrandom(8),
    "ssl.RAND_bytes": lambda: ssl.RAND_bytes(8),
    "random.random": random.random,
    "random.random, imported": imported_random,
    "random.gauss": lambda: random.gauss(0, 1),
    "random.shuffle": lambda: random.sample(range(100), 100),
    "random.Random()": lambda: random.Random().random(),
    "Random(None)": lambda: random.Random(None).random(),
    "a subclass": lambda: Loaded().random(),
    "random.seed()": lambda: (random.seed(), random.random())[1],
    "SystemRandom": lambda: random.SystemRandom().random(),
    "secrets": lambda: (secrets.token_hex(), secrets.choice(range(10**9)), secrets.randbits(64)),
    "uuid4": uuid4,
    "uuid1": uuid1,
    "uuid1, with a node": lambda: uuid1(node=7),
    **{name: vars(uuid)[name] for name in NEW_IN_314},
    "tempfile": lambda: next(tempfile._get_candidate_names()),  # type: ignore[attr-defined]  # private: no stub has it
}


@pytest.mark.parametrize("name", DRAWS)
def test_equal_computers_give_equal_draws(name: str) -> None:
    """Same computer, same values; another computer, others; and outside of runs, chance."""
    draw = DRAWS[name]

    def three(first_byte: int) -> list[Any]:
        with a_run(FakeComputer(first_byte)):
            return [draw() for _ in range(3)]

    one = three(0)
    draw()  # what happens between runs must not matter
    assert three(0) == one
    assert three(1) != one
    assert len(set(map(repr, one))) == 3
    assert [draw() for _ in range(3)] != one


def test_bytes_come_straight_from_the_computer() -> None:
    """No generator in between: the tape's bytes are the program's bytes. (16 seed `random`.)"""
    with a_run():
        assert os.urandom(3) == bytes([16, 17, 18])
        assert os.getrandom(2) == bytes([19, 20])
        assert os.getrandom(1, os.GRND_NONBLOCK) == bytes([21])
        assert ssl.RAND_bytes(2) == bytes([22, 23])
        assert os.urandom(0) == b""
        assert uuid4().bytes[:2] == bytes([24, 25])


@pytest.mark.parametrize(
    "call",
    [
        lambda: os.urandom(-1),
        lambda: os.urandom("8"),  # type: ignore[arg-type]  # the mistake
        lambda: os.getrandom(-1),
        lambda: ssl.RAND_bytes(-1),
        lambda: random.seed([]),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_wrong_arguments_get_the_originals_error(call: Callable[[], Any]) -> None:
    """The program's error handling sees what it would see in production."""
    with pytest.raises(Exception) as outside:  # noqa: PT011  # any: it is compared below
        call()
    with a_run(), pytest.raises(type(outside.value)) as inside:
        call()
    assert str(inside.value) == str(outside.value)


def test_a_given_seed_is_kept() -> None:
    """Only the missing seed comes from the computer; one that the program gives counts as ever."""
    expected = random.Random(7).random()
    with a_run() as computer:
        assert random.Random(7).random() == Loaded(7).random() == expected
        random.seed(7)
        assert random.random() == expected
        assert computer.next_byte == 16, "no entropy beyond that for the global generator"


def test_uuid1_has_the_computers_time_and_node() -> None:
    """Redis locks and others use it; its parts must be those of the simulated machine."""
    with a_run():
        first, second = uuid1(), uuid1()
        assert uuid.getnode() == NODE
    assert first.node == second.node == NODE
    since_1582 = (WALL_NS + 1) // 100 + 0x01B21DD213814000
    assert (first.time, second.time) == (since_1582, since_1582 + 1)


def test_the_process_id_is_the_computers() -> None:
    """Ids that programs build from it would differ between replays."""
    outside = os.getpid()
    with a_run():
        assert os.getpid() == PID
        assert real.getpid() == outside
    assert os.getpid() == outside != PID


def module_state() -> tuple[object, ...]:
    """All that a run resets."""
    return (
        random.getstate(),
        *(vars(uuid)[name] for name in ("_generate_time_safe", "_node", *UUID_STATE)),
        vars(tempfile)["_name_sequence"],
    )


def test_a_run_leaves_the_modules_as_they_were() -> None:
    """A test suite that seeded `random` goes on with its own sequence, exceptions or not."""
    uuid.getnode()
    random.gauss(0, 1)  # keeps a second value for the next call: part of the state
    next(tempfile._get_candidate_names())  # type: ignore[attr-defined]  # private: no stub has it
    before = module_state()
    with pytest.raises(ZeroDivisionError), a_run():
        for draw in DRAWS.values():
            draw()
        assert all(now != then for now, then in zip(module_state(), before, strict=True))
        raise ZeroDivisionError
    assert module_state() == before


def test_the_global_generator_starts_anew_in_each_run() -> None:
    """Also half of a pair of gaussians must not be carried from one run into the next."""
    with patches.installed():
        with patches.active(FakeComputer()):
            first = [random.gauss(0, 1) for _ in range(3)]
        with patches.active(FakeComputer()):
            assert [random.gauss(0, 1) for _ in range(3)] == first


def test_a_computer_that_fails_at_the_start_changes_nothing() -> None:
    """The first draw of entropy raises (a tape has ended): the process is as it was."""

    class Empty(FakeComputer):
        def entropy(self, n: int) -> bytes:
            raise EOFError

    before = module_state(), sys.stdin, sys.dont_write_bytecode
    with pytest.raises(EOFError), a_run(Empty()):
        pass
    assert (module_state(), sys.stdin, sys.dont_write_bytecode) == before
    assert os.urandom(16) != os.urandom(16)
