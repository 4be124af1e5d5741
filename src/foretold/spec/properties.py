"""Properties that can be stated anywhere, in the application as in a test.

Outside a run they do nothing, so they may stay in production code.
"""

from __future__ import annotations

from foretold.arguments import plain
from foretold.errors import PropertyViolated, UsageError
from foretold.trace import encode
from foretold.world.current import world_or_none


def always(condition: object, message: str, **details: object) -> bool:
    """`condition` must hold whenever this line is reached.

    If not, the run fails: `PropertyViolated` is raised here, and recorded besides, so that it
    counts even if the program swallows the exception.
    """
    world = world_or_none()
    if world is None or world.sealed:
        return bool(condition)
    world.expected.setdefault(f"always: {message}", True)
    if condition:
        return True
    told = "".join(f"\n  {name} = {value!r}" for name, value in details.items())
    error = PropertyViolated(f"{message}{told}")
    world.fail(error)
    raise error


def sometimes(condition: object, message: str, **details: object) -> bool:
    """`condition` should hold here at least once in a campaign, else the test tests too little."""
    world = world_or_none()
    if world is not None and not world.sealed:
        message = plain(message)
        world.expected.setdefault(message, False)
        if condition:
            world.expected[message] = True
            world.reached[message] += 1
            world.trace.note("reached", message)
    return bool(condition)


def state(name: str, value: object) -> None:
    """The program is in this state now: `foretold.state("leader", leader)`.

    A search keeps runs that come into a new state, or into one after another for the first time,
    and tries what lies near them. Name what is interesting and small: a phase, a role, a number of
    replicas; not a balance or a time, of which there are always new ones.
    """
    world = world_or_none()
    if world is None or world.sealed:
        return
    if not name:
        raise UsageError(f"state needs a name, such as state('leader', leader); got {name!r}")
    world.trace.note("state", f"{name} = {encode(value)}")


def reachable(message: str, **details: object) -> None:
    """This line should be reached at least once in a campaign."""
    sometimes(True, message, **details)
