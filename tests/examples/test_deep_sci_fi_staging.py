"""The example's smoke test of a running server: real uvicorn, real sockets, real PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import foretold
from examples.deep_sci_fi.staging import Staging
from foretold.search.checking.live import explore_url
from foretold.services.postgres.cluster import Cluster

ROOT = Path(__file__).parents[2]
SERVER = """
import asyncio, socket, sys
import uvicorn
from examples.deep_sci_fi.app import Settings, create_app
from examples.deep_sci_fi.app.__main__ import create_tables

asyncio.run(create_tables())
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
bugs = frozenset(sys.argv[2:]) - {"submission_not_stored"}
app = create_app(Settings(sys.argv[1], registrations_per_minute=100, bugs=bugs))
if "submission_not_stored" in sys.argv:
    import pytest
    from tests.examples.deep_sci_fi_mutants import submission_not_stored
    submission_not_stored(pytest.MonkeyPatch())
uvicorn.Server(uvicorn.Config(app, log_config=None)).run([listener])
"""
"""It listens from the beginning: who connects before uvicorn is ready waits."""


@contextlib.contextmanager
def serving(*bugs: str) -> Iterator[str]:
    """The platform with these mistakes, in a process and on a server of its own: its URL."""
    cluster = Cluster()
    user, folder = cluster.superuser, Path(cluster.socket_path).parent
    database = f"postgresql+asyncpg://{user}@/postgres?host={folder}"
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, database, *bugs],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.communicate()
        cluster.stop()


def test_the_rules_run_against_a_server() -> None:
    """Nothing fails; proposals become worlds, and what needs a world succeeds as well."""
    with serving() as url:
        smoke = explore_url(Staging, url, runs=8, seed=1)
    assert smoke.error is None
    done = {name for name, count in smoke.tally.rules.items() if count.succeeded}
    assert {"propose", "submit", "validate", "settle"} <= done, done


def test_a_mistake_is_seen() -> None:
    """Planted: the third registration under one name is answered with 500."""
    with serving("third_registration_fails") as url:
        smoke = explore_url(Staging, url, runs=1, seed=1)
    assert "whoever wants to can register" in str(smoke.error)


def test_an_answer_that_is_taken_back_is_seen() -> None:
    """Planted: a proposal is told to be in validation, and its page calls it a draft. There is no
    database to look into; two answers contradict each other."""
    with serving("submission_not_stored") as url:
        smoke = explore_url(Staging, url, runs=8, seed=1)
    assert "a status that was told is not taken back" in str(smoke.error)
    assert "now = 'draft'" in str(smoke.error)


def test_without_a_server_it_says_what_to_do() -> None:
    """It has no platform of its own."""
    with pytest.raises(foretold.UsageError, match="--url http"):
        foretold.run(Staging)
