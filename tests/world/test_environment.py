"""Each host has environment variables of its own, and none of them outlives the run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.world.world import World


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the real process has."""
    monkeypatch.setenv("FORETOLD_BASE", "real")
    monkeypatch.delenv("FORETOLD_ROLE", raising=False)


async def takes_a_role(role: str) -> Any:
    """Changes its environment, lets others run, and looks at it."""
    before = os.environ.get("FORETOLD_ROLE")
    os.environ["FORETOLD_ROLE"] = role
    del os.environ["FORETOLD_BASE"]
    await asyncio.sleep(1)
    return before, os.getenv("FORETOLD_ROLE"), os.environb[b"FORETOLD_ROLE"], len(os.environ)


def test_hosts_share_no_environment() -> None:
    """Neither with each other, nor with the next run, nor with the real process."""
    number = len(os.environ)
    real = dict(os.environ)

    async def main(world: World) -> Any:
        tasks = [world.host(name).start(takes_a_role(name)) for name in ("a", "b")]
        found = [await task for task in tasks]
        assert os.environ["FORETOLD_BASE"] == "real"
        assert "FORETOLD_ROLE" not in os.environ
        os.environ["FORETOLD_ROLE"] = "test"
        return found

    expected = [(None, "a", b"a", number), (None, "b", b"b", number)]
    assert [foretold.run(main).value for _ in range(2)] == [expected] * 2
    assert dict(os.environ) == real
    assert os.environb[b"FORETOLD_BASE"] == b"real"


def test_a_host_can_be_given_variables() -> None:
    """They are there in each of its processes; what a process has changed is gone with it."""

    async def main(world: World) -> list[Any]:
        seen: list[Any] = []

        async def program() -> None:
            seen.append((os.environ["PORT"], os.environ.get("FORETOLD_ROLE")))
            os.environ["PORT"] = os.environ["FORETOLD_ROLE"] = "changed"
            seen.append(os.environ["PORT"])
            await asyncio.Event().wait()

        host = world.host("api", environment={"PORT": "80"})
        assert "PORT" not in world.host("other").environment
        host.start(program)
        await asyncio.sleep(1)
        assert host.environment["PORT"] == "changed"
        host.kill()
        host.environment["FORETOLD_ROLE"] = "second"
        host.restart()
        await asyncio.sleep(1)
        del host.environment["FORETOLD_BASE"]
        host.kill()
        host.restart()
        assert "FORETOLD_BASE" not in host.environment
        return seen

    assert foretold.run(main).value[:4] == [("80", None), "changed", ("80", "second"), "changed"]


def test_a_module_is_imported_in_the_environment_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings are read at import more often than not."""
    (tmp_path / "reads_its_port.py").write_text(
        "import os\nPORT = os.environ['PORT']\nasync def main(): return PORT\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    async def main(world: World) -> list[str]:
        found = []
        for port in ("80", "81"):
            host = world.host(f"api-{port}", isolate=["reads_its_port"], environment={"PORT": port})
            found.append(await host.start("reads_its_port:main"))
        return found

    assert foretold.run(main).value == ["80", "81"]


def test_names_and_values_are_checked_as_by_the_real_one() -> None:
    """Wrong names raise what the C library's refusal raises; `putenv` does not touch the real."""
    wrong: list[tuple[Any, ...]] = [("A=B", "c"), ("A", "b\0"), ("A\0", "b")]

    def errors() -> list[str]:
        found = []
        for name, value in wrong:
            with pytest.raises((ValueError, OSError)) as caught:
                os.environ[name] = value
            found.append(repr(caught.value))
        for name in ("", "A=B"):
            with pytest.raises(OSError, match="Invalid") as refused:
                os.unsetenv(name)
            found.append(repr(refused.value))
        with pytest.raises(KeyError):
            del os.environ["FORETOLD_ROLE"]
        os.putenv("FORETOLD_ROLE", "x")
        os.unsetenv("FORETOLD_ROLE")
        return found

    async def main() -> list[str]:
        return errors()

    assert foretold.run(main).value == errors()


@pytest.mark.parametrize("environment", [{"PORT": 80}, {"A=B": "c"}, {"": "x"}, ["PORT"]])
def test_variables_are_strings(environment: Any) -> None:
    """Said where they are given, with the right line."""

    async def main(world: World) -> None:
        world.host("api", environment=environment)

    with pytest.raises(foretold.UsageError, match='"PORT": "80"'):
        foretold.run(main)
