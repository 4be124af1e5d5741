"""Make the tables in the database that DATABASE_URL names."""

import asyncio

from sqlalchemy.ext.asyncio import create_async_engine

from examples.deep_sci_fi.app.models import Base
from examples.deep_sci_fi.app.settings import Settings


async def create_tables() -> None:
    engine = create_async_engine(Settings.from_environment().database_url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(create_tables())
