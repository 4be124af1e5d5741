"""From drawn arguments to an HTTP request, which can be sent again, by whoever it is."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from foretold.spec.openapi.document import ApiOperation
from foretold.spec.openapi.uploads import MEDIA, Upload

BODY = "body"
KEY_NAME = re.compile(r"(x[-_])?idempotency([-_]?key)?$", re.IGNORECASE)
"""The header by which a client says that a request is the same as before."""

CREDENTIAL = re.compile(r"authorization$|(x[-_])?(api|access|auth)[-_]?(key|token)$", re.IGNORECASE)


@dataclass(frozen=True)
class ApiRequest:
    operation: ApiOperation
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    body: Any = None
    has_body: bool = False

    @property
    def key(self) -> str | None:
        """Its idempotency key, if it has one."""
        return next((v for name, v in self.headers.items() if KEY_NAME.match(name)), None)

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same request again must not do more than the first has done."""
        return self.operation.method in ("PUT", "DELETE") or self.key is not None

    def __str__(self) -> str:
        return f"{self.operation.method} {self.path}"

    def under_another_key(self, number: int) -> ApiRequest:
        """The same, with an idempotency key that nobody has used."""
        name = next(name for name in self.headers if KEY_NAME.match(name))
        old = self.headers[name]
        made = uuid.uuid5(_KEYS, f"{old} {number}")
        new = str(made) if _is_uuid(old) else f"{old}-{made.hex[:8]}"
        return replace(self, headers={**self.headers, name: new})

    async def send(self, client: Any) -> Any:
        options: dict[str, Any] = {
            # Whoever has credentials uses these, and who has none makes up none.
            "headers": {n: v for n, v in self.headers.items() if not CREDENTIAL.match(n)}
        }
        if self.cookies:
            told = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            options["headers"]["Cookie"] = told
        if self.has_body:
            self._add_body(options)
        return await client.request(
            self.operation.method, self.path, params=self.query or None, **options
        )

    def _add_body(self, options: dict[str, Any]) -> None:
        body = self.operation.body
        media = body.media if body is not None else "application/json"
        if body is None or body.is_json:
            options["content"] = json.dumps(self.body).encode()
            options["headers"]["Content-Type"] = media if "*" not in media else "application/json"
        elif media.startswith("multipart/"):
            options["files"] = [(name, _part(value)) for name, value in _form(self.body)]
        elif body.is_form:
            data: dict[str, list[str]] = {}
            for name, value in _form(self.body):
                data.setdefault(name, []).append(text_of(value))
            options["data"] = data
        else:
            raw = self.body
            options["content"] = raw if isinstance(raw, bytes) else text_of(raw).encode()
            options["headers"]["Content-Type"] = MEDIA.get(media, media)


_KEYS = uuid.UUID(int=0)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _form(body: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a form: of a list each by itself, and outside of JSON there is no null."""
    for name, value in body.items() if isinstance(body, Mapping) else ():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, each


def _part(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Upload):
        return value.filename, bytes(value), MEDIA["application/*"]
    return None, text_of(value)


def text_of(value: Any) -> str:
    """A parameter as text, as OpenAPI's simple style writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(text_of, value))
    if isinstance(value, Mapping):
        return json.dumps(value)
    return str(value)


def request_for(
    operation: ApiOperation, arguments: Mapping[str, Any], names: Mapping[str, str]
) -> ApiRequest:
    """The request that a rule's arguments mean. `names`: which argument each parameter became."""
    path, query = operation.path, []
    headers: dict[str, str] = {}
    cookies: dict[str, str] = {}
    for parameter in operation.parameters:
        value = arguments.get(names[f"{parameter.where}:{parameter.name}"], OMITTED)
        if value is OMITTED or (value is None and not parameter.required):
            continue  # outside of JSON there is no null: it is left out
        if parameter.where == "path":
            path = path.replace("{" + parameter.name + "}", quote(text_of(value), safe=""))
        elif parameter.where == "query":
            many = value if isinstance(value, list) else [value]
            query += [(parameter.name, text_of(each)) for each in many]
        elif parameter.where == "header":
            headers[parameter.name] = header_text(text_of(value))
        elif parameter.where == "cookie":
            cookies[parameter.name] = quote(text_of(value))
    body = arguments.get(names.get(BODY, ""), OMITTED)
    return ApiRequest(operation, path, query, headers, cookies, body, body is not OMITTED)


class _Omitted:
    """Stands for a parameter that is not given."""

    def __repr__(self) -> str:
        return "(left out)"


OMITTED = _Omitted()


def words_of(name: str) -> str:
    """A parameter's name as a Python name."""
    found = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).strip("_").lower()
    return found if found and not found[0].isdigit() else f"p_{found}"


def header_text(text: str) -> str:
    """What a header can carry: visible ASCII."""
    return "".join(c if " " <= c <= "~" else "?" for c in text).strip()
