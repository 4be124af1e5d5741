"""The rules of `foretold.openapi`: one for each operation, with strategies for its arguments."""

from __future__ import annotations

import keyword
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.spec.hypothesis_filters import Persistent
from foretold.spec.limits import Impossible
from foretold.spec.machine.rules import precondition, rule
from foretold.spec.openapi.conformity import mismatch
from foretold.spec.openapi.document import ApiOperation, Body, Document, reading
from foretold.spec.openapi.flows import Echo, Flow, Sort, SortedFlow
from foretold.spec.openapi.requests import BODY, KEY_NAME, OMITTED, words_of
from foretold.spec.openapi.resources import ANYTHING, Key, Resources, words
from foretold.spec.openapi.uploads import bodies_of
from foretold.spec.openapi.values import Values

if TYPE_CHECKING:
    from foretold.spec.openapi.machine import ApiMachine

Names = dict[str, str]
"""`path:order_id` and the like: which argument of the rule it became."""
PATIENCE = 12
"""So many requests are made before one that can only be refused, for want of ids, is tried."""
PLAIN = ("integer", "number", "string")
NOT_TOLD = ("enum", "const", "format", "contentMediaType")
"""Fields that say by themselves what fits."""
KEYS = 6
"""So many idempotency keys an operation has: few, so that they meet again."""


class RuleMaker:
    def __init__(
        self,
        document: Document,
        resources: Resources,
        overrides: dict[str, st.SearchStrategy[Any]],
        *,
        wide: bool,
    ) -> None:
        self._document = document
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
            return self._told(name, schema)
        presumed = key in self._resources.presumed
        if schema.get("type") == "array":
            items = self._plain.strategy(schema.get("items", {}))
            inner = Flow(key, items, presumed=presumed)
            low = schema.get("minItems", 0)
            return st.lists(inner, min_size=low, max_size=schema.get("maxItems", low + 3))
        return Flow(key, self._plain.strategy(schema), presumed=presumed)

    def _told(self, name: str, schema: dict[str, Any]) -> Echo | None:
        if schema.get("type") not in PLAIN or not schema.keys().isdisjoint(NOT_TOLD):
            return None
        document = self._document
        return Echo(
            words(name),
            self._plain.strategy(schema),
            lambda value: mismatch(document, schema, value) is None,
        )

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

    def rule_for(self, operation: ApiOperation) -> tuple[Callable[..., Any], Names]:
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

    def _rule_for(self, operation: ApiOperation) -> tuple[Callable[..., Any], Names]:
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

    def _helpful(self, operation: ApiOperation) -> list[Key]:
        """Ids without which the body can only be refused, if others give them out."""
        named = self._resources.named_in(operation.body.schema) if operation.body else []
        others = self._resources.givers
        return [key for key in named if others.get(key, set()) - {operation.name}]

    def _argument_for(
        self, operation: ApiOperation, parameter: Any, needed: list[Key]
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
            presumed = key in self._resources.presumed
            if not presumed:
                needed.append(key)
            return Flow(key, made_up, presumed=presumed)
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
    operation: ApiOperation,
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
    strategies: Any = arguments  # no name of theirs is target or targets
    return precondition(may)(rule(**strategies)(act))
