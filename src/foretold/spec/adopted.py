"""Classes that can be run as they are: state machines that were written for Hypothesis.

Nothing is imported for it until somebody else has imported `hypothesis.stateful`: without that
nobody can have such a class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from foretold.world.programs import adopt


def machine_program(given: Any) -> Callable[..., Any] | None:
    """The program that runs a `RuleBasedStateMachine`, or its `TestCase`; None for all else."""
    if not isinstance(given, type) or "hypothesis.stateful" not in sys.modules:
        return None
    from foretold.spec.hypothesis_machines import machine_of, program_for

    machine = machine_of(given)
    return None if machine is None else program_for(machine)


adopt(machine_program)
