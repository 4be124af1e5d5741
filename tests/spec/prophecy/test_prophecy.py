"""Prophecies: drawn beforehand, really happening, told to the model, and strict about both."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from hypothesis import strategies as st

import foretold
from tests.spec.prophecy.accounts import ANSWER, Accounts, make_app

CALM = foretold.Tape.calm()


def test_a_right_client_refines_its_model() -> None:
    """Every outcome is drawn and comes true, and the mapped state is the model's after each call.
    The report counts each outcome."""
    outcome = foretold.explore(Accounts, runs=60, seed=1)
    assert outcome.failure is None, outcome.failure.exception
    counted = {n: f for n, f in outcome.tally.faults.items() if n.startswith("prophecy answer")}
    assert set(counted) == {f"prophecy answer: {o}" for o in ("lost", "lost_after", "twice")}
    for each in counted.values():
        assert each.injected == each.effect
        assert each.injected > 0


def test_a_bug_is_found_and_its_story_has_the_prophecy() -> None:
    """A client that shows a user after a timeout: both states, what differs, and what was foretold
    stand in the report; all that does not matter is calm."""

    class Stores(Accounts):
        bug = "stored"

    failure = foretold.explore(Stores, runs=40, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.NotRefined)
    assert str(failure.exception) == (
        "after create(name='ada', answer='lost') the system is not in the model's state\n"
        "  'users': system ['ada'], model []\n"
        "  system: {'stored': [], 'users': ['ada'], 'error': 'timeout'}\n"
        "  model:  {'stored': [], 'users': [], 'error': 'timeout'}"
    )
    story = str(failure.story)
    assert "create(name='ada', answer='lost')" in story
    assert "the answer is lost before the request arrives, as foretold: POST /users/ada" in story


def test_a_dropped_mapping_is_noticed() -> None:
    """Vacuity: a mapping that always gives the model's first state, or forgets the prophecy, does
    not pass."""

    class Forgets(Accounts):
        @foretold.refines
        def as_auth(self) -> dict[str, Any]:
            return {"stored": sorted(self.stored), "users": self.users, "error": self.error}

    class Constant(Accounts):
        @foretold.refines
        def as_auth(self) -> dict[str, Any]:
            return {"stored": [], "users": [], "error": None}

    for machine in (Forgets, Constant):
        failure = foretold.explore(machine, runs=20, seed=1, shrink=False, confirm=False).failure
        assert failure is not None
        assert isinstance(failure.exception, foretold.NotRefined)


def test_a_prophecy_that_is_never_drawn_is_vacuous() -> None:
    """A call that cannot fulfil its prophecy fails; an outcome that never came true, because its
    rule was never called, makes a search hollow."""

    class Idle(Accounts):
        @foretold.precondition(lambda self: False)
        @foretold.rule(
            name=st.just("ada"), answer=foretold.Prophecy("other", ok=None, x="request_lost")
        )
        async def idle(self, name: str, answer: str) -> None: ...

        @foretold.rule()
        def nothing(self) -> None: ...

    from foretold.search.checking.vacuity import hollow_in

    class OnlyCalm(foretold.Machine):
        @foretold.rule(fate=foretold.Prophecy("fate", ok=None, lost="request_lost"))
        def act(self, fate: str) -> None: ...

    failure = foretold.explore(OnlyCalm, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Unfulfilled)
    outcome = foretold.explore(Idle, runs=120, seed=1)
    hollow = hollow_in(outcome)
    assert [each.name for each in hollow] == ["idle", "prophecy other: x"]


# ---------------------------------------------------------------- strict


class Asks(foretold.Machine):
    """A rule that asks something slow, under a time limit."""

    steps = 2
    quiet_s = 0.0
    path = "/slow"
    tolerates = (httpx.TransportError,)

    async def setup(self) -> None:
        app, self.stored = make_app()
        self.web = await self.world.web(app)
        self.http = self.web.client("client", timeout=1.0)

    async def teardown(self) -> None:
        await self.http.aclose()

    @foretold.rule(answer=ANSWER.on("GET /slow"))
    async def ask(self, answer: str) -> None:
        await self.http.get(self.path)


def test_an_error_that_was_not_foretold_fails_the_run() -> None:
    """A timeout is tolerated by the machine; that it was not foretold fails the run all the same,
    and the message says what was."""
    said = set()
    for seed in range(20):
        try:
            foretold.run(Asks, seed=seed)
        except foretold.Unforeseen as error:
            said.add(str(error))
    begins = "actor1.ask: GET /slow of client raised ReadTimeout, which was not foretold "
    assert said == {
        f"{begins}({told} was)"
        for told in (
            "nothing",
            "answer = 'lost_after' (response_lost)",
            "answer = 'twice' (delivered_twice)",
        )
    }


def test_an_error_that_the_client_swallows_is_unforeseen_as_well() -> None:
    """What the program does with the error does not matter."""

    class Swallows(Asks):
        @foretold.rule(answer=ANSWER)
        async def ask(self, answer: str) -> None:
            with contextlib.suppress(httpx.TransportError):
                await self.http.get("/slow")

    failure = foretold.explore(Swallows, runs=10, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Unforeseen)


def test_stutters_are_declared_and_counted() -> None:
    """With a budget the same run holds, and the report counts its use. A smaller one fails."""

    class Stutters(Asks):
        stutters = 2

        @foretold.rule(answer=ANSWER.on("/slow"))
        async def ask(self, answer: str) -> None:
            if answer in ("ok", "twice"):
                await self.http.get("/slow")
            else:
                with pytest.raises(httpx.TransportError):
                    await self.http.get("/slow")

    outcome = foretold.explore(Stutters, runs=20, seed=1)
    assert outcome.failure is None, outcome.failure.exception
    assert outcome.tally.faults["stutter of ask"].injected > 5

    class OneOnly(Stutters):
        stutters = 1

    failure = foretold.explore(OneOnly, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Unforeseen)


def test_a_prophecy_that_does_not_come_true_fails_the_run() -> None:
    """A rule that asks for something else than what the prophecy is aimed at: nothing passes
    because nothing happened."""

    class Elsewhere(Asks):
        path = "/users/ada"

    with pytest.raises(foretold.Unfulfilled) as caught:
        for seed in range(20):
            foretold.run(Elsewhere, seed=seed)
    assert str(caught.value) == (
        "actor1.ask was over, and what was foretold for it had not come true: "
        "answer = 'lost' (request_lost)"
    )


def test_a_budget_of_stutters_does_not_pardon_what_never_happened() -> None:
    """Stutters are errors that were not foretold. What was foretold and did not happen fails the
    run all the same."""

    class Elsewhere(Asks):
        path = "/users/ada"
        stutters = 10

    with pytest.raises(foretold.Unfulfilled):
        for seed in range(20):
            foretold.run(Elsewhere, seed=seed)


def test_a_tolerated_error_of_the_program_is_foretold_or_fails_the_run() -> None:
    """Also an error that is neither the web's nor the database's: a call with a prophecy fails only
    as it was foretold."""

    class Fails(Asks):
        tolerates: ClassVar[Any] = (ValueError,)

        @foretold.rule(answer=ANSWER)
        async def ask(self, answer: str) -> None:
            raise ValueError("not today")

    said = set()
    for seed in range(5):
        with pytest.raises((foretold.Unforeseen, foretold.Unfulfilled)) as caught:
            foretold.run(Fails, seed=seed)
        said.add(str(caught.value))
    assert (
        "actor1.ask: it raised ValueError: not today, which was not foretold (nothing was)" in said
    )


def test_faults_of_the_world_are_not_foretold() -> None:
    """A fault that the nemesis injects into a call with a prophecy is somebody else's: the run says
    so instead of passing by stuttering."""

    class Struck(Accounts):
        faults = foretold.faults.web.only("request_lost")

    failure = foretold.explore(Struck, runs=60, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Unforeseen)


# ---------------------------------------------------------------- bound to the call


class Overlapping(foretold.Machine):
    """Two actors at the same time; each call says what it has met."""

    actors = 3
    steps = 12
    quiet_s = 0.0
    met: ClassVar[list[tuple[str, str]]] = []

    async def setup(self) -> None:
        app, self.stored = make_app()
        self.web = await self.world.web(app)
        for actor in self.cast:
            actor.http = self.web.client(actor)

    async def teardown(self) -> None:
        for actor in self.cast:
            await actor.http.aclose()

    @foretold.rule(fate=foretold.Prophecy("answer", ok=None, lost="request_lost"))
    async def ask(self, actor: Any, fate: str) -> None:
        async def inner() -> str:
            try:
                await actor.http.post("/users/ada")
            except httpx.TransportError:
                return "lost"
            return "ok"

        got = await asyncio.create_task(inner())  # another task of the same call
        self.met.append((fate, got))
        assert got == fate


def test_a_prophecy_is_bound_to_the_call_that_drew_it() -> None:
    """Calls of several actors overlap, and each of them meets its own fate, in whichever order."""
    Overlapping.met.clear()
    assert foretold.explore(Overlapping, runs=40, seed=1).failure is None
    assert {("ok", "ok"), ("lost", "lost")} == set(Overlapping.met)


def test_a_prophecy_without_a_machine() -> None:
    """`foretell` draws for what is done within; the calm tape draws the calm outcome, and over
    seeds all of them are drawn. A fixed outcome can be given."""

    async def main(world: foretold.World) -> str:
        app, stored = make_app()
        web = await world.web(app)
        async with web.client("ada") as http:
            with ANSWER.foretell() as fate:
                try:
                    await http.post("/users/ada")
                except httpx.TransportError:
                    assert fate in ("lost", "lost_after")
            await asyncio.sleep(1)
        assert stored.get("ada", 0) == {"ok": 1, "lost": 0, "lost_after": 1, "twice": 2}[fate]
        return fate

    assert foretold.run(main, tape=CALM).value == "ok"
    drawn = {foretold.run(main, seed=seed).value for seed in range(20)}
    assert drawn == {"ok", "lost", "lost_after", "twice"}


def test_a_fixed_prophecy_that_does_not_come_true() -> None:
    """The same strictness by hand."""

    async def main() -> None:
        with ANSWER.foretell("lost"):
            pass

    with pytest.raises(foretold.Unfulfilled, match=r"foretell\('lost'\) was over"):
        foretold.run(main)

    async def swallows() -> None:
        with contextlib.suppress(foretold.Unfulfilled):
            await main()

    with pytest.raises(foretold.Unfulfilled):
        foretold.run(swallows)


class Stores(foretold.Machine):
    """A rule whose request writes into a database; the client does not wait for ever."""

    steps = 3
    quiet_s = 0.0

    async def setup(self) -> None:
        app, pg = FastAPI(), await self.world.postgres(schema="create table t (v int)")

        @app.post("/rows")
        async def store() -> None:
            connection = await asyncpg.connect(pg.dsn)
            try:
                await connection.execute("insert into t values (1)")
            finally:
                await connection.close()

        self.http = (await self.world.web(app)).client("client", timeout=2.0)

    async def teardown(self) -> None:
        await self.http.aclose()

    async def store(self) -> None:
        """The request; what becomes of it does not matter here."""
        with contextlib.suppress(httpx.TransportError):
            await self.http.post("/rows")


def test_a_timeout_that_a_slow_query_causes_was_foretold() -> None:
    """The client loses patience because of the query that was foretold to be slow. It is the same
    cause, so it is not held against the run as an error that nobody foretold."""

    class Slow(Stores):
        @foretold.rule(
            answer=foretold.Prophecy("answer", ok=None, slow="db_slow_query", lost="request_lost")
        )
        async def act(self, answer: str) -> None:
            await self.store()

    outcome = foretold.explore(Slow, runs=12, seed=1, confirm=False)
    assert outcome.failure is None, outcome.failure.exception
    assert outcome.tally.faults["prophecy answer: slow"].effect


def test_two_prophecies_that_exclude_each_other() -> None:
    """If the request is lost, no query can fail: the complaint says which prophecy came true, and
    how to write it."""

    class Both(Stores):
        @foretold.rule(
            answer=foretold.Prophecy("answer", ok=None, lost="request_lost"),
            query=foretold.Prophecy("query", ok=None, cancelled="db_cancelled"),
        )
        async def act(self, answer: str, query: str) -> None:
            await self.store()

    failure = foretold.explore(Both, runs=12, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Unfulfilled)
    assert str(failure.exception).splitlines()[1:] == [
        "answer = 'lost' (request_lost) did, and may have left no room for it.",
        "  right: one prophecy with all outcomes, of which each call gets one: "
        'foretold.Prophecy("fate", ok=None, lost="request_lost", cancelled="db_cancelled")',
    ]


def test_a_prophecy_within_another() -> None:
    """The outer one holds for all that is done within, also within the inner one."""
    other = foretold.Prophecy("other", ok=None, gone="client_gone")

    async def main(world: foretold.World) -> str:
        app, _ = make_app()
        web = await world.web(app)
        async with web.client("ada") as http:
            with ANSWER.foretell("lost"), other.foretell("ok"):
                try:
                    await http.post("/users/ada")
                except httpx.TransportError:
                    return "lost"
        return "ok"

    assert foretold.run(main, seed=1).value == "lost"


def test_a_storm_of_calls_with_prophecies() -> None:
    """The serial oracle makes the same call twice at once, each with what was foretold for it."""

    class Storms(Asks):
        oracle = "serial"
        actors = 2
        steps = 3

        @foretold.rule(answer=foretold.Prophecy("answer", ok=None, lost="request_lost"))
        async def ask(self, answer: str) -> None:
            with contextlib.suppress(httpx.TransportError):
                await self.http.post("/users/ada")

    outcome = foretold.explore(Storms, runs=15, seed=1, confirm=False)
    assert outcome.failure is None, outcome.failure.exception


def test_a_late_answer() -> None:
    """A response that comes later than the client waits is a timeout; else it is only late."""

    async def main(world: foretold.World) -> tuple[float, str]:
        app, _ = make_app()
        web = await world.web(app)
        late = foretold.Prophecy("answer", ok=None, late="response_late")
        async with web.client("ada", timeout=2.0) as http:
            began = asyncio.get_running_loop().time()
            with late.foretell("late"):
                try:
                    await http.post("/users/ada")
                except httpx.ReadTimeout:
                    return asyncio.get_running_loop().time() - began, "timeout"
            return asyncio.get_running_loop().time() - began, "ok"

    ended = [foretold.run(main, seed=seed).value for seed in range(12)]
    assert {how for _, how in ended} == {"ok", "timeout"}
    for seconds, how in ended:
        assert (seconds > 1.99) == (how == "timeout")


def _by_default(self: Any, answer: Any = ANSWER) -> None:
    """A rule that foretells nothing."""


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: foretold.Prophecy("answer"),
        lambda: foretold.Prophecy("answer", lost="request_lost", ok=None),
        lambda: foretold.Prophecy("answer", ok=None, lost="request_lots"),
        lambda: foretold.Prophecy("answer", ok=None, lost="request_inside"),
        lambda: foretold.Prophecy("answer", ok=None, lost=foretold.faults.web),
        lambda: foretold.Prophecy("", ok=None, lost="request_lost"),
        lambda: ANSWER._checked("lots"),
        lambda: ANSWER.on(""),
        lambda: ANSWER.on(404),  # type: ignore[arg-type]  # the mistake
        lambda: foretold.rule(
            one=ANSWER, other=foretold.Prophecy("answer", ok=None, x="client_gone")
        ),
        lambda: foretold.rule()(_by_default),
    ],
)
def test_mistakes_are_told(wrong: Any) -> None:
    """A prophecy that cannot work is refused where it is written, with what to write instead."""
    with pytest.raises(foretold.UsageError, match=r"right: |it has ok, lost"):
        wrong()


def test_a_set_with_one_kind_is_an_outcome() -> None:
    """As faults are named elsewhere."""
    made = foretold.Prophecy("a", ok=None, lost=foretold.faults.web.only("request_lost"))
    assert made.outcomes == {"ok": None, "lost": "request_lost"}
