"""One model, three uses: `Spec` follows every way, in `Fake` the tape decides, or a prophecy does.

    class Queue:                                     # it may lose the newest message
        def __init__(self): self.items = []
        def put(self, item): self.items = foretold.either([*self.items, item], self.items)
        def get(self): return self.items.pop(0) if self.items else None

    spec = foretold.Spec(Queue)                      # which states explain what was seen?
    spec.observe(None, "put", 1)
    spec.observe(None, "get")                        # so it was lost
    queue = foretold.Fake(Queue)                     # in a run: it stands in for the real queue
    queue.put(1)
    queue = foretold.Fake(Queue, foretold=[1])       # the first `either` takes its option 1

A specification is the model of a machine (`model = Queue`) and of `foretold.linearizable` as well:
all of them take the steps of `checkers/steps.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from foretold.arguments import check_whole, nearest, signature_of
from foretold.errors import Contradiction, Refused, Unforeseen, Unfulfilled, UsageError
from foretold.spec.checkers.either import decided_by
from foretold.spec.checkers.history import Operation, Refusal
from foretold.spec.checkers.linearizable import BUDGET, Word
from foretold.spec.checkers.steps import JUDGED, ClassSteps, StepModel, as_model, frozen
from foretold.spec.checkers.unseen import unseen
from foretold.world.current import world_or_none

STREAM: Final = "prophecy"
SEEN_SHOWN: Final = 12
ALLOWED_SHOWN: Final = 8


class _OverBudget(Exception):
    """Too many steps of the model."""


class Spec:
    """A model as a specification: the set of its states that explain all that was seen so far."""

    def __init__(self, model: Any, *, budget: int = BUDGET) -> None:
        check_whole("budget", budget, at_least=1, example=BUDGET)
        self._begin(ClassSteps(_object(model, "Spec")), budget)

    def again(self) -> Spec:
        """A specification that has seen nothing yet, and knows the steps that this one has made."""
        new = Spec.__new__(Spec)
        new._begin(self._steps, self._budget)
        return new

    def _begin(self, steps: ClassSteps, budget: int) -> None:
        self._steps = steps
        self._steps.spend = self._spend
        self._left = self._budget = budget
        self._now: tuple[int, ...] = (0,)
        self._seen: list[Operation] = []
        self.verdict: Word = "ok"
        """`ok`: some state explains all that was seen. `violated`: none does. `unknown`: the budget
        was used up; nothing is claimed from there on."""

    @property
    def states(self) -> list[Any]:
        """The models that explain all that was seen; not to be changed."""
        return [each for number in self._now for each in self._steps.models_in(number)]

    def allowed(self, method: str, /, *arguments: Any, **named: Any) -> list[Any]:
        """The results that the model allows for this call now. Nothing is observed by that."""
        asked = self._operation(method, arguments, named, None)
        try:
            return self._allowed(asked)
        except _OverBudget:
            self._give_up()
            return []

    def observe(self, result: Any, method: str, /, *arguments: Any, **named: Any) -> None:
        """The real system has given `result` to this call: keep the states that allow it.

        If none does, that is a `Contradiction`. A refusal is observed as `foretold.Refused(…)`.
        """
        if self.verdict != "ok":
            return
        seen = Refusal(str(result)) if isinstance(result, Refused) else result
        operation = self._operation(method, arguments, named, seen)
        try:
            after = [new for state in self._now for new in self._after(state, operation)]
        except _OverBudget:
            self._give_up()
            return
        if not after:
            self.verdict = "violated"
            raise self._contradiction(operation)
        self._now = tuple(dict.fromkeys(after))
        self._seen.append(operation)

    def _after(self, state: int, operation: Operation) -> tuple[int, ...]:
        self._spend()
        return self._steps.after(state, operation)

    def _allowed(self, asked: Operation) -> list[Any]:
        found: dict[Any, Any] = {}
        for state in self._now:
            self._spend()
            for result, _ in self._steps.allowed(state, asked):
                if result is not JUDGED:
                    found.setdefault(frozen(result), result)
        return list(found.values())

    def _operation(
        self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any], result: Any
    ) -> Operation:
        model = self._steps.models_in(0)[0]
        given = bound(model, method, arguments, named)
        number = float(len(self._seen))
        return Operation("the system", method, given, number, number + 0.5, result)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _OverBudget

    def _give_up(self) -> None:
        self.verdict = "unknown"
        world = world_or_none()
        if world is not None:
            note = (
                f"the specification: whether it explains all that was seen is unknown after "
                f"{self._budget:,} steps of the model"
            )
            world.home.kernel.notes[note] = None

    def _contradiction(self, operation: Operation) -> Contradiction:
        lines = [f"{operation.call} gave {operation.result!r}"]
        try:
            allowed = list(map(repr, self._allowed(operation)))
        except _OverBudget:
            allowed = []
        more = f" (and {len(allowed) - ALLOWED_SHOWN} others)" * (len(allowed) > ALLOWED_SHOWN)
        told = " or ".join(allowed[:ALLOWED_SHOWN]) + more
        lines.append(f"the model allows {told}" if told else "the model does not allow that call")
        states = f"{len(self._now)} states" if len(self._now) > 1 else "one state"
        lines.append(f"{states} of the model explained all that was seen before:")
        left = len(self._seen) - SEEN_SHOWN
        lines += [f"  … {left} observations"] if left > 0 else []
        lines += [f"  {each.call} gave {each.result!r}" for each in self._seen[-SEEN_SHOWN:]]
        return Contradiction("\n".join(lines if self._seen else lines[:-1]))


class Fake:
    """A model that stands in for the real system: in a run the tape decides each `either`.

    Its methods are the model's. With `foretold=[0, 1, …]` these numbers decide instead, one for
    each `either` that has more than one option; `fulfilled()` says whether all were needed.
    """

    def __init__(self, model: Any, foretold: Iterable[int] | None = None) -> None:
        self._model = _object(model, "Fake")
        self._foretold = None if foretold is None else list(foretold)
        self._used = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if not inspect.ismethod(found):
            return found

        @functools.wraps(found)
        def decided(*arguments: Any, **named: Any) -> Any:
            decide = self._by_tape() if self._foretold is None else self._by_prophecy
            with decided_by(decide), unseen():
                return found(*arguments, **named)

        return decided

    def fulfilled(self) -> None:
        """Raise `Unfulfilled` if something was foretold that no `either` has asked for."""
        left = [] if self._foretold is None else self._foretold[self._used :]
        if left:
            raise Unfulfilled(
                f"{left} was foretold for {type(self._model).__name__}, and no `either` of it has "
                "asked for that"
            )

    def _by_tape(self) -> Any:
        world = world_or_none()
        if world is None:
            raise UsageError(
                "foretold.Fake(model) is decided by the tape of a run, and there is no run here.\n"
                "  right: call it inside foretold.run or a simulated test, or say what happens: "
                "Fake(model, foretold=[0, 1])"
            )
        return world.tape.stream(STREAM, "fake", type(self._model).__name__).choose

    def _by_prophecy(self, options: int) -> int:
        assert self._foretold is not None, "else the tape decides"
        if self._used == len(self._foretold):
            raise Unforeseen(
                f"the model chooses among {options} options, and nothing more is foretold: "
                f"{self._used} choices were"
            )
        number: Any = self._foretold[self._used]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < options:
            raise UsageError(
                f"{number!r} was foretold for an `either` with {options} options: it is a whole "
                f"number from 0 to {options - 1}"
            )
        self._used += 1
        return number


def _object(model: Any, word: str) -> Any:
    made = as_model(model)
    if isinstance(made, StepModel):
        raise UsageError(
            f"foretold.{word} takes a model that is a class with a method for each operation; a "
            "pair (initial, step) is for foretold.linearizable"
        )
    return made


def bound(
    model: Any, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a model's method by name."""
    function = getattr(model, method, None)
    if not callable(function):
        names = [name for name in dir(model) if not name.startswith("_")]
        raise UsageError(
            f"{type(model).__name__} has no method {method!r}.{nearest(method, names)}"
        )
    signature = signature_of(function)
    if any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
        raise UsageError(
            f"{type(model).__name__}.{method} takes any number of arguments (*…): a model names "
            "each of them, so that calls can be compared"
        )
    asked = [each for name, each in signature.parameters.items() if name != "result"]
    try:
        return dict(signature.replace(parameters=asked).bind(*arguments, **named).arguments)
    except TypeError as error:
        raise UsageError(f"{type(model).__name__}.{method}: {error}") from None
