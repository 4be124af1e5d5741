"""`pg = await world.postgres(schema=…)`: a real PostgreSQL server as a host of the world."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from foretold.arguments import nearest
from foretold.errors import UsageError
from foretold.services.postgres.gateway import Access, Gateway
from foretold.services.postgres.injection import CODES, DOWN_S, MOMENTS, SERVER, SLOW_S, Failure, S
from foretold.services.postgres.interleave import Interleaving, Step
from foretold.services.postgres.kept import DATABASE, Kept, kept_for
from foretold.services.postgres.look import look
from foretold.services.postgres.telling import Commit
from foretold.services.postgres.values import Rows

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World

PORT = 5432


class Postgres:
    """A database of the world, as a test holds it."""

    def __init__(self, gateway: Gateway, kept: Kept) -> None:
        self._gateway = gateway
        self._kept = kept
        self.host: Host = gateway.host
        self.port = gateway.port
        self.user: str = kept.database.cluster.superuser
        self.database = DATABASE
        self.password = gateway.access.password

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self.host.name}:{self.port}>"

    @property
    def dsn(self) -> str:
        """Where programs of the world find it, in the form that every driver takes."""
        return self.url()

    def url(self, driver: str | None = None) -> str:
        """The same for SQLAlchemy: `pg.url("asyncpg")` is `postgresql+asyncpg://…`."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        known = "" if self.password is None else f":{quote(self.password, safe='')}"
        return f"{scheme}://{self.user}{known}@{self.host.name}:{self.port}/{self.database}"

    # --- looking inside --------------------------------------------------------------------------

    def sql(self, query: str, *values: object) -> Rows:
        """Run a query for the test itself: it sees what is committed, takes no virtual time, and
        crosses no network. Values are for $1, $2 and so on."""
        return look(self._gateway, query, values)

    def on_commit(self, callback: Callable[[Commit], object]) -> None:
        """Call `callback(commit)` after every transaction that is committed."""
        self._gateway.telling.tell(callback)

    @property
    def statements(self) -> int:
        """How many statements programs have executed in this run."""
        return self._gateway.telling.statements

    @property
    def waits(self) -> int:
        """How often a statement had to wait for a lock in this run."""
        return self._gateway.telling.waited

    @property
    def is_exact(self) -> bool:
        """Whether the server's clock and randomness are the world's. Not without a C compiler."""
        return self._gateway.page is not None

    # --- failures --------------------------------------------------------------------------------

    def fail_next(
        self, kind: str, *, sql: str | None = None, seconds: float | None = None
    ) -> Failure:
        """The next statement, COMMIT or connection fails, as `kind` says (a name, or the SQLSTATE);
        with `sql`, the next one whose text contains that. `seconds`: how long it is slow, or how
        long the server is down."""
        kind = CODES.get(kind, kind.removeprefix("db_"))
        if kind not in MOMENTS:
            known = ", ".join(MOMENTS)
            raise UsageError(
                f"fail_next({kind!r}): there is no such failure; there are {known}."
                f"{nearest(kind, MOMENTS)}"
            )
        usual = DOWN_S if MOMENTS[kind] == SERVER else SLOW_S
        pattern = None if sql is None else re.compile(re.escape(sql), re.IGNORECASE)
        lasts_ns = round((usual if seconds is None else seconds) * S)
        failure = Failure(kind, pattern, lasts_ns, by_hand=True)
        self._gateway.injection.arm(failure)
        return failure

    @property
    def failures(self) -> list[str]:
        """The failures that have struck, by kind, in order."""
        return list(self._gateway.injection.struck)

    # --- explicit orders -------------------------------------------------------------------------

    async def interleave(self, *steps: tuple[str, str]) -> list[Step]:
        """Run statements of several sessions in exactly this order: `("a", "BEGIN"), …`."""
        for step in steps:
            if not _is_step(step):
                raise UsageError(
                    f"interleave takes pairs of a session's name and a statement; got {step!r}.\n"
                    '  right: await pg.interleave(("a", "BEGIN"), ("b", "BEGIN"))'
                )
        interleaving = Interleaving(self._gateway, self.user, self.database)
        return await interleaving.run(list(steps))


def _is_step(step: object) -> bool:
    """A pair of texts."""
    words = step if isinstance(step, tuple) else ()
    return len(words) == 2 and all(isinstance(word, str) and word for word in words)


def begin(
    world: World,
    schema: Any = None,
    *,
    host: str = "postgres",
    port: int = PORT,
    tls: Any = None,
    password: str | None = None,
) -> Postgres:
    """What `world.postgres` does: a server at `host`, with this schema and nothing else in it."""
    _check_port(port)
    access = _access(tls, password)
    there = world.host(host)
    if there is world.home or there.appliance is not None or there.mains:
        raise UsageError(
            f"world.postgres(host={host!r}): that host is in use. Each server has one of its own:\n"
            '  right: await world.postgres(schema=SCHEMA, host="orders-db")'
        )
    kept = kept_for(schema, host)
    kept.make_ready()
    kept.in_use = True
    gateway = Gateway(there, kept, port, access)
    there.appliance = gateway
    world.outside.leave(there)
    world.at_end.append(lambda: _end(gateway, kept))
    world.services.setdefault("postgres", []).append(gateway)
    world.comes_into_use("postgres")
    if kept.cluster.page is None:
        note = f"PostgreSQL's clock and randomness are the machine's: {kept.cluster.page_missing}"
        there.kernel.notes[note] = None
    return Postgres(gateway, kept)


def _end(gateway: Gateway, kept: Kept) -> None:
    try:
        gateway.close()
    finally:
        kept.in_use = False
        kept.is_spoiled |= gateway.telling.server_changed
        if gateway.telling.schema_changed:
            kept.database.mark_schema_changed()


def _check_port(port: object) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
        raise UsageError(f"world.postgres(port=…): a whole number from 1 to 65535; got {port!r}")


def _access(tls: Any, password: object) -> Access:
    if tls is not None and not hasattr(tls, "wrap_bio"):
        raise UsageError(
            f"world.postgres(tls=…): an ssl.SSLContext with the server's certificate; got {tls!r}"
        )
    if password is not None and (not isinstance(password, str) or not password):
        raise UsageError(f"world.postgres(password=…): some text; got {password!r}")
    return Access(tls, password)
