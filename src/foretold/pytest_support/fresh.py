"""Function-scoped fixtures are made anew for every run, inside of its world.

pytest sets a test up once, and a simulated test is run many times. So while pytest sets it up, each
function-scoped fixture is *postponed*: pytest resolves it as ever (overrides, parameters, scopes,
order) and keeps a `Postponed` as its value. Each run then makes the values in that order, and takes
them down in the opposite one. Their clocks, tasks and randomness are the world's.

What is not made anew, and why:

- wider scopes: a session's engine is shared on purpose. What of it can change is told once.
- what is marked `@foretold.shared`, and what such a fixture needs.
- pytest's own fixtures, which are about the real machine or the whole test (`tmp_path`, `capsys`);
  those that collect something are emptied before each run. But `monkeypatch`, `caplog`, `recwarn`
  and `setup_method` are about what the test does, and are made anew; so is what unittest does
  around a test (`cases.py`).

This file alone knows of pytest's fixtures. It uses the hook `pytest_fixture_setup`, exchanges
`fixturedef.func` while that hook lasts (as pytest-asyncio and anyio do), and reads
`item._fixtureinfo.name2fixturedefs`, all of which pytest 8.2 to 9 have.
"""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from foretold.errors import ForetoldError, HostDied, UsageError
from foretold.pytest_support.cases import Case
from foretold.pytest_support.stage import Stage
from foretold.world.world import World

_Function = TypeVar("_Function", bound=Callable[..., Any])
Call = Callable[[World, Mapping[str, Any]], Any]

_REQUEST = "request"
_ANEW_OF_PYTEST = ("monkeypatch", "caplog", "recwarn", "_xunit_setup_", "_unittest_setup_method")
"""Beginnings of names; the last two call `setup_function` and `setup_method`."""
_KEPT = ("foretold_postgres", "foretold_postgres_schema")  # they know of runs by themselves
_EMPTIED_BY = {
    "capsys": "readouterr",
    "capsysbinary": "readouterr",
    "capfd": "readouterr",
    "capfdbinary": "readouterr",
    "capteesys": "readouterr",
}


def shared(function: _Function) -> _Function:
    """Mark a function-scoped fixture: all runs of a test share what it gives, which costs nothing.

        @pytest.fixture
        @foretold.shared
        def prices():
            return load_prices()

    It is set up once per test, by pytest, outside of the world, and so is every fixture it needs.
    Let it give what no run changes: otherwise a run depends on those before it.
    """
    if not inspect.isfunction(function) or hasattr(function, "_pytestfixturefunction"):
        raise UsageError(
            "@foretold.shared marks the function of a fixture. Write it below @pytest.fixture:\n"
            "    @pytest.fixture\n"
            "    @foretold.shared\n"
            "    def prices(): ..."
        )
    vars(function)["foretold_shared"] = True
    return function


@dataclass(eq=False, frozen=True)
class Postponed:
    """What pytest keeps as the value of a fixture that each run makes anew."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    """As pytest found them: values, the request, and others that are postponed."""


class ItemFixtures:
    def __init__(self, item: Any) -> None:
        self._item = item
        self.postponed: list[Postponed] = []
        self._shared = set(_shared_definitions(item))
        self._keeping = 0
        """How many fixtures that are kept are being set up: what they ask for is kept too."""
        self._empty: list[Callable[[], object]] = []
        self._instance: Any = None
        self._case: Case | None = None
        self._state: dict[str, Any] | None = None

    @contextmanager
    def being_set_up(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """While pytest sets up a function-scoped fixture: postpone it, or keep what it gives."""
        if not self._is_made_anew(fixturedef):
            self._keeping += 1
            try:
                yield
            finally:
                self._keeping -= 1
            self._note_kept(fixturedef)
            return
        function = fixturedef.func
        name, bound = fixturedef.argname, _bound(_without_a_loop(function), request.instance)
        wanted = fixturedef.argnames if bound is function else inspect.signature(bound).parameters

        def stand_in(**given: Any) -> Postponed:
            arguments = {each: value for each, value in given.items() if each in wanted}
            self.postponed.append(Postponed(name, bound, arguments))
            return self.postponed[-1]

        fixturedef.func = stand_in
        try:
            yield
        finally:
            fixturedef.func = function

    def _is_made_anew(self, fixturedef: Any) -> bool:
        name = fixturedef.argname
        if self._keeping or fixturedef in self._shared or name in _KEPT:
            return False
        module = getattr(inspect.unwrap(fixturedef.func), "__module__", None) or ""
        return not module.startswith("_pytest.") or name.startswith(_ANEW_OF_PYTEST)

    def _note_kept(self, fixturedef: Any) -> None:
        method, result = _EMPTIED_BY.get(fixturedef.argname), fixturedef.cached_result
        if method is not None and result is not None and hasattr(result[0], method):
            self._empty.append(getattr(result[0], method))

    def take_set_up_from_unittest(self) -> None:
        """unittest does it once, around all runs: let each run do it."""
        self._instance = getattr(self._item, "instance", None)
        if isinstance(self._instance, unittest.TestCase):
            self._case = Case(self._instance)
            self._case.leave_to_runs()

    def before_run(self) -> None:
        """Each run finds what the first one found: no output, and nothing that was set on self."""
        for empty in self._empty:
            empty()
        if self._case is not None:
            self._case.before_run()
            return
        if self._instance is None:
            return
        if self._state is None:
            self._state = dict(vars(self._instance))
        vars(self._instance).clear()
        vars(self._instance).update(self._state)

    def staged(self, call: Call, names: Mapping[str, Any], name: str) -> Callable[[World], Any]:
        """The test as a function of the world, with its fixtures. `names`: what pytest gave."""
        postponed = tuple(self.postponed)  # a run that asks for more by name makes it by itself
        bare = self._case is None or self._case.is_bare
        if not postponed and _REQUEST not in names and bare:
            return lambda world: call(world, names)
        return _staged(postponed, call, names, name, self._case)


def _staged(
    postponed: Sequence[Postponed],
    call: Call,
    names: Mapping[str, Any],
    name: str,
    case: Case | None,
) -> Callable[[World], Any]:
    def whole(world: World) -> Any:
        run = RunFixtures(Stage(world, name))
        try:
            for each in postponed:
                run.value_of(each)
            if case is not None and not case.is_bare:
                run.begin_case(case)
            result = run.perform(partial(call, world, run.values_of(names)))
        except BaseException as error:
            run.end_after(error)
            raise
        run.end()
        return result

    return whole


def staged_alone(
    case: Case, call: Call, names: Mapping[str, Any], name: str
) -> Callable[[World], Any]:
    """A method of a `unittest.TestCase` as a function of the world, where there is no pytest."""
    whole = _staged((), call, names, name, case)

    def as_new(world: World) -> Any:
        case.before_run()
        return whole(world)

    return as_new


def fixtures_of(item: Any) -> ItemFixtures:
    """Those of a simulated item; the same object for as long as the item lives."""
    known: dict[str, Any] = vars(item)
    if "foretold_fixtures" not in known:
        known["foretold_fixtures"] = ItemFixtures(item)
    found: ItemFixtures = known["foretold_fixtures"]
    return found


class RunFixtures:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._values: dict[Postponed, Any] = {}
        self._ends: list[tuple[str, Callable[[], object], bool]] = []
        """What ends a fixture: its name, how, and whether that is async."""

    def values_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as this run sees them."""
        return {
            name: RunRequest(self, value) if name == _REQUEST else self.value_of(value)
            for name, value in given.items()
        }

    def value_of(self, given: Any) -> Any:
        """A value that pytest has given: if it was postponed, it is made now, once a run."""
        if not isinstance(given, Postponed):
            return given
        if given not in self._values:
            self._values[given] = self._made(given)
        return self._values[given]

    def begin_case(self, case: Case) -> None:
        """What unittest does around a test."""
        self.add_end("addCleanup", partial(case.clean_up, self._stage))
        for name, function in case.parts():
            self.value_of(Postponed(name, function, {}))

    def perform(self, test: Callable[[], Any]) -> Any:
        """The test itself, once its fixtures are there."""
        result = self._stage.call(test)
        return self._stage.perform(result) if inspect.iscoroutine(result) else result

    def add_end(self, name: str, end: Callable[[], object], *, is_async: bool = False) -> None:
        self._ends.append((name, end, is_async))

    def _made(self, fixture: Postponed) -> Any:
        stage, function = self._stage, fixture.function
        begin = partial(function, **self.values_of(fixture.arguments))
        if inspect.isasyncgenfunction(function):
            agen = stage.call(begin)
            value = stage.run(_first(agen, fixture.name))
            self.add_end(fixture.name, lambda: stage.run(_last(agen, fixture.name)), is_async=True)
            return value
        if inspect.iscoroutinefunction(function):
            return stage.run(stage.call(begin))
        if not inspect.isgeneratorfunction(function):
            return stage.call(begin)
        generator = stage.call(begin)
        value = stage.call(next, generator, _NOTHING)
        if value is _NOTHING:
            raise ValueError(f"{fixture.name} did not yield a value")
        self.add_end(fixture.name, lambda: stage.call(_exhaust, generator, fixture.name))
        return value

    def end(self) -> None:
        """Take all fixtures down. The first that fails fails the run."""
        failed = self._end_all(with_async=True)
        if failed:
            _note_others(failed[0][1], failed[1:])
            raise failed[0][1]

    def end_after(self, error: BaseException) -> None:
        """Take them down after the run has failed, with `error`; that is what the run tells.

        Where the world itself has come to an end (a deadlock, a limit), its loop runs no more.
        Plain fixtures are ended even then: a monkeypatch must not reach the next run.
        """
        over = self._stage.is_over = _world_is_over(error)
        failed = self._end_all(with_async=not over)
        if not over:
            _note_others(error, failed)

    def _end_all(self, *, with_async: bool) -> list[tuple[str, BaseException]]:
        failed: list[tuple[str, BaseException]] = []
        while self._ends:
            name, end, is_async = self._ends.pop()
            if is_async and not with_async:
                continue
            try:
                end()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failed.append((name, error))
                with_async = with_async and not _world_is_over(error)
        if with_async:
            self._stage.close()
        return failed


_NOTHING = object()


def _world_is_over(error: BaseException) -> bool:
    """Whether the loop had better not be run again after this."""
    ours = isinstance(error, ForetoldError) and not isinstance(error, HostDied)
    return ours or isinstance(error, KeyboardInterrupt)


def _note_others(error: BaseException, failed: list[tuple[str, BaseException]]) -> None:
    for name, other in failed:
        error.add_note(f"fixture {name!r} failed when it was torn down: {other!r}")


class RunRequest:
    """The `request` of a fixture or a test in one run: its finalizers end with the run."""

    def __init__(self, run: RunFixtures, request: Any) -> None:
        self._run = run
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def getfixturevalue(self, argname: str) -> Any:
        """As pytest's own; a function-scoped fixture is made for this run."""
        if argname == _REQUEST:
            return self
        return self._run.value_of(self._request.getfixturevalue(argname))

    def addfinalizer(self, finalizer: Callable[[], object]) -> None:
        """Call it when this run is over."""
        name = self._request.fixturename or _REQUEST
        self._run.add_end(name, partial(self._run._stage.call, finalizer))


async def _first(agen: Any, name: str) -> Any:
    try:
        return await anext(agen)
    except StopAsyncIteration:
        raise ValueError(f"{name} did not yield a value") from None


async def _last(agen: Any, name: str) -> None:
    try:
        await anext(agen)
    except StopAsyncIteration:
        return
    raise ValueError(f"{name} yields more than once: a fixture has one value")


def _exhaust(generator: Any, name: str) -> None:
    if next(generator, _NOTHING) is not _NOTHING:
        raise ValueError(f"{name} yields more than once: a fixture has one value")


def _without_a_loop(function: Any) -> Any:
    """Until 1.0, pytest-asyncio wraps async fixtures as they are collected, for its own loop."""
    module = getattr(function, "__globals__", {}).get("__name__", "")
    wraps = module.startswith("pytest_asyncio.") and hasattr(function, "__wrapped__")
    return function.__wrapped__ if wraps else function


def _bound(function: Any, instance: Any) -> Any:
    """pytest finds the fixtures of a class on another instance than that of the test."""
    if inspect.ismethod(function) and type(function.__self__) is type(instance):
        return function.__func__.__get__(instance)
    return function


def _shared_definitions(item: Any) -> Iterator[Any]:
    """Definitions that are marked as shared, and those which they need."""
    by_name = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    open_ends = [
        (definition, below)
        for definitions in by_name.values()
        for below, definition in enumerate(definitions)
        if getattr(definition.func, "foretold_shared", False)
    ]
    seen = set()
    while open_ends:
        definition, below = open_ends.pop()
        if definition in seen:
            continue
        seen.add(definition)
        yield definition
        for name in definition.argnames:
            definitions = by_name.get(name) or ()
            # One that asks for its own name means the one that it overrides.
            place = below - 1 if name == definition.argname else len(definitions) - 1
            if 0 <= place < len(definitions):
                open_ends.append((definitions[place], place))
