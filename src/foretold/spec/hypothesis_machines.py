"""Runs a `RuleBasedStateMachine` of Hypothesis, unchanged, in a world.

Rules, bundles, preconditions and invariants are Hypothesis' own objects; only its engine is left
out. Each decision comes from the tape instead, laid out so that the tape's shrinker can take out a
whole step: a step begins with "one more step" (0: the program ends here), then which rule, counted
over all rules of the class, then its arguments. If a rule that a tape names can't be used now, the
next one that can takes its place; so taking out a step leaves the meaning of the others.

What Hypothesis does with a test case as a whole is done with less here. A strategy that gives no
value for an argument costs that step, since nothing has happened yet. Where a rule's own `assume`
fails the program ends: the steps up to there were a valid program.

Besides `hypothesis_adapter.py`, this file alone touches Hypothesis' private API.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from foretold.errors import RunDiscarded, UsageError
from foretold.spec.hypothesis_adapter import (
    SUPPORTED_HYPOTHESIS,
    LaterDraws,
    StepDiscarded,
    TapeData,
    missing_of,
    need_all,
)
from foretold.spec.workload import shared_of
from foretold.tape import WORKLOAD
from foretold.tape.shrink.steps import more_label, reference_label
from foretold.trace import encode
from foretold.world.world import World

try:
    from hypothesis import reporting
    from hypothesis.control import BuildContext
    from hypothesis.errors import InvalidDefinition, UnsatisfiedAssumption
    from hypothesis.internal.healthcheck import fail_health_check
    from hypothesis.stateful import MultipleResults, VarReference
    from hypothesis.utils.conventions import not_set
    from hypothesis.vendor.pretty import RepresentationPrinter
except ImportError as moved:
    raise UsageError(
        f"Hypothesis {hypothesis.__version__} has moved names that foretold needs ({moved}). "
        f"Write: pip install 'hypothesis{SUPPORTED_HYPOTHESIS}'"
    ) from moved

P_MORE = 1 - 2**-16
"""As in Hypothesis: a run makes all steps it may, and only a shrunk tape ends sooner."""
SWARM = "swarm"
PROGRAM_MAX = 60
SWARM_WEIGHTS = (1.0, 0.0, 6.0)
"""What a run may draw for each rule: as usual, never, often."""

PRIVATE_API: tuple[tuple[Any, str], ...] = (
    (RuleBasedStateMachine, "_pretty_print _repr_step _add_results_to_targets bundle setup_state"),
    (RuleBasedStateMachine, "check_invariants teardown TestCase"),
    (stateful.Rule, "targets function arguments preconditions bundles arguments_strategies"),
    (stateful.Invariant, "function preconditions check_during_init"),
    (stateful.RuleStrategy, "_setup_for"),
    (stateful.Bundle("one"), "name consume draw_references _transformations"),
)


def missing_private_api() -> list[str]:
    """What this version of Hypothesis lacks of what is used here. Empty: all is well."""
    return missing_of(PRIVATE_API)


need_all(missing_private_api())


def machine_of(given: type) -> type[RuleBasedStateMachine] | None:
    """The machine that a class is, or whose `TestCase` it is; None for other classes."""
    run_test = getattr(given, "runTest", None)
    machine = getattr(run_test, "_hypothesis_state_machine_class", given)
    return machine if issubclass(machine, RuleBasedStateMachine) else None


def program_for(machine: type[RuleBasedStateMachine]) -> Callable[[World], None]:
    """A plain program that runs the machine once. As a test it is run `max_examples` times."""

    def program(world: World) -> None:
        MachineRun(machine, world).run()

    program.__name__ = program.__qualname__ = machine.__name__
    program.__module__ = machine.__module__
    wanted = int(machine.TestCase.settings.max_examples)
    vars(program).update(foretold_machine=machine, foretold_runs=wanted)
    return program


# ---------------------------------------------------------------- what rules draw from


class MachineData(TapeData):
    """What the arguments of one run are drawn from."""

    say: Callable[[str], object]
    printers: Any
    draws = 0
    """How many values rules drew by `data()` so far."""

    def draw(self, strategy: Any, label: object = None, observe_as: str | None = None) -> Any:
        if isinstance(strategy, stateful.Bundle):
            return self._draw_reference(strategy)
        return super().draw(strategy, label, observe_as)

    def _draw_reference(self, bundle: Any) -> Any:
        """Always one choice, counted back from the newest value, however many values there are."""
        machine: Any = self.hypothesis_runner
        references = machine.bundle(bundle.name)
        if not references:
            raise StepDiscarded(f"the bundle {bundle.name!r} is empty")
        label = reference_label(bundle.name, consumes=bundle.consume)
        first = self.provider.drawer.source.choose(max(2, len(references)), label)
        for back in range(first, first + len(references)):
            at = len(references) - 1 - back % len(references)
            fits, value = _transformed(bundle, machine.names_to_values[references[at].name])
            if fits:
                reference = references.pop(at) if bundle.consume else references[at]
                return reference if bundle.draw_references else value
        raise StepDiscarded(f"no value of the bundle {bundle.name!r} passes its filter")

    def new_context(self) -> BuildContext:
        if self.printers is None:
            return super().new_context()
        return TellingContext(self)

    @property
    def _shared_data_strategy(self) -> LaterDraws:  # type: ignore[override]  # kept, it were a cycle
        return ToldDraws(self)


class TellingContext(BuildContext):
    """Remembers by which calls values were made, so that they are printed as these calls."""

    def __init__(self, data: MachineData) -> None:
        super().__init__(data, is_final=True, wrapped_test=_no_test)
        if data.printers is not None:
            self.known_object_printers = data.printers


class ToldDraws(LaterDraws):
    """The value of `st.data()` in a machine: what is drawn stands in the program."""

    def draw(self, strategy: st.SearchStrategy[Any], label: Any = None) -> Any:
        data: Any = self.conjecture_data
        value = super().draw(strategy, label)
        data.draws += 1
        name = "" if label is None else f" ({label})"
        data.say(f"Draw {data.draws}{name}: {_printed(value, data)}")
        return value


def _transformed(bundle: Any, value: Any) -> tuple[bool, Any]:
    """Whether a value passes the filters of `bundle.filter(…).map(…)`, and what becomes of it."""
    for kind, function, *_ in bundle._transformations:
        if kind == "map":
            value = function(value)
        elif not function(value):
            return False, None
    return True, value


def _printed(value: object, data: MachineData) -> str:
    context = None if data.printers is None else TellingContext(data)
    printer = RepresentationPrinter(context=context)
    printer.pretty(value)
    return str(printer.getvalue())


def _no_test() -> None:
    """Stands for the test function, of which there is none."""


# ---------------------------------------------------------------- one run


class MachineRun:
    """A machine, once from its first step to its teardown."""

    def __init__(self, kind: type[RuleBasedStateMachine], world: World) -> None:
        self.kind = kind
        self.world = world
        self.settings = kind.TestCase.settings
        self.source = world.tape.stream(WORKLOAD)
        self.data = MachineData(self.source, None, shared_of(world), not_set)
        self.data.say = self.say
        # To print a value as the call that made it costs more than to make it: for stories only.
        self.data.printers = defaultdict(list) if world.trace.detail else None
        self.program: list[str] = []
        world.opening = self.program_text
        self.completed = 0
        self.added: list[str] = []
        """The bundles to which the last step has added values."""
        self.weights: list[float] = []
        self.machine: Any = None
        self.rules: list[Any] = []

    def say(self, text: object) -> None:
        """The program goes on with this line."""
        self.program.append(str(text))

    def program_text(self) -> str:
        """What was done, for the head of a story."""
        lines = [f"  {line}" for text in self.program for line in text.splitlines()]
        left = len(lines) - PROGRAM_MAX
        if left > 0:
            lines[PROGRAM_MAX // 2 : -PROGRAM_MAX // 2] = [f"  # … {left} more lines"]
        return "\n".join(["The program:", *lines, ""])

    def run(self) -> None:
        """Run it. Raises what the machine raises, with the program in a note."""
        try:
            with TellingContext(self.data), reporting.with_reporter(self.say):
                self._run()
        except (UnsatisfiedAssumption, StepDiscarded) as rejected:
            if not self.completed:
                raise RunDiscarded(
                    f"{self.kind.__name__} was left in its first step: {rejected}"
                ) from rejected
        except Exception as error:
            if not self.world.trace.detail:  # else its story begins with the program
                error.add_note("\n".join(self.program))
            raise

    def _run(self) -> None:
        self.machine = machine = self.kind()
        if not isinstance(machine, RuleBasedStateMachine):
            raise UsageError(
                f"{self.kind.__name__}() must return a state machine; it returned {machine!r}"
            )
        vars(self.data).update(hypothesis_runner=machine)
        vars(machine).update(_observability_predicates=Counter())
        self.rules = machine._rules_strategy.rules
        self.weights = self._drawn_weights()
        try:
            self.say(f"state = {self.kind.__name__}()")
            self._check_invariants()
            for _ in range(self.settings.stateful_step_count):
                if self.world.failures:
                    break
                if not self.source.chance(P_MORE, more_label(self.added)):
                    break
                self._step()
        finally:
            self.say("state.teardown()")
            machine.teardown()

    def _drawn_weights(self) -> list[float]:
        """Some runs prefer some rules, or do without them: together these go further."""
        swarm = self.world.tape.stream(SWARM)
        if not swarm.choose(2, "rules"):
            return [1.0] * len(self.rules)
        return [SWARM_WEIGHTS[swarm.choose(3, rule.function.__name__)] for rule in self.rules]

    # One step

    def _step(self) -> None:
        machine, self.added = self.machine, []
        waiting = machine._initialize_rules_to_run
        before = {name: list(references) for name, references in machine.bundles.items()}
        if waiting:
            at = self.source.choose(max(2, len(waiting)), "initialize")
            rule = waiting[at % len(waiting)]
        else:
            rule = self._next_rule()
        try:
            drawn = self._arguments(rule, rule.arguments if waiting else rule.arguments_strategies)
        except StepDiscarded:
            machine.bundles.update(before)  # what was consumed for it is there again
            return
        if waiting:
            waiting.remove(rule)
        self._call(rule, drawn)
        self.completed += 1
        self._check_invariants()

    def _next_rule(self) -> Any:
        usable = [self._is_usable(rule) for rule in self.rules]
        if not any(usable):
            names = ", ".join(rule.function.__name__ for rule in self.rules)
            raise InvalidDefinition(
                f"No progress can be made from state {self.machine!r}, because no available rule "
                f"had a True precondition. rules: {names}"
            )
        weights = [weight * now for weight, now in zip(self.weights, usable, strict=True)]
        at = self.source.weighted(weights if any(weights) else usable, "rule")
        later = [n for n in range(at, len(usable)) if usable[n]]
        return self.rules[later[0] if later else usable.index(True)]

    def _is_usable(self, rule: Any) -> bool:
        machine = self.machine
        if not all(machine.bundle(bundle.name) for bundle in rule.bundles):
            return False
        return all(condition(machine) for condition in rule.preconditions)

    def _arguments(self, rule: Any, strategies: dict[str, Any]) -> dict[str, Any]:
        drawn = {}
        for name, strategy in strategies.items():
            try:
                drawn[name] = self.data.draw(strategy, name)
            except Exception as error:
                where = f"for rule {rule.function.__name__}"
                error.add_note(f"while generating {name!r} from {strategy!r} {where}")
                raise
        return drawn

    def _call(self, rule: Any, drawn: dict[str, Any]) -> None:
        machine, world = self.machine, self.world
        shown = {name: machine._pretty_print(value) for name, value in drawn.items()}
        given = {name: self._value(value) for name, value in drawn.items()}
        world.trace.note("rule", rule.function.__name__, encode(given))
        result: Any = stateful.multiple()
        try:
            result = rule.function(machine, **given)
            if rule.targets:
                results = result.values if isinstance(result, MultipleResults) else [result]
                machine._add_results_to_targets(rule.targets, results)
                self.added = [target for target in rule.targets for _ in results]
            elif result is not None:
                self._refuse_result(
                    "Rules should return None if they have no target bundle, but "
                    f"{rule.function.__qualname__} returned {result!r}"
                )
        finally:
            self.say(machine._repr_step(rule, shown, result))

    def _value(self, drawn: Any) -> Any:
        """What a reference to a bundle's value stands for; all else is itself."""
        values = self.machine.names_to_values
        if isinstance(drawn, VarReference):
            return values[drawn.name]
        if isinstance(drawn, list) and all(isinstance(each, VarReference) for each in drawn):
            return [values[each.name] for each in drawn]
        return drawn

    def _check_invariants(self) -> None:
        machine = self.machine
        if type(machine).check_invariants is not RuleBasedStateMachine.check_invariants:
            machine.check_invariants(self.settings, self.say, Counter())
            return
        # Not by the machine's own method: it reads the clock, which moves virtual time.
        for invariant in machine.invariants:
            if machine._initialize_rules_to_run and not invariant.check_during_init:
                continue
            if not all(condition(machine) for condition in invariant.preconditions):
                continue
            self.say(f"state.{invariant.function.__name__}()")
            result = invariant.function(machine)
            if result is not None:
                self._refuse_result(
                    "The return value of an @invariant is always ignored, but "
                    f"{invariant.function.__qualname__} returned {result!r} instead of None"
                )

    def _refuse_result(self, why: str) -> None:
        fail_health_check(self.settings, why, hypothesis.HealthCheck.return_value)
