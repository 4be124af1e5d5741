"""A model as the checker sees it: numbered states, and which operation leads from which to which.

A model is given as a plain class (an operation is the method of the same name, run on a copy), or
as an initial state and a function `step(state, name, arguments, result)` that gives the next state,
or None if the operation cannot have that result there. No step is made twice, and equal states are
one. A class whose methods call `foretold.either` has several next states: all of them are followed.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from types import FunctionType, ModuleType
from typing import Any, Protocol

from foretold.arguments import signature_of
from foretold.errors import Refused, UsageError
from foretold.spec.checkers.either import every_way
from foretold.spec.checkers.history import UNHEARD, UNKNOWN, Operation, Refusal

STATE = "state"
"""The method that shows a model's state; without it, its attributes are its state."""
Step = Callable[[Any, str, Mapping[str, Any], Any], Any]
Key = Callable[[str, Mapping[str, Any]], Hashable]


@dataclass(frozen=True, slots=True)
class StepModel:
    """A model as a function: the state is any value that is not changed in place."""

    initial: Any
    step: Step
    """`step(state, name, arguments, result)`: the next state, or None if that cannot be. For an
    operation of which nobody knows what came of it, `result` is `UNKNOWN`."""
    key: Key | None = None
    """Operations with different keys have nothing to do with each other, as the keys of a map: each
    key is then checked by itself. None as a key: it has to do with all of them."""


class Steps(Protocol):
    """States are numbers; 0 is the initial one."""

    spend: Callable[[], object]
    """Called for each way beyond the first that an operation is tried in."""

    def after(self, state: int, operation: Operation) -> tuple[int, ...]:
        """The states after `operation` with the result it had; none if it cannot have that."""

    def allowed(self, state: int, operation: Operation) -> tuple[tuple[Any, int], ...]:
        """Which results the model gives, and its state after each."""


class _Memory:
    """States that have been seen, numbered, and the calls that were made in them."""

    def __init__(self, initial: Any) -> None:
        self.states: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._calls: dict[int, tuple[Operation, Hashable]] = {}
        """With the operation itself, so that its id is nobody else's."""
        self.number(initial)

    def number(self, state: Any) -> int:
        key = frozen(state)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.states)
            self.states.append(state)
        return found

    def call(self, operation: Operation) -> Hashable:
        """Equal for operations that are the same call with the same result."""
        found = self._calls.get(id(operation))
        if found is None:
            parts = (operation.name, operation.arguments, seen_of(operation))
            found = self._calls[id(operation)] = (operation, frozen(parts))
        return found[1]


class FunctionSteps:
    def __init__(self, model: StepModel) -> None:
        self._step = model.step
        self._memory = _Memory(model.initial)
        self._known: dict[tuple[int, Hashable], tuple[int, ...]] = {}
        self.spend: Callable[[], object] = lambda: None

    def after(self, state: int, operation: Operation) -> tuple[int, ...]:
        memory = self._memory
        key = (state, memory.call(operation))
        if key not in self._known:
            new = self._step(
                memory.states[state], operation.name, operation.arguments, seen_of(operation)
            )
            self._known[key] = () if new is None else (memory.number(new),)
        return self._known[key]

    def allowed(self, state: int, operation: Operation) -> tuple[tuple[Any, int], ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Several:
    """Models of one class: the system is in the state of one of them, and nobody knows which."""

    models: tuple[Any, ...]

    @property
    def key(self) -> Key | None:
        return key_of(self.models[0])


class ClassSteps:
    """The steps of a model that is a plain class: its methods are run on copies."""

    def __init__(self, model: Any) -> None:
        self._memory = _Memory(model)
        self._known: dict[tuple[int, Hashable], tuple[tuple[Any, int], ...]] = {}
        self.spend: Callable[[], object] = lambda: None

    def models_in(self, state: int) -> tuple[Any, ...]:
        """The model in that state (the first may stand for several); not to be changed."""
        found = self._memory.states[state]
        return found.models if isinstance(found, Several) else (found,)

    def after(self, state: int, operation: Operation) -> tuple[int, ...]:
        fits = (new for result, new in self.allowed(state, operation) if fit(result, operation))
        return tuple(dict.fromkeys(fits))

    def allowed(self, state: int, operation: Operation) -> tuple[tuple[Any, int], ...]:
        memory = self._memory
        key = (state, memory.call(operation))
        if key not in self._known:
            found: dict[Hashable, tuple[Any, int]] = {}
            tried = (way for model in self.models_in(state) for way in ways(model, operation))
            for way, (result, after) in enumerate(tried):
                if way:
                    self.spend()
                if not isinstance(result, Exception):  # in a state that never was, a model may
                    new = memory.number(after)  # raise anything: not this way
                    found.setdefault((frozen(result), new), (result, new))
            self._known[key] = tuple(found.values())
        return self._known[key]


def ways(model: Any, operation: Operation) -> Iterator[tuple[Any, Any]]:
    """All that the model may do: each result, or what it raised, and the model after it."""

    def once() -> tuple[Any, Any]:
        after = copy.deepcopy(model)
        try:
            return run_on(after, operation), after
        except UsageError:
            raise
        except Exception as error:
            return error, after

    return every_way(once)


def fit(result: Any, operation: Operation) -> bool:
    """Whether the model's result is the one that was seen, as far as anybody knows."""
    if isinstance(result, Exception):
        return False
    seen = seen_of(operation)
    return result is JUDGED or seen is UNKNOWN or seen is UNHEARD or same(result, seen)


def seen_of(operation: Operation) -> Any:
    """The result as far as anybody knows."""
    return operation.result if operation.is_known else UNKNOWN


class Judged:
    """A model's method that takes `result` has looked at it itself."""

    def __repr__(self) -> str:
        return "judged by the model itself"


JUDGED = Judged()


def run_on(model: Any, operation: Operation) -> Any:
    """Do the operation on this model. Returns its result; raises if it cannot be done so."""
    if operation.name == STATE and not hasattr(model, STATE):
        return _attributes(model)
    method = getattr(model, operation.name)
    try:
        if not _takes_result(getattr(method, "__func__", method)):
            return _plain(method, method(**operation.arguments))
        seen = seen_of(operation)
        seen = UNKNOWN if seen is UNHEARD else seen
        verdict = _plain(method, method(**operation.arguments, result=seen))
    except Refused as refused:
        return Refusal(str(refused))
    if verdict is False:
        raise AssertionError(f"the model says that {operation.call} cannot give {seen!r}")
    return JUDGED


def _attributes(model: Any) -> dict[str, Any]:
    """The state of a model that does not say what its state is."""
    return {name: copy.deepcopy(v) for name, v in vars(model).items() if not name.startswith("_")}


def _plain(method: Callable[..., Any], result: Any) -> Any:
    """A model that waits would need a schedule of its own: it does all at once."""
    if not inspect.iscoroutine(result):
        return result
    result.close()
    name = getattr(method, "__name__", "it")
    raise UsageError(
        f"{type(getattr(method, '__self__', None)).__name__}.{name} is async, but the methods "
        f"of a model must be plain.\n  wrong: async def {name}\n  right: def {name}"
    )


@functools.lru_cache(maxsize=1_000)
def _takes_result(function: Callable[..., Any]) -> bool:
    """Whether a model's method wants to see the result, because it cannot know it: an id that the
    system has chosen, for instance."""
    return "result" in signature_of(function).parameters


def steps_of(model: Any) -> Steps:
    """The steps of a model, in whichever way it was given."""
    given = as_model(model)
    return FunctionSteps(given) if isinstance(given, StepModel) else ClassSteps(given)


def as_model(model: Any) -> Any:
    """A `StepModel`, or an object with methods."""
    if isinstance(model, StepModel | Several):
        return model
    if isinstance(model, tuple) and len(model) == 2 and callable(model[1]):
        return StepModel(*model)
    if isinstance(model, type):
        try:
            return model()
        except TypeError as error:
            raise UsageError(
                f"foretold makes a model without arguments; {model.__name__} needs some: {error}"
            ) from None
    if callable(model) or isinstance(model, tuple):
        raise UsageError(
            "a model is a class with a method for each operation, or a pair (initial state, "
            f"step) with step(state, name, arguments, result) -> state or None; got {model!r}"
        )
    return model


def key_of(model: Any) -> Key | None:
    """How a model splits a history; a class says it by a static method `key(name, arguments)`."""
    if isinstance(model, StepModel | Several):
        return model.key
    key: Key | None = getattr(model, "key", None)
    return key


def same(one: Any, other: Any) -> bool:
    """Equal; and what is not a number (NaN) is equal to what is not one, also inside of lists,
    tuples, dicts and dataclasses: a model cannot give another."""
    if one is other or one == other:
        return True
    if type(one) is not type(other):
        return False
    if _is_nan(one):
        return repr(one) == repr(other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        compared = [each.name for each in fields(one) if each.compare]
        return all(same(getattr(one, name), getattr(other, name)) for name in compared)
    return False


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | complex) and value != value


def frozen(value: Any) -> Hashable:
    """Something hashable that is equal for equal states. As Python has it, the order of a plain
    dict does not count; a model to which it matters has a list or an `OrderedDict`."""
    try:
        return _frozen(value)
    except RecursionError:
        return object()  # equal to nothing else: right, and slow


def _frozen(value: Any) -> Hashable:
    kind = type(value)
    if _is_nan(value):
        return (kind, repr(value))  # equal to its like, as `same` has it
    if kind in _PLAIN:
        return (kind, value)
    if isinstance(value, Mapping):
        items = ((_frozen(key), _frozen(each)) for key, each in value.items())
        return (kind, tuple(items) if isinstance(value, OrderedDict) else frozenset(items))
    if isinstance(value, list | tuple | deque):
        return (kind, tuple(map(_frozen, value)))
    if isinstance(value, set | frozenset):
        return (set, frozenset(map(_frozen, value)))
    if isinstance(value, type | FunctionType | ModuleType):
        return (kind, value)
    if is_dataclass(value):
        return (kind, tuple(_frozen(getattr(value, each.name)) for each in fields(value)))
    by_value: Any = kind.__hash__  # None if it has none; object's own is by identity
    if by_value is not None and by_value is not object.__hash__:
        return (kind, value)
    if hasattr(value, "__dict__"):
        return (kind, _frozen(vars(value)))
    return object()


_PLAIN = (int, str, bool, float, bytes, type(None))
