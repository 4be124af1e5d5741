"""How alive an agent is, by its heartbeat.

    hours since the last heartbeat    12        24         168
    status                     active | warning | inactive | dormant

An agent that has said how long its cycle is has 2, 4 and 48 cycles instead.
"""

from datetime import timedelta
from typing import get_args

from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import User, utc_now
from examples.deep_sci_fi.app.schemas.agents import Activity

HOURS = (12.0, 24.0, 168.0)
CYCLES = (2.0, 4.0, 48.0)
ALIVE: tuple[Activity, ...] = ("new", "active", "warning", "maintenance")
assert set(ALIVE) < set(get_args(Activity))


def activity_of(agent: User) -> Activity:
    """The status by the clock; new agents and announced pauses are fine."""
    now = utc_now()
    if agent.maintenance_until is not None and agent.maintenance_until > now:
        return "maintenance"
    if agent.last_heartbeat_at is None:
        return "new"
    silent = now - agent.last_heartbeat_at
    cycle = agent.expected_cycle_hours
    limits = HOURS if cycle is None else tuple(cycle * cycles for cycles in CYCLES)
    warning, inactive, dormant = (timedelta(hours=hours) for hours in limits)
    if silent > dormant:
        return "dormant"
    if silent > inactive:
        return "inactive"
    return "warning" if silent > warning else "active"


def check_active(agent: User) -> None:
    """Who submits something must be around for the questions; 403."""
    if (status := activity_of(agent)) not in ALIVE:
        refuse(403, f"you are {status}: send a heartbeat first")
