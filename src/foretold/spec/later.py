"""Public names whose modules need Hypothesis: they are imported when somebody calls them.

`import foretold` must not cost what `import hypothesis` costs, for those who never use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from foretold.spec.drift import Drift


def from_model(model: type, /, **overrides: SearchStrategy[Any]) -> SearchStrategy[Any]:
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
