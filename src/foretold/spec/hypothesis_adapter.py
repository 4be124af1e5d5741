"""Draws values of Hypothesis strategies from a tape.

Hypothesis is the language in which inputs are described; the tape is the engine. This file is the
seam, and looks for all that the `hypothesis_*.py` beside it use of Hypothesis' private API: a
`ConjectureData` that records nothing, reads no clock and asks the tape for every primitive value
(`hypothesis_provider.py`). `primitives.py` says how such a value is made of choices.

A filter or a set that rejects a value tries again with the next simplest ones, so the calm tape
fills a set with 0, 1, 2 instead of giving up.

A value may go on drawing after it was drawn (`data()`, `functions()`, `randoms()`): such a later
draw is made like a first one. Nothing here survives an `await`.
"""

from __future__ import annotations

import itertools
import linecache
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, SimpleNamespace
from typing import Any, NoReturn, TypeVar

import hypothesis
from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.spec.primitives import CalmSource, ChoiceSource

SUPPORTED_HYPOTHESIS = ">=6.170.1,<7"
"""Tested range. Elsewhere the adapter still loads, if it finds everything it builds on."""

try:
    from hypothesis import reporting
    from hypothesis.control import BuildContext, _current_build_context
    from hypothesis.errors import StopTest, UnsatisfiedAssumption
    from hypothesis.internal import charmap
    from hypothesis.internal.conjecture import data as conjecture
    from hypothesis.internal.conjecture.data import MAX_DEPTH, ConjectureData, Status
    from hypothesis.internal.conjecture.providers import GLOBAL_CONSTANTS, PrimitiveProvider
    from hypothesis.internal.intervalsets import IntervalSet
    from hypothesis.strategies._internal import functions as st_functions
    from hypothesis.strategies._internal import lazy as st_lazy
    from hypothesis.strategies._internal import random as st_random
    from hypothesis.utils.conventions import not_set

    from foretold.spec import hypothesis_known
    from foretold.spec.hypothesis_provider import TapeProvider, TooLarge, next_simplest, planned
except ImportError as moved:
    raise UsageError(
        f"Hypothesis {hypothesis.__version__} has moved names that foretold needs ({moved}). "
        f"Write: pip install 'hypothesis{SUPPORTED_HYPOTHESIS}'"
    ) from moved

__all__ = [
    "SUPPORTED_HYPOTHESIS",
    "CalmSource",
    "ChoiceSource",
    "StepDiscarded",
    "TapeData",
    "be_at_home",
    "clean_up",
    "draw",
    "draw_each",
    "missing_of",
    "missing_private_api",
    "need_all",
    "warm_up",
]

T = TypeVar("T")
Shared = dict[Any, Any]

CHOICES_MAX = 16_384
"""Of one draw. A strategy that recurses without end is cut here, and the step is discarded."""

# Keys in `shared`, beside those of `st.shared()`: what is to be done when the run is over, and what
# the Randoms of one run have in common.
PUT_OFF, RANDOM_STATES, RANDOM_SEEDS = object(), object(), object()


class StepDiscarded(BaseException):
    """A strategy gave no value: a filter or an `assume` was not satisfied, or it grew too large.

    No error of the program under test, hence no `Exception`: an `except Exception` on the way
    must not take it for one. Whoever runs the step catches it and goes on with the next.
    """


# ---------------------------------------------------------------- what is used of Hypothesis

PRIVATE_API: tuple[tuple[Any, str], ...] = (
    (ConjectureData, "_draw _pooled_constraints draw draw_boolean start_span stop_span"),
    (ConjectureData, "track_arg_span track_arg_label conclude_test mark_invalid"),
    (BuildContext, "record_call"),
    (PrimitiveProvider, "draw_boolean draw_integer draw_float draw_string draw_bytes"),
    (IntervalSet, "char_in_shrink_order __len__ __contains__"),
    (st.SearchStrategy, "validate is_empty do_draw"),
    (st.DataObject, "draw"),
    (_current_build_context, "value"),
    (reporting.reporter, "value"),
    (conjecture, "time gc_cumulative_time"),
    (charmap, "gzip storage_directory intervals_from_codec"),
    (st_functions, "should_note"),
    (st_random, "should_note"),
    (st_lazy, "unwrap_strategies"),
    (GLOBAL_CONSTANTS, "integers floats strings"),
)
"""Owners and names: looked up when this file is loaded, so that a move is noticed at once."""

PRIVATE_ATTRIBUTES = (
    "depth events frozen hypothesis_runner invalid_location provider seeds_to_states "
    "states_for_ids status target_observations testcounter unique_element_depth "
    "_shared_data_strategy _shared_strategy_draws"
)
"""What strategies find on their `ConjectureData`, and this file reads or sets."""


def missing_of(api: Iterable[tuple[Any, str]]) -> list[str]:
    """Which names these owners lack."""
    return [
        f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"
        for owner, names in api
        for name in names.split()
        if not hasattr(owner, name)
    ]


def missing_private_api() -> list[str]:
    """What this version of Hypothesis lacks of what is used here. Empty: all is well."""
    blank = _blank_data()
    attributes = [f"ConjectureData().{n}" for n in PRIVATE_ATTRIBUTES.split() if n not in blank]
    return missing_of(PRIVATE_API) + attributes


def need_all(missing: list[str]) -> None:
    """Refuse a version of Hypothesis that lacks something."""
    if missing:
        raise UsageError(
            f"Hypothesis {hypothesis.__version__} lacks {', '.join(missing)}, which foretold "
            f"needs. Write: pip install 'hypothesis{SUPPORTED_HYPOTHESIS}'"
        )


def _blank_data() -> dict[str, Any]:
    """The attributes of a new `ConjectureData`, made without reading the clock.

    Reading it would move virtual time; and with the first reading Hypothesis sets a callback that
    reads it at every garbage collection.
    """
    module: Any = conjecture
    before = module.time, module.gc_cumulative_time
    module.time, module.gc_cumulative_time = SimpleNamespace(perf_counter=float), float
    try:
        return vars(ConjectureData(random=None))
    finally:
        module.time, module.gc_cumulative_time = before


need_all(missing_private_api())

from foretold.spec import hypothesis_disk  # noqa: E402  # it needs all of that

hypothesis_disk.stand_in()
_BLANK = _blank_data()
_BLANK_CONTAINERS = {k: v for k, v in _BLANK.items() if isinstance(v, dict | list | set)}
_BLANK_SCALARS = {k: v for k, v in _BLANK.items() if not isinstance(v, dict | list | set)}
_KNOWN = hypothesis_known.KNOWN

# ---------------------------------------------------------------- one draw


class Forgetful(dict[Any, Any]):
    """Keeps nothing. For `target()`: no observation comes twice. For what printers are told."""

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def __missing__(self, key: Any) -> list[Any]:
        return []


class TapeData(ConjectureData):
    """What a strategy draws from: the tape, instead of Hypothesis' own engine.

    It keeps neither choices nor spans, so it may live as long as the values that draw from it.
    """

    provider: TapeProvider
    target_observations = Forgetful()

    def __init__(
        self, source: ChoiceSource, label: str | None, shared: Shared | None, runner: object
    ) -> None:
        # Not super().__init__, which reads the clock and is several times slower. What never
        # changes lies on the class (see below); containers are made when somebody asks for them.
        self.testcounter = next(_counter)
        self.provider = TapeProvider(source, label)
        self._shared_strategy_draws: Shared = {} if shared is None else shared
        self._tasks_wait = shared is not None
        self.hypothesis_runner = runner
        self._drawing = False
        self._retries: dict[int, int] = {}  # by depth: how many values were rejected there

    def __getattr__(self, name: str) -> Any:
        if name not in _BLANK_CONTAINERS:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        made = self.__dict__[name] = _BLANK_CONTAINERS[name].copy()
        return made

    def draw(
        self, strategy: st.SearchStrategy[T], label: object = None, observe_as: str | None = None
    ) -> T:
        if not self._drawing:
            first: T = self._draw_first([(label, strategy)])[0]
            return first
        if isinstance(label, str):
            return self._draw_labelled(strategy, label)
        known = strategy.__dict__.get(_KNOWN)
        if known is None:
            known = self._learn(strategy)
        level = self.depth + 1
        if level > MAX_DEPTH:
            self.mark_invalid(f"its strategies nest deeper than {MAX_DEPTH}")
        if known.plan is not None and not self._retries:
            self.provider.counted(None)
            value: T = known.value(self.provider.drawer.integer(known.plan))
            return value
        self.depth = level
        try:
            drawn: T = (strategy if known.inner is None else known.inner).do_draw(self)
            return drawn
        finally:
            self.depth = level - 1
            if self._retries:
                self._retries.pop(level + 1, None)

    def _learn(self, strategy: st.SearchStrategy[Any]) -> hypothesis_known.Known:
        """Once for each strategy: both questions lead through all its parts."""
        strategy.validate()
        if strategy.is_empty:
            self.mark_invalid("it is empty")
        return hypothesis_known.learn(strategy, planned)

    def draw_each(self, wanted: Mapping[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
        """A value of each strategy, under the name of each: as one draw after the other."""
        return dict(zip(wanted, self._draw_first(wanted.items()), strict=True))

    def _draw_first(self, wanted: Iterable[tuple[object, st.SearchStrategy[Any]]]) -> list[Any]:
        """Draws that are not part of another: they bring a context, which ends with them."""
        before = _current_build_context.value, reporting.reporter.value
        context = self.new_context()
        _current_build_context.value, reporting.reporter.value = context, _say_nothing
        self._drawing, self.frozen, self.depth = True, False, 0
        provider = self.provider
        drawer = provider.drawer
        usual = drawer.label
        drawn: list[Any] = []
        strategy: Any = None
        try:
            for label, strategy in wanted:
                self.__dict__.pop("events", None)
                self._retries.clear()
                provider.left = CHOICES_MAX
                drawer.label = label if isinstance(label, str) else usual
                drawn.append(self.draw(strategy))
            return drawn
        except UnsatisfiedAssumption as failed:
            raise _discarded(strategy, failed.reason, failed.location) from None
        except TooLarge:
            why = f"it needs more than {CHOICES_MAX:,} choices"
            raise _discarded(strategy, why, None) from None
        except StopTest as stop:
            if stop.testcounter != self.testcounter:
                raise  # it belongs to a Hypothesis test around us
            why = str(self.events.get("gave up because") or "it gave up")
            raise _discarded(strategy, why, self.invalid_location) from None
        finally:
            self._drawing = False
            drawer.label = usual
            provider.left = math.inf
            self._retries.clear()
            _current_build_context.value, reporting.reporter.value = before
            if context.tasks:
                self._after(context.tasks)

    def new_context(self) -> BuildContext:
        return QuietContext(self)

    def _draw_labelled(self, strategy: st.SearchStrategy[T], label: str) -> T:
        drawer = self.provider.drawer
        before, drawer.label = drawer.label, label
        try:
            return self.draw(strategy)
        finally:
            drawer.label = before

    def _after(self, tasks: list[Callable[[], Any]]) -> None:
        if self._tasks_wait:
            self._shared_strategy_draws.setdefault(PUT_OFF, []).extend(tasks)
        else:
            _run_all(tasks)

    @property
    def _shared_data_strategy(self) -> LaterDraws:  # type: ignore[override]  # kept, it were a cycle
        return LaterDraws(self)

    @property
    def states_for_ids(self) -> Any:  # type: ignore[override]  # nobody sets it
        return self._shared_strategy_draws.setdefault(RANDOM_STATES, {})

    @property
    def seeds_to_states(self) -> Any:  # type: ignore[override]  # nobody sets it
        return self._shared_strategy_draws.setdefault(RANDOM_SEEDS, {})

    # Below: what strategies call on a ConjectureData, reduced to what a single draw needs.

    def _draw(self, choice_type: Any, constraints: Any, *, observe: bool, forced: Any) -> Any:
        self.provider.counted(None)
        if forced is not None:
            return forced
        value = getattr(self.provider, "draw_" + choice_type)(**constraints)
        # Not for the "one more?" of collections, which Hypothesis draws at unique depth 0.
        if self._retries and (choice_type != "boolean" or self.unique_element_depth):
            return next_simplest(value, choice_type, constraints, sum(self._retries.values()))
        return value

    def _pooled_constraints(self, choice_type: Any, constraints: Any) -> Any:
        return constraints

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
        forced: int | None = None,
        observe: bool = True,
    ) -> int:
        """Most values are made of integers, and most of these are drawn without any ceremony."""
        given: Any = {"weights": weights, "shrink_towards": shrink_towards}
        if self._retries or forced is not None:
            return super().draw_integer(min_value, max_value, **given, forced=forced)
        self.provider.counted(None)
        return self.provider.draw_integer(min_value, max_value, **given)

    def start_span(self, label: int) -> None:
        self.depth += 1

    def stop_span(self, *, discard: bool = False) -> None:
        level = self.depth
        self.depth = level - 1
        inner = self._retries.pop(level + 1, 0) if self._retries else 0
        if discard:
            self._retries[level] = self._retries.get(level, 0) + max(1, inner)

    def track_arg_span(self) -> Any:
        return nullcontext(0)

    def track_arg_label(self, label: str) -> Any:
        return _NO_LABELS

    def conclude_test(self, status: Status, interesting_origin: object = None) -> NoReturn:
        self.status, self.frozen = status, True
        raise StopTest(self.testcounter)


for _name, _value in _BLANK_SCALARS.items():
    if _name not in vars(TapeData):
        setattr(TapeData, _name, _value)


class LaterDraws(st.DataObject):
    """The value of `st.data()`. Its `draw` works at any time, also long after it was drawn."""

    def draw(self, strategy: st.SearchStrategy[T], label: Any = None) -> T:
        _require_strategy(strategy, "data.draw")
        self.count += 1
        data: Any = self.conjecture_data  # a TapeData, whose labels are text
        drawn: T = data.draw(strategy, None if label is None else str(label))
        return drawn


class QuietContext(BuildContext):
    """Lets `note`, `event`, `assume` and their like know that they are inside a test."""

    is_final = False
    known_object_printers = Forgetful()

    def __init__(self, data: ConjectureData) -> None:
        self.data = data
        self.tasks = []

    def wrapped_test(self) -> None:
        """Stands for the test function, of which there is none."""

    def record_call(self, *args: object, **kwargs: object) -> None:
        """Hypothesis would remember how to print the value; nobody asks for it here."""


_NO_LABELS: AbstractContextManager[dict[str, int]] = nullcontext({})
_counter = itertools.count(-1, -1)  # negative: never taken for a test case of Hypothesis' own


def _discarded(strategy: object, why: str | None, where: str | None) -> StepDiscarded:
    reason = (why or "an assumption failed").removeprefix("Aborted test because ")
    return StepDiscarded(
        f"no value of {_shortened(strategy)}: {reason}{f' ({where})' if where else ''}. "
        "The step is discarded. If that happens often, describe the valid values instead of "
        "filtering: bounds, .map(...) or st.sampled_from(...)"
    )


def _run_all(tasks: Iterable[Callable[[], Any]]) -> None:
    for task in tasks:
        task()


def _say_nothing(text: object) -> None:
    """Stands for Hypothesis' reporter: a draw prints nothing, whatever the verbosity."""


# ---------------------------------------------------------------- what the rest of foretold calls


def draw(
    strategy: st.SearchStrategy[T],
    source: ChoiceSource,
    label: str | None = None,
    shared: Shared | None = None,
    *,
    runner: object = not_set,
) -> T:
    """One value of `strategy`, a function of the source's choices alone.

    `label` goes to every choice. `shared` is one dict for each run: it keeps the values of
    `st.shared()`, and what `clean_up` will do. `runner` is the value of `st.runner()`.
    Raises `StepDiscarded` if the strategy gives no value; what user code raises comes out as it is.
    """
    _require_strategy(strategy, "foretold.draw")
    return TapeData(source, label, shared, runner).draw(strategy)


def draw_each(
    wanted: Mapping[str, st.SearchStrategy[Any]],
    source: ChoiceSource,
    shared: Shared,
    runner: object,
) -> dict[str, Any]:
    """A value of each strategy, under the name of each, which is also the label of its choices."""
    plain = hypothesis_known.draw_plain(wanted, source)
    if plain is not None:
        return plain
    return TapeData(source, None, shared, runner).draw_each(wanted)


def be_at_home(shared: Shared) -> Callable[[], None]:
    """From now on `assume`, `note` and their like know that they are at home; until what is
    returned here is called. For a whole run: a rule that waits stands still in the middle."""
    before = _current_build_context.value
    data = TapeData(CalmSource(), None, shared, not_set)
    _current_build_context.value = QuietContext(data)
    return lambda: setattr(_current_build_context, "value", before)


def clean_up(shared: Shared) -> None:
    """At the end of a run: do what strategies have put off until then (`st.random_module()`)."""
    _run_all(shared.pop(PUT_OFF, ()))


_WARM_UP = (
    st.text(), st.emails(), st.from_regex(r"\w\s\d"), st.datetimes(), st.uuids(), st.decimals(),
    st.ip_addresses(), st.from_type(int),
)  # fmt: skip
_warmed_modules: set[str] = set()


def warm_up(*strategies: st.SearchStrategy[Any]) -> None:
    """Before a run: load whatever a draw would otherwise have to read from disk.

    Cheap when repeated. The strategies that are given are prepared as well.
    """
    strategy: st.SearchStrategy[Any]
    for strategy in _WARM_UP if not _warmed_modules else ():
        draw(strategy, CalmSource())
    _load_sources()
    data = TapeData(CalmSource(), None, None, not_set)
    with QuietContext(data):
        for strategy in strategies:
            _require_strategy(strategy, "warm_up")
            strategy.validate()
            repr(strategy)


def _load_sources() -> None:
    """Read the modules that use Hypothesis: it looks into the source of their lambdas."""
    used = {id(getattr(st, name)) for name in st.__all__} | {id(st), id(hypothesis)}
    for name, module in list(sys.modules.items()):
        if name in _warmed_modules or name.partition(".")[0] == "hypothesis":
            continue
        _warmed_modules.add(name)
        contents = getattr(module, "__dict__", {})
        if not used.isdisjoint(map(id, list(contents.values()))):
            linecache.getlines(contents.get("__file__") or "", contents)


def _require_strategy(value: object, caller: str) -> None:
    if not isinstance(value, st.SearchStrategy):
        needs = f"{caller} needs a Hypothesis strategy, such as st.integers(0, 9)"
        raise TypeError(f"{needs}; got {_mistake(value)}")


def _mistake(value: object) -> str:
    """What was given instead of a strategy, and what was probably meant."""
    if isinstance(value, type):
        return f"the class {value.__name__} (write st.from_type({value.__name__}))"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__} (write {value.__name__}(...) to call it)"
    if isinstance(value, list | tuple | range):
        return f"{_shortened(value)} (write st.sampled_from(...) for one of them)"
    return f"{_shortened(value)} (write st.just(...) for a fixed value)"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:199]}…"
