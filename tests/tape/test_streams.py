"""Single choices: each verb's range, its calm value, and where its randomness comes from."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.tape import Choice, Stream, Tape
from foretold.tape.streams import (
    BYTES_SEED_BOUND,
    RecordedStream,
    SeededStream,
    Weights,
)

SEEDED = settings(derandomize=True, database=None, deadline=None)

VERBS: dict[str, tuple[Callable[[Stream], object], object]] = {
    "choose": (lambda s: s.choose(9), 0),
    "chance": (lambda s: s.chance(0.999), False),
    "between": (lambda s: s.between(-4, 4), -4),
    "boolean": (lambda s: s.boolean(), False),
    "pick": (lambda s: s.pick("abc"), "a"),
    "shuffle": (lambda s: s.shuffle((3, 1, 2)), [3, 1, 2]),
}


def recording(seed: int = 1, name: str = "a") -> SeededStream:
    """A seeded stream that keeps what it gives."""
    return SeededStream(name, seed, recording=True)


def test_one_more_draw_shifts_no_other_stream() -> None:
    """Why streams exist: new code that draws in one place must not change the run elsewhere."""
    plain, busy = Tape.seeded(5), Tape.seeded(5)
    expected = [plain.stream("net").choose(1000) for _ in range(50)]
    found = []
    for number in range(50):
        busy.stream("fault").chance(0.5)
        busy.stream("net", number).bytes(number)
        found.append(busy.stream("net").choose(1000))
    assert found == expected


def test_seeds_names_and_keys_give_their_own_sequences() -> None:
    """Same (seed, name): same values. Any other: others, or the search would repeat itself."""

    def values(stream: Stream) -> tuple[int, ...]:
        return tuple(stream.choose(1 << 40) for _ in range(3))

    keys: list[tuple[str | int, ...]] = [(), ("api",), ("api", 1), ("api", 2), ("API",)]
    found = [
        values(Tape.seeded(seed).stream("net", *key)) for seed in (0, 1, -1, 2**80) for key in keys
    ]
    assert len(set(found)) == len(found)
    assert values(Tape.seeded(0).stream("net", "api", 1)) == found[2]


def test_a_seed_means_the_same_everywhere() -> None:
    """`--seed 7` is written into reports: no Python and no release may give it another run."""
    stream = Tape.seeded(7).stream("workload")
    assert [stream.choose(1000) for _ in range(6)] == [272, 112, 94, 926, 991, 212]
    assert [stream.chance(0.5) for _ in range(6)] == [True, False, True, True, True, False]
    assert stream.choose(2**70) == 313925673201952487253
    assert stream.bytes(8).hex() == "4cea2280ada80cae"


@pytest.mark.parametrize("verb", VERBS)
def test_zero_is_calm(verb: str) -> None:
    """The all-zero tape is the quiet run, so each verb maps 0 to its quietest value."""
    draw, calm = VERBS[verb]
    assert draw(Tape.calm().stream("any")) == calm
    assert draw(RecordedStream("any", [Choice(0, 9, "")] * 9)) == calm


def test_calm_bytes_still_differ() -> None:
    """A uuid of zeros is not calm, it collides with the next one: calm bytes must be distinct."""
    tape = Tape.calm()
    drawn = [tape.stream(name).bytes(16) for name in ("a", "b") for _ in range(100)]
    assert len(set(drawn)) == 200
    assert drawn[:100] == [
        Tape.calm().stream("a").bytes(1600)[i : i + 16] for i in range(0, 1600, 16)
    ]


@SEEDED
@given(seed=st.integers(), bound=st.integers(1, 2**60) | st.integers(1, 2**2000))
def test_choices_stay_below_their_bound(seed: int, bound: int) -> None:
    """Bounds beyond 2**53 take another way than floats; it must not overflow, nor repeat itself."""
    stream = SeededStream("a", seed)
    values = [stream.choose(bound) for _ in range(20)]
    assert all(0 <= value < bound for value in values)
    assert bound < 2**30 or len(set(values)) == 20


@pytest.mark.parametrize("bound", [2, 3, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**64])
def test_choices_are_even(bound: int) -> None:
    """Each seventh of the range is met about equally often, on both sides of the exact floats."""
    stream = SeededStream("even", 3)
    draws = 7_000
    found = Counter(stream.choose(bound) * 7 // bound for _ in range(draws))
    cells = {value * 7 // bound for value in range(bound)} if bound < 7 else set(range(7))
    expected = draws / len(cells)
    assert set(found) == cells
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in found.values())


def test_the_largest_float_stays_below_the_bound() -> None:
    """`random()` just below 1 times a bound must not round up to the bound itself."""
    stream = SeededStream("a", 1)
    stream.generator.random = lambda: 1 - 2**-53  # type: ignore[method-assign]  # the extreme draw
    for bound in [2, 3, 10, 2**31 - 1, 2**52 + 1, 2**53 - 1]:
        assert stream.choose(bound) == bound - 1


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.9, 0.999])
def test_chance_happens_as_often_as_it_says(p: float) -> None:
    """Fault rates are promises. 20,000 seeded draws stay within five standard deviations."""
    stream = SeededStream("chance", 11)
    draws = 20_000
    happened = sum(stream.chance(p) for _ in range(draws))
    assert abs(happened - draws * p) < 5 * math.sqrt(draws * p * (1 - p))


def test_what_leaves_no_choice_is_not_drawn() -> None:
    """No entries for choices without an alternative: they would only make tapes longer."""
    stream = recording()
    assert (stream.choose(1), stream.between(5, 5), stream.pick(["x"])) == (0, 5, "x")
    assert (stream.chance(0), stream.chance(1), stream.shuffle([8])) == (False, True, [8])
    assert (stream.draws, stream.record) == (0, [])


def test_each_draw_is_recorded_with_its_label() -> None:
    """Labels are what a person reads in the file and what replay compares."""
    stream = recording()
    stream.choose(6, "dice")
    stream.chance(0.5, "coin")
    stream.between(10, 12)
    stream.shuffle("abc", "order")
    stream.bytes(4)
    stream.bytes(9, "no second seed")
    assert [entry[1:] for entry in stream.record or []] == [
        (6, "dice"),
        (2, "coin"),
        (3, ""),
        (3, "order"),
        (2, "order"),
        (BYTES_SEED_BOUND, "bytes"),
    ]
    assert stream.draws == 6


def test_bytes_hang_on_one_choice() -> None:
    """Lengths are kept, values do not repeat, and one recorded seed brings all of them back."""
    stream = recording()
    drawn = [stream.bytes(length) for length in (0, 1, 16, 1000)]
    assert list(map(len, drawn)) == [0, 1, 16, 1000]
    replay = RecordedStream(stream.name, stream.record or [])
    assert [replay.bytes(length) for length in (0, 1, 16, 1000)] == drawn
    assert recording(seed=2).bytes(16) != recording(seed=1).bytes(16) != recording(1, "b").bytes(16)


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda s: s.choose(0), "at least 1"),
        (lambda s: s.choose(-3), "at least 1"),
        (lambda s: s.choose(2.5), "whole number"),
        (lambda s: s.choose("3"), "whole number"),
        (lambda s: s.chance(-0.1), "a probability lies between 0 and 1"),
        (lambda s: s.chance(1.1), "a probability lies between 0 and 1"),
        (lambda s: s.chance(math.nan), "a probability lies between 0 and 1"),
        (lambda s: s.between(3, 2), "empty"),
        (lambda s: s.between(0.5, 2), "whole number"),
        (lambda s: s.pick([]), "nothing to choose"),
        (lambda s: s.bytes(-1), "0 or more"),
    ],
)
def test_calls_that_cannot_work_say_so(draw: Callable[[Stream], object], reason: str) -> None:
    """A wrong bound must not become a strange value that is found three layers above."""
    stream = recording()
    with pytest.raises(UsageError, match=reason):
        draw(stream)
    assert stream.record == []


def test_shuffle_reorders_what_can_be_reordered() -> None:
    """Like `random.shuffle` for lists and deques; other sequences stay, the result is a list."""
    items, queue, fixed = [1, 2, 3, 4], deque([1, 2, 3, 4]), (1, 2, 3, 4)
    assert recording().shuffle(items) == items != [1, 2, 3, 4]
    assert recording().shuffle(queue) == list(queue) == items
    assert recording().shuffle(fixed) == items
    assert fixed == (1, 2, 3, 4)


def test_a_fitting_replay_has_no_misfit() -> None:
    """The sign that code has changed must not show when it has not."""
    stream = RecordedStream("a", [Choice(3, 6, "dice"), Choice(1, 2, "")])
    assert (stream.choose(6, "dice"), stream.boolean(), stream.misfit) == (3, True, None)


@pytest.mark.parametrize(
    ("bound", "label", "value", "misfit"),
    [
        (6, "coin", 3, "stream a: draw 1 was dice of 6, now it is coin of 6"),
        (6, None, 3, "stream a: draw 1 was dice of 6, now it is no label of 6"),
        (4, "dice", 3, "stream a: draw 1 was dice of 6, now it is dice of 4"),
        (3, "dice", 0, "stream a: draw 1 was dice of 6, now it is dice of 3"),
    ],
)
def test_a_misfit_is_told(bound: int, label: str | None, value: int, misfit: str) -> None:
    """Changed code under an old tape: what still fits is kept, the rest is calm, and it is said."""
    stream = RecordedStream("a", [Choice(3, 6, "dice")])
    assert stream.choose(bound, label) == value
    assert stream.misfit == misfit


def test_past_the_end_all_is_calm() -> None:
    """A shortened tape is a valid tape. Only the first misfit is told: the rest follows from it."""
    stream = RecordedStream("a", [Choice(3, 6, "dice")])
    assert [stream.choose(6, "dice") for _ in range(3)] == [3, 0, 0]
    assert stream.misfit == "stream a: draw 2 (dice) is past its end"


def test_weights_that_are_kept_mean_the_same() -> None:
    """They are added up once, and not for each choice."""
    plain, kept, weights = SeededStream("a", 1), SeededStream("a", 1), (0.5, 0.0, 3.0, 1.0)
    shared = Weights(weights)
    found = [kept.weighted(shared) for _ in range(200)]
    assert found == [plain.weighted(weights) for _ in range(200)]
    assert set(found) == {0, 2, 3}


def test_any_name_can_be_a_stream() -> None:
    """Sub-keys hold what users call their hosts; no text may break the generator."""
    odd = ["", " ", "größe", "a\nb", "\ud800", "🦊", "a/b"]
    values = [Tape.seeded(1).stream("net", name).choose(1 << 40) for name in odd]
    assert len(set(values)) == len(odd)
