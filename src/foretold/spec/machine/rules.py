"""The vocabulary of a machine: `rule`, `initialize`, `precondition`, `multiple`.

A decorator only writes on the function what was said; nothing is wrapped, so a rule can be called
from another one like any method. Mistakes are found here, where they were written.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from foretold.arguments import nearest, signature_of
from foretold.errors import UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from foretold.spec.machine.bundles import Bundle
    from foretold.spec.prophecy import Prophecy

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Predicate = Callable[..., object]

ACTOR = "actor"
"""The parameter that gets the actor who applies the rule."""
RESERVED = ("target", "targets")
"""Where results go, as in Hypothesis: no parameter can be called so."""
_MEANT = (
    "Is it meant for a parameter of the rule? target and targets are reserved, as in Hypothesis: "
    "rename the parameter"
)
_RULE, _PRECONDITIONS = "foretold_rule", "foretold_preconditions"


class found_once(Generic[T]):  # noqa: N801  # it stands where @property does
    """A property that is found out at the first look. Not `functools.cached_property`: that takes a
    lock in Python 3.11, and in a run with threads each lock is a step."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = function.__name__

    def __get__(self, instance: Any, owner: type) -> T:
        value = vars(instance)[self._name] = self._function(instance)
        return value


@dataclass(frozen=True, eq=False)
class Rule:
    """One thing that actors may do."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    """Strategies and bundles, by parameter."""
    targets: tuple[Bundle[Any], ...]
    once: bool
    """Applied once before all others: `initialize`."""
    wants_actor: bool
    called: str = ""
    """Its name in the class, if that is another one."""
    prophecies: Mapping[str, Prophecy] = field(default_factory=dict)
    """What is foretold for each call, by parameter."""

    # Below: asked before every step of a run, hence found out once.

    @found_once
    def name(self) -> str:
        return self.called or self.function.__name__

    @found_once
    def preconditions(self) -> tuple[Precondition, ...]:
        return preconditions_of(self.function)

    @found_once
    def is_async(self) -> bool:
        """Also if it is wrapped by a plain function, as many decorators do."""
        return inspect.iscoroutinefunction(inspect.unwrap(self.function))

    @found_once
    def needs(self) -> list[Bundle[Any]]:
        """Bundles that must not be empty: those that stand for an argument by themselves."""
        if not self.arguments:
            return []
        from foretold.spec.machine.bundles import Bundle

        return [given for given in self.arguments.values() if isinstance(given, Bundle)]

    @found_once
    def shared_conditions(self) -> tuple[int, ...]:
        """Equal for rules that can be applied at the same times: the machine alone decides, by the
        same functions. Empty if that is not known."""
        if self.needs or any(each.wants_actor for each in self.preconditions):
            return ()
        return tuple(id(each.holds) for each in self.preconditions)


@dataclass(frozen=True)
class Precondition:
    """When a rule may be applied, or an invariant be looked at."""

    holds: Predicate
    wants_actor: bool


class Multiple(tuple[Any, ...]):
    """Several values, each of which goes into the rule's target."""

    __slots__ = ()


def multiple(*values: Any) -> Multiple:
    """As a rule's result: each of the values goes into its target, or none at all."""
    return Multiple(values)


# ---------------------------------------------------------------- decorators


def rule(
    *,
    target: Bundle[Any] | None = None,
    targets: tuple[Bundle[Any], ...] | list[Bundle[Any]] = (),
    **arguments: SearchStrategy[Any] | Prophecy,
) -> Callable[[F], F]:
    """Decorate a method of a `foretold.Machine`: something that actors may do.

        @foretold.rule(target=orders, item=st.integers(0, 9))
        async def buy(self, actor, item): ...

    Arguments are Hypothesis strategies, bundles or prophecies. What the rule returns goes into its
    `target`, or into each of its `targets`. A parameter called `actor` receives the actor.
    """
    return _declare("rule", target, targets, arguments)


def initialize(
    *,
    target: Bundle[Any] | None = None,
    targets: tuple[Bundle[Any], ...] | list[Bundle[Any]] = (),
    **arguments: SearchStrategy[Any] | Prophecy,
) -> Callable[[F], F]:
    """As `rule`, but applied just once, before all rules. Of several the order is drawn."""
    return _declare("initialize", target, targets, arguments)


def _declare(
    word: str, target: Any, targets: Any, arguments: Mapping[str, Any]
) -> Callable[[F], F]:
    into = _checked_targets(word, target, targets)
    prophecies = {name: given for name, given in arguments.items() if _is_prophecy(given)}
    drawn = {name: given for name, given in arguments.items() if name not in prophecies}
    for name, given in drawn.items():
        _check_strategy(word, name, given)
    _check_prophecies(word, prophecies)

    def decorate(function: F) -> F:
        _check_method(word, function, arguments)
        _check_defaults(word, function)
        if hasattr(function, _RULE):
            raise UsageError(
                f"{function.__name__} is a rule already: write one @foretold.rule or "
                "@foretold.initialize above it, not two"
            )
        if word == "initialize" and hasattr(function, _PRECONDITIONS):
            raise _no_precondition(function)
        wants_actor = ACTOR in signature_of(function).parameters and ACTOR not in arguments
        once = word == "initialize"
        made = Rule(function, drawn, into, once, wants_actor, prophecies=prophecies)
        vars(function)[_RULE] = made
        return function

    return decorate


def precondition(holds: Predicate, /) -> Callable[[F], F]:
    """Decorate a rule or an invariant: it is left alone while `holds(self)` is false.

    Write `holds(self, actor)` if it depends on the actor.
    """
    if inspect.iscoroutinefunction(holds):
        raise UsageError(
            "a precondition is a plain function: it is evaluated before every step and must not "
            "wait. Use what your rules have stored on self:\n"
            "  wrong: @foretold.precondition(an_async_function)\n"
            "  right: @foretold.precondition(lambda self: self.open_orders > 0)"
        )
    if not callable(holds):
        raise UsageError(
            f"precondition takes a function of the machine, such as "
            f"@foretold.precondition(lambda self: self.stock > 0); got {holds!r}"
        )
    asked = Precondition(holds, _positional(holds) > 1)

    def decorate(function: F) -> F:
        declared = rule_of(function)
        if declared is not None and declared.once:
            raise _no_precondition(function)
        vars(function)[_PRECONDITIONS] = (*preconditions_of(function), asked)
        return function

    return decorate


def _no_precondition(function: Callable[..., Any]) -> UsageError:
    return UsageError(
        f"{function.__name__} is an @foretold.initialize: it is applied once, whatever holds. "
        "Make it a rule, or ask inside of it"
    )


def rule_of(function: object) -> Rule | None:
    """What `rule` or `initialize` has written on a function."""
    found: Rule | None = getattr(function, _RULE, None)
    return found


def preconditions_of(function: object) -> tuple[Precondition, ...]:
    """What `precondition` has written on a function."""
    found: tuple[Precondition, ...] = getattr(function, _PRECONDITIONS, ())
    return found


# ---------------------------------------------------------------- mistakes


def _positional(function: Callable[..., Any]) -> int:
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def _checked_targets(word: str, target: Any, targets: Any) -> tuple[Bundle[Any], ...]:
    if target is None and isinstance(targets, tuple | list) and not targets:
        return ()  # and no need for Hypothesis, which takes its time to be imported
    from foretold.spec.machine.bundles import Bundle, Consumer

    given = [*([] if target is None else [target]), *_each(word, targets)]
    for each in given:
        if isinstance(each, Consumer) or not isinstance(each, Bundle):
            raise UsageError(
                f"{word}(target=…) takes a bundle, into which the rule's result goes; got "
                f"{each!r}.\n"
                '  right: orders = foretold.Bundle("orders")\n'
                f"         @foretold.{word}(target=orders)\n"
                f"{_MEANT}"
            )
    return tuple(given)


def _each(word: str, targets: Any) -> Iterable[Any]:
    if isinstance(targets, tuple | list):
        return targets
    raise UsageError(
        f"{word}(targets=…) takes several bundles in a tuple; got {targets!r}. "
        f"For one write target=….\n{_MEANT}"
    )


def _is_prophecy(given: object) -> bool:
    """Whoever has one has imported its module."""
    module = sys.modules.get("foretold.spec.prophecy")
    return module is not None and isinstance(given, module.Prophecy)


def _check_prophecies(word: str, prophecies: Mapping[str, Prophecy]) -> None:
    names = [each.name for each in prophecies.values()]
    for name in names:
        if names.count(name) > 1:
            given = ", ".join(f"{each}=…" for each in prophecies)
            raise UsageError(
                f"{word}({given}): two prophecies are called {name!r}, and a mapping or a report "
                "could not tell them apart.\n"
                '  right: foretold.Prophecy("answer", …) and foretold.Prophecy("query", …)'
            )


def _check_defaults(word: str, function: Callable[..., Any]) -> None:
    for name, parameter in signature_of(function).parameters.items():
        if _is_prophecy(parameter.default):
            own, given = function.__name__, parameter.default.name
            raise UsageError(
                f"{own} has a prophecy as the default of {name!r}, so nothing would be foretold.\n"
                f"  wrong: def {own}(self, {name}={given})\n"
                f"  right: @foretold.{word}({name}={given})\n"
                f"         def {own}(self, {name})"
            )


def _check_strategy(word: str, name: str, given: object) -> None:
    from hypothesis.strategies import SearchStrategy

    if type(given).__module__ == "hypothesis.stateful":
        raise UsageError(
            f"{word}({name}={given!r}) is a bundle of Hypothesis' own machines. "
            "Write foretold.Bundle, foretold.consumes"
        )
    if isinstance(given, SearchStrategy):
        return
    instead = f"{name}=st.just(…) for a fixed value, {name}=st.sampled_from(…) for one of several"
    if isinstance(given, str):
        instead = f"{name}=foretold.Bundle({given!r}) for a bundle, or {name}=st.just({given!r})"
    elif isinstance(given, type):
        instead = f"{name}=st.from_type({given.__name__})"
    raise UsageError(
        f"{word}({name}=…) takes a Hypothesis strategy, such as st.integers(0, 9), or a bundle; "
        f"got {given!r}. Write {instead}"
    )


def _check_method(word: str, function: Any, arguments: Mapping[str, Any]) -> None:
    if isinstance(function, staticmethod | classmethod) or not inspect.isfunction(function):
        raise UsageError(
            f"@foretold.{word} decorates a method of a foretold.Machine: a plain or an async "
            f"function that takes self; got {function!r}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__name__} contains a `yield`: a rule returns its result, or "
            "foretold.multiple(a, b) for several"
        )
    parameters = signature_of(function).parameters
    names = list(parameters)
    if not names or names[0] in arguments or names[0] == ACTOR:
        wanted = ", ".join(["self", *names])
        raise UsageError(
            f"the rule {function.__name__} has no self.\n"
            f"  wrong: def {function.__name__}({', '.join(names)})\n"
            f"  right: def {function.__name__}({wanted})"
        )
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in arguments:
        if name not in names and not takes_any:
            raise UsageError(
                f"the rule {function.__name__} has no parameter {name!r}, for which "
                f"@foretold.{word} gives a strategy.{nearest(name, names[1:])}"
            )
    _check_left_out(word, function, arguments)


def _check_left_out(word: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    parameters = signature_of(function).parameters
    for name in list(parameters)[1:]:
        left_out = parameters[name].default is inspect.Parameter.empty and name not in arguments
        named = parameters[name].kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )
        if left_out and named and name in RESERVED:
            raise UsageError(
                f"the rule {function.__name__} has a parameter called {name!r}. As in Hypothesis, "
                f"{name}= is reserved: it says into which bundle the result goes. Rename the "
                "parameter:\n"
                f"  wrong: @foretold.{word}({name}=orders)\n"
                f"         def {function.__name__}(self, {name})\n"
                f"  right: @foretold.{word}(order=orders)\n"
                f"         def {function.__name__}(self, order)"
            )
        if left_out and named and name != ACTOR:
            raise UsageError(
                f"the rule {function.__name__} has a parameter {name!r} without a strategy. "
                f"Write @foretold.{word}({name}=st.integers(0, 9)), or another strategy"
            )
