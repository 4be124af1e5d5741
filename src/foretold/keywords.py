"""Names and types of the settings that calls pass on, for type checkers and editors alone.

Nothing here is read when a program runs: `settings_for` in `world/run.py` says what a run knows. A
test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from os import PathLike
    from ssl import SSLContext

    from hypothesis.strategies import SearchStrategy

    from foretold.search.planning.feedback import Feedback
    from foretold.spec.openapi.machine import Credentials
    from foretold.tape import Tape
    from foretold.world.faults import FaultSet


class OfMachine(TypedDict, total=False):
    """Of a machine's runs."""

    steps: int
    actors: int | Sequence[str]
    weights: Mapping[str, float]


class OfScenario(TypedDict, total=False):
    """Of a scenario's runs."""

    load: int
    wiring: str | None


class OfRun(TypedDict, total=False):
    """Of each run, whatever runs in it."""

    preempt: str | Sequence[str] | None
    exact_time: bool | None
    epoch_s: float | None
    monotonic_s: float | None
    background_errors: Literal["fail", "ignore"] | None
    steps_max: int | None
    virtual_s_max: float | None
    wall_s_max: float | None
    mutant: str
    """The declared mistake that is switched on."""


class Own(OfMachine, OfScenario, total=False):
    """What `foretold.run` takes besides its own parameters."""

    mutant: str


class OneRun(OfMachine, OfScenario, OfRun, total=False):
    """All that `foretold.run` takes by name."""

    seed: int
    tape: Tape | str | PathLike[str] | None
    order: str | None
    strategy: str | None
    faults: FaultSet | str | None


class RunSettings(OfMachine, OfScenario, OfRun, total=False):
    """Of each run, where a search makes them."""


class FunctionSearch(OfRun, total=False):
    """Of a search, where a test makes one."""

    runs: int | None
    seed: int | None
    order: str | None
    strategy: str
    delays: int | None
    workers: int
    executor: str | Executor | None
    faults: FaultSet | str | None
    shrink: bool
    shrink_runs: int | None
    confirm: bool
    keep_going: bool
    feedback: Feedback
    time_s: float | None
    corpus: str | PathLike[str] | None
    isolation: str | None
    vacuity: Literal["fail", "warn", "ignore"] | None


class SearchSettings(OfMachine, FunctionSearch, total=False):
    """The same where it is not known yet whether a machine or a function is tested."""


class ApiSettings(TypedDict, total=False):
    """Of `foretold.openapi`."""

    app: Any
    name: str | None
    actors: int | Sequence[str]
    steps: int | None
    faults: FaultSet | str | None
    credentials: Credentials | None
    only: Iterable[str]
    skip: Iterable[str]
    overrides: Mapping[str, SearchStrategy[Any]] | None
    feeds: Mapping[str, str] | None
    strict: bool
    wide: bool
    oracle: str | None


class PostgresSettings(TypedDict, total=False):
    """Of `world.postgres`."""

    host: str
    port: int
    tls: SSLContext | None
    password: str | None
    superuser: bool


class WebSettings(TypedDict, total=False):
    """Of `world.web`."""

    through: str
    host: str
    port: int
    root_path: str
    environment: Mapping[str, str] | None
    allows: Sequence[int | str | type[BaseException]]


class ClientOptions(TypedDict, total=False):
    """Of `web.client`: those of `httpx.AsyncClient` that do not send its requests another way. Most
    values are Any, since httpx does not export their types."""

    auth: Any
    base_url: Any
    cert: Any
    cookies: Any
    default_encoding: Any
    event_hooks: Any
    follow_redirects: bool
    headers: Any
    limits: Any
    max_redirects: int
    params: Any
    timeout: Any
    verify: Any
