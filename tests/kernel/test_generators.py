"""Generators that were there before a run: repeatable in it, and untouched by it."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel import generators, owners
from foretold.kernel.mersenne import is_given_seed
from foretold.kernel.session import session
from foretold.tape.streams import TapeRandom

SEEDS = [0, 1, 42, -7, 2**31, 2**32, 2**64 - 1, 3.5, "a name", "x" * 1000, b"bytes", 2**1000 + 1]
DRAWN_WORDS = [0, 1, 3, 312, 623, 624, 625, 2_000, 9_000]

unseeded = random.Random()
seeded = random.Random(5)


class Holder:
    """Has a generator, as the retry policies of libraries do."""

    shared = random.Random()

    def __init__(self) -> None:
        self.generator = random.Random()


first_holder, second_holder = Holder(), Holder()
several = [random.Random() for _ in range(3)]


def with_default(generator: random.Random = random.Random()) -> random.Random:  # noqa: B008  # as aiohttp does it
    """A generator that only a function's default refers to."""
    return generator


class Loud(random.Random):
    """Complains when it is seeded or read by other means than drawing."""

    quiet = False

    def seed(self, *args: Any, **names: Any) -> None:
        assert not self.quiet
        super().seed(*args, **names)

    def getstate(self) -> Any:
        assert not self.quiet
        return super().getstate()


def draws_in(generator: random.Random, seed: int = 0) -> list[float]:
    """What a run with this seed draws from it."""

    def main() -> list[float]:
        return [generator.random() for _ in range(3)]

    drawn: list[float] = foretold.run(main, seed=seed).value
    return drawn


# --- telling them apart ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed)[:12])
@pytest.mark.parametrize("drawn", DRAWN_WORDS)
def test_a_given_seed_is_recognised(seed: Any, drawn: int) -> None:
    """Short and long seeds, of each type, at once and after many draws."""
    generator = random.Random(seed)
    if drawn:
        generator.getrandbits(32 * drawn)
    assert is_given_seed(generators.memory_of(generator).raw)


@pytest.mark.parametrize("drawn", [0, 1, 700])
def test_no_seed_is_recognised(drawn: int) -> None:
    """The machine's 624 words repeat nothing. (A made-up key: no randomness in a test.)"""
    for number in range(5):
        generator = random.Random(random.Random(number).getrandbits(32 * 624) | 1 << 32 * 624 - 1)
        if drawn:
            generator.getrandbits(32 * drawn)
        assert not is_given_seed(generators.memory_of(generator).raw)


def test_a_seed_behind_too_many_draws_counts_as_none() -> None:
    """The limit of the look back. The tape seeds such a generator: repeatable all the same."""
    generator = random.Random(1)
    generator.getrandbits(32 * 624 * 17)
    assert not is_given_seed(generators.memory_of(generator).raw)


# --- in a run --------------------------------------------------------------------------------

EACH = {
    "of a module": lambda: unseeded,
    "of a class": lambda: Holder.shared,
    "of an instance": lambda: first_holder.generator,
    "in a list": lambda: several[1],
    "of a function": with_default,
}


@pytest.mark.parametrize("where", EACH)
def test_unseeded_generators_follow_the_tape(where: str) -> None:
    """Equal seeds, equal draws, whatever was drawn outside meanwhile; other seeds, others."""
    generator = EACH[where]()
    first = draws_in(generator)
    generator.random()
    assert draws_in(generator) == first
    assert draws_in(generator, seed=1) != first


def test_no_two_unseeded_generators_are_alike() -> None:
    """Two nodes with equal jitter would move in step, as they never do in production."""
    assert len({draws_in(make())[0] for make in EACH.values()}) == len(EACH)
    assert draws_in(first_holder.generator) != draws_in(second_holder.generator)
    assert len({draws_in(each)[0] for each in several}) == 3


def test_seeded_generators_go_on_from_where_they_stand() -> None:
    """The program's own sequence, in each run from the same place, and after it too."""
    expected = random.Random(5)
    assert seeded.random() == expected.random()
    state = expected.getstate()
    following = [expected.random() for _ in range(3)]
    assert draws_in(seeded) == draws_in(seeded, seed=1) == following
    expected.setstate(state)
    assert seeded.random() == expected.random()
    seeded.seed(5)


def test_a_seed_given_later_counts() -> None:
    """A test that seeds the generator of a module before its run gets what it asked for."""
    generator = with_default()
    draws_in(generator)
    generator.seed(7)
    expected = random.Random(7)
    assert draws_in(generator) == [expected.random() for _ in range(3)]
    generator.seed()
    assert draws_in(generator) != draws_in(generator, seed=1)


@pytest.mark.parametrize("generator", [unseeded, seeded], ids=["unseeded", "seeded"])
def test_a_run_leaves_no_trace(generator: random.Random) -> None:
    """State and the kept half of a pair of gaussians are as before, also if the run fails."""
    generator.gauss(0, 1)
    before = generator.getstate()

    def main() -> None:
        generator.gauss(0, 1)
        generator.seed()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        foretold.run(main)
    assert generator.getstate() == before


def test_a_loop_that_draws_its_seeds_is_not_turned_back() -> None:
    """A generator that decides outside which runs there are must not meet the same ones again."""
    chooser = random.Random(3)
    seeds = []
    for _ in range(4):
        seeds.append(chooser.getrandbits(32))
        foretold.run(lambda: chooser.random(), seed=seeds[-1])
    again = random.Random(3)
    assert seeds == [again.getrandbits(32) for _ in range(4)]


def test_in_one_session_nothing_has_to_be_looked_for_again() -> None:
    """A search looks once; each of its runs begins alike, and ends as it began."""
    before = unseeded.getstate()
    with session():
        assert draws_in(unseeded, 4) == draws_in(unseeded, 4) != draws_in(unseeded, 5)
    assert unseeded.getstate() == before


def test_randomness_of_modules_is_a_choice() -> None:
    """A search over a program whose only choice is such a generator is not a vacuous one."""
    assert foretold.run(lambda: unseeded.random()).choices == 1
    assert foretold.run(lambda: seeded.random()).choices == 0


# --- those made in a run ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", [9, None])
def test_a_generator_that_a_run_leaves_behind_begins_anew(seed: int | None) -> None:
    """A module that is first imported in a run makes its generator there; later runs find it."""
    kept: dict[str, random.Random] = {}

    def main() -> list[float]:
        if "it" not in kept:
            kept["it"] = random.Random(seed)
        return [kept["it"].random() for _ in range(3)]

    first = foretold.run(main).value
    following = [foretold.run(main).value for _ in range(2)]
    assert following[0] == following[1]
    if seed is not None:
        assert following[0] == first
    else:
        assert foretold.run(main, seed=1).value != following[0]


def test_what_a_run_makes_can_be_used_after_it() -> None:
    """It is not turned back at the end of the run, but in the next one alone."""
    kept: list[random.Random] = []

    def main() -> float:
        kept.append(random.Random(9))
        return kept[-1].random()

    foretold.run(main)
    expected = random.Random(9)
    expected.random()
    assert kept[0].random() == expected.random()


# --- whom it concerns ------------------------------------------------------------------------


def test_they_are_held_weakly() -> None:
    """A generator that nobody else refers to goes, whether a scan or a run has seen it."""
    mine = random.Random()
    foretold.run(lambda: random.Random(1).random())
    assert any(known.reference() is mine for known in generators._known.values())
    del mine
    gc.collect()
    foretold.run(lambda: None)
    assert all(known.reference() is not None for known in generators._known.values())
    assert generators._born == {}


def test_our_own_and_the_systems_are_left_alone() -> None:
    """Streams of the tape must not be reseeded; a SystemRandom has no state."""
    others: list[Any] = [TapeRandom(1), random.SystemRandom(), random._inst]
    foretold.run(lambda: None)
    known = [each.reference() for each in generators._known.values()]
    assert not any(one is other for one in known for other in others)
    assert {TapeRandom, random.SystemRandom}.isdisjoint(generators.kinds())


def test_no_method_of_a_subclass_is_called() -> None:
    """A program's own class may do anything when it is seeded or asked for its state."""
    generator = Loud(1)
    generator.quiet = True
    assert draws_in(generator) == draws_in(generator) == [random.Random(1).random(), *_rest(1)]


def _rest(seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.random() for _ in range(3)][1:]


# --- names -----------------------------------------------------------------------------------


def test_names_say_whom_a_generator_belongs_to() -> None:
    """By module, class, function, instance, place in a list: what is equal in each process."""
    things = [*(make() for make in EACH.values()), second_holder.generator, random.Random()]
    names = owners.names_of(things)
    assert names == [
        f"{__name__}[unseeded]",
        f"{__name__}.Holder[shared]",
        f"{__name__}[first_holder]({__name__}.Holder)[generator]",
        f"{__name__}[several][1]",
        f"{__name__}.with_default[0]",
        f"{__name__}[second_holder]({__name__}.Holder)[generator]",
        "",
    ]


def test_fresh_processes_agree() -> None:
    """The point of it all: seeds of the machine differ from process to process, runs do not."""
    program = (
        "import foretold\n"
        "from tests.kernel import test_generators as t\n"
        "print([t.draws_in(make()) for make in t.EACH.values()], t.unseeded.getstate()[1][:9])"
    )
    root = Path(__file__).parents[2]
    seen = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={"PYTHONPATH": ":".join([str(root), *sys.path]), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    drawn, states = zip(*(text.split("] (") for text in seen), strict=True)
    assert drawn[0] == drawn[1]
    assert states[0] != states[1], "planted: the machine's own seeds do differ"


def test_the_owner_of_a_generator_of_hypothesis_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is left alone; and to look for owners is to look at the whole heap."""
    engine, asked = random.Random(), 0

    def names_of(unknown: list[random.Random]) -> list[str]:
        nonlocal asked
        asked += sum(each is engine for each in unknown)
        named = zip(unknown, owners.names_of(unknown), strict=True)
        return ["hypothesis.core.engine" if each is engine else name for each, name in named]

    monkeypatch.setattr(generators, "names_of", names_of)
    state = engine.getstate()
    for _ in range(2):
        draws_in(seeded)
        gc.collect()  # so that the next session looks at everything again
    assert asked == 1
    assert engine.getstate() == state
    assert draws_in(engine, seed=1) != draws_in(engine, seed=1), "it is not the tape's"
