"""Public names whose modules need Hypothesis: they are imported when somebody calls them.

`import foretold` must not cost what `import hypothesis` costs, for those who never use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import Unpack

    from hypothesis.strategies import SearchStrategy

    from foretold.keywords import ApiSettings
    from foretold.spec.drift import Drift
    from foretold.spec.openapi.machine import ApiMachine

M = TypeVar("M")


def from_model(model: type[M], /, **overrides: SearchStrategy[Any]) -> SearchStrategy[M]:
    """Values of a Pydantic model (or of a dataclass, or of a `TypedDict`), as a strategy.

        orders = foretold.from_model(Order, quantity=st.integers(1, 3))

    Bounds, lengths, patterns, digits, enums, literals, optional and nested fields are honoured. A
    field with a default is left out at times. Validators of the model that refuse a value are asked
    again with another; if they refuse all, `from_model` says so at once. An override replaces the
    strategy of a field. Its values are handed to the model as they are.
    """
    from foretold.spec import models

    return models.from_model(model, **overrides)


def drift(strategy: SearchStrategy[Any], model: type, *, samples: int | None = None) -> Drift:
    """Compare a hand-written strategy with a model: `assert not (found := drift(…)), found`.

    Found are values of the strategy that the model refuses, and fields, values and bounds of the
    model that the strategy never reaches. The strategy gives instances of the model, or what the
    model validates: the JSON body of a request.
    """
    from foretold.spec import drift as module

    return module.drift(strategy, model, samples=samples or module.SAMPLES)


def openapi(app_or_schema: Any, /, **settings: Unpack[ApiSettings]) -> type[ApiMachine]:
    """A machine from the schema of a web API: a rule for each operation.

        Shop = foretold.openapi(app, credentials=lambda actor: {"X-User": actor.name})

    `app_or_schema` is an application that knows its schema (FastAPI, Litestar), or the schema: a
    dict, a JSON text, a `pathlib.Path`; then `app=` says what answers. Settings: `actors`, `steps`
    and `faults` as of a machine; `credentials`, a function of the actor or a dict by name or role;
    `only` and `skip`, names of operations; `overrides`, strategies by the name of a parameter or
    field (`"quantity"`, or `"create_order.quantity"`); `feeds`, which parameter names which
    resource (`{"basket": "order"}`); `strict=True`: undocumented 4xx count as well; `wide=True`:
    whole numbers without bounds have more than 32 bits; `oracle=None`: requests at the same time
    need not end as in some serial order; `name`, of the class.

    Derive a class from it for more: `serve` (what answers in this run), `credentials`, `login`,
    rules and invariants of your own. What is checked besides: docs/openapi.md.
    """
    from foretold.spec.openapi import machine

    return machine.openapi(app_or_schema, **settings)
