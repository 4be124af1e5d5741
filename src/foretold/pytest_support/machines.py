"""Machines as tests: `TestShop = Shop.TestCase`, and `@foretold.simulate` on a machine.

What is collected is a `unittest.TestCase`, as with Hypothesis' state machines: pytest and unittest
both take it. Its one test is a simulated function like any other, so seeds, tapes, replay and the
failure's note are those of `@foretold.simulate`.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Mapping
from typing import Any, ClassVar

from foretold.errors import UsageError
from foretold.spec.machine import machine as machines
from foretold.spec.machine.machine import Machine
from foretold.spec.machine.options import OPTIONS
from foretold.world.run import bind_main
from foretold.world.world import World

_SETTINGS = "settings"


class MachineTests(type):
    """The class of such test cases: `TestShop.settings = dict(runs=500)` makes the test anew."""

    foretold_machine: type[Machine] | None

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == _SETTINGS and cls.foretold_machine is not None:
            super().__setattr__("runTest", _test_of(cls.foretold_machine, _read(value)))

    # As a target of foretold.explore and its like it is the machine itself.

    def foretold_target(cls) -> Any:
        return _machine_of(cls).foretold_target()

    def foretold_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return _machine_of(cls).foretold_settings(given)


def _machine_of(cls: MachineTests) -> type[Machine]:
    machine = cls.foretold_machine
    assert machine is not None, "set when it is made"
    return machine


class MachineTestCase(unittest.TestCase, metaclass=MachineTests):
    """One machine, searched for a run that fails."""

    foretold_machine: type[Machine] | None = None
    settings: ClassVar[Any] = {}
    """Those of `foretold.simulate`, or an object that has them as attributes."""


def test_case_of(machine: type[Machine], settings: Mapping[str, Any]) -> type[MachineTestCase]:
    """A test case for a machine; `settings` are those of `foretold.simulate`."""
    bind_main(machine)  # mistakes are found where they were written
    made = MachineTests(
        f"{machine.__name__}.TestCase",
        (MachineTestCase,),
        {
            "__module__": machine.__module__,
            "__doc__": machine.__doc__,
            "__qualname__": f"{machine.__qualname__}.TestCase",
            "foretold_machine": machine,
        },
    )
    made.settings = dict(settings)
    return made  # type: ignore[return-value]  # its base is one


def _test_of(machine: type[Machine], given: Mapping[str, Any]) -> Any:
    from foretold.pytest_support.simulate import simulate

    def runTest(self: Any, world: World) -> Any:  # noqa: N802  # unittest calls it so
        return bind_main(machine)(world)

    runTest.__doc__ = machine.__doc__
    runTest.__module__ = machine.__module__
    runTest.__qualname__ = f"{machine.__qualname__}.TestCase.runTest"
    search = {name: value for name, value in given.items() if name in ("runs", "seed")}
    rest = {name: value for name, value in given.items() if name not in search}
    return simulate(**search, **machine.foretold_settings(rest))(runTest)


def _read(settings: Any) -> Mapping[str, Any]:
    """Settings as a dict; those of Hypothesis are understood as far as they mean the same."""
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None and isinstance(settings, hypothesis.settings):
        return {"runs": settings.max_examples, "steps": settings.stateful_step_count}
    if isinstance(settings, Mapping):
        return settings
    raise UsageError(
        "TestCase.settings are those of foretold.simulate, such as "
        f"TestShop.settings = dict(runs=500, {OPTIONS[0]}=50); got {settings!r}"
    )


machines.test_case_maker = lambda machine: test_case_of(machine, {})
