"""What a scenario may talk about: actors, intents, queries, ports and strategies.

All of it is compared before anything is played, so that a misspelt word is an error with its place,
not a failure in the middle of a run.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretold.arguments import nearest
from foretold.errors import ScenarioError
from foretold.scenario.model import Act, Ask, Events, Faults, Repeat, Scenario, Silence, Step, Wait
from foretold.scenario.source import Mark, problem
from foretold.scenario.values import Drawn, Reference, parts

EVENT = "event"
"""By this name a reaction refers to what it reacts to."""


@dataclass(frozen=True)
class Parameters:
    """What an intent or a query is given."""

    known: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    takes_any: bool = False


def parameters_of(function: Any, without: Collection[str]) -> Parameters:
    """Read from a function's signature, without those that the harness provides."""
    found = inspect.signature(function).parameters.values()
    named = [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    named = [p for p in named if p.name not in without]
    return Parameters(
        tuple(p.name for p in named),
        tuple(p.name for p in named if p.default is p.empty),
        any(p.kind is p.VAR_KEYWORD for p in found),
    )


@dataclass(frozen=True)
class Vocabulary:
    """What there is."""

    where: str
    """Whose words these are, for sentences."""
    intents: Mapping[str, Parameters]
    queries: Mapping[str, Parameters] = field(default_factory=dict)
    actors: Sequence[str] | None = None
    """None: a scenario may have any."""
    ports: Mapping[str, Collection[str] | None] = field(default_factory=dict)
    """With the methods on which faults may strike; None if that is not known."""
    strategies: Collection[str] = ()
    is_machine: bool = False


def check_words(scenario: Scenario, words: Vocabulary) -> None:
    """Raise a sentence about the first word that nobody knows."""
    _Check(scenario, words).whole()


class _Check:
    def __init__(self, scenario: Scenario, words: Vocabulary) -> None:
        self.scenario, self.words = scenario, words
        self.saved: list[str] = []

    def _error(self, mark: Mark, what: str) -> ScenarioError:
        return problem(self.scenario.file, mark, what)

    def _known(self, mark: Mark, sort: str, word: str, known: Collection[str], where: str) -> None:
        if word not in known:
            there = ", ".join(known) or "none"
            raise self._error(
                mark, f"{where} has no {sort} {word!r}; there are {there}.{nearest(word, known)}"
            )

    def whole(self) -> None:
        scenario, words = self.scenario, self.words
        if words.actors is not None:
            for mark, actor in zip(scenario.actor_marks, scenario.actors, strict=True):
                self._known(mark, "actor", actor, words.actors, words.where)
        for step in scenario.all_steps():
            self.step(step)
        for reaction in scenario.reactions:
            self.saved.append(EVENT)
            self.act(reaction.act)

    def step(self, step: Step) -> None:
        if isinstance(step, Act):
            self.act(step)
        elif isinstance(step, Ask):
            self.ask(step)
        elif isinstance(step, Faults):
            for point, mark in step.keys.items():
                self.fault_point(point, mark)
        elif isinstance(step, Wait | Repeat):
            self.values(step.amount if isinstance(step, Wait) else step.times, step.mark)
        elif isinstance(step, Events | Silence) and self.words.is_machine:
            raise self._error(step.mark, "a machine has no log: ask it by its invariants")

    def fault_point(self, point: str, mark: Mark) -> None:
        port, dot, method = point.partition(".")
        self._known(mark, "port", port, self.words.ports, self.words.where)
        methods = self.words.ports[port]
        if dot and methods is not None:
            self._known(mark, "async method", method, methods, f"the port {port}")

    def act(self, act: Act) -> None:
        words = self.words
        self._known(act.actor_mark, "actor", act.actor, self.scenario.actors, "the list of actors")
        self._known(act.mark, "intent", act.intent, words.intents, words.where)
        self._of_machines(act)
        if not act.drawn:
            self.payload(act.intent, act.payload, act.keys, words.intents[act.intent], act.mark)
        self.values(act.payload, act.mark)
        self.values(act.expect, act.mark)
        if act.save:
            self.saved.append(act.save)

    def _of_machines(self, act: Act) -> None:
        given = act.slot is not None or act.overlap_ms is not None or act.drawn
        if given and not self.words.is_machine:
            raise self._error(
                act.mark, "slot, overlap and drawn are for machines: write a step of kind parallel"
            )

    def ask(self, ask: Ask) -> None:
        words = self.words
        self._known(ask.mark, "query", ask.query, words.queries, words.where)
        self.payload(ask.query, ask.args, ask.keys, words.queries[ask.query], ask.mark)
        self.values(ask.args, ask.mark)
        self.values(ask.expect, ask.mark)

    def payload(
        self, name: str, given: Mapping[str, Any], keys: Mapping[str, Mark], wanted: Parameters,
        mark: Mark,
    ) -> None:  # fmt: skip
        for key, place in keys.items():
            if not wanted.takes_any:
                self._known(place, "parameter", key, wanted.known, name)
        missing = [each for each in wanted.required if each not in given]
        if missing:
            raise self._error(mark, f"{name} needs {missing[0]!r}, and it is not given")

    def _saved(self, part: Reference) -> None:
        if self.words.is_machine or part.name in self.saved:
            return  # bundles of a machine name what is in them, when it is there
        there = f"saved are {', '.join(self.saved)}." if self.saved else "nothing is saved there."
        raise self._error(
            part.mark,
            f"no earlier step saves {part.name!r}; {there}{nearest(part.name, self.saved)}",
        )

    def values(self, value: Any, mark: Mark) -> None:
        for part in parts(value):
            if not isinstance(part, Drawn):
                self._saved(part)
            elif part.how == "$draw":
                self._known(
                    part.mark, "strategy", part.given, self.words.strategies, self.words.where
                )
