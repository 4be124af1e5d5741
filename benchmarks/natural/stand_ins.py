"""What stands in for a server, where a library needs one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any


class Connection:
    """As much of a connection to PostgreSQL as psycopg's pool looks at. Round trips take time."""

    def __init__(self) -> None:
        from psycopg.pq import TransactionStatus

        self.closed = False
        self._pool: Any = None
        self._created_at, self._expire_at = 0.0, 1e18
        self.pgconn = SimpleNamespace(transaction_status=TransactionStatus.IDLE, status=0)

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Connection:
        await asyncio.sleep(0.01)
        return cls()

    async def close(self) -> None:
        self.closed = True

    async def commit(self) -> None:
        await asyncio.sleep(0.0005)

    rollback = commit

    async def set_autocommit(self, value: bool) -> None:
        pass

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.commit()
