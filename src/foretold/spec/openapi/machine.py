"""`foretold.openapi`: the machine, and the hooks by which it is made one's own."""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st

from foretold.arguments import is_factory, known_words
from foretold.errors import Refused, UsageError
from foretold.spec.machine.bundles import SHELVES, Shelves
from foretold.spec.machine.calls import RUNNING, Call
from foretold.spec.machine.course import COURSE
from foretold.spec.machine.covers import fits
from foretold.spec.machine.invariants import invariant
from foretold.spec.machine.machine import Machine
from foretold.spec.openapi import properties
from foretold.spec.openapi.document import ApiOperation, Document, read_document, reading
from foretold.spec.openapi.doubles import Doubles
from foretold.spec.openapi.eagerness import Eagerness
from foretold.spec.openapi.flows import MANNERS, OWN, owned, told_in
from foretold.spec.openapi.properties import Sent
from foretold.spec.openapi.requests import KEY_NAME, ApiRequest, request_for
from foretold.spec.openapi.resources import ANYTHING, Key, Resources
from foretold.spec.openapi.rulemaker import Names, RuleMaker
from foretold.spec.workload import choose_unseen

Credentials = Callable[[Any], Any] | Mapping[str, Any]

SENT_MAX = 200
STEPS_MIN, STEPS_MAX = 30, 100
WEIGHT_OF_CHANGES = 2.0
"""Reading is done at quiet moments besides, and changes nothing."""
REASONS_MAX = 2
"""So many fields are named when a request is refused because of them."""
STORMS = 1 / 3
"""The share of runs that end with requests at the same time, which are compared with serial orders.
The others look at more: they have faults, requests that overlap all the way, and quiet moments."""
READS_IN_STORM = 0.3
ABOUT_THINGS = 3.0
HOPELESS = ("401", "403", "404", "405", "415", "422")


class ApiMachine(Machine):
    """What all machines have that `foretold.openapi` makes."""

    document: ClassVar[Document]
    operations: ClassVar[dict[str, tuple[ApiOperation, Names]]]
    resources: ClassVar[Resources]
    pages: ClassVar[dict[str, ApiOperation]]
    """Where that can be read which an operation makes."""
    app: ClassVar[Any] = None
    strict: ClassVar[bool] = False
    reads_back: ClassVar[bool] = True
    """What was made can be read at once. False: for an API that shows it later, on purpose."""
    given_credentials: ClassVar[Credentials | None] = None
    foretold_acts_twice = True
    foretold_rehearses = True
    foretold_keeps_values = True  # ids in answers, whether or not any operation takes one

    web: Any
    nobody: Any
    """A client without credentials."""
    foretold_name: ClassVar[str]
    """Of a machine that the command line has made: the name of its application."""
    acting: int = 0
    """Who draws arguments just now."""

    tells_apart: bool = False
    """Whether the application can tell actors apart."""

    manner: str = OWN
    """Whose ids are taken, see `flows.py`."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.judged = 0
        """How many requests were judged by what they change."""
        self.eagerness = Eagerness(self.resources)
        self.doubles = Doubles(self)
        self.changed: dict[str, int] = {}
        """When things were changed last, by their ids."""
        self._told: dict[str, list[Any]] | None = None
        self.sorts: dict[str, Any] = {}
        """Of which kind the id is that is drawn next; by what stands before `_type`."""

    # Hooks

    async def serve(self) -> Any:
        """What answers in this run: an ASGI application, `"module:app"`, or a web of your own."""
        if type(self).app is None:
            raise UsageError(
                f"{type(self).__name__} was made from a schema alone, so nothing answers. Give the "
                "application, foretold.openapi(schema, app=app), or define it for each run:\n"
                "    async def serve(self):\n        return make_app(...)\n"
                "or point it at a server: foretold explore TARGET --url http://127.0.0.1:8000"
            )
        made = type(self).app
        return made() if is_factory(made) else made

    @classmethod
    def foretold_keeps_state(cls) -> bool:
        """An application that exists once keeps what it stores."""
        return cls.serve is ApiMachine.serve and callable(cls.app) and not is_factory(cls.app)

    async def credentials(self, actor: Any) -> Any:
        """Headers of this actor (a dict), or what httpx takes as `auth`; None: it has none."""
        given: Any = type(self).given_credentials
        if isinstance(given, Mapping):
            known = {name for each in self.cast for name in (each.name, each.role)}
            if given and not known & set(given):
                raise UsageError(
                    f"credentials= names {', '.join(map(repr, given))}, but none of the actors: "
                    f"{', '.join(sorted(filter(None, known)))}. For the same credentials for all "
                    f"write credentials=lambda actor: {{…}}"
                )
            return given.get(actor.name, given.get(actor.role))
        if given is None:
            return None
        found = given(actor)
        return await found if inspect.isawaitable(found) else found

    async def login(self, actor: Any) -> None:
        """Whatever an actor does first, with `actor.web`: register, log in. Cookies stay."""

    # The run

    async def setup(self) -> None:
        """Start the application, and give each actor a client with its credentials."""
        self.manner = choose_unseen(MANNERS, "whose ids")
        self.eagerness.wide = choose_unseen((False, True, True), "new ground")
        self.doubles.draw()
        if getattr(self.world, "url", None) is not None:  # a server that runs already answers
            self.web = await self.world.web(None)
        else:
            served = await self.serve()
            self.web = served if hasattr(served, "client") else await self.world.web(served)
        self.nobody = self.web.client("nobody")
        actor: Any
        for actor in self.cast:
            actor.web = self.web.client(actor)
            given = await self.credentials(actor)
            self.tells_apart |= given is not None or type(self).login is not ApiMachine.login
            _let_in(actor, given)
            await self.login(actor)

    async def teardown(self) -> None:
        """Close the clients."""
        clients = [getattr(self, "nobody", None), *(actor.get("web") for actor in self.cast)]
        for client in clients:
            if client is not None:
                await client.aclose()

    async def operate(self, actor: Any, name: str, arguments: Mapping[str, Any]) -> Any:
        """Make a request and judge its answer. Returns its JSON body."""
        operation, names = self.operations[name]
        request = request_for(operation, arguments, names)
        sent = Sent(request, actor, None)
        if not self.is_rehearsing:
            self._remember(sent)
        # In a storm a call is one request: two of them are not one transaction.
        sends = request.send(actor.web) if self.is_in_storm else self.doubles.send(actor, request)
        response = await sends
        properties.judge(self, request, response, strict=self.strict)
        sent.answer = properties.body_of(response)
        succeeded = properties.succeeded(operation, response)
        self.eagerness.note(name, succeeded=succeeded)
        if not succeeded:
            sent.status = 0
            raise Refused(f"{response.status_code} {_reason(response, sent.answer)}".strip())
        sent.status = response.status_code
        properties.check_owner(self, sent)
        if not self.is_rehearsing:
            self._harvest(actor, request, arguments, sent.answer)
        if self.reads_back and not self.is_in_storm:
            await properties.read_back(self, sent)
        return sent.answer

    def _remember(self, sent: Sent) -> None:
        self.sent.append(sent)
        if len(self.sent) > SENT_MAX:
            del self.sent[0]

    def _harvest(
        self, actor: Any, request: ApiRequest, arguments: Mapping[str, Any], answer: Any
    ) -> None:
        """Ids in the answer, and those that the client has chosen, are for later requests."""
        operation = request.operation
        found = list(self.resources.harvest(operation, answer))
        if operation.changes:
            used = (value for value in arguments.values() if isinstance(value, str | int))
            changed = (str(value) for value in (*(value for _, value in found), *used))
            self.changed.update(dict.fromkeys(changed, len(self.changed) + 1))
        if operation.method in ("POST", "PUT") and isinstance(request.body, Mapping):
            found += self.resources.harvest(operation, request.body)
        for parameter, key in self.resources.chosen_by_client(operation):
            name = self.operations[operation.name][1][f"path:{parameter.name}"]
            found.append((key, arguments[name]))
        shelves = _shelves_of(self.world)
        call, count = _call_of(self.world, actor), 0
        named: dict[Any, str] = {}
        for key, value in found:
            known = [kept.value for kept in shelves.values(key.name)]
            if any(each == value and each.owner == actor.index for each in known):
                continue
            number = 0 if call is None else call.number
            alias = named.get(value, "") if key is ANYTHING else ""
            kept = shelves.put(key.name, number, count, owned(value, actor.index), alias)
            named[value] = kept.called
            count += 1
            if call is not None and not alias:
                call.produced = [[*(call.produced[0] if call.produced else []), kept.name]]

    def told(self, name: str) -> Sequence[Any]:
        """What answers before the storm have had in fields of that name."""
        if self._told is None:
            self._told = {}
            for sent in self.sent:
                if sent.status:
                    told_in(sent.answer, self._told)
        return self._told.get(name, ())

    def has(self, keys: Iterable[Key]) -> bool:
        """Whether ids of all these kinds are known."""
        shelves = _shelves_of(self.world)
        return all(shelves.values(key.name) for key in keys)

    def foretold_allows(self, error: Any) -> bool:
        """What the schema documents, as in a response that is read."""
        line = f"{error.method} {error.path}"
        asked = [each for each, _ in self.operations.values() if fits(str(each), line)]
        return any(each.documented(error.status) not in (None, "default") for each in asked)

    def foretold_eagerness(self, name: str) -> float:
        """See `Machine`. In a storm two reads say nothing, and requests meet in things that are
        there already."""
        if self.is_in_storm:
            operation, _ = self.operations[name]
            factor = 1.0 if operation.changes else READS_IN_STORM
            return factor * (ABOUT_THINGS if self.resources.taken_by(operation) else 1.0)
        return self.eagerness.of(name, self.has)

    def foretold_reads(self) -> list[str]:
        """Those that change nothing."""
        return [name for name, (each, _) in self.operations.items() if not each.changes]

    def foretold_about(self, values: Sequence[Any]) -> list[str]:
        """Those that take an id of a kind under which one of these is known."""
        shelves = _shelves_of(self.world)
        kinds = {key.name for key in self.resources.given if shelves.has(key.name, values)}
        return [
            name
            for name, (each, _) in self.operations.items()
            if not kinds.isdisjoint(self.resources.taken_by(each))
        ]

    def foretold_forbids(self, call: Call) -> bool:
        """Because of who asks, and for what: not because of the state that things are in."""
        return str(call.error).startswith(HOPELESS)

    def foretold_meet(self) -> None:
        """A request is let in while another one stands inside."""
        fail_next = getattr(self.web, "fail_next", None)
        if fail_next is not None:  # else it is a web of one's own
            fail_next("request_inside")

    def foretold_after_storm(self, calls: Sequence[Call]) -> None:
        """Who sends the same twice under one key makes one thing."""
        for one, other in itertools.combinations(calls, 2):
            if one.rule is other.rule and one.who == other.who:
                requests = [request_for(*self._sent_by(each)) for each in (one, other)]
                properties.compare_twins(requests, (one, other))

    def _sent_by(self, call: Call) -> tuple[ApiOperation, Mapping[str, Any], Names]:
        operation, names = self.operations[call.name]
        return operation, call.arguments, names


def _let_in(actor: Any, given: Any) -> None:
    """Give a client its credentials."""
    if isinstance(given, Mapping) and all(isinstance(text, str | bytes) for text in given.values()):
        actor.web.headers.update(given)
    elif callable(given) or (isinstance(given, tuple) and len(given) == 2):
        actor.web.auth = given
    elif given is not None:
        raise UsageError(
            f"credentials of {actor.name}: {given!r} cannot be used. Give headers, "
            '{"Authorization": "Bearer …"}; or what httpx takes as auth, such as ("user", "word")'
        )


def _shelves_of(world: Any) -> Shelves:
    found: Shelves = world.shared[SHELVES]
    return found


def _call_of(world: Any, actor: Any) -> Call | None:
    """The call that an actor is in the middle of."""
    calls = world.shared[COURSE].calls
    return next((c for c in reversed(calls) if c.actor is actor and c.outcome == RUNNING), None)


def _reason(response: Any, answer: Any) -> str:
    said = answer.get("detail", answer.get("message")) if isinstance(answer, Mapping) else None
    if isinstance(said, str):
        return said
    fields = [_field_reason(each) for each in said if isinstance(each, Mapping)] if said else []
    return "; ".join(fields[:REASONS_MAX]) or str(response.reason_phrase)


def _field_reason(said: Mapping[str, Any]) -> str:
    """`{"loc": ["body", "price"], "msg": …}`, as FastAPI tells it: body.price: …"""
    where = said.get("loc", ())
    where = ".".join(map(str, where)) if isinstance(where, list) else str(where)
    told = str(said.get("msg", said.get("message", "")))
    return f"{where}: {told}" if where else told


# ---------------------------------------------------------------- making it


def openapi(
    app_or_schema: Any,
    /,
    *,
    app: Any = None,
    name: str | None = None,
    actors: int | Sequence[str] = 3,
    steps: int | None = None,
    faults: Any = None,
    credentials: Credentials | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    overrides: Mapping[str, st.SearchStrategy[Any]] | None = None,
    feeds: Mapping[str, str] | None = None,
    strict: bool = False,
    wide: bool = False,
    oracle: str | None = "serial",
) -> type[ApiMachine]:
    """See `foretold.openapi`."""
    import httpx

    if not (credentials is None or callable(credentials) or isinstance(credentials, Mapping)):
        raise UsageError(
            "foretold.openapi(credentials=…) takes a function of the actor, or a dict by actors' "
            f'names; got {credentials!r}. Right: lambda actor: {{"Authorization": "Bearer …"}}'
        )
    _check_feeds(feeds)
    document = read_document(app_or_schema() if is_factory(app_or_schema) else app_or_schema)
    if document is None:
        raise UsageError(
            "foretold.openapi takes an application that knows its schema (FastAPI, Litestar), a "
            "function that makes one, or the schema: a dict, a JSON text, a pathlib.Path; got "
            f"{app_or_schema!r}"
        )
    chosen = _chosen(document.operations(), list(only), list(skip))
    with reading("the document"):
        resources = Resources(document, document.operations(), feeds or {})
    maker = RuleMaker(document, resources, dict(overrides or {}), wide=wide)
    members: dict[str, Any] = {
        "__doc__": f"The operations of {document.raw.get('info', {}).get('title', 'an API')}.",
        "__module__": sys._getframe(2).f_globals.get("__name__", __name__),
        "document": document,
        "resources": resources,
        "pages": properties.pages_of(document.operations()),
        "operations": {},
        "app": app if app is not None or not callable(app_or_schema) else app_or_schema,
        "strict": strict,
        "given_credentials": staticmethod(credentials) if callable(credentials) else credentials,
        "actors": actors,
        "steps": max(STEPS_MIN, min(STEPS_MAX, len(chosen))) if steps is None else steps,
        "weights": {each.name: WEIGHT_OF_CHANGES for each in chosen if each.changes},
        "faults": faults,
        "oracle": oracle,
        "storms": STORMS,
        "tolerates": (httpx.TransportError,),
    }
    for operation in chosen:
        members[operation.name], names = maker.rule_for(operation)
        members["operations"][operation.name] = operation, names
    maker.check_overrides()
    resources.check_feeds()
    members |= _invariants(chosen)
    return type(name or "Api", (ApiMachine,), members)


def _check_feeds(feeds: Any) -> None:
    is_right = isinstance(feeds, Mapping) and all(
        isinstance(word, str) for pair in feeds.items() for word in pair
    )
    if feeds is not None and not is_right:
        raise UsageError(
            "foretold.openapi(feeds=…) takes a dict of names: which parameter or field names which "
            f'resource, such as {{"basket": "order"}}; got {feeds!r}'
        )


def _chosen(operations: list[ApiOperation], only: list[str], skip: list[str]) -> list[ApiOperation]:
    """By rule name, operation id or `POST /orders`."""

    def is_named(operation: ApiOperation, names: list[str]) -> bool:
        return bool({operation.name, operation.operation_id, str(operation)} & set(names))

    for name in (*only, *skip):
        if not any(is_named(each, [name]) for each in operations):
            known = known_words(name, [each.name for each in operations])
            raise UsageError(f"foretold.openapi: there is no operation {name!r}; there are {known}")
    left = []
    for each in operations:
        if is_named(each, skip) or (only and not is_named(each, only)):
            continue
        if each.unwritten:
            said = (
                f"foretold.openapi: {each} needs a body of {each.unwritten}, which is not written "
                f'here, so it is left out. To leave it out silently: skip=["{each.name}"]'
            )
            warnings.warn(said, stacklevel=4)
            continue
        left.append(each)
    if not left:
        said = "all of them were left out" if operations else "the document has none"
        raise UsageError(f"foretold.openapi: there is no operation, so there is no rule: {said}")
    return left


def _invariants(operations: Sequence[ApiOperation]) -> dict[str, Any]:
    """Only those that can range over something in this API."""
    made: dict[str, Any] = {}

    async def duplicates_are_refused_or_change_nothing(self: ApiMachine) -> int:
        """a request that may be repeated does no more the second time, or is refused"""
        return await properties.repeat(self)

    async def without_credentials_nothing_changes(self: ApiMachine) -> int:
        """what needs credentials is refused without them, and changes nothing"""
        return await properties.probe(self)

    if any(_may_repeat(operation) for operation in operations):
        function = duplicates_are_refused_or_change_nothing
        made[function.__name__] = invariant(when="quiet")(function)
    if any(operation.secured for operation in operations):
        function = without_credentials_nothing_changes
        made[function.__name__] = invariant(when="quiet")(function)
    return made


def _may_repeat(operation: ApiOperation) -> bool:
    headers = [p.name for p in operation.parameters if p.where == "header"]
    return operation.method in ("PUT", "DELETE") or any(map(KEY_NAME.match, headers))
