"""`pg = await world.postgres(schema=…)`: a real PostgreSQL server as a host of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from foretold.arguments import known_words
from foretold.errors import UsageError
from foretold.services.postgres.gateway import Access, Gateway
from foretold.services.postgres.injection import (
    CODES,
    DOWN_S,
    MOMENTS,
    SERVER,
    SLOW_S,
    DatabaseFailure,
    S,
)
from foretold.services.postgres.interleave import Interleaving, SessionStep
from foretold.services.postgres.kept import DATABASE, KeptServer, ready_for
from foretold.services.postgres.look import look
from foretold.services.postgres.state import ROLE
from foretold.services.postgres.telling import Commit
from foretold.services.postgres.values import Rows

if TYPE_CHECKING:
    from foretold import handles
    from foretold.world.world import World

PORT = 5432


class Postgres:
    """A PostgreSQL server in the world."""

    def __init__(self, gateway: Gateway, kept: KeptServer) -> None:
        self._gateway = gateway
        self._kept = kept
        self.host: handles.Host = gateway.host
        self.port = gateway.port
        self.user = ROLE
        self.database = DATABASE
        self.password = gateway.access.password

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self.host.name}:{self.port}>"

    @property
    def dsn(self) -> str:
        """The address for programs of the world, in the form that every driver takes."""
        return self.url()

    def url(self, driver: str | None = None) -> str:
        """The same for SQLAlchemy: `pg.url("asyncpg")` is `postgresql+asyncpg://…`."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        known = "" if self.password is None else f":{quote(self.password, safe='')}"
        return f"{scheme}://{self.user}{known}@{self.host.name}:{self.port}/{self.database}"

    # --- looking inside --------------------------------------------------------------------------

    def sql(self, query: str, *values: object) -> Rows:
        """Run a query for the test itself. It sees committed data, takes no virtual time and does
        not use the network. Values are for $1, $2 and so on."""
        self._gateway.telling.keep_look(query)
        return look(self._gateway, query, values)

    def on_commit(self, callback: Callable[[Commit], object]) -> None:
        """Call `callback(commit)` after every transaction that is committed."""
        self._gateway.telling.at_each_commit(callback)

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
        """Whether the server's clock and randomness come from the world: needs a C compiler."""
        return self._gateway.page is not None

    # --- failures --------------------------------------------------------------------------------

    def fail_next(
        self, kind: str, *, sql: str | None = None, seconds: float | None = None
    ) -> DatabaseFailure:
        """The next statement, COMMIT or connection fails, as `kind` says (a name, or the SQLSTATE);
        with `sql`, the next one whose text contains that. `seconds`: how long it is slow, or how
        long the server is down."""
        kind = CODES.get(kind, kind.removeprefix("db_"))
        if kind not in MOMENTS:
            known = known_words(kind, MOMENTS)
            raise UsageError(f"fail_next({kind!r}): there is no such failure; there are {known}")
        usual = DOWN_S if MOMENTS[kind] == SERVER else SLOW_S
        lasts_ns = round((usual if seconds is None else seconds) * S)
        failure = DatabaseFailure(kind, sql and sql.lower(), lasts_ns, by_hand=True)
        self._gateway.injection.arm(failure)
        return failure

    @property
    def failures(self) -> list[str]:
        """The kinds of faults that have struck, in order."""
        return list(self._gateway.injection.struck)

    # --- explicit orders -------------------------------------------------------------------------

    async def interleave(self, *steps: tuple[str, str]) -> list[SessionStep]:
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
    superuser: bool = False,
) -> Postgres:
    """What `world.postgres` does: a server at `host`, with this schema and nothing else in it."""
    _check_port(port)
    access = _access(tls, password)
    there = world.host(host)
    if there is world.home or there.appliance is not None or there.mains:
        raise UsageError(
            f"world.postgres(host={host!r}): that host is in use. Each server needs its own:\n"
            '  right: await world.postgres(schema=SCHEMA, host="orders-db")'
        )
    kept = ready_for(schema, host, superuser=superuser)
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


def _end(gateway: Gateway, kept: KeptServer) -> None:
    try:
        gateway.close()
    except BaseException:
        kept.is_spoiled = True  # who knows what is left of it
        raise
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
        raise UsageError(f"world.postgres(password=…): a text that is not empty; got {password!r}")
    return Access(tls, password)
