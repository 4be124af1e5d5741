"""`foretold.openapi`: the machine, and the hooks by which it is made one's own."""

from __future__ import annotations

import inspect
import keyword
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st

from foretold.arguments import nearest
from foretold.errors import Refused, UsageError
from foretold.spec.hypothesis_filters import Persistent
from foretold.spec.limits import Impossible
from foretold.spec.machine.bundles import SHELVES, Shelves
from foretold.spec.machine.course import COURSE, RUNNING, Call
from foretold.spec.machine.invariants import invariant
from foretold.spec.machine.machine import Machine
from foretold.spec.machine.rules import precondition, rule
from foretold.spec.openapi import properties
from foretold.spec.openapi.document import Body, Document, Operation, read_document, reading
from foretold.spec.openapi.doubles import Doubles
from foretold.spec.openapi.eagerness import Eagerness
from foretold.spec.openapi.flows import MANNERS, OWN, Flow, Sort, SortedFlow, owned
from foretold.spec.openapi.properties import Sent
from foretold.spec.openapi.requests import BODY, KEY_NAME, OMITTED, Request, request_for, words_of
from foretold.spec.openapi.resources import ANYTHING, Key, Resources, words
from foretold.spec.openapi.uploads import bodies_of
from foretold.spec.openapi.values import Values
from foretold.spec.workload import choose

Names = dict[str, str]
"""`path:order_id` and the like: which argument of the rule it became."""
Credentials = Callable[[Any], Any] | Mapping[str, Any]

SENT_MAX = 200
STEPS_MIN, STEPS_MAX = 30, 100
PATIENCE = 12
"""So many requests are made before one that can only be refused, for want of ids, is tried."""
WEIGHT_OF_CHANGES = 2.0
"""Reading is done at quiet moments besides, and changes nothing."""
REASONS_MAX = 2
"""So many fields are named when a request is refused because of them."""
KEYS = 6
"""So many idempotency keys an operation has: few, so that they meet again."""


class ApiMachine(Machine):
    """What all machines have that `foretold.openapi` makes."""

    document: ClassVar[Document]
    operations: ClassVar[dict[str, tuple[Operation, Names]]]
    resources: ClassVar[Resources]
    pages: ClassVar[dict[str, Operation]]
    """Where that can be read which an operation makes."""
    app: ClassVar[Any] = None
    strict: ClassVar[bool] = False
    reads_back: ClassVar[bool] = True
    """What was made can be read at once. False: for an API that shows it later, on purpose."""
    given_credentials: ClassVar[Credentials | None] = None
    foretold_keeps_values = True  # ids in answers, whether or not any operation takes one

    web: Any
    nobody: Any
    """A client without credentials."""
    acting: int = 0
    """Who draws arguments just now."""

    manner: str = OWN
    """Whose ids are taken, see `flows.py`."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.eagerness = Eagerness(self.resources)
        self.doubles = Doubles(self)
        self.changed: dict[str, int] = {}
        """When things were changed last, by their ids."""
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

    async def credentials(self, actor: Any) -> Any:
        """Headers of this actor (a dict), or what httpx takes as `auth`; None: it has none."""
        given: Any = type(self).given_credentials
        if isinstance(given, Mapping):
            known = {name for each in self.cast for name in (each.name, each.role)}
            if given and not known & set(given):
                raise UsageError(
                    f"credentials= of {', '.join(map(repr, given))}: of those who act, "
                    f"{', '.join(sorted(filter(None, known)))}, it names nobody. The same for all: "
                    f"credentials=lambda actor: {{…}}"
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
        self.manner = choose(MANNERS, "whose ids")
        self.eagerness.wide = choose((False, True, True), "new ground")
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
        self._remember(sent)
        response = await self.doubles.send(actor, request)
        properties.judge(self.document, request, response, strict=self.strict)
        sent.answer = properties.body_of(response)
        succeeded = properties.succeeded(operation, response)
        self.eagerness.note(name, succeeded=succeeded)
        if not succeeded:
            sent.status = 0
            raise Refused(f"{response.status_code} {_reason(response, sent.answer)}".strip())
        sent.status = response.status_code
        properties.check_owner(self, sent)
        self._harvest(actor, request, arguments, sent.answer)
        if self.reads_back:
            await properties.read_back(self, sent)
        return sent.answer

    def _remember(self, sent: Sent) -> None:
        self.sent.append(sent)
        if len(self.sent) > SENT_MAX:
            del self.sent[0]

    def _harvest(
        self, actor: Any, request: Request, arguments: Mapping[str, Any], answer: Any
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
        shelves: Shelves = self.world.shared[SHELVES]
        call, count = _call_of(self.world, actor), 0
        for key, value in found:
            known = [kept.value for kept in shelves.values(key.name)]
            if any(each == value and each.owner == actor.index for each in known):
                continue
            number = 0 if call is None else call.number
            kept = shelves.put(key.name, number, count, owned(value, actor.index))
            count += 1
            if call is not None and key is not ANYTHING:
                call.produced = [[*(call.produced[0] if call.produced else []), kept.name]]

    def has(self, keys: Iterable[Key]) -> bool:
        """Whether ids of all these kinds are known."""
        shelves: Shelves = self.world.shared[SHELVES]
        return all(shelves.values(key.name) for key in keys)

    def foretold_eagerness(self, name: str) -> float:
        """See `Machine`."""
        return self.eagerness.of(name, self.has)


def _let_in(actor: Any, given: Any) -> None:
    """Give a client its credentials."""
    if isinstance(given, Mapping) and all(isinstance(text, str | bytes) for text in given.values()):
        actor.web.headers.update(given)
    elif callable(given) or (isinstance(given, tuple) and len(given) == 2):
        actor.web.auth = given
    elif given is not None:
        raise UsageError(
            f"credentials of {actor.name}: {given!r} are none. Give headers, "
            '{"Authorization": "Bearer …"}; or what httpx takes as auth, such as ("user", "word")'
        )


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
        "app": app if app is not None or _is_schema(app_or_schema) else app_or_schema,
        "strict": strict,
        "given_credentials": staticmethod(credentials) if callable(credentials) else credentials,
        "actors": actors,
        "steps": max(STEPS_MIN, min(STEPS_MAX, len(chosen))) if steps is None else steps,
        "weights": {each.name: WEIGHT_OF_CHANGES for each in chosen if each.changes},
        "faults": faults,
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


def is_factory(given: Any) -> bool:
    """Whether this makes an application, for each run a new one: a function without arguments."""
    if not inspect.isfunction(given) or inspect.iscoroutinefunction(given):
        return False
    parameters = inspect.signature(given).parameters.values()
    return all(p.default is not p.empty for p in parameters)


def _is_schema(given: Any) -> bool:
    return not callable(given)


def _chosen(operations: list[Operation], only: list[str], skip: list[str]) -> list[Operation]:
    """By rule name, operation id or `POST /orders`."""

    def is_named(operation: Operation, names: list[str]) -> bool:
        return bool({operation.name, operation.operation_id, str(operation)} & set(names))

    for name in (*only, *skip):
        if not any(is_named(each, [name]) for each in operations):
            known = [each.name for each in operations]
            raise UsageError(
                f"foretold.openapi: there is no operation {name!r}; there are {', '.join(known)}."
                f"{nearest(name, known)}"
            )
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


def _invariants(operations: Sequence[Operation]) -> dict[str, Any]:
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


def _may_repeat(operation: Operation) -> bool:
    headers = [p.name for p in operation.parameters if p.where == "header"]
    return operation.method in ("PUT", "DELETE") or any(map(KEY_NAME.match, headers))


class RuleMaker:
    """Makes the rules."""

    def __init__(
        self,
        document: Document,
        resources: Resources,
        overrides: dict[str, st.SearchStrategy[Any]],
        *,
        wide: bool,
    ) -> None:
        self._resources = resources
        self._overrides = overrides
        self._used: set[str] = set()
        self._plain = Values(document, wide=wide)
        self._values = Values(document, self._special, wide=wide)
        self._forms = Values(document, self._special, wide=wide, files=True)
        self._operation = ""
        self._sorted: set[str] = set()
        self._kinds = {key.resource: key for key in resources.given if key.field == "id"}

    def _special(self, name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any] | None:
        """A field whose strategy was given, or that names a resource."""
        given = self._given(name)
        if given is not None:
            return given
        if _before(name, "_type") in self._sorted and "enum" in schema:
            return Sort(_before(name, "_type"), schema["enum"], self._kinds)
        if _before(name, "_id") in self._sorted:
            return self._sorted_flow(name, self._plain.strategy(schema))
        key = self._resources.key_of_field(name)
        if key is None:
            return None
        if schema.get("type") == "array":
            inner = Flow(key, self._plain.strategy(schema.get("items", {})))
            low = schema.get("minItems", 0)
            return st.lists(inner, min_size=low, max_size=schema.get("maxItems", low + 3))
        return Flow(key, self._plain.strategy(schema))

    def _sorted_flow(self, name: str, otherwise: st.SearchStrategy[Any]) -> SortedFlow:
        return SortedFlow(_before(name, "_id"), self._kinds, otherwise)

    def _given(self, name: str) -> st.SearchStrategy[Any] | None:
        for full in (f"{self._operation}.{name}", name):
            if full in self._overrides:
                self._used.add(full)
                return self._overrides[full]
        return None

    def check_overrides(self) -> None:
        """A strategy for something that is not there is a mistake."""
        for name, strategy in self._overrides.items():
            if not isinstance(strategy, st.SearchStrategy):
                raise UsageError(
                    f"foretold.openapi(overrides=…) takes strategies, such as "
                    f'{{"{name}": st.just({strategy!r})}}; got {strategy!r}'
                )
            if name not in self._used:
                raise UsageError(
                    f"foretold.openapi(overrides=…): no parameter or field is called {name!r}. "
                    'Write the name as in the schema, or "rule.name" for one operation alone'
                )

    def rule_for(self, operation: Operation) -> tuple[Callable[..., Any], Names]:
        """A rule, and which argument each parameter is."""
        try:
            with reading(operation):
                return self._rule_for(operation)
        except Impossible as error:
            field = f"{operation.name}.{error.field or BODY}"
            raise UsageError(
                f"foretold.openapi: {operation}, {error.field or 'its body'}: {error}.\n"
                f'Give a strategy of your own: overrides={{"{field}": st.…}}, or leave the '
                f'operation out: skip=["{operation.name}"]'
            ) from None

    def _rule_for(self, operation: Operation) -> tuple[Callable[..., Any], Names]:
        self._operation = operation.name
        self._sorted = self._resources.sorted_in(operation)
        names: Names = {}
        arguments: dict[str, st.SearchStrategy[Any]] = {}
        needed: list[Key] = []
        for parameter in operation.parameters:
            name = _argument(parameter.name, arguments)
            names[f"{parameter.where}:{parameter.name}"] = name
            arguments[name] = self._argument_for(operation, parameter, needed)
        if operation.body is not None:
            name = names[BODY] = _argument(BODY, arguments)
            found = self._given(BODY)
            found = self._body_for(operation.body) if found is None else found
            arguments[name] = found if operation.body.required else st.just(OMITTED) | found
        return _rule(operation, arguments, needed, self._helpful(operation)), names

    def _body_for(self, body: Body) -> st.SearchStrategy[Any]:
        if body.is_form:
            return self._forms.strategy(body.schema)
        raw = None if body.is_json else bodies_of(body.media, body.schema)
        return self._values.strategy(body.schema) if raw is None else raw

    def _helpful(self, operation: Operation) -> list[Key]:
        """Ids without which the body can only be refused, if others give them out."""
        named = self._resources.named_in(operation.body.schema) if operation.body else []
        others = self._resources.givers
        return [key for key in named if others.get(key, set()) - {operation.name}]

    def _argument_for(
        self, operation: Operation, parameter: Any, needed: list[Key]
    ) -> st.SearchStrategy[Any]:
        given = self._given(parameter.name)
        if given is not None:
            return given
        if parameter.where == "header" and KEY_NAME.match(parameter.name):
            keys = keys_of(parameter.schema, operation.name)
            return keys if parameter.required else keys | st.just(OMITTED)
        found = self._values.field(parameter.name, parameter.schema)
        if parameter.where == "path":
            if _before(parameter.name, "_type") in self._sorted:
                return found
            key = self._resources.key_of(operation, parameter)
            made_up = Persistent(self._plain.strategy(parameter.schema), _fits_a_path)
            if _before(parameter.name, "_id") in self._sorted:
                return self._sorted_flow(parameter.name, made_up)
            if key is None or key not in self._resources.given:
                is_id = key is not None and self._resources.is_id(parameter.name)
                return Flow(ANYTHING, made_up) if is_id else made_up
            if (parameter, key) in self._resources.chosen_by_client(operation):
                return made_up | Flow(key, made_up)
            needed.append(key)
            return Flow(key, made_up)
        return found if parameter.required else st.just(OMITTED) | found


def _before(name: str, ending: str) -> str:
    """What stands before that: `target_type` is about a target."""
    plain = words(name)
    return plain.removesuffix(ending) if plain.endswith(ending) else ""


def _fits_a_path(value: Any) -> bool:
    """What is not empty, and does not mean another path."""
    return value not in ("", ".", "..") and "/" not in str(value)


def keys_of(schema: Mapping[str, Any], name: str) -> st.SearchStrategy[str]:
    """Idempotency keys of an operation: few, so that the same one comes again, also from somebody
    else. Those of other operations are others: of a key in the wrong place one learns little."""
    is_uuid = schema.get("format") == "uuid"
    low = max(int(schema.get("minLength", 0)), 1)
    if is_uuid:
        about = zlib.crc32(name.encode())
        return st.integers(1, KEYS).map(lambda n: f"{about:08x}-0000-4000-8000-{n:012d}")
    return st.integers(1, KEYS).map(lambda n: f"{name}-{n}".ljust(low, "0"))


def _argument(name: str, taken: Mapping[str, Any]) -> str:
    """A parameter's name as that of an argument."""
    found = words_of(name)
    while found in taken or keyword.iskeyword(found) or found in ("self", "actor"):
        found += "_"
    return found


def _rule(
    operation: Operation,
    arguments: Mapping[str, st.SearchStrategy[Any]],
    needed: list[Key],
    helpful: list[Key],
) -> Callable[..., Any]:
    name = operation.name

    async def act(self: ApiMachine, actor: Any, **given: Any) -> Any:
        return await self.operate(actor, name, given)

    def may(self: ApiMachine, actor: Any) -> bool:
        self.acting = actor.index  # whose ids are drawn next
        self.sorts.clear()
        return self.has(needed) and (len(self.sent) > PATIENCE or self.has(helpful))

    act.__name__, act.__qualname__ = name, f"Api.{name}"
    act.__doc__ = str(operation)
    return precondition(may)(rule(**arguments)(act))
