"""What fixtures hand over to a simulated test, and why some of it is worth a warning.

A fixture is set up once per test, as always in pytest, and a simulated test is run many times. What
the first run leaves in a list is still there in the second: a run is then no longer a function of
its tape, and a failure may come from the number of runs instead of the code.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import inspect
import logging
import pathlib
import re
import types
import uuid
from collections import deque
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from dataclasses import fields
from typing import Any

from foretold.errors import UsageError
from foretold.kernel.waiting import is_library

_DEPTH_MAX = 3
_HARMLESS = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    functools.partial, pathlib.PurePath, enum.Enum, re.Pattern, logging.Logger, BaseException,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID,
    decimal.Decimal, fractions.Fraction, str, bytes, int, float, complex,
)  # fmt: skip
_MUTABLE = (MutableMapping, MutableSequence, MutableSet, deque)


class ForetoldWarning(UserWarning):
    """Something that makes a simulation less than it could be."""


def check_fixtures(item: Any, names: list[str]) -> None:
    """Refuse what cannot work, warn about what all runs share. `names`: the test's parameters."""
    handed_over = list(_of_users_fixtures(item, names))
    for name, value in handed_over:
        _refuse_async(name, value)
    shared = [(f"fixture {name!r}", value) for name, value in handed_over]
    state = getattr(getattr(item, "instance", None), "__dict__", {})
    # Names with an underscore are those of unittest's own machinery.
    shared += [(f"self.{name}", each) for name, each in state.items() if name[0] != "_"]
    told = [f"{name} ({type(value).__name__})" for name, value in shared if is_mutable(value)]
    if told:
        item.warn(ForetoldWarning(
            f"{item.name}: all runs share {', '.join(told)}. A fixture is set up once per test, "
            "not once per run, so a run may depend on those before it. Build it inside of the "
            "test, or let the fixture return a function that builds it."
        ))  # fmt: skip


def _of_users_fixtures(item: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Values from function-scoped fixtures that the user wrote; plugins know what they do."""
    values = getattr(item, "funcargs", {})
    info = getattr(item, "_fixtureinfo", None)
    definitions = getattr(info, "name2fixturedefs", {})
    for name in names:
        if name in values and definitions.get(name):
            definition = definitions[name][-1]
            code = getattr(inspect.unwrap(definition.func), "__code__", None)
            if definition.scope == "function" and code and not is_library(code.co_filename):
                yield name, values[name]


def _refuse_async(name: str, value: Any) -> None:
    if not inspect.isawaitable(value) and not inspect.isasyncgen(value):
        return
    if inspect.iscoroutine(value):
        value.close()
    raise UsageError(
        f"fixture {name!r} is async. It would run on another loop, in real time, outside of the "
        "world. Await it inside of the test instead:\n"
        f"    {name} = await make_{name}()"
    )


def is_mutable(value: Any, depth: int = 0) -> bool:
    """Whether one run could leave something in `value` for the next one to find."""
    if value is None or isinstance(value, _HARMLESS) or depth > _DEPTH_MAX:
        return False
    if isinstance(value, _MUTABLE):
        return True
    if isinstance(value, tuple | frozenset):
        return any(is_mutable(each, depth + 1) for each in value)
    made_by = getattr(value, "__dataclass_params__", None)
    if made_by is not None and made_by.frozen:
        return any(is_mutable(getattr(value, f.name, None), depth + 1) for f in fields(value))
    return bool(getattr(value, "__dict__", None)) or made_by is not None
