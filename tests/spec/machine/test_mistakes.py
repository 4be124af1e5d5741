"""Mistakes are found where they were written, and the message shows what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

import foretold
from foretold import (
    Bundle,
    Machine,
    UsageError,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

orders = Bundle[int]("orders")


def made(**members: Any) -> type[Machine]:
    """A machine of its own."""
    return type("Shop", (Machine,), members)


def ok(self: Any) -> None:
    """A rule without mistakes."""


async def later(self: Any) -> None:
    """The same, async."""


def nothing() -> None:
    """Takes no argument at all."""


def wants(self: Any, item: int) -> None:
    """Takes an item."""


def to_target(self: Any, target: int) -> None:
    """Takes what no rule can be given."""


def to_targets(self: Any, targets: int) -> None:
    """The same, in the plural."""


def yields(self: Any) -> Any:
    """A generator, which no rule can be."""
    yield 1


WRITTEN: dict[str, tuple[Callable[[], Any], str]] = {
    "no self": (lambda: rule()(nothing), "right: def nothing(self)"),
    "self forgotten": (
        lambda: rule(self=st.integers())(ok),
        "has no self",
    ),
    "unknown parameter": (lambda: rule(itme=st.just(1))(wants), "Did you mean 'item'?"),
    "parameter without strategy": (lambda: rule()(wants), "@foretold.rule(item=st.integers(0, 9))"),
    "a value": (lambda: rule(item=3), "item=st.just(…) for a fixed value"),  # type: ignore[arg-type]  # the mistake
    "a type": (lambda: rule(item=int), "item=st.from_type(int)"),  # type: ignore[arg-type]  # the mistake
    "a bundle's name": (lambda: rule(item="orders"), "item=foretold.Bundle('orders')"),  # type: ignore[arg-type]  # the mistake
    "a name as target": (lambda: rule(target="orders"), 'orders = foretold.Bundle("orders")'),  # type: ignore[arg-type]  # the mistake
    "one as targets": (lambda: rule(targets=orders), "For one write target=…"),  # type: ignore[arg-type]  # the mistake
    "a parameter called target": (
        lambda: rule(target=orders)(to_target),
        "Rename the parameter:\n  wrong: @foretold.rule(target=orders)",
    ),
    "no strategy for target": (lambda: rule()(to_target), "target= is reserved"),
    "a parameter called targets": (
        lambda: initialize(targets=(orders,))(to_targets),
        "targets= is reserved",
    ),
    "a strategy for target": (
        lambda: rule(target=st.integers(0, 9)),  # type: ignore[arg-type]  # the mistake
        "are reserved, as in Hypothesis: rename",
    ),
    "a strategy for targets": (
        lambda: rule(targets=st.integers(0, 9)),  # type: ignore[arg-type]  # the mistake
        "are reserved, as in Hypothesis: rename",
    ),
    "consumes as target": (lambda: rule(target=consumes(orders)), "takes a bundle"),  # type: ignore[arg-type]  # the mistake
    "consumes a name": (lambda: consumes("orders"), "consumes(orders)"),  # type: ignore[arg-type]  # the mistake
    "a bundle's bad name": (lambda: Bundle("my orders"), "a valid variable name"),
    "a rule twice": (lambda: rule()(rule()(lambda self: None)), "not two"),
    "a generator": (lambda: rule()(yields), "foretold.multiple(a, b)"),
    "a static method": (lambda: rule()(staticmethod(ok)), "that takes self"),
    "async precondition": (lambda: precondition(later), "lambda self: self.open_orders > 0"),
    "no function": (lambda: precondition(True), "got True"),  # type: ignore[arg-type]  # the mistake
    "initialize with a condition": (
        lambda: precondition(lambda self: True)(initialize()(lambda self: None)),
        "Make it a rule",
    ),
    "when": (
        lambda: invariant(when="always"),
        "when is 'step', 'instant', 'quiet' or 'end', got 'always'",
    ),
    "near miss": (lambda: invariant(when="quite"), "Did you mean 'quiet'?"),
    "no brackets": (lambda: invariant(when=ok), "with parentheses"),  # type: ignore[arg-type]  # the mistake
    "two ways": (lambda: invariant(when="end", sql="select 1"), "Write two"),
    "empty sql": (lambda: invariant(sql=" "), "select * from orders where"),
    "over alone": (lambda: invariant(over="select 1"), "belong to sql="),
    "no time": (lambda: invariant(within_s=0), "within_s must be above 0"),
    "async step": (lambda: invariant()(later), 'invariant(when="quiet")'),
    "sql without rows": (lambda: invariant(sql="select 1")(ok), "right: def ok(self, rows)"),
    "an argument": (lambda: invariant()(wants), "right: def wants(self)"),
    "Hypothesis' bundle": (lambda: rule(item=stateful.Bundle("orders")), "Write foretold.Bundle"),
    "Hypothesis' rule": (
        lambda: foretold.run(made(buy=stateful.rule()(lambda self: None))),
        "`from foretold import rule",
    ),
    "no rules": (lambda: foretold.run(made()), "has no rules"),
    "unknown bundle": (
        lambda: foretold.run(made(use=rule(item=orders)(lambda self, item: None))),
        "no rule adds values to it",
    ),
    "lonely precondition": (
        lambda: foretold.run(made(ok=precondition(lambda self: True)(lambda self: None))),
        "is not a rule",
    ),
    "taken name": (
        lambda: foretold.run(made(setup=rule()(lambda self: None))),
        "already has an attribute of this name",
    ),
    "weights of nobody": (
        lambda: foretold.run(made(buy=rule()(lambda self: None), weights={"bye": 3})),
        "Did you mean 'buy'?",
    ),
    "negative weight": (
        lambda: foretold.run(made(buy=rule()(lambda self: None)), weights={"buy": -1}),
        "the weight of buy must be at least 0",
    ),
    "weights as a list": (
        lambda: foretold.run(made(buy=rule()(lambda self: None)), weights=["buy"]),  # type: ignore[call-overload]  # the mistake
        'such as {"buy": 3}',
    ),
    "actors": (
        lambda: foretold.run(made(buy=rule()(lambda self: None), actors="buyer")),
        "actors is a number, such as 4, or a list of roles",
    ),
    "no actors": (
        lambda: foretold.run(made(buy=rule()(lambda self: None)), actors=0),
        "actors is a whole number, 1 or more",
    ),
    "steps": (
        lambda: foretold.run(made(buy=rule()(lambda self: None)), steps="many"),  # type: ignore[call-overload]  # the mistake
        "steps is a whole number",
    ),
    "tolerates": (
        lambda: foretold.run(made(buy=rule()(lambda self: None), tolerates=("OSError",))),
        "tolerates lists exceptions",
    ),
    "a setting of nobody": (
        lambda: foretold.run(made(buy=rule()(lambda self: None)), step=3),  # type: ignore[call-overload]  # the mistake
        "does not know the setting 'step'. Did you mean 'steps",
    ),
    "steps of a function": (
        lambda: foretold.explore(lambda: None, steps=3),
        "does not know the setting 'steps'",
    ),
    "test settings": (
        lambda: setattr(made(buy=rule()(lambda self: None)).TestCase, "settings", 500),
        "TestShop.settings = dict(runs=500",
    ),
}


@pytest.mark.parametrize("mistake", WRITTEN)
def test_mistake(mistake: str) -> None:
    """Each is a UsageError, before any rule is applied."""
    write, said = WRITTEN[mistake]
    with pytest.raises(UsageError, match=re.escape(said)):
        write()


def test_a_bundle_outside_of_a_run() -> None:
    """Drawing from one by hand: there is nothing in it, and the message says where there is."""

    def main() -> None:
        foretold.draw(orders)

    with pytest.raises(UsageError, match=r"@foretold\.rule\(order=orders\)"):
        foretold.run(main)


def test_sql_without_a_database() -> None:
    """An SQL invariant needs a server: the message shows the line that makes one."""

    def none_left(self: Any, rows: Any) -> None:
        """No rows."""

    cls = made(buy=rule()(lambda self: None), none_left=invariant(sql="select 1")(none_left))
    with pytest.raises(UsageError, match=r"self\.world\.postgres\(schema=SCHEMA\)"):
        foretold.run(cls)
