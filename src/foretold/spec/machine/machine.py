"""The class that users derive from, and what is read from it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from foretold.arguments import check_number, check_whole
from foretold.errors import UsageError
from foretold.spec.machine.covers import operations_of
from foretold.spec.machine.invariants import Invariant, invariant_of
from foretold.spec.machine.mirrors import Mirror
from foretold.spec.machine.options import OPTIONS, MachineOptions, options_text
from foretold.spec.machine.rules import Rule, preconditions_of, rule_of
from foretold.world.run import JUDGE

if TYPE_CHECKING:
    from foretold import handles
    from foretold.pytest_support.machines import MachineTestCase
    from foretold.spec.machine.actors import Actor
    from foretold.spec.machine.course import Course
    from foretold.world.faults import FaultSet
    from foretold.world.world import World

_BLUEPRINT = "_foretold_blueprint"
_OF_HYPOTHESIS = "hypothesis_stateful_rule"


@dataclass(frozen=True)
class Blueprint:
    """What a class says: its rules, invariants and mirrors, in the order in which they were
    written."""

    rules: tuple[Rule, ...]
    initializers: tuple[Rule, ...]
    invariants: tuple[Invariant, ...]
    mirrors: tuple[Mirror, ...] = ()

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return (*self.initializers, *self.rules)

    @property
    def uses_hypothesis(self) -> bool:
        """Whether there is anything to draw, or a rule could call `assume`. If not, there is no
        need for Hypothesis, which takes its time to be imported."""
        return "hypothesis" in sys.modules or any(r.arguments or r.targets for r in self.all_rules)

    def at(self, when: str) -> list[Invariant]:
        return [each for each in self.invariants if each.when == when]

    @property
    def has_pages(self) -> bool:
        return any(each.reads for each in self.mirrors)


class _TestCase:
    """`Shop.TestCase`: what pytest and unittest collect."""

    def __get__(self, instance: object, owner: type[Machine]) -> type[MachineTestCase]:
        made: type[MachineTestCase] | None = vars(owner).get("_foretold_test_case")
        if made is None:
            made = test_case_maker(owner)
            owner._foretold_test_case = made  # type: ignore[attr-defined]  # one for each class
        return made


def _no_maker(machine: type[Machine]) -> type[MachineTestCase]:
    raise UsageError("TestCase needs the whole package: write `import foretold` first")


test_case_maker: Callable[[type[Machine]], type[MachineTestCase]] = _no_maker
"""Set by `pytest_support`, which lies above."""


class Machine:
    """What actors may do (rules) and what must hold (invariants).

        class Shop(foretold.Machine):
            actors = 4
            orders = foretold.Bundle("orders")

            @foretold.rule(target=orders, item=st.integers(0, 9))
            async def buy(self, actor, item): ...

            @foretold.invariant()
            def nothing_is_oversold(self): assert self.stock >= 0

    A machine is run like a function: `foretold.explore(Shop)`, `foretold.run(Shop)`,
    `foretold explore shop.py:Shop`, and in pytest `TestShop = Shop.TestCase`. For each run a new
    object of the class is made; `self.world` is the world of the run, `self.cast` are its actors.
    """

    actors: ClassVar[int | Sequence[str]] = 1
    """How many actors act at the same time, or the role of each. With one, call follows call."""
    steps: ClassVar[int] = 50
    """The maximum number of calls in a run, of all actors together."""
    faults: ClassVar[FaultSet | str | None] = None
    weights: ClassVar[Mapping[str, float]] = {}
    """How often each rule is applied; 1 by default."""
    tolerates: ClassVar[tuple[type[BaseException], ...]] = ()
    """Exceptions that a rule may raise, mostly under faults. The call fails; the run continues."""
    model: ClassVar[type | None] = None
    """A class. Each run makes an object of it, makes the same calls on it, and compares results."""
    oracle: ClassVar[str | None] = None
    """`"serial"`: a run ends with two or three calls at the same time, and the same run is made
    again with these calls one after the other. Results and databases must be those of one order."""
    storms: ClassVar[float] = 1.0
    """The share of runs that end so, if there is an oracle; at most a third if there are faults."""
    is_in_storm: bool = False
    """Whether the calls that are under way are those which the oracle compares."""
    is_rehearsing: bool = False
    """Whether they are tries, of which nothing is left."""
    ignore: ClassVar[tuple[str, ...]] = ()
    """Columns that the oracle does not compare: `"updated_at"`, `"account.version"`."""
    covers: ClassVar[type[Machine] | Sequence[str] | None] = None
    """The operations that the rules have to reach: `foretold.openapi(app)`, or a list such as
    `["POST /orders", "GET /orders/{id}"]`. A search that never reaches one ends with exit code
    4."""
    generates: ClassVar[Mapping[type, Any]] = {}
    """Models of the application, and the strategies that make their values. `foretold covers`
    compares them."""
    stutters: ClassVar[int] = 0
    """How many system errors that no prophecy has foretold a run may have, in calls that have a
    prophecy. Each is counted in the report, and says nothing about the program."""
    quiet_s: ClassVar[float] = 1.0
    """Virtual seconds for background work to finish before a quiet moment."""
    call_s_max: ClassVar[float] = 3600
    """How much virtual time a call of a rule may take, unless it waits for one single thing. A call
    that polls for something that never happens fails the run."""
    call_steps_max: ClassVar[float] = 50_000
    """The same in steps: how often a call may wait."""

    TestCase = _TestCase()

    world: handles.World
    cast: list[Actor]
    drawing_for: Actor
    """The actor whose arguments are being drawn, for strategies that use `st.runner()`."""

    async def setup(self) -> None:
        """Runs once in each run, first, without faults."""

    async def teardown(self) -> None:
        """Runs once in each run, last, without faults."""

    foretold_keeps_values: ClassVar[bool] = False
    """Whether values are kept for later calls although no rule says so by a bundle."""

    foretold_acts_twice: ClassVar[bool] = False
    """Whether one actor can make two calls at the same time."""

    foretold_rehearses: ClassVar[bool] = False
    """Whether its own state does not matter to calls that were drawn: they can be tried, the
    databases be put back, and the calls be tried again."""

    def foretold_reads(self) -> Sequence[str]:
        """The rules that only read."""
        return ()

    def foretold_about(self, values: Sequence[Any]) -> Collection[str]:
        """The rules that can be about one of these values, which were drawn from bundles."""
        return ()

    def foretold_forbids(self, call: Any) -> bool:
        """Whether a refused call would be refused whatever others do."""
        return False

    def foretold_after_storm(self, calls: Sequence[Any]) -> None:
        """Calls have been made at the same time, and are over: look at what they gave."""

    def foretold_meet(self) -> None:
        """Calls are about to be made at the same time: one begins in the middle of another."""

    def foretold_eagerness(self, name: str) -> float:
        """How much more often than usual the rule of that name is applied just now."""
        return 1.0

    @classmethod
    def foretold_keeps_state(cls) -> bool:
        """Whether all runs in a process work on the same objects."""
        return False

    def foretold_allows(self, error: Any) -> bool:
        """Whether an error of an application that no rule has read is as it should be."""
        return False

    # What foretold asks a target for (`world/run.py`).

    @classmethod
    def foretold_target(cls) -> Callable[[World], Coroutine[Any, Any, None]]:
        """The machine as a function of the world. Mistakes are found here, before any run."""
        blueprint = blueprint_of(cls)
        options_for(cls, "")
        _warm_up(blueprint)

        def main(world: World) -> Coroutine[Any, Any, None]:
            return named_main(cls, world)

        if cls.oracle is not None:
            from foretold.spec.machine.storm import Judge

            setattr(main, JUDGE, functools.partial(Judge, main, cls))
        return main

    @classmethod
    def foretold_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a search or a run, with what the class says, as the world knows them."""
        settings = {name: value for name, value in given.items() if name not in OPTIONS}
        text = options_text(given)
        options_for(cls, text)
        if text:
            settings["machine"] = text
        if settings.get("faults") is None and cls.faults is not None:
            settings["faults"] = cls.faults
        return settings


def named_main(
    cls: type[Machine], world: World, conducted: Callable[..., Course] | None = None
) -> Coroutine[Any, Any, None]:
    """The main of a run of the class, which may be conducted by somebody else than the tape."""
    from foretold.spec.machine.course import play

    options = options_for(cls, world.settings.machine)
    main: Any = play(cls, blueprint_of(cls), options, world, conducted)
    main.__name__ = cls.__name__  # by which the story knows the task
    coroutine: Coroutine[Any, Any, None] = main
    return coroutine


def options_for(cls: type[Machine], text: str) -> MachineOptions:
    """What holds for a run of the class, with what stands on its tape."""
    options = MachineOptions(cls.steps, cls.actors, cls.weights).changed(text)
    options.check(cls.__name__, [rule.name for rule in blueprint_of(cls).rules])
    return options


def _warm_up(blueprint: Blueprint) -> None:
    """Inside a run no file can be read, and Hypothesis reads some before its first draws."""
    if blueprint.uses_hypothesis:
        from foretold.spec.hypothesis_adapter import warm_up

        warm_up(*(given for rule in blueprint.all_rules for given in rule.arguments.values()))


# ---------------------------------------------------------------- what a class says


def blueprint_of(cls: type[Machine]) -> Blueprint:
    """The rules and invariants of a class and of those it derives from."""
    found: Blueprint | None = vars(cls).get(_BLUEPRINT)
    if found is None:
        found = _read(cls)
        setattr(cls, _BLUEPRINT, found)
    return found


def _read(cls: type[Machine]) -> Blueprint:
    rules: list[Rule] = []
    initializers: list[Rule] = []
    invariants: list[Invariant] = []
    mirrors: list[Mirror] = []
    for name in _names(cls):
        function = inspect.getattr_static(cls, name)
        if isinstance(function, Mirror):
            _check_name(cls, name)
            mirrors.append(function)
            continue
        rule, invariant = rule_of(function), invariant_of(function)
        if rule is not None:
            _check_name(cls, name)
            (initializers if rule.once else rules).append(replace(rule, called=name))
        elif invariant is not None:
            _check_name(cls, name)
            invariants.append(replace(invariant, called=name))
        elif preconditions_of(function):
            raise UsageError(
                f"{cls.__name__}.{name} has a precondition but is not a rule: write "
                "@foretold.rule(…) above it as well"
            )
    if not rules and any(hasattr(getattr(cls, name, None), _OF_HYPOTHESIS) for name in _names(cls)):
        raise UsageError(
            f"the rules of {cls.__name__} are those of Hypothesis. Write "
            "`from foretold import rule, invariant`, not `from hypothesis.stateful import …`"
        )
    if not rules:
        raise UsageError(
            f"{cls.__name__} has no rules. Write at least one:\n"
            "    @foretold.rule(amount=st.integers(0, 100))\n"
            "    async def pay(self, amount): ..."
        )
    _check_bundles(cls, (*initializers, *rules))
    _check_tolerated(cls)
    _check_model(cls)
    _check_oracle(cls)
    operations_of(cls)
    check_whole(f"{cls.__name__}.stutters", cls.stutters, at_least=0, example=1)
    check_number(f"{cls.__name__}.call_s_max", cls.call_s_max, above=0, finite=False)
    check_number(f"{cls.__name__}.call_steps_max", cls.call_steps_max, above=0, finite=False)
    return Blueprint(tuple(rules), tuple(initializers), tuple(invariants), tuple(mirrors))


def _names(cls: type[Machine]) -> list[str]:
    """All names, in the order in which they were first written, base classes first."""
    classes = [base for base in reversed(cls.__mro__) if base not in (object, Machine)]
    return list(dict.fromkeys(name for base in classes for name in vars(base)))


def _check_name(cls: type[Machine], name: str) -> None:
    if hasattr(Machine, name) or name in ("world", "cast", "drawing_for"):
        raise UsageError(
            f"{cls.__name__}.{name}: foretold.Machine already has an attribute of this name. "
            "Rename the rule, invariant or mirror"
        )


def _check_bundles(cls: type[Machine], rules: Sequence[Rule]) -> None:
    filled = {target.name for rule in rules for target in rule.targets}
    for rule in rules:
        for bundle in rule.needs:
            if bundle.name not in filled:
                known = f" There are {', '.join(sorted(filled))}." if filled else ""
                raise UsageError(
                    f"{cls.__name__}.{rule.name} draws from the bundle {bundle.name!r}, but no "
                    f"rule adds values to it.{known} Write @foretold.rule(target=…) above the "
                    "rule that makes such values"
                )


def _check_tolerated(cls: type[Machine]) -> None:
    given: Any = cls.tolerates
    if isinstance(given, type) and issubclass(given, BaseException):
        given = cls.tolerates = (given,)
    wrong = not isinstance(given, tuple | list) or not all(
        isinstance(each, type) and issubclass(each, BaseException) for each in given
    )
    if wrong:
        raise UsageError(
            f"{cls.__name__}.tolerates lists exceptions, such as (httpx.TransportError,); "
            f"got {given!r}"
        )


def _check_oracle(cls: type[Machine]) -> None:
    if cls.oracle not in (None, "serial"):
        raise UsageError(f'{cls.__name__}.oracle is "serial" or None; got {cls.oracle!r}')
    storms: object = cls.storms
    if not isinstance(storms, int | float) or not 0 <= storms <= 1:
        raise UsageError(f"{cls.__name__}.storms is a share, from 0 to 1; got {cls.storms!r}")
    alone = cls.actors < 2 if isinstance(cls.actors, int) else len(cls.actors) < 2
    if cls.oracle and alone and cls.storms == 1:
        raise UsageError(
            f"{cls.__name__} has one actor, so that no two calls are made at the same time: the "
            "serial oracle needs actors = 2 at least"
        )


def _check_model(cls: type[Machine]) -> None:
    given: Any = cls.model
    if given is None or isinstance(given, type):
        return
    of_a_class = hasattr(given, "__dict__") and not callable(given)
    wrong, right = repr(given), "ShopModel"
    if of_a_class:
        right = type(given).__name__
        wrong = f"{right}()"
    raise UsageError(
        f"{cls.__name__}.model must be the class of the model. Each run makes its own object, "
        "because a shared one would carry state from one run into the next.\n"
        f"  wrong: model = {wrong}\n  right: model = {right}"
    )
