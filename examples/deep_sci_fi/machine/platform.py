"""The platform under test, who talks to it, and how answers are judged."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, ClassVar, TypeVar

import httpx

import foretold
from examples.deep_sci_fi.app import Settings, bugs, create_app
from examples.deep_sci_fi.machine import scenery, things
from examples.deep_sci_fi.machine.things import Suits, Thing

ADMIN = "the administrator's key"
APP = create_app(Settings())
FAULTS = foretold.faults.web + foretold.faults.postgres.without("db_lost_notification")
"""All that can happen to requests and to the database; nobody listens to notifications here."""
TRIES = 3
LATER_S = 1.0
"""So long somebody waits whose request was lost."""
MUCH_LATER_S = 13.0
"""So long somebody does something else who was told that the platform is busy: most outages are
over then."""


class Busy(Exception):
    """The platform asks to try again later."""


class Agent:
    """An account on the platform. Several actors may use the same one, as programs do."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = scenery.agent(number)
        self.key = scenery.api_key(number)
        self.tokens: dict[str, str] = {}
        """For dwellers, what their context was read under."""
        self.sent: dict[str, set[str]] = {}
        """Under which idempotency key it has sent what."""
        self.reviewed: set[str] = set()
        self.voted: set[str] = set()
        self.recommended: set[str] = set()


AREAS: list[str] = []
EVERYTHING = "everything"


Mixin = TypeVar("Mixin", bound=type["Platform"])
Rule = TypeVar("Rule", bound=Callable[..., Any])


def area(machine: Mixin) -> Mixin:
    """Decorate rules that belong together. In nearly all runs all agents are busy with one area:
    they get in each other's way much more often than if everybody did anything."""
    name = machine.__name__
    AREAS.append(name)
    return part_of(name)(machine)


def part_of(*areas: str) -> Callable[[Mixin], Mixin]:
    """Decorate rules that belong to several areas."""

    def decorate(machine: Mixin) -> Mixin:
        for method in vars(machine).values():
            if hasattr(method, "foretold_rule"):
                where = (EVERYTHING, *areas, *getattr(method, "other_areas", ()))
                foretold.precondition(_focus_in(where))(method)
        return machine

    return decorate


def _focus_in(areas: tuple[str, ...]) -> Callable[["Platform"], bool]:
    return lambda self: self.focus in areas


def also_in(*areas: str) -> Callable[[Rule], Rule]:
    """Decorate a rule that is of use in other areas, too."""

    def decorate(method: Rule) -> Rule:
        method.other_areas = areas  # type: ignore[attr-defined]  # of the function
        return method

    return decorate


async def _caught(request: Any) -> Any:
    try:
        return await request
    except (httpx.TransportError, Busy, foretold.Refused) as error:
        return error


class Platform(foretold.Machine):
    """Three to five agents and the platform; no rules yet."""

    actors = 5
    steps = 40
    faults: ClassVar[Any] = FAULTS
    tolerates = (httpx.TransportError, Busy)
    planted: ClassVar[frozenset[str]] = frozenset()
    """Mistakes that are on in every run; `--plant` and `mutant=` switch on one more."""

    async def setup(self) -> None:
        """Everything is where the scenery says; only how many agents are awake is drawn."""
        await self.serve()
        self.agents = await self.accounts()
        self.focus = foretold.choose((EVERYTHING, *AREAS), "focus")
        programs = foretold.choose((1, 2), "programs of an agent")
        for actor in self.cast:
            actor.agent = self.agents[actor.index // programs % len(self.agents)]
            actor.web = self.web.client(actor)
        self.count = 0
        self.waited_s = 0
        self.places: dict[int, tuple[str, Thing]] = {}
        """For each actor, what it was last busy with, and from which bundle that came."""
        self.promised: dict[str, set[str]] = {}
        """For each table, the ids that agents were told."""
        self.upvoted: set[tuple[str, str]] = set()
        self.backed: set[tuple[str, str]] = set()
        self.noted: set[tuple[str, str]] = set()
        self.watch()

    async def serve(self) -> None:
        """The platform and its database, with the mistakes that are on."""
        wrong = self.planted | {name for name in bugs.KNOWN if foretold.mutant(name)}
        APP.state.settings = Settings(bugs=wrong, admin_keys=frozenset({ADMIN}), callbacks=True)
        schema = scenery.STRICT if bugs.WITHOUT.keys().isdisjoint(wrong) else scenery.LAX
        self.pg = await self.world.postgres(schema=schema)
        url = self.pg.url("asyncpg")
        self.web = await self.world.web(APP, environment={"DATABASE_URL": url})

    async def accounts(self) -> list[Agent]:
        """Who is there, as the scenery says."""
        return [Agent(number + 1) for number in range(foretold.between(3, 5, "agents"))]

    def watch(self) -> None:
        """Before the first call; see history.py."""

    async def teardown(self) -> None:
        for actor in self.cast:
            if "web" in actor:
                await actor.web.aclose()

    # --- requests --------------------------------------------------------------------------------

    async def send(
        self, actor: Any, method: str, path: str, body: Any = None, **headers: str
    ) -> Any:
        """The answer, whatever it is, unless the platform has broken or is busy."""
        headers = {"x-api-key": actor.agent.key, **headers}
        if not headers["x-api-key"]:
            del headers["x-api-key"]
        path = path if path.startswith("/api") else f"/api/{path}"
        try:
            answer = await actor.web.request(method, path, json=body, headers=headers)
        except httpx.TransportError:
            await asyncio.sleep(LATER_S)
            raise
        code = answer.status_code
        if code == 503:
            foretold.reachable("the platform asks to try again")
            await asyncio.sleep(float(answer.headers["retry-after"]) * MUCH_LATER_S)
            raise Busy(answer.text)
        foretold.always(
            code < 500, "the platform never breaks", request=f"{method} {path}", code=code
        )
        foretold.always("x-request-id" in answer.headers, "every answer has the id of its request")
        return answer

    def judge(self, answer: httpx.Response) -> Any:
        """What was answered, if it was a good answer; else it was refused."""
        if answer.is_success:
            return answer.json()
        why = answer.json()["detail"]
        foretold.always(answer.status_code != 401, "who has a key is let in", why=why)
        assert answer.status_code != 422 or "Idempotency-Key" in why, why
        raise foretold.Refused(f"{answer.status_code}: {why}")

    async def post(self, actor: Any, path: str, body: Any = None, **headers: str) -> Any:
        """Do it, or be refused."""
        return self.judge(await self.send(actor, "POST", path, body, **headers))

    async def hand_in(self, actor: Any, path: str) -> str:
        """A draft, to be validated. The status that it has then."""
        answer = await self.send(actor, "POST", path)
        foretold.sometimes("heartbeat" in answer.text, "who was silent for a day cannot submit")
        return str(self.judge(answer)["status"])

    async def get(self, actor: Any, path: str) -> Any:
        """A page, which must be there."""
        answer = await self.send(actor, "GET", path)
        foretold.always(
            answer.status_code == 200, "pages can be read", page=path, code=answer.status_code
        )
        return answer.json()

    async def admin(self, actor: Any, method: str, path: str, body: Any = None) -> Any:
        """The actor happens to be an administrator as well."""
        return self.judge(await self.send(actor, method, path, body, **{"x-api-key": ADMIN}))

    async def once(self, actor: Any, path: str, body: Any) -> Any:
        """Under a key of its own; who hears nothing sends it again."""
        key = {"idempotency-key": self.fresh_key()}
        for _ in range(TRIES - 1):
            try:
                return await self.post(actor, path, body, **key)
            except (httpx.TransportError, Busy):
                pass
        return await self.post(actor, path, body, **key)

    def made(self, table: str, row: Any, owner: str = "agent_id", **more: Any) -> Thing:
        """What the platform says it has made, which must be there from now on."""
        self.promised.setdefault(table, set()).add(row["id"])
        return Thing(row["id"], row.get(owner) or "", row.get("status", ""), **more)

    async def at_once(self, requests: Iterable[Any]) -> list[Any]:
        """Agents are programs, and some do not wait for one answer before they ask again. The good
        answers; if there are none, whatever came instead."""
        outcomes = await foretold.together(*map(_caught, requests))
        good = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        if not good:
            raise outcomes[0]
        return good

    async def rush(
        self,
        several: bool,
        actor: Any,
        thing: Thing,
        suits: Suits,
        deed: Callable[..., Any],
        theirs: Callable[..., Any] | None = None,
    ) -> list[Any]:
        """The actor does it. If `several`, somebody whom it suits does the same at the same moment,
        or what `theirs` says, to the same thing or to one that is near."""
        requests = [deed(actor, thing)]
        rivals = [
            (other, near)
            for other in self.cast
            if several and other.agent is not actor.agent
            for near in things.around(thing)
            if suits(near, other.agent)
        ]
        if rivals:
            requests.append((theirs or deed)(*foretold.choose(rivals, "who else")))
        return await self.at_once(requests)

    async def look(self, actor: Any, page: str) -> None:
        """Read one's own write, now and then."""
        if foretold.choose((False, False, True), "look at it"):
            answer = await self.send(actor, "GET", page)
            code = answer.status_code
            foretold.always(code == 200, "one can read what one has written", page=page, code=code)

    # --- small things ----------------------------------------------------------------------------

    def is_mine(self, actor: Any, thing: Thing) -> bool:
        return bool(thing.owner == actor.agent.id)

    def fresh_key(self) -> str:
        """An idempotency key."""
        return str(uuid.uuid4())

    def number(self) -> int:
        """For texts that are told apart."""
        self.count += 1
        return self.count

    def now(self) -> datetime:
        return self.world.clock.datetime()
