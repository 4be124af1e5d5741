"""The kitchen as scenarios know it: who acts, and which ports there are.

foretold play examples/kitchen/scenarios/*.scenario.yaml
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from examples.kitchen.kitchen import Kitchen
from examples.kitchen.memory import AssertingMail, AssertingStore, MemoryMail, MemoryStore
from foretold.harness import Harness, SimulationWorld, Wiring

DISHES = ("burger", "fries", "coke", "steak", "salad")


def postgres_store(world: SimulationWorld) -> Any:
    from examples.kitchen.real import PostgresStore  # its drivers are not for everybody

    return PostgresStore(world)


def smtp_mail(world: SimulationWorld) -> Any:
    from examples.kitchen.real import SmtpMail

    return SmtpMail(world)


def web_front(world: SimulationWorld) -> Any:
    from examples.kitchen.web import WebFront

    return WebFront(world)


kitchen = Harness(
    Kitchen,
    wirings={
        "memory": Wiring(
            {"store": lambda world: MemoryStore(), "mail": lambda world: MemoryMail()}
        ),
        "fakes": Wiring(
            {"store": lambda world: AssertingStore(), "mail": lambda world: AssertingMail()}
        ),
        "real": Wiring({"store": postgres_store, "mail": smtp_mail}, slack_ms=2_000),
        "web": Wiring(
            {"store": postgres_store, "mail": smtp_mail}, slack_ms=2_000, front=web_front
        ),
    },
    actors={
        "waiter": (),
        "chef": ("cook",),
        "expo": ("close",),
        "gremlin": ("cook", "close"),
    },
    strategies={
        "dish": st.sampled_from(DISHES),
        "order": st.lists(st.sampled_from(DISHES), min_size=1, max_size=4),
    },
)
