"""What all runs of a simulated test share, and why that is worth a word.

Function-scoped fixtures are made anew for every run (`fresh.py`); what a wider fixture has made is
not. What the first run leaves in a list is then still there in the second: a run is no
longer a function of its tape, and a failure may come from the number of runs instead of the code.
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
import unittest
import uuid
from collections import deque
from collections.abc import MutableMapping, MutableSequence, MutableSet
from dataclasses import fields
from typing import Any

from foretold.errors import ForetoldWarning, UsageError
from foretold.kernel.waiting import is_library
from foretold.pytest_support.cases import constructed, has_constructor

_DEPTH_MAX = 3
_NO_DEFINITION: Any = (types.SimpleNamespace(func=len, scope="function"),)
_HARMLESS = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    functools.partial, pathlib.PurePath, enum.Enum, re.Pattern, logging.Logger, BaseException,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID,
    decimal.Decimal, fractions.Fraction, str, bytes, int, float, complex,
)  # fmt: skip
_MUTABLE = (MutableMapping, MutableSequence, MutableSet, deque)


def check_fixtures(item: Any, names: list[str]) -> None:
    """Refuse what cannot work, warn about what lies on self. `names`: the test's parameters."""
    values = getattr(item, "funcargs", {})
    for name in names:
        _refuse_async(name, values.get(name))
    _refuse_other_backends(values.get("anyio_backend"))
    instance = getattr(item, "instance", None)
    state = getattr(instance, "__dict__", {})
    if isinstance(instance, unittest.TestCase) and has_constructor(instance):
        anew = constructed(instance)
        state = {name: value for name, value in state.items() if name not in anew}
    # Names with an underscore are those of unittest's own machinery.
    told = [
        f"self.{name} ({type(value).__name__})"
        for name, value in state.items()
        if name[0] != "_" and is_mutable(value)
    ]
    if told:
        item.warn(ForetoldWarning(
            f"{item.name}: all runs share {', '.join(told)}. It was made once, outside of the runs "
            "(by a shared fixture), so a run may depend on those before it. Build it "
            "in setUp, setup_method or the test."
        ))  # fmt: skip


def shared_by_runs(item: Any) -> list[str]:
    """What fixtures of wider scopes gave, if a run could change it. Plugins know what they do."""
    values = getattr(item, "funcargs", {})
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    found = []
    for name, value in values.items():
        definition = (definitions.get(name) or _NO_DEFINITION)[-1]
        code = getattr(inspect.unwrap(definition.func), "__code__", None)
        users = code is not None and not is_library(code.co_filename)
        if users and definition.scope != "function" and is_mutable(value):
            found.append(f"{name} ({type(value).__name__}, {definition.scope})")
    return found


def _refuse_other_backends(backend: Any) -> None:
    name = backend[0] if isinstance(backend, tuple) else backend
    if name not in (None, "asyncio"):
        raise UsageError(
            f"anyio_backend is {name!r}: foretold simulates asyncio. Say so in the test file:\n"
            '    @pytest.fixture(scope="module")\n'
            '    def anyio_backend(): return "asyncio"'
        )


def _refuse_async(name: str, value: Any) -> None:
    if not inspect.isawaitable(value) and not inspect.isasyncgen(value):
        return
    if inspect.iscoroutine(value):
        value.close()
    raise UsageError(
        f"fixture {name!r} gives an awaitable, and all runs share it, but it can be awaited only "
        "once. Make it a function-scoped fixture that is not shared."
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
