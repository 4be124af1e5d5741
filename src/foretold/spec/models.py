"""`foretold.from_model`: a Hypothesis strategy for the values of a Pydantic model.

Constraints of fields are read, not guessed at: what is drawn is valid by construction, and what the
model's own validators refuse besides is drawn again. Dataclasses and `TypedDict`s work as well, and
for these Pydantic need not be installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from foretold.arguments import nearest
from foretold.errors import UsageError
from foretold.spec.annotations import Annotations, NoStrategy, TooDeep
from foretold.spec.hypothesis_adapter import StepDiscarded, draw
from foretold.spec.hypothesis_filters import TRIES, Persistent
from foretold.spec.limits import Impossible, Limits
from foretold.tape import Tape

Strategy = st.SearchStrategy[Any]

DEPTH_MAX = 3
"""How often a class may stand inside of itself."""
TRIED_MAX = 60
"""So many values in a row that the model refuses: there is no point in going on."""


class Field(NamedTuple):
    name: str
    key: str
    """Under which the value is given: the alias, if there is one."""
    kind: Any
    limits: Limits
    required: bool


def from_model(model: type, /, **overrides: Strategy) -> Strategy:
    """What `foretold.from_model` does (`spec/later.py`)."""
    fields = fields_of(model)
    if fields is None:
        raise UsageError(
            f"from_model takes a Pydantic model, a dataclass or a TypedDict; got {model!r}.\n"
            "  right: foretold.from_model(Order), with class Order(pydantic.BaseModel)"
        )
    _check_overrides(model, fields, overrides)
    try:
        found = _strategy_of(model, fields, overrides, {})
    except TooDeep as inside:
        raise UsageError(
            f"from_model({model.__name__}): {inside} contains itself without end: each value needs "
            "another one. Give a field of the cycle a default, let it be None, or give a strategy: "
            f"from_model({model.__name__}, {fields[0].name}=st.…)"
        ) from None
    _check_hopeless(model, found)
    return found


def _check_overrides(model: type, fields: list[Field], overrides: Mapping[str, Any]) -> None:
    names = [field.name for field in fields]
    for name, strategy in overrides.items():
        if name not in names:
            meant = nearest(name, names)
            raise UsageError(f"from_model: {model.__name__} has no field {name!r}.{meant}")
        if not isinstance(strategy, st.SearchStrategy):
            raise UsageError(
                f"from_model({model.__name__}, {name}=…) takes a strategy, such as "
                f"st.just({strategy!r}); got {strategy!r}"
            )


# ---------------------------------------------------------------- what a class has


def fields_of(model: Any) -> list[Field] | None:
    """The fields of a class; None if it is none of those that have fields."""
    if not isinstance(model, type):
        return None
    declared = getattr(model, "model_fields", None) or getattr(model, "__pydantic_fields__", None)
    if isinstance(declared, dict) and hasattr(model, "__pydantic_validator__"):
        return [_pydantic_field(model, name, info) for name, info in declared.items()]
    if dataclasses.is_dataclass(model):
        return _dataclass_fields(model)
    if issubclass(model, dict) and hasattr(model, "__required_keys__"):  # also of typing_extensions
        hints = typing.get_type_hints(model, include_extras=True)
        needed: frozenset[str] = model.__required_keys__
        return [Field(n, n, kind, Limits(), n in needed) for n, kind in hints.items()]
    if hasattr(model, "__pydantic_validator__"):
        return []  # a model without fields
    return None


def _pydantic_field(model: Any, name: str, info: Any) -> Field:
    config = getattr(model, "model_config", None) or getattr(model, "__pydantic_config__", {})
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    alias = info.validation_alias or info.alias
    key = alias if isinstance(alias, str) and not by_name else name
    limits = Limits().within(info.metadata)
    return Field(name, key, info.annotation, limits, info.is_required())


def _dataclass_fields(model: Any) -> list[Field]:
    hints = typing.get_type_hints(model, include_extras=True)
    missing = dataclasses.MISSING
    return [
        Field(f.name, f.name, hints[f.name], Limits(), f.default is f.default_factory is missing)
        for f in dataclasses.fields(model)
        if f.init
    ]


# ---------------------------------------------------------------- its values


def _strategy_of(
    model: type, fields: list[Field], overrides: Mapping[str, Strategy], within: dict[type, int]
) -> Strategy:
    within = {**within, model: within.get(model, 0) + 1}

    def nested(kind: type, depth: int) -> Strategy | None:
        inner = fields_of(kind)
        if inner is None:
            return None
        if within.get(kind, 0) >= DEPTH_MAX:
            raise TooDeep(kind.__name__)
        return _strategy_of(kind, inner, {}, within)

    annotations = Annotations(nested)
    needed: dict[str, Strategy] = {}
    optional: dict[str, Strategy] = {}
    for field in fields:
        try:
            made = overrides.get(field.name)
            if made is None:
                made = annotations.strategy(field.kind, field.limits)
            made.validate()
        except (Impossible, InvalidArgument) as error:
            said = str(error).partition(".  ")[0]
            raise UsageError(
                f"from_model({model.__name__}): no value for the field {field.name!r}: {said}. "
                f"Give a strategy: from_model({model.__name__}, {field.name}=st.…)"
            ) from None
        except NoStrategy as unknown:
            if isinstance(unknown, TooDeep) and not field.required:
                continue
            if isinstance(unknown, TooDeep):
                raise
            raise UsageError(
                f"from_model({model.__name__}): no strategy for the field {field.name!r} of type "
                f"{unknown}. Give one: from_model({model.__name__}, {field.name}=st.…)"
            ) from None
        (needed if field.required or field.name in overrides else optional)[field.key] = made
    drawn: Strategy = st.fixed_dictionaries(needed, optional=optional)
    if getattr(model, "__pydantic_root_model__", False):  # its value is no mapping of fields
        drawn = drawn.map(lambda values: values.get("root"))
    build = builder_of(model)
    made = drawn.map(lambda values: _built(build, values))
    return Persistent(made, lambda each: not isinstance(each, Rejected))


class Rejected(NamedTuple):
    """What a model's validator said against a value."""

    values: Any
    why: str


def _built(build: Callable[[Any], Any], values: Any) -> Any:
    try:
        return build(values)
    except (ValueError, TypeError, AssertionError) as error:  # ValidationError is a ValueError
        return Rejected(values, str(error))


@lru_cache(maxsize=256)
def builder_of(model: Any) -> Callable[[Any], Any]:
    """What makes a value of the class, and refuses what is none."""
    if hasattr(model, "model_validate"):
        validate: Callable[[Any], Any] = model.model_validate
        return validate
    if "pydantic" in sys.modules:
        from pydantic import PydanticUserError, TypeAdapter

        with contextlib.suppress(PydanticUserError):  # typing.TypedDict before Python 3.12
            adapted: Callable[[Any], Any] = TypeAdapter(model).validate_python
            return adapted
    return lambda values: model(**values)


def _check_hopeless(model: type, strategy: Any) -> None:
    """Draw until a value is valid: most often the first. By a tape of its own, always the same."""
    source = Tape.seeded(0).stream("from_model")
    for _ in range(TRIED_MAX // TRIES):
        with contextlib.suppress(StepDiscarded):
            draw(strategy, source)
            return
    why = "its strategies give no value"
    with contextlib.suppress(StepDiscarded):
        refused = draw(strategy.inner, Tape.seeded(0).stream("from_model"))
        why = f"the model itself refuses, for instance, {refused.values!r}:\n{refused.why}"
    raise UsageError(
        f"from_model({model.__name__}): {TRIED_MAX} values in a row were refused: {why}\n"
        "Give fields that depend on each other strategies of their own: "
        f"from_model({model.__name__}, end=st.just(…))"
    )
