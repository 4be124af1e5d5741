"""`@foretold.refines`: from what can be seen of the system to the state of its model.

    class Accounts(foretold.Machine):
        model = Auth

        @foretold.refines
        def as_auth(self, prophecy, history):
            timed_out = prophecy.get("answer", "ok") != "ok"
            return {"users": self.client.users, "error": "timeout" if timed_out else …}

A model is simpler than the system, so their states are not the same. The mapping says which state
of the model a state of the system stands for. It is looked at after every action that nobody else's
overlaps: rm(impl(s)) = model(rm(s)). With overlap it is looked at in quiet moments, and some order
of the calls has to explain it.

A mapping watches: it is a plain function, and `pg.sql` looks into a database without taking time.
`prophecy` has the outcome that each prophecy has foretold last, by the prophecies' names;
`history` has all calls that are over. Both may be left out.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from foretold.arguments import signature_of
from foretold.errors import NotRefined, UsageError
from foretold.spec.checkers.history import Operation
from foretold.spec.checkers.steps import STATE, run_on, same, ways
from foretold.spec.nondet import bound
from foretold.world.current import world_or_none

VALUE_CHARS_MAX: Final = 300
_OWN: Final = ("prophecy", "history")


class Done(NamedTuple):
    """A call that is over, as a history variable sees it."""

    actor: str
    name: str
    arguments: Mapping[str, Any]
    prophecy: Mapping[str, str]
    outcome: str
    result: Any


class Refinement:
    """A mapping, and how it is checked."""

    def __init__(self, mapping: Callable[..., Any], model: type | None = None) -> None:
        given: Any = mapping
        if not callable(given) or inspect.iscoroutinefunction(mapping):
            raise UsageError(
                "foretold.refines decorates a plain function: a mapping looks, and nothing may "
                "happen meanwhile.\n  wrong: async def as_model(self)\n  right: def as_model(self),"
                ' with pg.sql("select …") for what a database has'
            )
        self.mapping = mapping
        self.model = model
        self.__doc__ = mapping.__doc__
        self.__name__ = getattr(mapping, "__name__", "mapping")
        known = signature_of(mapping).parameters
        self._wants = [name for name in _OWN if name in known]

    def __get__(self, machine: Any, owner: type | None = None) -> Any:
        """As an attribute of a machine it is that machine's own mapping."""
        return self if machine is None else lambda **given: self.state(machine, **given)

    def state(
        self, system: Any, *, prophecy: Mapping[str, str] | None = None, history: Any = ()
    ) -> Any:
        """The model's state that the system is in, by the mapping; a copy."""
        given = {"prophecy": dict(prophecy or {}), "history": list(history)}
        with _watching():
            mapped = self.mapping(system, **{name: given[name] for name in self._wants})
        return copy.deepcopy(mapped)

    async def check(
        self,
        system: Any,
        action: str,
        /,
        *arguments: Any,
        prophecy: Mapping[str, str] | None = None,
        **named: Any,
    ) -> Any:
        """Do one action on the system, and compare with the model from where the system was.

            fate = answer.…
            await as_auth.check(client, "create_user", "ada", prophecy={"answer": fate})

        For tests without a machine. What is foretold is given to the model's method as well, if it
        has a parameter of the prophecy's name. Returns what the action gives.
        """
        before = self.state(system)
        model = self._model_in(before)
        done = getattr(system, action)(*arguments, **named)
        result = await done if inspect.isawaitable(done) else done
        told = signature_of(getattr(model, action)).parameters if hasattr(model, action) else {}
        fates = {name: each for name, each in (prophecy or {}).items() if name in told}
        given = bound(model, action, arguments, {**named, **fates})
        after = self.state(system, prophecy=prophecy)
        call = Operation("", action, given)
        states = [
            run_on(each, Operation("", STATE))
            for gave, each in ways(model, call)
            if not isinstance(gave, Exception)
        ]
        if not any(same(each, after) for each in states):
            raise NotRefined(not_refined(call.call, after, states))
        return result

    def _model_in(self, state: Any) -> Any:
        if self.model is None:
            raise UsageError(
                "this mapping does not say to which model it leads.\n"
                "  right: @foretold.refines(Auth)"
            )
        model = self.model()
        if hasattr(model, "restore"):
            model.restore(copy.deepcopy(state))
        elif isinstance(state, Mapping):
            for name, value in state.items():
                setattr(model, name, copy.deepcopy(value))
        else:
            raise UsageError(
                f"the mapped state is {state!r}: give a dict of the model's attributes, or the "
                f"model a method restore(state)"
            )
        return model


def refines(mapping: Any, /) -> Any:
    """Decorate the mapping from what can be seen of the system to the state of its model.

    In a machine `@foretold.refines`, on a method; the machine says `model = …`. Elsewhere
    `@foretold.refines(Model)`, on a function of the system; then `await mapping.check(system,
    "action", …)` does one action and compares.
    """
    if isinstance(mapping, type):
        return lambda function: Refinement(function, mapping)
    return Refinement(mapping)


def refinement_of(cls: type) -> Refinement | None:
    """The mapping of a machine's class."""
    found = {
        name: each
        for base in reversed(cls.__mro__)
        for name, each in vars(base).items()
        if isinstance(each, Refinement)
    }
    if len(found) > 1:
        raise UsageError(
            f"{cls.__name__} has {len(found)} mappings ({', '.join(found)}): one says it all"
        )
    return next(iter(found.values()), None)


@contextmanager
def _watching() -> Iterator[None]:
    """Looks into services that are made within leave no trace in the run."""
    world = world_or_none()
    with ExitStack() as looks:
        for service in world.services.get("postgres", ()) if world is not None else ():
            looks.enter_context(service.watched())
        yield


# ---------------------------------------------------------------- words


def not_refined(after: str, mapped: Any, states: list[Any]) -> str:
    """Both states and what differs; of several states of the model, the nearest one."""
    lines = [f"after {after} the system is not in the model's state"]
    if not states:
        return "\n".join([*lines, f"system: {shown(mapped)}", "model:  it has no state after that"])
    nearest = min(states, key=lambda each: len(list(differences(mapped, each))))
    differ = list(differences(mapped, nearest))
    lines += differ
    if len(differ) != 2 or not differ[0].startswith("system:"):
        lines += [f"system: {shown(mapped)}", f"model:  {shown(nearest)}"]
    if len(states) > 1:
        lines.append(f"(the nearest of {len(states)} states that the model may be in)")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """As it is printed, and not too long."""
    text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def differences(seen: Any, expected: Any, side: str = "system") -> Iterator[str]:
    """Both sides; of two dicts, only what differs."""
    if not (isinstance(seen, dict) and isinstance(expected, dict)):
        yield f"{side}: {shown(seen)}"
        yield f"model:{' ' * (len(side) - 5)} {shown(expected)}"
        return
    for key in dict.fromkeys([*seen, *expected]):
        both = [shown(each[key]) if key in each else "nothing" for each in (seen, expected)]
        if key not in seen or key not in expected or not same(seen[key], expected[key]):
            yield f"{key!r}: {side} {both[0]}, model {both[1]}"
