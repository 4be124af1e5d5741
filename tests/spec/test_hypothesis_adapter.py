"""Hypothesis strategies draw from a tape: replayed, calm at zero, and nothing else decides."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.spec import hypothesis_adapter as adapter
from foretold.spec import hypothesis_disk
from foretold.spec.hypothesis_adapter import CalmSource, StepDiscarded, draw
from foretold.tape.streams import EnumeratedStream, Odometer, RecordedStream, SeededStream
from tests.spec.strategy_cases import CASES, Numbers, Seeded, attempt, ranges

ROOT = Path(__file__).parents[2]
SOURCES = 300

each_case = pytest.mark.parametrize("name", CASES)


# ---------------------------------------------------------------- the contract of every strategy


@each_case
def test_the_same_choices_give_the_same_value(name: str) -> None:
    """Replay: what was recorded, read again, is the value again and asks for the same choices."""
    for seed in range(20):
        source = Seeded(seed)
        value = attempt(CASES[name].strategy, source)
        again = Numbers(source.chosen)
        assert repr(attempt(CASES[name].strategy, again)) == repr(value)
        assert again.chosen == source.chosen


@each_case
def test_zeros_give_the_simplest_value(name: str) -> None:
    """The calm tape is the quiet run: no strategy gives up on it, none starts large."""
    value = draw(CASES[name].strategy, CalmSource())
    assert value == CASES[name].simplest
    assert type(value) is type(CASES[name].simplest)


@each_case
def test_seeded_sources_keep_the_contract(name: str) -> None:
    """Bounds, sizes, uniqueness and patterns hold for many tapes, few of which are discarded."""
    strategy, _, valid = CASES[name]
    values = [attempt(strategy, Seeded(seed)) for seed in range(SOURCES)]
    drawn = [value for value in values if value is not StepDiscarded]
    assert [value for value in drawn if not valid(value)] == []
    assert len(drawn) > 0.8 * SOURCES


def test_any_numbers_at_all_give_a_valid_value() -> None:
    """A shrinker hands over recordings that were made for other draws: they must still fit."""
    for name, case in CASES.items():
        for seed in range(40):
            generator = random.Random(f"{name}/{seed}")
            garbage = [generator.choice([0, 1, 2, 300, 2**70]) for _ in range(60)]
            value = attempt(case.strategy, Numbers(garbage))
            assert value is StepDiscarded or case.valid(value), (name, value)


def test_the_tapes_own_streams_do() -> None:
    """The adapter and the real tape agree: what a seeded stream recorded gives the same value."""
    strategy = st.lists(st.tuples(st.integers(), st.text(), st.floats()), min_size=3)
    seeded = SeededStream("workload", 5, recording=True)
    value = draw(strategy, seeded, "orders")
    assert seeded.record
    assert {choice.label for choice in seeded.record} == {"orders"}
    replayed = RecordedStream("workload", seeded.record)
    assert repr(draw(strategy, replayed, "orders")) == repr(value)
    assert replayed.misfit is None


def test_small_strategies_can_be_enumerated() -> None:
    """A small range is one plain choice, so all values are met, each once."""
    odometer = Odometer()
    strategy = st.tuples(st.integers(-1, 2), st.sampled_from("ab"), st.booleans())
    met = []
    while True:
        met.append(draw(strategy, EnumeratedStream("workload", odometer)))
        if not odometer.turn():
            break
    assert len(met) == len(set(met)) == 4 * 2 * 2


# ---------------------------------------------------------------- values that go on drawing


def test_data_draws_after_an_await() -> None:
    """A rule that is given `st.data()` awaits in between: no context may stay open meanwhile."""

    async def rule(source: Numbers) -> list[object]:
        data = draw(st.data(), source, "first")
        drawn: list[object] = [data.draw(st.integers())]
        await asyncio.sleep(0)
        assert not hypothesis.currently_in_test_context()
        drawn.append(data.draw(st.tuples(st.text(), st.integers()), label="pair"))
        await asyncio.sleep(0)
        drawn.append(data.draw(ranges()))
        return drawn

    source = Seeded(3)
    drawn = asyncio.run(rule(source))
    assert asyncio.run(rule(Numbers(source.chosen))) == drawn
    assert set(source.labels) == {"first", "pair"}


def test_data_draws_inside_a_draw() -> None:
    """In a composite, `draw(st.data())` and `draw` take turns on one tape."""

    @st.composite
    def twice(draw: st.DrawFn) -> tuple[int, int]:
        return draw(st.data()).draw(st.integers(1, 9)), draw(st.integers(1, 9))

    assert draw(twice(), Numbers([4, 7])) == (5, 8)


def test_two_rules_draw_in_turns() -> None:
    """Interleaved actors, each with its own data, do not disturb each other."""

    async def rule(source: Numbers) -> list[int]:
        data = draw(st.data(), source)
        drawn = []
        for _ in range(5):
            drawn.append(data.draw(st.integers()))
            await asyncio.sleep(0)
        return drawn

    async def together() -> list[list[int]]:
        return list(await asyncio.gather(rule(Seeded(1)), rule(Seeded(2))))

    assert asyncio.run(together()) == [asyncio.run(rule(Seeded(seed))) for seed in (1, 2)]


def test_functions_and_randoms_work_later() -> None:
    """A drawn function or Random chooses when it is used, from the tape, as often as it likes."""

    def use(source: Numbers) -> list[object]:
        function = draw(st.functions(like=lambda x: x, returns=st.integers(0, 99)), source)
        generator = draw(st.randoms(note_method_calls=True), source)
        used: list[object] = [function(1), function(1), generator.randint(1, 6)]
        letters = list("abcde")
        generator.shuffle(letters)
        return [*used, letters, generator.random(), generator.sample(range(9), 3)]

    source = Seeded(8)
    assert use(Numbers(source.chosen)) != use(source)
    assert use(Numbers(source.chosen)) == use(Seeded(8))
    calm = draw(st.randoms(), CalmSource())
    assert {calm.random() for _ in range(adapter.CHOICES_MAX + 1)} == {0.0}


def test_randoms_of_one_run_share_their_states() -> None:
    """The state of one drawn Random can be given to another, though they were drawn apart."""
    source, shared = Seeded(5), dict[Any, Any]()
    one, other = (draw(st.randoms(), source, None, shared) for _ in range(2))
    state = one.getstate()
    first = one.randint(1, 10**9)
    other.setstate(state)
    assert other.randint(1, 10**9) == first


# ---------------------------------------------------------------- one run, several draws


def test_shared_values_live_as_long_as_the_run() -> None:
    """`st.shared` means one value for each test case, and a run is one, however many draws."""
    tenant = st.shared(st.integers(), key="tenant")
    source, shared = Seeded(1), dict[Any, Any]()
    one = draw(tenant, source, shared=shared)
    data = draw(st.data(), source, shared=shared)
    assert [draw(tenant, source, shared=shared), data.draw(tenant)] == [one, one]
    assert draw(tenant, source, shared={}) != one
    assert draw(tenant, source) != one


def test_the_runner_is_the_one_given() -> None:
    """In a rule, `st.runner()` is the machine."""
    machine = object()
    assert draw(st.runner(), CalmSource(), runner=machine) is machine


def test_clean_up_waits_for_the_end_of_the_run() -> None:
    """`st.random_module()` seeds the global generator for the run; afterwards it is as before."""
    before = random.getstate()
    shared: dict[Any, Any] = {}
    draw(st.random_module(), Seeded(1), shared=shared)
    assert random.getstate() != before
    adapter.clean_up(shared)
    assert random.getstate() == before
    draw(st.random_module(), Seeded(1))
    assert random.getstate() == before


def test_a_label_goes_to_every_choice() -> None:
    """The story names what was chosen; the label of a draw inside goes before the outer one."""

    @st.composite
    def labelled(draw: st.DrawFn) -> None:
        draw(st.integers(0, 9))
        draw(st.integers(0, 9), "inner")
        draw(st.integers(0, 9))

    source = Seeded(1)
    draw(labelled(), source, "outer")
    assert source.labels == ["outer", "inner", "outer"]


# ---------------------------------------------------------------- no value


ENORMOUS = st.lists(st.lists(st.booleans(), min_size=500), min_size=50)


@st.composite
def assuming(draw: st.DrawFn) -> int:
    """What it assumes is never true."""
    value = draw(st.integers(0, 9))
    hypothesis.assume(value > 99)
    return value


@st.composite
def rejecting(draw: st.DrawFn) -> int:
    """It draws something and wants nothing of it."""
    draw(st.booleans())
    hypothesis.reject()


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (st.integers().filter(lambda x: x != x), "unable to satisfy integers().filter(lambda x"),
        (st.sampled_from("ab").filter(str.isdigit), "unable to satisfy sampled_from"),
        (assuming(), "no value of assuming(): failed to satisfy assume() in assuming"),
        (rejecting(), "reject() in rejecting"),
        (st.integers().map(lambda x: hypothesis.assume(x is None)), "assume()"),
        (st.nothing(), "no value of nothing(): it is empty"),
        (ENORMOUS, "it needs more than 16,384 choices"),
        (st.lists(st.text(min_size=500), min_size=50), "it needs more than 16,384 choices"),
        (st.sets(st.integers().map(lambda x: 0), min_size=2), "unable to satisfy"),
    ],
    ids=lambda value: value if isinstance(value, str) else "strategy",  # no address: xdist compares
)
def test_a_strategy_that_gives_up_discards_the_step(
    strategy: st.SearchStrategy[Any], words: str
) -> None:
    """No failure of the program: a signal of its own, which names the strategy and the reason."""
    with pytest.raises(StepDiscarded, match=re.escape(words)) as caught:
        draw(strategy, CalmSource())
    assert not isinstance(caught.value, Exception)
    assert caught.value.__suppress_context__
    assert not hypothesis.currently_in_test_context()


def test_a_filter_says_where_it_stands() -> None:
    """The message of a discarded step leads to the line of the filter."""
    with pytest.raises(StepDiscarded, match=r"test_hypothesis_adapter\.py:\d+"):
        draw(st.integers(0, 9).filter(lambda x: x * x == 50), Seeded(1))


def test_data_draws_on_after_a_discard() -> None:
    """A rule may catch the signal and try something else with the same data."""
    data = draw(st.data(), CalmSource())
    with pytest.raises(StepDiscarded):
        data.draw(st.nothing())
    assert data.draw(st.lists(st.integers(1, 2), min_size=2)) == [1, 1]


def test_a_stop_that_is_not_ours_passes() -> None:
    """Inside a Hypothesis test, that test's own signal must reach it."""

    def stop(value: int) -> int:
        raise hypothesis.errors.StopTest(12_345)

    with pytest.raises(hypothesis.errors.StopTest):
        draw(st.integers().map(stop), CalmSource())


def test_inside_a_hypothesis_test() -> None:
    """A simulation may run inside @given: the context of the test around is back after a draw."""
    drawn = []

    @hypothesis.settings(max_examples=5, database=None, derandomize=True)
    @hypothesis.given(st.integers(0, 10**6))
    def test(seed: int) -> None:
        drawn.append(draw(st.lists(st.integers(0, 99)), Seeded(seed)) == [] or seed)
        hypothesis.note("still inside")

    test()
    assert len(drawn) == 5


def test_errors_of_the_users_code_come_out_unchanged() -> None:
    """What a map function raises is the user's own exception, without a wrapper or a note."""
    with pytest.raises(ZeroDivisionError) as caught:
        draw(st.integers(0, 9).map(lambda x: 1 // 0), CalmSource())
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(hypothesis.errors.InvalidArgument):
        draw(st.integers(9, 0), CalmSource())


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (int, "got the class int (write st.from_type(int))"),
        (ranges, "got the function ranges (write ranges(...) to call it)"),
        ([1, 2], "got [1, 2] (write st.sampled_from(...) for one of them)"),
        (5, "got 5 (write st.just(...) for a fixed value)"),
    ],
    ids=["class", "function", "list", "number"],
)
def test_what_is_no_strategy_is_refused(wrong: Any, got: str) -> None:
    """The message shows the line that was probably meant."""
    expected = f"foretold.draw needs a Hypothesis strategy, such as st.integers(0, 9); {got}"
    with pytest.raises(TypeError, match=re.escape(expected)):
        draw(wrong, CalmSource())
    with pytest.raises(TypeError, match=re.escape("data.draw needs a Hypothesis strategy")):
        draw(st.data(), CalmSource()).draw(wrong)


# ---------------------------------------------------------------- nothing but the tape


@st.composite
def talkative(draw: st.DrawFn) -> int:
    """It tells Hypothesis all one can tell."""
    hypothesis.note("a note")
    hypothesis.event("an event", 3)
    for _ in range(2):
        hypothesis.target(1.5, label="twice")
    return draw(st.integers(0, 9))


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Notes, events and targets are taken and not told, also if Hypothesis is set to debug."""
    name = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.register_profile("loud", verbosity=hypothesis.Verbosity.debug)
    hypothesis.settings.load_profile("loud")
    try:
        assert draw(talkative(), Numbers([7])) == 7
        with pytest.raises(StepDiscarded):
            draw(ENORMOUS, CalmSource())
        draw(st.randoms(note_method_calls=True), CalmSource()).random()
    finally:
        hypothesis.settings.load_profile(name)
    assert capfd.readouterr() == ("", "")


def test_a_draw_leaves_no_garbage() -> None:
    """A run collects no garbage: what a draw leaves in a cycle would pile up until its end. A new
    strategy is not meant: Hypothesis itself leaves a few cycles when it first asks what one is."""
    strategies = [
        st.lists(st.tuples(st.integers(), st.text(), st.floats())),
        st.builds(dict, a=ranges()),
        st.data(),
        st.integers().filter(lambda x: x % 2),
    ]
    draws = [*itertools.product(strategies, range(50))]
    for strategy, seed in draws:
        attempt(strategy, Seeded(seed))
    while gc.collect():
        pass  # what other tests have left: to free one world may be what makes another one garbage
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for strategy, seed in draws:
            attempt(strategy, Seeded(seed))
        gc.collect()
        left = Counter(type(each).__qualname__ for each in gc.garbage)
        gc.garbage.clear()
        assert not left
    finally:
        gc.set_debug(0)
        gc.enable()


PROGRAM = """
import gc, json, os, random, sys, time
sys.path[:0] = sys.argv[1:3]
from tests.spec import strategy_cases as cases
from foretold.spec import hypothesis_adapter as adapter
WARM = sys.argv[3] == "warm"
if WARM:
    adapter.warm_up(*(case.strategy for case in cases.CASES.values()))
    adapter.warm_up()
touched, watching = [], True
"".encode("cp1252")  # imports a module
TOUCHES = ("open", "os.", "socket.", "subprocess.", "_thread.start", "time.", "tempfile.", "import")
def watch(event, args):
    if watching and event.startswith(TOUCHES):
        touched.append(f"{event} {args}"[:200])
sys.addaudithook(watch)
def forbidden(*args):
    raise AssertionError("the clock was read, or the system asked for entropy")
for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"):
    setattr(time, name, forbidden)
os.urandom = forbidden
random.seed(1)
state = random.getstate()
drawn = [
    repr(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
    for case in cases.CASES.values()
    for seed in range(10)
    for value in [cases.attempt(case.strategy, cases.Seeded(seed))]
]
drawn.append(repr(adapter.draw(cases.defined_now(), cases.Seeded(1))))
watching = False
kept = random.getstate() == state and gc.callbacks == []
print(json.dumps({"drawn": drawn, "touched": touched, "kept": kept}))
"""


def drawn_elsewhere(folder: Path, mode: str, hash_seed: str) -> Any:
    """What another process draws of all cases above, and what it touched meanwhile."""
    package = Path(adapter.__file__).parents[2]
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(package), mode],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert not (folder / ".hypothesis").exists()
    return json.loads(finished.stdout)


def test_after_warm_up_a_draw_touches_nothing(tmp_path: Path) -> None:
    """Inside a run disk, clock, threads and entropy are fenced: all was loaded before."""
    found = drawn_elsewhere(tmp_path, "warm", "0")
    assert found["touched"] == []
    assert found["kept"]


def test_every_process_draws_the_same(tmp_path: Path) -> None:
    """A tape is replayed elsewhere: neither hash seed nor what was loaded before may decide."""
    warm = drawn_elsewhere(tmp_path, "warm", "1")
    cold = drawn_elsewhere(tmp_path, "cold", "2")
    assert warm["drawn"] == cold["drawn"]
    assert cold["touched"] != []  # the watch is able to see something


def test_known_codecs_are_described_rightly() -> None:
    """The table that saves Hypothesis half a second is what trying out would have found."""
    for codec, intervals in hypothesis_disk.ENCODABLE.items():
        inside = {code for interval in intervals for code in interval}
        outside = {code + step for code in inside for step in (-1, 1)} - {-1, sys.maxunicode + 1}
        outside = {c for c in outside if not any(low <= c <= high for low, high in intervals)}
        assert [chr(c).encode(codec).decode(codec) for c in inside] == [chr(c) for c in inside]
        for code in outside:
            with pytest.raises(UnicodeEncodeError):
                chr(code).encode(codec)


# ---------------------------------------------------------------- short ways


class Plainly(st.SearchStrategy[Any]):
    """The values of another strategy, which is asked each time: nothing is known of this class."""

    def __init__(self, inner: st.SearchStrategy[Any]) -> None:
        super().__init__()
        self.inner = inner

    def do_draw(self, data: Any) -> Any:
        """As Hypothesis itself asks it."""
        return self.inner.do_draw(data)


SHORT = [
    st.integers(),
    st.integers(3, 3),
    st.integers(0, 9),
    st.integers(-5, 5),
    st.integers(7),
    st.integers(max_value=-7),
    st.integers(0, 10**6),
    st.integers(-(2**31), 2**31),
    st.sampled_from("x"),
    st.sampled_from([3, 1, 2]),
    st.sampled_from(range(10**9)),
    st.sampled_from([1, 2, 3]).map(str),
    st.sampled_from(range(9)).filter(lambda n: n % 2),
]


@pytest.mark.parametrize("strategy", SHORT, ids=repr)
def test_the_short_way_makes_the_same_choices(strategy: st.SearchStrategy[Any]) -> None:
    """What is known of a strategy saves the way through Hypothesis, and changes no stored tape:
    neither alone, nor beside others, nor where a value was refused before."""
    plainly = Plainly(strategy)
    for short, long in (
        (strategy, plainly),
        (st.tuples(strategy, st.text(), strategy), st.tuples(plainly, st.text(), plainly)),
        (st.tuples(strategy).filter(picky), st.tuples(plainly).filter(picky)),
    ):
        for seed in range(100):
            one, other = Seeded(seed), Seeded(seed)
            assert attempt(short, one) == attempt(long, other)
            assert one.chosen == other.chosen


def picky(value: tuple[Any, ...]) -> bool:
    """Refuses a third of all tuples of numbers."""
    return len(repr(value)) % 3 > 0


# ---------------------------------------------------------------- when Hypothesis moves


def load_again() -> None:
    """Run the adapter's file once more, as a first import would."""
    spec = importlib.util.spec_from_file_location("adapter_again", adapter.__file__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_private_api_is_where_it_was() -> None:
    """This fails first when a new Hypothesis has moved something: adapt the file it names."""
    assert adapter.missing_private_api() == [], (
        f"Hypothesis {hypothesis.__version__} has moved these: adapt "
        f"src/foretold/spec/hypothesis_adapter.py, or narrow SUPPORTED_HYPOTHESIS"
    )


def test_the_installed_hypothesis_is_in_the_tested_range() -> None:
    """The constant is what the documentation promises."""
    low, high = re.findall(r"\d+(?:\.\d+)*", adapter.SUPPORTED_HYPOTHESIS)
    version = hypothesis.__version_info__
    assert tuple(map(int, low.split("."))) <= version < tuple(map(int, high.split(".")))


def test_a_moved_method_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a method and an attribute that are not there."""
    data = adapter.TapeData.__base__
    with monkeypatch.context() as patch:
        patch.delattr(data, "track_arg_label")
        patch.setattr(adapter, "PRIVATE_ATTRIBUTES", "depth no_such_thing")
        assert adapter.missing_private_api() == [
            "ConjectureData.track_arg_label",
            "ConjectureData().no_such_thing",
        ]
        with pytest.raises(UsageError, match=r"lacks ConjectureData\.track_arg_label.*pip install"):
            load_again()


def test_a_moved_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a module that cannot be imported. The message says which version to install."""
    monkeypatch.setitem(sys.modules, "hypothesis.internal.intervalsets", None)
    with pytest.raises(UsageError, match=r"has moved .*intervalsets.*pip install 'hypothesis>="):
        load_again()
