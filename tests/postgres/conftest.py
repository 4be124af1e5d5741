"""A server for each version of PostgreSQL that is on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foretold.services.postgres.binaries import VARIABLE
from foretold.services.postgres.cluster import Cluster
from tests.postgres.machines import installations


@pytest.fixture(scope="module", params=sorted(installations()), ids="postgres-{}".format)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running server of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(installations()[request.param]))
        server = Cluster()
    yield server
    server.stop()
