"""What a test may give as the schema of its database, and how each kind is applied.

    None                    an empty database
    "create table …"        SQL text, any number of statements
    Base.metadata           SQLAlchemy: all its tables, as `create_all` makes them
    alembic.config.Config   all migrations, up to the head
    a function              called with the address of the database; may be `async`

It happens once per process, outside of any run. Migrations and functions bring their own driver;
they run on a thread of their own, so that they may start an event loop. What they store has the
same times and random values in every process: a tape is replayed in others, and reads it there.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from foretold.errors import PostgresError, UsageError
from foretold.kernel import counters, generators, real
from foretold.kernel.entropy_patches import own_random
from foretold.kernel.patches import patches
from foretold.services.postgres.preparation import Preparation
from foretold.services.postgres.shared_page import SharedPage
from foretold.services.postgres.side import SideConnection

_INSUFFICIENT_PRIVILEGE: Final = "42501"
_NO_SUPERUSER: Final = (
    "The role that applies the schema, and that programs log in as, owns the database and is no "
    "superuser. A schema that needs one asks for it:\n"
    "  await world.postgres(schema=SCHEMA, superuser=True)"
)
_DRIVERS: Final = ("psycopg", "psycopg2", "asyncpg")


def apply(schema: Any, side: SideConnection, address: str) -> None:
    """Make the schema in the database of this connection, which is also found at this address."""
    try:
        _apply(schema, side, address)
    except PostgresError as error:
        if error.sqlstate == _INSUFFICIENT_PRIVILEGE:
            error.add_note(_NO_SUPERUSER)
        raise


def _apply(schema: Any, side: SideConnection, address: str) -> None:
    if schema is None:
        return
    if isinstance(schema, str):
        side.simple(schema)
    elif hasattr(schema, "create_all"):
        side.simple(";\n".join(_statements(schema)))
    elif hasattr(schema, "set_main_option"):
        _elsewhere(lambda: _migrate(schema, address))
    elif callable(schema):
        _elsewhere(lambda: _call(schema, address))
    else:
        raise UsageError(
            f"{schema!r} is not a schema. Give SQL text, SQLAlchemy's MetaData, Alembic's Config, "
            "or a function that is called with the address of the database."
        )


@contextmanager
def sleepers_woken(page: SharedPage | None) -> Iterator[None]:
    """Inside, whoever sleeps in the server (`pg_sleep`) wakes at once."""
    if page is None:
        yield
        return
    with patches.outside():
        done, end = os.pipe()
        thread = threading.Thread(target=_wake, args=(page, done), name="foretold-waker")
        thread.start()
    try:
        yield
    finally:
        with patches.outside():
            os.close(end)
            thread.join()
            os.close(done)


def _wake(page: SharedPage, done: int) -> None:
    poll = real.poll()
    poll.register(done)
    poll.register(page.notify_fd, select.POLLIN)
    while all(fd != done for fd, _ in poll.poll()):
        for pid in page.read_notices():
            page.wake(pid)


def _statements(metadata: Any) -> list[str]:
    """What `metadata.create_all` would send."""
    from sqlalchemy import create_mock_engine

    found: list[str] = []

    def note(statement: Any, *args: Any, **names: Any) -> None:
        found.append(str(statement.compile(dialect=engine.dialect)))

    with patches.outside():
        engine: Any = create_mock_engine("postgresql+asyncpg://", note)  # it doubles no %
        metadata.create_all(engine, checkfirst=False)
    return found


def _migrate(config: Any, address: str) -> None:
    from alembic import command  # type: ignore[import-not-found,unused-ignore]  # the user's own

    driver = _driver_of(config.get_main_option("sqlalchemy.url") or "")
    before = config.get_main_option("sqlalchemy.url")
    url = address.replace("postgresql://", f"postgresql+{driver}://", 1)
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    try:
        command.upgrade(config, "head")
    finally:
        if before is not None:
            config.set_main_option("sqlalchemy.url", before.replace("%", "%%"))


def _driver_of(url: str) -> str:
    """The driver that the migrations were written for, or one that is installed."""
    scheme = url.partition("://")[0]
    if "+" in scheme:
        return scheme.partition("+")[2]
    for name in _DRIVERS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise UsageError(f"migrations need a driver: install one of {', '.join(_DRIVERS)}.")


def _call(function: Callable[[str], Any], address: str) -> None:
    result = function(address)
    if inspect.isawaitable(result):

        async def main() -> None:
            await result

        asyncio.run(main())


def _elsewhere(work: Callable[[], None]) -> None:
    """Do it on a thread of the real world, which has no event loop; raise what it raises."""
    failed: list[BaseException] = []
    computer = Preparation()

    def body() -> None:
        try:
            with computer.answers_this_thread():
                work()
        except BaseException as error:  # it is raised again below, where someone sees it
            failed.append(error)

    with (
        patches.outside(),
        counters.standing_still(),
        own_random(computer),
        generators.made_new(computer.entropy(16)),
    ):
        thread = threading.Thread(target=body, name="foretold-schema")
        thread.start()
        thread.join()
    if failed:
        raise failed[0]
