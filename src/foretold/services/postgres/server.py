"""`pg = await world.postgres(schema=…)`: a real PostgreSQL server as a host of the world."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.arguments import nearest
from foretold.errors import UsageError
from foretold.services.postgres.gateway import Gateway
from foretold.services.postgres.injection import CODES, DOWN_S, MOMENTS, SERVER, SLOW_S, Failure, S
from foretold.services.postgres.interleave import Interleaving, Step
from foretold.services.postgres.telling import Commit
from foretold.services.postgres.values import Rows

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.world import World

PORT = 5432


class Postgres:
    """A database of the world, as a test holds it."""

    def __init__(self, gateway: Gateway, database: Any) -> None:
        self._gateway = gateway
        self._database = database
        self.host: Host = gateway.host
        self.port = gateway.port
        self.user: str = database.user
        self.database: str = database.name

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self.host.name}:{self.port}>"

    @property
    def dsn(self) -> str:
        """Where programs of the world find it, in the form that every driver takes."""
        return self.url()

    def url(self, driver: str | None = None) -> str:
        """The same for SQLAlchemy: `pg.url("asyncpg")` is `postgresql+asyncpg://…`."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{self.user}@{self.host.name}:{self.port}/{self.database}"

    # --- looking inside --------------------------------------------------------------------------

    def sql(self, query: str, *values: object) -> Rows:
        """Run a query for the test itself: it sees what is committed, takes no virtual time, and
        crosses no network. Values are for $1, $2 and so on."""
        return self._database.look(query, *values)  # type: ignore[no-any-return]  # as said

    def on_commit(self, callback: Callable[[Commit], object]) -> None:
        """Call `callback(commit)` after every transaction that is committed."""
        self._gateway.telling.on_commit.append(callback)

    @property
    def statements(self) -> int:
        """How many statements programs have executed in this run."""
        return self._gateway.telling.statements

    @property
    def waits(self) -> int:
        """How often a statement had to wait for a lock in this run."""
        return self._gateway.telling.waited

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
        failure = Failure(kind, pattern, round((usual if seconds is None else seconds) * S))
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
            if not isinstance(step, tuple) or len(step) != 2 or not all(map(_is_text, step)):
                raise UsageError(
                    f"interleave takes pairs of a session's name and a statement; got {step!r}.\n"
                    '  right: await pg.interleave(("a", "BEGIN"), ("b", "BEGIN"))'
                )
        interleaving = Interleaving(self._gateway, self.user, self.database)
        return await interleaving.run(list(steps))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


class _Stub:
    made = {}
    def __init__(self, schema):
        from foretold.services.postgres.cluster import Cluster
        from foretold.services.postgres.pool import Pool
        from foretold.services.postgres.side import SideConnection
        self.cluster = Cluster.shared()
        self.user = "postgres"
        self.name = f"db{len(self.made)}"
        self.schema = schema
        self.root = SideConnection(self.cluster.socket_path, "postgres", "postgres")
        self.pool = Pool(self.cluster)
        self.side = None
    def reset(self):
        from foretold.services.postgres.side import SideConnection
        self.pool.close()
        if self.side: self.side.close()
        self.root.simple(f"drop database if exists {self.name}")
        self.root.simple(f"create database {self.name} strategy file_copy")
        self.side = SideConnection(self.cluster.socket_path, "postgres", self.name)
        self.cluster.page.set_clock(1_700_000_000_000_000); self.cluster.page.set_seed(99)
        self.side.close()
        self.side = SideConnection(self.cluster.socket_path, "postgres", self.name)
        self.side.simple("select setseed(0.5)")
        self.cluster.page.number_from(20000, self.side)
        self.side.simple(self.schema)
        self.cluster.page.number_from(1000000, self.side)
    def look(self, query, *values):
        from foretold.services.postgres.values import rows_of
        found = self.side.query(query, *values)
        return rows_of(self.side.columns, found)

async def begin(
    world: World, schema: Any = None, *, host: str = "postgres", port: int = PORT
) -> Postgres:
    """What `world.postgres` does."""
    database = _Stub.made.get(schema)
    if database is None:
        database = _Stub.made[schema] = _Stub(schema)
    database.reset()
    gateway = Gateway(world.host(host), database.pool, database.side, port)
    world.at_end.append(gateway.close)
    world.services.setdefault("postgres", []).append(gateway)
    world.comes_into_use("postgres")
    return Postgres(gateway, database)
