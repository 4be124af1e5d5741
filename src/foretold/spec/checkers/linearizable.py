"""Linearizable: is there an order of the operations that explains every result?

Each operation must seem to happen at one instant between its call and its return. Wing and Gong's
search for such an order, with Lowe's memory: a set of operations done and a state that were reached
once are not tried again. An operation of which nobody knows what came of it may be placed anywhere
after its call, or left out.

Ok, violated or unknown: the question is NP-complete, so that there is a budget of steps (not of
time: the verdict is the same on every machine). What violates is explained by the shortest prefix
of the history that has no such order, and by what went on at its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from foretold.arguments import check_whole
from foretold.errors import UsageError
from foretold.spec.checkers.history import UNKNOWN, Operation
from foretold.spec.checkers.steps import (
    JUDGED,
    ClassSteps,
    Steps,
    as_model,
    frozen,
    key_of,
    steps_of,
)

BUDGET: Final = 200_000
"""So many steps of the model at most, for one history; some seconds, if the model is a class."""
ALLOWED_MAX: Final = 5
PREFIX_SHOWN: Final = 12

Word = Literal["ok", "violated", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker found."""

    word: Word
    steps: int = 0
    """How many steps of the model were tried."""
    order: tuple[Operation, ...] = ()
    """If it is ok: an order that explains all results (of each key, if there are keys)."""
    operation: Operation | None = None
    """If it is violated: the operation whose result cannot be explained."""
    prefix: tuple[Operation, ...] = ()
    """The shortest prefix without such an order, in the order of the calls. What had not returned
    by then stands there without its result."""
    overlapping: tuple[Operation, ...] = ()
    """Which operations went on at the same time as the last one."""
    allowed: tuple[Any, ...] = field(default=())
    """Which results of the last operation the model would allow instead, as far as it says so."""

    @property
    def ok(self) -> bool:
        return self.word == "ok"

    def __str__(self) -> str:
        """The explanation, in lines."""
        if self.word == "ok":
            return "linearizable"
        if self.word == "unknown" or self.operation is None:
            return f"unknown: {self.steps:,} steps of the model did not settle it"
        return "\n".join(_told(self, self.operation))


def linearizable(history: Sequence[Operation], model: Any, *, budget: int = BUDGET) -> Verdict:
    """Whether some order of the operations, that keeps to what was over before what, explains all
    results by the model.

    The model is a class with a method for each operation (run on copies; its result must equal the
    observed one), or a pair `(initial, step)`, or a `StepModel`.
    """
    check_whole("budget", budget, at_least=1, example=BUDGET)
    _check(history)
    given = as_model(model)
    spent, undecided = 0, False
    order: list[Operation] = []
    for part in _parts(history, given):
        found = _Check(part, steps_of(given), budget - spent).verdict()
        spent += found.steps
        if found.word == "violated":
            return replace(found, steps=spent)
        undecided |= found.word == "unknown"
        order += found.order
    return Verdict("unknown", spent) if undecided else Verdict("ok", spent, tuple(order))


def final_states(history: Sequence[Operation], model: Any, *, budget: int = BUDGET) -> list[Any]:
    """The models that are left when all is over: one for each state that some order leads to. Empty
    if there is no such order, or if that cannot be settled. The history has to be without unknown
    results."""
    spent = 0

    def spend() -> None:
        nonlocal spent
        spent += 1
        if spent > budget:
            raise _OverBudget

    steps = ClassSteps(as_model(model))
    steps.spend = spend
    ordered = sorted(history, key=lambda each: each.invoked)
    try:
        ends = _Orders(ordered, steps, spend).ends()
        return [each for state in ends for each in steps.models_in(state)]
    except _OverBudget:
        return []


def _check(history: Sequence[Operation]) -> None:
    for each in history:
        if each.returned is not None and each.returned < each.invoked:
            raise UsageError(f"an operation ends before it begins: {each}")


def _parts(history: Sequence[Operation], model: Any) -> Iterator[list[Operation]]:
    """The history, or what belongs to each key of it if the model says so."""
    key = key_of(model)
    if key is None:
        yield list(history)
        return
    parts: dict[Hashable, list[Operation]] = {}
    for operation in history:
        found = key(operation.name, operation.arguments)
        if found is None:  # it has to do with all of them
            yield list(history)
            return
        parts.setdefault(found, []).append(operation)
    yield from parts.values()


class _OverBudget(Exception):
    """Too many steps."""


class _Check:
    def __init__(self, history: list[Operation], steps: Steps, budget: int) -> None:
        self._history = sorted(history, key=lambda each: each.invoked)
        self._steps = steps
        self._steps.spend = self._spend
        self._budget = budget
        self._spent = 0

    def verdict(self) -> Verdict:
        try:
            order = self._explain(self._history)
        except _OverBudget:
            return Verdict("unknown", self._spent)
        if order is not None:
            return Verdict("ok", self._spent, tuple(order))
        spent = self._spent
        prefix = self._shortest_prefix()
        last = max((each for each in prefix if each.is_known), key=_returned)
        overlapping = [each for each in prefix if each is not last and each.overlaps(last)]
        allowed = self._allowed(prefix, last)
        return Verdict("violated", spent, (), last, tuple(prefix), tuple(overlapping), allowed)

    def _shortest_prefix(self) -> list[Operation]:
        """If a history can be explained, so can each beginning of it: so try longer and longer
        beginnings, which is cheap as long as they can be explained, and bisect then."""
        returns = sorted(_returned(each) for each in self._history if each.is_known)
        low, size = 0, 1
        while size < len(returns) and self._is_explained(returns[size - 1]):
            low, size = size, 2 * size
        high = min(size, len(returns)) - 1
        while low < high:
            middle = (low + high) // 2
            if self._is_explained(returns[middle]):
                low = middle + 1
            else:
                high = middle
        return _until(self._history, returns[low])

    def _is_explained(self, instant: float) -> bool:
        """If nobody can say, yes: the explanation is longer than need be then, and right."""
        self._spent = 0  # the verdict is known; only its words are at stake
        try:
            return self._explain(_until(self._history, instant)) is not None
        except _OverBudget:
            return True

    def _allowed(self, prefix: list[Operation], last: Operation) -> tuple[Any, ...]:
        """Which results of `last` some order would explain, of those that the model gives."""
        asked = replace(last, result=UNKNOWN)
        others = [asked if each is last else each for each in prefix]
        found: dict[Hashable, Any] = {}
        self._spent = 0
        try:
            for result in _Orders(others, self._steps, self._spend).results_of(asked):
                found.setdefault(frozen(result), result)
                if len(found) == ALLOWED_MAX:
                    break
        except _OverBudget:
            pass
        return tuple(found.values())

    def _explain(self, history: list[Operation]) -> list[Operation] | None:
        return _Orders(history, self._steps, self._spend).first()

    def _spend(self) -> None:
        self._spent += 1
        if self._spent > self._budget:
            raise _OverBudget


class _Orders:
    """The search for an order that explains a history. Sets of operations are numbers, a bit each.

    What is known comes first, in the order of the calls; what is unknown only if nothing else
    helps, and only if it changes the state.
    """

    def __init__(self, history: list[Operation], steps: Steps, spend: Any) -> None:
        self._steps = steps
        self._spend = spend
        self._known = [each for each in history if each.is_known]
        self._unknown = [each for each in history if not each.is_known]
        self._all = self._known + self._unknown
        self._wanted = (1 << len(self._known)) - 1
        self._twins = _twins(self._unknown, len(self._known))

    def first(self) -> list[Operation] | None:
        """An order, or None if there is none."""
        seen: set[tuple[int, int]] = set()
        path: list[Operation] = []
        stack = [self._from(0, 0)]
        if self._wanted == 0:
            return path
        while stack:
            for done, state, operation in stack[-1]:
                if (done, state) in seen:
                    continue
                seen.add((done, state))
                path.append(operation)
                if done & self._wanted == self._wanted:
                    return path
                stack.append(self._from(done, state))
                break
            else:
                stack.pop()
                if path:
                    path.pop()
        return None

    def ends(self) -> list[int]:
        """The states that are left by all orders together."""
        seen = {(0, 0)}
        stack = [(0, 0)]
        while stack:
            for after, state, _ in self._from(*stack.pop()):
                if (after, state) not in seen:
                    seen.add((after, state))
                    stack.append((after, state))
        return sorted({state for done, state in seen if done == self._wanted})

    def _from(self, done: int, state: int) -> Iterator[tuple[int, int, Operation]]:
        """What may come next, and where that leads."""
        for number in self._next(done):
            operation = self._all[number]
            self._spend()
            for after in self._steps.after(state, operation):
                if after != state or operation.is_known:
                    yield done | 1 << number, after, operation

    def _next(self, done: int) -> Iterator[int]:
        """Operations that had begun before any other of those that are left was over."""
        first_return = float("inf")
        left = ~done & self._wanted
        number = (left & -left).bit_length() - 1 if left else len(self._known)
        for index in range(number, len(self._known)):
            operation = self._known[index]
            if operation.invoked > first_return:
                break
            if not done >> index & 1:
                first_return = min(first_return, _returned(operation))
                yield index
        for index, operation in enumerate(self._unknown, len(self._known)):
            if operation.invoked > first_return:
                break
            twin = self._twins[index]
            if not done >> index & 1 and (twin is None or done >> twin & 1):
                yield index

    def results_of(self, asked: Operation) -> Iterator[Any]:
        """Which results an operation has in orders that explain all the others."""
        number = next(n for n, each in enumerate(self._all) if each is asked)
        seen: set[tuple[int, int, Hashable]] = set()
        stack: list[tuple[int, int, Any]] = [(0, 0, UNKNOWN)]
        while stack:
            done, state, result = stack.pop()
            key = (done, state, frozen(result))
            if key in seen:
                continue
            seen.add(key)
            if done & self._wanted == self._wanted and result is not UNKNOWN:
                if result is not JUDGED:
                    yield result
                continue
            for index in reversed(list(self._next(done))):
                self._spend()
                done_then = done | 1 << index
                if index == number:
                    given = self._steps.allowed(state, asked)
                    stack += [(done_then, after, gives) for gives, after in given]
                    continue
                each_after = self._steps.after(state, self._all[index])
                stack += [(done_then, after, result) for after in each_after]


def _twins(unknown: list[Operation], offset: int) -> dict[int, int | None]:
    """For each unknown operation the last one before it that is the same call: that one would do
    as well, so it is tried first."""
    last: dict[Hashable, int] = {}
    twins: dict[int, int | None] = {}
    for index, operation in enumerate(unknown, offset):
        call = (operation.name, frozen(operation.arguments))
        twins[index] = last.get(call)
        last[call] = index
    return twins


def _returned(operation: Operation) -> float:
    assert operation.returned is not None, "a known operation has returned"
    return operation.returned


def _until(history: list[Operation], instant: float) -> list[Operation]:
    """The history as it was at that instant: what had not returned was still going on."""
    begun = (each for each in history if each.invoked <= instant)
    return [each if _is_over(each, instant) else _open(each) for each in begun]


def _is_over(operation: Operation, instant: float) -> bool:
    return operation.returned is None or operation.returned <= instant


def _open(operation: Operation) -> Operation:
    return replace(operation, returned=None, result=UNKNOWN)


def _told(verdict: Verdict, operation: Operation) -> Iterator[str]:
    yield f"{operation.actor}: {operation.call} gave {operation.result!r}"
    if verdict.allowed:
        told = " or ".join(map(repr, verdict.allowed))
        yield f"the model gives {told}, in whichever order"
    else:
        yield "no order of the operations explains that by the model"
    if verdict.overlapping:
        yield "at the same time:"
        yield from (f"  {each}" for each in verdict.overlapping)
    around = {id(operation), *map(id, verdict.overlapping)}
    before = [each for each in verdict.prefix if id(each) not in around]
    if before:
        left = len(before) - PREFIX_SHOWN
        yield "before:" if left <= 0 else f"before (the last {PREFIX_SHOWN} of {len(before)}):"
        yield from (f"  {each}" for each in before[-PREFIX_SHOWN:])
