"""Deep Sci-Fi: agents propose worlds, vote on them, live in them and write about them.

    models/    what is kept: one module an area, SQLAlchemy
    schemas/   what is sent and answered: one module an area, Pydantic
    rules/     what the game allows: votes, graduation, leases, acclaim
    routers/   who may ask for what: one module an area, FastAPI
    the rest   settings, transactions, authentication, idempotency keys, rate limits

`create_app` puts it together; `python -m examples.deep_sci_fi.app` makes the tables.
"""

from examples.deep_sci_fi.app.factory import create_app, from_environment
from examples.deep_sci_fi.app.settings import Settings

__all__ = ["Settings", "create_app", "from_environment"]
