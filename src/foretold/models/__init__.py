"""Models of services that programs depend on, each held to the real one.

    foretold.models.PgModel("repeatable read", rows={"x": 100})
    foretold.conform(foretold.models.server("repeatable read"), model, programs)

Nothing here is loaded before it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretold.models.fakepg import FakePg as FakePg
    from foretold.models.matrix import anomalies as anomalies
    from foretold.models.pgmodel import LEVELS as LEVELS
    from foretold.models.pgmodel import PgModel as PgModel
    from foretold.models.realpg import server as server
    from foretold.models.statements import ALL as ALL
    from foretold.models.statements import Change as Change
    from foretold.models.statements import Where as Where
    from foretold.models.statements import above as above
    from foretold.models.statements import at as at
    from foretold.models.statements import plus as plus
    from foretold.models.statements import to as to
    from foretold.spec.conform import WAITS as WAITS
    from foretold.spec.conform import Answer as Answer

_PLACES = {
    "ALL": "models.statements",
    "Answer": "spec.conform",
    "Change": "models.statements",
    "FakePg": "models.fakepg",
    "LEVELS": "models.pgmodel",
    "PgModel": "models.pgmodel",
    "WAITS": "spec.conform",
    "Where": "models.statements",
    "above": "models.statements",
    "anomalies": "models.matrix",
    "at": "models.statements",
    "plus": "models.statements",
    "server": "models.realpg",
    "to": "models.statements",
}


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: few tests have a database."""
    if name not in _PLACES:
        raise AttributeError(f"module 'foretold.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"foretold.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    """For completion at a prompt."""
    return sorted(_PLACES)
